"""Every fault that a scenario may name: a union of all kinds, discriminated by `kind`."""

from typing import TYPE_CHECKING, TypeAlias

from mrclab.lab.faults.base import FAULTS, FaultBase, LastingFault

# chaos draws from all other kinds, and a population has parts of another
FAULTS.define("mrclab.lab.faults.kinds", "mrclab.lab.faults.chaos")

__all__ = ["FAULTS", "Fault", "FaultBase", "LastingFault"]

if TYPE_CHECKING:
    Fault: TypeAlias = FaultBase
else:
    Fault = FAULTS.union()
