"""Lesson 1: the learner's answers about the demo's fabric, held to its model."""

from ipaddress import AddressValueError, IPv6Address
from pathlib import Path

from mrclab.lab.lessons.base import Check, mapping
from mrclab.topo import srv6
from mrclab.topo.model import Fabric
from mrclab.topo.spec import FabricSpec

_QUESTIONS = {
    "paths_h1_h3": "paths from h1 to h3",
    "paths_h1_h2": "paths from h1 to h2, which hang on the same T0s",
    "address": "destination address of a packet from h1 to h3 by plane 2 and uplink 1, as h1 sends it",
    "address_after_t0": "the same as it leaves the first T0",
    "switch": "the switch whose uSID is 2302",
    "ev": "the EV of plane 2 and uplink 1 with tag 0, in hexadecimal",
}


def answers() -> dict[str, int | str]:
    """Return the right answers, from the fabric's model."""
    fabric = Fabric(FabricSpec())
    ev = srv6.ev(2, 1, 0)
    address = fabric.outer_address("h1", "h3", ev)
    return {
        "paths_h1_h3": len(fabric.paths("h1", "h3")),
        "paths_h1_h2": len(fabric.paths("h1", "h2")),
        "address": srv6.text(address),
        "address_after_t0": srv6.text(srv6.shift_usid(address)),
        "switch": next(switch.name for switch in fabric.switches if switch.usid == 0x2302),
        "ev": f"{ev:08x}",
    }


def grade(path: Path) -> list[Check]:
    """One check for each question."""
    given = mapping(path)
    checks = []
    for name, right in answers().items():
        said = given.get(name)
        missing = f"{name} has no answer yet" if said is None else f"{name}: {said} is not right"
        checks.append(Check(said is not None and _same(said, right), _QUESTIONS[name], missing))
    return checks


def _same(said: object, right: int | str) -> bool:
    text = str(said).strip().lower()
    try:
        return IPv6Address(text) == IPv6Address(str(right))
    except AddressValueError:
        return text.removeprefix("0x") == str(right)
