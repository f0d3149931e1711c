"""Every fault that a scenario may name: the union of all registered kinds, told apart by `kind`."""

from typing import TYPE_CHECKING, TypeAlias

from mrclab.lab.faults.base import FAULTS, FaultBase, LastingFault

FAULTS.load("mrclab.lab.faults.kinds")

from mrclab.lab.faults.chaos import Chaos  # noqa: E402 (draws from the kinds that are loaded)
from mrclab.lab.faults.population import Population  # noqa: E402 (has a part of another kind)

__all__ = ["FAULTS", "Chaos", "Fault", "FaultBase", "LastingFault", "Population"]

if TYPE_CHECKING:
    Fault: TypeAlias = FaultBase
else:
    Fault = FAULTS.union()
