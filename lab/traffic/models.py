"""Every traffic that a scenario may name: the union of all registered kinds, told apart by `kind`."""

from typing import TYPE_CHECKING, TypeAlias

from mrclab.lab.traffic.base import TRAFFIC, TrafficBase

TRAFFIC.load("mrclab.lab.traffic.kinds")

__all__ = ["TRAFFIC", "Traffic", "TrafficBase"]

if TYPE_CHECKING:
    Traffic: TypeAlias = TrafficBase
else:
    Traffic = TRAFFIC.union()
