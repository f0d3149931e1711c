"""Exclusive resources of faults: two faults that claim the same one cannot be in force together.

Faults that may overlap are undone in any order: a cable comes back when no fault holds it down any more, and packet
actions are removed one by one.
"""

from mrclab.lab.faults.base import FaultBase
from mrclab.topo.model import Fabric


def clash(one: FaultBase, other: FaultBase, fabric: Fabric, seed: int) -> str:
    """Return the resource, in words, that two faults both claim; empty where they may overlap."""
    claimed, needed = claims(one, fabric, seed)
    claimed_too, needed_too = claims(other, fabric, seed)
    return min((claimed & needed_too) | (claimed_too & needed), default="")


def claims(fault: FaultBase, fabric: Fabric, seed: int) -> tuple[frozenset[str], frozenset[str]]:
    """Return a fault's claims, and its claims and needs together."""
    parts = fault.parts(fabric, seed)
    claimed = frozenset[str]().union(*(part.claims(fabric) for part in parts))
    return claimed, claimed.union(*(part.needs(fabric) for part in parts))


# what several kinds claim; a fault's fields are filled in
THE_CONTROLLER = "the controller"
PROCESS = "the process of {0.switch}"
RUNNING = "whether {0.switch} runs"
CHANNEL = "the control channel of {0.switch}"
