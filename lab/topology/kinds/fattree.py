"""The fat tree of k-port switches: Al-Fares et al., A Scalable, Commodity Data Center Network Architecture, 2008."""

from typing import Any, Literal

from pydantic import Field, field_validator

from mrclab.lab.topology import TOPOLOGIES, TopologyBase


@TOPOLOGIES.register
class FatTree(TopologyBase):
    """Three tiers of switches with k ports: k pods, k³/4 hosts, nothing oversubscribed."""

    kind: Literal["fat_tree"]
    k: int = Field(ge=4, le=64, description="ports of each switch, an even number")

    @field_validator("k")
    @classmethod
    def _even(cls, value: int) -> int:
        if value % 2:
            raise ValueError(f"half of the ports lead up, so {value} must be even")
        return value

    def fabric(self) -> dict[str, Any]:
        """Half of the ports of T0s and T1s lead down."""
        half = self.k // 2
        return {
            "planes": 1,
            "pods": self.k,
            "t0s": self.k * half,
            "t1s": half,
            "t2s": half * half,
            "hosts_per_t0": half,
        }
