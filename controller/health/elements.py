"""What can be at fault or be denied, and which paths that concerns. Pure.

An element is a switch, a cable, a whole plane, or one path between two hosts. Its name is what people type:
`t1-p1-2`, `t0-p1-1/t1-p1-2`, `h1-p1/t0-p1-1`, `plane 3`, `h1>h3 p2 u1`.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from mrclab.topo.model import Fabric, Host, Link, UnknownName
from mrclab.topo.nodeconfig import DenyRule

ElementKind = Literal["t0", "t1", "fabric-link", "nic-link", "plane", "path"]

_PLANE = re.compile(r"(?:plane\s*|p)(\d+)")
_PATH = re.compile(r"(\S+?)\s*(?:>|->|to)\s*(\S+)\s+p(?:lane)?\s*(\d+)(?:\s*,?\s*u(?:plink)?\s*(\d+))?")


@dataclass(frozen=True, order=True)
class Element:
    """One thing of the fabric by kind and canonical name."""

    kind: ElementKind
    name: str

    def __str__(self) -> str:
        return self.name


def element(fabric: Fabric, text: str) -> Element:
    """What `text` means; UnknownName with the nearest name where it means nothing."""
    words = " ".join(text.strip().lower().split())
    if plane := _PLANE.fullmatch(words):
        return _plane(fabric, int(plane[1]))
    if path := _PATH.fullmatch(words):
        return _path(fabric, path[1], path[2], int(path[3]), int(path[4] or 0))
    if fabric.has_switch(words):
        return Element(fabric.switch(words).tier, words)
    try:
        link = fabric.link(words)
    except UnknownName:
        if "/" in words or " " in words:
            raise
        raise UnknownName("switch, cable or plane", text, fabric.near(words, "switch", "link")) from None
    return link_element(link)


def link_element(link: Link) -> Element:
    """The element that a cable is."""
    return Element("nic-link" if link.kind == "nic" else "fabric-link", link.name)


def rules(fabric: Fabric, what: Element, reason: str) -> dict[str, tuple[DenyRule, ...]]:
    """Deny rules by host that keep all traffic off `what`; hosts that it does not concern are left out."""
    found = {host.name: tuple(_rules_of(fabric, host, what, reason)) for host in fabric.hosts}
    return {name: some for name, some in found.items() if some}


def _rules_of(fabric: Fabric, host: Host, what: Element, reason: str) -> Iterable[DenyRule]:
    def rule(plane: int, **fields: int) -> DenyRule:
        return DenyRule(plane=plane, **fields, element=what.name, reason=reason)

    match what.kind:
        case "plane":
            yield rule(int(what.name.split()[1]))
        case "t0":
            switch = fabric.switch(what.name)
            yield rule(switch.plane) if host.group == switch.number else rule(switch.plane, group=switch.number)
        case "t1":
            switch = fabric.switch(what.name)
            yield rule(switch.plane, uplink=switch.number)
        case "fabric-link":
            link = fabric.link(what.name)
            group, uplink = fabric.switch(link.a.node).number, fabric.switch(link.b.node).number
            mine = host.group == group
            yield rule(link.plane, uplink=uplink) if mine else rule(link.plane, uplink=uplink, group=group)
        case "nic-link":
            link = fabric.link(what.name)
            end = fabric.host(link.a.node)
            mine = host.name == end.name
            yield rule(link.plane) if mine else rule(link.plane, group=end.group, downlink=end.downlink)
        case "path":
            yield from _path_rule(fabric, host, what, reason)


def _path_rule(fabric: Fabric, host: Host, what: Element, reason: str) -> Iterable[DenyRule]:
    source, destination, plane, uplink = _path_fields(what.name)
    if host.name == source:
        end = fabric.host(destination)
        yield DenyRule(
            plane=plane,
            uplink=uplink or None,
            group=end.group,
            downlink=end.downlink,
            element=what.name,
            reason=reason,
        )


def cut_off(fabric: Fabric, denied: Mapping[str, Iterable[DenyRule]]) -> list[tuple[str, str]]:
    """Pairs of hosts that rules leave without any path, as (source, destination)."""
    pairs = []
    for source in fabric.hosts:
        mine = list(denied.get(source.name, ()))
        if not mine:
            continue
        for destination in fabric.hosts:
            paths = fabric.paths(source.name, destination.name)
            if destination != source and all(_covered(mine, path, destination) for path in paths):
                pairs.append((source.name, destination.name))
    return pairs


def _covered(rules_of_host: list[DenyRule], path: tuple[int, int], destination: Host) -> bool:
    plane, uplink = path
    return any(rule.covers(plane, uplink, destination.group, destination.downlink) for rule in rules_of_host)


def _plane(fabric: Fabric, number: int) -> Element:
    planes = [f"plane {plane}" for plane in range(1, fabric.planes + 1)]
    if not 1 <= number <= fabric.planes:
        raise UnknownName("plane", f"plane {number}", planes)
    return Element("plane", f"plane {number}")


def _path(fabric: Fabric, source: str, destination: str, plane: int, uplink: int) -> Element:
    paths = fabric.paths(source, destination)
    if (plane, uplink) not in paths:
        known = [_path_name(source, destination, *path) for path in paths]
        raise UnknownName("path", _path_name(source, destination, plane, uplink), known)
    return Element("path", _path_name(source, destination, plane, uplink))


def _path_name(source: str, destination: str, plane: int, uplink: int) -> str:
    return f"{source}>{destination} p{plane}" + (f" u{uplink}" if uplink else "")


def _path_fields(name: str) -> tuple[str, str, int, int]:
    found = _PATH.fullmatch(name)
    if found is None:
        raise ValueError(f"{name!r} names no path")
    return found[1], found[2], int(found[3]), int(found[4] or 0)
