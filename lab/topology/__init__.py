"""Topologies: fabrics made from a scenario's `topology`.

A kind is one class in one module of `kinds/` (or of another package, by the entry point group `mrclab.topologies`),
registered with `@TOPOLOGIES.register`. It gives fields of `fabric`, which the scenario's own go over.
"""

from typing import TYPE_CHECKING, TypeAlias

from mrclab.lab.topology.base import TOPOLOGIES, TopologyBase

TOPOLOGIES.define("mrclab.lab.topology.kinds")

if TYPE_CHECKING:
    Topology: TypeAlias = TopologyBase
else:
    Topology = TOPOLOGIES.union()

__all__ = ["TOPOLOGIES", "Topology", "TopologyBase"]
