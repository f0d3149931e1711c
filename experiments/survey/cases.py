"""The faults of a localisation survey, drawn from a seed. Pure: same seed and fabric, same faults in the same order."""

import random
from dataclasses import asdict, dataclass
from typing import Any, Literal

from mrclab.topo.cables.cablefaults import Direction
from mrclab.topo.model import Fabric

Kind = Literal["nic-loss", "cable", "t1"]

KINDS: tuple[Kind, ...] = ("nic-loss", "cable", "t1")
NIC_LOSS = 0.05  # share of the packets of one direction


@dataclass(frozen=True)
class CaseFault:
    """One element made faulty.

    `nic-loss`: a NIC–T0 cable that loses 5 % of one direction with its carrier up. `cable`: a T0–T1 cable that loses
    everything, its carrier up. `t1`: a T1 whose process is stopped, its ports up.
    """

    kind: Kind
    element: str
    direction: Direction = "both"


@dataclass(frozen=True)
class SurveyCase:
    """Faults of one case: one, or two at once."""

    number: int
    faults: tuple[CaseFault, ...]

    @property
    def key(self) -> str:
        """Key of its record."""
        return f"case {self.number}"

    def as_json(self) -> dict[str, Any]:
        """Return the case as its record has it."""
        return {"case": self.number, "faults": [asdict(fault) for fault in self.faults]}


def draw(fabric: Fabric, seed: int, singles: int, doubles: int) -> list[SurveyCase]:
    """Draw `singles` single faults, the kinds in turn, then `doubles` double ones of any kinds."""
    rng = random.Random(f"clustermapper {seed}")
    cases = [(_draw_fault(fabric, rng, KINDS[number % len(KINDS)]),) for number in range(singles)]
    pairs = [_pair(fabric, rng) for _ in range(doubles)]
    return [SurveyCase(number, faults) for number, faults in enumerate([*cases, *pairs], 1)]


def is_distinguishable(fabric: Fabric, faults: tuple[CaseFault, ...]) -> bool:
    """Return True if probes can tell these faults from fewer or others.

    They cannot where one T1 has both: a dead T1 hides its cables, and all cables of one T1 dead look like that T1. Nor
    where both are cables of NICs to one T0: that T0 losing as much would look the same.
    """
    names = {fault.element for fault in faults}
    hubs = [_hub(fabric, fault) for fault in faults]
    return len(names) == len(faults) and len(set(hubs)) == len(hubs)


def _pair(fabric: Fabric, rng: random.Random) -> tuple[CaseFault, CaseFault]:
    while True:
        pair = _draw_fault(fabric, rng, rng.choice(KINDS)), _draw_fault(fabric, rng, rng.choice(KINDS))
        if is_distinguishable(fabric, pair):
            return pair


def _draw_fault(fabric: Fabric, rng: random.Random, kind: Kind) -> CaseFault:
    if kind == "t1":
        return CaseFault(kind, rng.choice([switch.name for switch in fabric.switches if switch.tier == "t1"]))
    link_kind = "nic" if kind == "nic-loss" else "fabric"
    name = rng.choice([link.name for link in fabric.links if link.kind == link_kind])
    return CaseFault(kind, name, rng.choice(("up", "down"))) if kind == "nic-loss" else CaseFault(kind, name)


def _hub(fabric: Fabric, fault: CaseFault) -> str:
    """Return the switch that a fault can be taken for."""
    return fault.element if fault.kind == "t1" else fabric.link(fault.element).b.node
