"""Names of nodes, ports and cables, and the numbers in them: `h3`, `h3-p1`, `t0-p1-2`, `t0-p1-2-7`. All count from 1.

People name a cable by both ends in either order, by one port's interface, or by a host and a plane.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Literal, cast

if TYPE_CHECKING:
    from mrclab.topo.model import Fabric, Link
    from mrclab.topo.spec import FabricSpec

Tier = Literal["t0", "t1", "t2"]
Kind = Literal["switch", "host", "link", "port"]

_N = "([1-9][0-9]*)"
_HOST = re.compile(f"h{_N}")
_NIC_PORT = re.compile(f"h{_N}-p{_N}")
_SWITCH = re.compile(f"(t[012])-p{_N}-{_N}")
_SWITCH_PORT = re.compile(f"(t[012])-p{_N}-{_N}-{_N}")
_DIGITS = re.compile("[0-9]+")
_SEPARATOR = re.compile(r"\s*(?:/|,|<->|--|–|\s)\s*")
_PLANE_WORD = re.compile(r"(?:p|plane)?(\d+)")


def host(name: str) -> int | None:
    """Return the number of a host; None if this is not the name of a host."""
    found = _HOST.fullmatch(name)
    return int(found[1]) if found else None


def nic_port(name: str) -> tuple[int, int] | None:
    """Return (host, plane) of a NIC port; None if this is not the name of one."""
    found = _NIC_PORT.fullmatch(name)
    return (int(found[1]), int(found[2])) if found else None


def switch(name: str) -> tuple[Tier, int, int] | None:
    """Return (tier, plane, number) of a switch; None if this is not the name of one."""
    found = _SWITCH.fullmatch(name)
    return (cast("Tier", found[1]), int(found[2]), int(found[3])) if found else None


def switch_port(name: str) -> tuple[Tier, int, int, int] | None:
    """Return (tier, plane, number, port) of a switch port; None if this is not the name of one."""
    found = _SWITCH_PORT.fullmatch(name)
    return (cast("Tier", found[1]), int(found[2]), int(found[3]), int(found[4])) if found else None


def of_switch(tier: Tier, plane: int, number: int) -> str:
    """Return the name of a switch."""
    return f"{tier}-p{plane}-{number}"


def cable(fabric: Fabric, text: str) -> Link | None:
    """Return the cable that `text` names, as `Fabric.link` describes; None if there is none."""
    words = [word for word in _SEPARATOR.split(text.strip().lower()) if word]
    if len(words) == 1:
        return _of_port(fabric, words[0])
    return _between(fabric, *words) if len(words) == 2 else None


def _of_port(fabric: Fabric, word: str) -> Link | None:
    """Return the cable of the port with this interface name."""
    if (nic := nic_port(word)) is not None:
        host, plane = nic
        exists = host <= len(fabric.hosts) and plane <= fabric.planes
        return fabric.links[fabric.shape.link_of_nic(host, plane)] if exists else None
    found = switch_port(word)
    if found is None or not fabric.shape.has_switch(*found[:3]):
        return None
    tier, plane, number, port = found
    if port > fabric.shape.ports[tier]:
        return None
    return fabric.links[fabric.shape.link_of_switch(tier, plane, number, port)]


def _between(fabric: Fabric, first: str, second: str) -> Link | None:
    for name, other in ((first, second), (second, first)):
        plane = _PLANE_WORD.fullmatch(other)
        if fabric.has_host(name) and plane and 1 <= int(plane[1]) <= fabric.planes:
            return _of_port(fabric, f"{name}-p{int(plane[1])}")
        found = _of_port(fabric, name) or _of_nodes(fabric, name, other)
        if found and _joins(found, name, other):
            return found
    return None


def _of_nodes(fabric: Fabric, name: str, other: str) -> Link | None:
    """Return the cable from a host or switch to one of the tier above."""
    there = switch(other)
    if there is None or not fabric.shape.has_switch(*there):
        return None
    if fabric.has_host(name):
        return _of_port(fabric, f"{name}-p{there[1]}")
    here = switch(name)
    if here is None or not fabric.shape.has_switch(*here) or here[0] == there[0] or here[1] != there[1]:
        return None
    place = fabric.shape.link_between(here, there)
    return None if place is None else fabric.links[place]


def _joins(link: Link, first: str, second: str) -> bool:
    """Return True if each of two words, node or interface, names another end of a cable."""
    a, b = ({end.node, end.interface} for end in link.ends)
    return (first in a and second in b) or (first in b and second in a)


class Suggestions(list[str]):
    """Names of a fabric that resemble an unknown one; not all of its names."""


def suggestions(text: str, spec: FabricSpec, kinds: Iterable[Kind]) -> Suggestions:
    """Return existing names of these kinds with the numbers in a text, or the nearest valid ones."""
    return Suggestions(_suggestions(text, spec, kinds))


def _suggestions(text: str, spec: FabricSpec, kinds: Iterable[Kind]) -> Iterator[str]:
    numbers = [int(digits[:9]) for digits in _DIGITS.findall(text)] or [1]
    tiers = {"t0": spec.t0s, "t1": spec.pods * spec.t1s}
    if spec.t2s:
        tiers["t2"] = spec.t2s
    hosts = spec.t0s * spec.hosts_per_t0
    for kind in kinds:
        for number in numbers:
            near = min(max(number, 1), hosts)
            for other in numbers:
                plane = min(max(other, 1), spec.planes)
                if kind == "host":
                    yield f"h{near}"
                elif kind == "port":
                    yield f"h{near}-p{plane}"
                elif kind == "link":
                    yield f"h{near}-p{plane}/t0-p{plane}-{(near - 1) // spec.hosts_per_t0 + 1}"
                    for third in numbers:
                        t0, t1 = (min(max(n, 1), tiers[tier]) for n, tier in ((number, "t0"), (third, "t1")))
                        yield f"t0-p{plane}-{t0}/t1-p{plane}-{t1}"
                else:
                    yield from (f"{tier}-p{plane}-{min(max(number, 1), most)}" for tier, most in tiers.items())
