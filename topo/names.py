"""Names of nodes and ports, and the numbers in them: `h3`, `h3-p1`, `t0-p1-2`, `t0-p1-2-7`. All count from 1."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Literal, cast

if TYPE_CHECKING:
    from mrclab.topo.spec import FabricSpec

Tier = Literal["t0", "t1", "t2"]
Kind = Literal["switch", "host", "link", "port"]

_N = "([1-9][0-9]*)"
_HOST = re.compile(f"h{_N}")
_NIC_PORT = re.compile(f"h{_N}-p{_N}")
_SWITCH = re.compile(f"(t[012])-p{_N}-{_N}")
_SWITCH_PORT = re.compile(f"(t[012])-p{_N}-{_N}-{_N}")
_DIGITS = re.compile("[0-9]+")


def host(name: str) -> int | None:
    """Number of a host; None where the name is no host's."""
    found = _HOST.fullmatch(name)
    return int(found[1]) if found else None


def nic_port(name: str) -> tuple[int, int] | None:
    """(host, plane) of a NIC's port."""
    found = _NIC_PORT.fullmatch(name)
    return (int(found[1]), int(found[2])) if found else None


def switch(name: str) -> tuple[Tier, int, int] | None:
    """(tier, plane, number) of a switch."""
    found = _SWITCH.fullmatch(name)
    return (cast("Tier", found[1]), int(found[2]), int(found[3])) if found else None


def switch_port(name: str) -> tuple[Tier, int, int, int] | None:
    """(tier, plane, number, port) of a switch's port."""
    found = _SWITCH_PORT.fullmatch(name)
    return (cast("Tier", found[1]), int(found[2]), int(found[3]), int(found[4])) if found else None


def of_switch(tier: Tier, plane: int, number: int) -> str:
    """The name of a switch."""
    return f"{tier}-p{plane}-{number}"


class Guesses(list[str]):
    """Some of the names of a fabric: those with numbers like the ones that were asked for."""


def guesses(text: str, spec: FabricSpec, kinds: Iterable[Kind]) -> Guesses:
    """Return names of these kinds that exist, with the numbers that a text holds or those nearest to them."""
    return Guesses(_guesses(text, spec, kinds))


def _guesses(text: str, spec: FabricSpec, kinds: Iterable[Kind]) -> Iterator[str]:
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
