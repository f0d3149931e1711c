"""The topology `pair`: two T0 groups, as small as a fabric can be in which packets cross a T1."""

from typing import Any, Literal

from pydantic import Field
from typing_extensions import override

from mrclab.lab.topology import TOPOLOGIES, TopologyBase


@TOPOLOGIES.register
class Pair(TopologyBase):
    """Two T0 groups of one host each."""

    kind: Literal["pair"]
    paths: int = Field(ge=1, le=64, description="paths between the two in each plane")

    @override
    def fabric(self) -> dict[str, Any]:
        return {"planes": 4, "t0s": 2, "t1s": self.paths, "hosts_per_t0": 1}
