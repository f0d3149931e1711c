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


THE_CONTROLLER = "the controller"


def process_of(switch: str) -> str:
    """Return the claim to a switch's process."""
    return f"the process of {switch}"


def running_of(switch: str) -> str:
    """Return the claim to the running state of a switch."""
    return f"whether {switch} runs"


def channel_of(switch: str) -> str:
    """Return the claim to a switch's control channel."""
    return f"the control channel of {switch}"
