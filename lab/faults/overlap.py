"""Things of the lab that a fault takes for itself: two faults that take the same one cannot be in force together.

Faults that may overlap are undone in any order: a cable comes back when nobody holds it down any more, and what happens
to packets is taken out one by one.
"""

from mrclab.lab.faults.base import FaultBase
from mrclab.topo.model import Fabric


def clash(one: FaultBase, other: FaultBase, fabric: Fabric, seed: int) -> str:
    """Return what two faults cannot both have at the same time, in words; empty where they may overlap."""
    claimed, wanted = claims(one, fabric, seed)
    claimed_too, wanted_too = claims(other, fabric, seed)
    return min((claimed & wanted_too) | (claimed_too & wanted), default="")


def claims(fault: FaultBase, fabric: Fabric, seed: int) -> tuple[frozenset[str], frozenset[str]]:
    """Return what a fault claims, and what it claims or needs."""
    parts = fault.parts(fabric, seed)
    claimed = frozenset[str]().union(*(part.claims(fabric) for part in parts))
    return claimed, claimed.union(*(part.needs(fabric) for part in parts))
