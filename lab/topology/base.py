"""Base class of topologies, and their registry."""

from typing import Any

from mrclab.lab.kinds import Kinds
from mrclab.lab.scenario.base import OfKind
from mrclab.lab.traffic.base import SourceFile


class TopologyBase(OfKind):
    """Fields of every kind: none."""

    def fabric(self) -> dict[str, Any]:
        """Return fields of `fabric`, as a scenario file has them."""
        raise NotImplementedError

    @property
    def source_file(self) -> SourceFile | None:
        """The file that it was read from, which results keep; None where there is none."""
        return None


TOPOLOGIES: Kinds[TopologyBase] = Kinds("topology", "mrclab.topologies")
"""All topologies; complete once `mrclab.lab.topology` is imported."""
