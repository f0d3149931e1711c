"""Topologies: fabrics made from a scenario's `topology`.

A kind is one class in one module of `kinds/` (or of another package, by the entry point group `mrclab.topologies`),
registered with `@TOPOLOGIES.register`. It gives fields of `fabric`, which the scenario's own go over.
"""

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, TypeAlias

from mrclab.lab.kinds import Kinds
from mrclab.lab.scenario.base import OfKind
from mrclab.lab.scenario.files.inputfile import SourceFile


class TopologyBase(OfKind):
    """Fields of every kind: none."""

    @abstractmethod
    def fabric(self) -> dict[str, Any]:
        """Return fields of `fabric`, as a scenario file has them."""
        raise NotImplementedError

    @property
    def source_file(self) -> SourceFile | None:
        """The file that it was read from, its field `file`, which results keep; None for kinds without one."""
        return self.__dict__.get("file")


TOPOLOGIES: Kinds[TopologyBase] = Kinds("topology", "mrclab.topologies", "mrclab.lab.topology.kinds")

if TYPE_CHECKING:
    Topology: TypeAlias = TopologyBase
else:
    Topology = TOPOLOGIES.union()
