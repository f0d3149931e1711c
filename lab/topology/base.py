"""Base class of topologies, and their registry."""

from typing import Any

from mrclab.lab.kinds import Kinds, kind_of
from mrclab.lab.scenario.base import Strict
from mrclab.lab.traffic.base import SourceFile


class TopologyBase(Strict):
    """Fields of every kind: none."""

    @property
    def kind_name(self) -> str:
        """The value of `kind`."""
        return kind_of(type(self)) or ""

    def fabric(self) -> dict[str, Any]:
        """Return fields of `fabric`, as a scenario file has them."""
        raise NotImplementedError

    @property
    def source_file(self) -> SourceFile | None:
        """The file that it was read from, which results keep; None where there is none."""
        return None


TOPOLOGIES: Kinds[TopologyBase] = Kinds("topology", "mrclab.topologies")
"""All topologies; complete once `mrclab.lab.topology` is imported."""
