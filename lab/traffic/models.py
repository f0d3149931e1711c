"""Every traffic that a scenario may name: a union of all kinds, discriminated by `kind`."""

from typing import TYPE_CHECKING, TypeAlias

from mrclab.lab.traffic.base import TRAFFIC, TrafficBase

TRAFFIC.define("mrclab.lab.traffic.kinds")

__all__ = ["TRAFFIC", "Traffic", "TrafficBase"]

if TYPE_CHECKING:
    Traffic: TypeAlias = TrafficBase
else:
    Traffic = TRAFFIC.union()
