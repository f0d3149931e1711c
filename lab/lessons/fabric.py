"""Lesson 1: the learner's answers about the demo's fabric, compared with its model."""

from ipaddress import AddressValueError, IPv6Address
from pathlib import Path

from mrclab.lab.lessons.base import Check, mapping
from mrclab.lab.lessons.parts import RoutePart
from mrclab.topo import srv6
from mrclab.topo.model import Fabric
from mrclab.topo.spec import FabricSpec

_QUESTIONS = {
    "paths_across": "paths from {0.source} to {0.target}",
    "paths_inside": "paths from {0.source} to {0.neighbour}, which share the same T0s",
    "address": "destination address of a packet from {0.source} to {0.target} by plane {0.plane} and uplink {0.uplink},"
    " as {0.source} sends it",
    "address_after_t0": "the same as it leaves the first T0",
    "switch": "the switch whose uSID is {0.usid:x}",
    "ev": "the EV of plane {0.plane} and uplink {0.uplink} with tag 0, in hexadecimal",
}


def answers(seed: int | None = None) -> dict[str, int | str]:
    """Return the right answers, from the fabric's model."""
    fabric, part = Fabric(FabricSpec()), RoutePart.drawn(seed)
    ev = srv6.ev(part.plane, part.uplink, 0)
    address = fabric.outer_address(part.source, part.target, ev)
    return {
        "paths_across": len(fabric.paths(part.source, part.target)),
        "paths_inside": len(fabric.paths(part.source, part.neighbour)),
        "address": srv6.text(address),
        "address_after_t0": srv6.text(srv6.shift_usid(address)),
        "switch": next(switch.name for switch in fabric.switches if switch.usid == part.usid),
        "ev": f"{ev:08x}",
    }


def grade(path: Path, seed: int | None = None) -> list[Check]:
    """One check for each question."""
    given, part = mapping(path), RoutePart.drawn(seed)
    checks = []
    for name, right in answers(seed).items():
        answer = given.get(name)
        missing = f"{name} has no answer yet" if answer is None else f"{name}: {answer} is not right"
        checks.append(Check(answer is not None and _equal(answer, right), _QUESTIONS[name].format(part), missing))
    return checks


def _equal(answer: object, right: int | str) -> bool:
    text = str(answer).strip().lower()
    try:
        return IPv6Address(text) == IPv6Address(str(right))
    except AddressValueError:
        return text.removeprefix("0x") == str(right)
