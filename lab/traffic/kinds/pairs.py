"""Traffic of kinds `write`, `stream` and `pingpong`: from one host to another."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from mrclab.lab.scenario.units import Size, show_bytes
from mrclab.lab.traffic.base import TRAFFIC, Flow
from mrclab.lab.traffic.families import BoundedTraffic, PairTraffic
from mrclab.topo.model import Fabric


@TRAFFIC.register
class Write(PairTraffic):
    """One transfer of random bytes as one RDMA write; over several QPs, one part by each."""

    driver: ClassVar[str] = "mrclab.lab.traffic.running.writes:RunningWrite"
    kind: Literal["write"] = "write"
    bulk: ClassVar[bool] = True

    size: Size

    def workload(self, fabric: Fabric, host: str, qps: int) -> dict[str, Any]:
        """One message."""
        return {"kind": "write", "size": self.size}

    def text(self, fabric: Fabric, qps: int) -> str:
        """Size."""
        return f"{show_bytes(self.size)} as one RDMA write"


@TRAFFIC.register
class Stream(BoundedTraffic, PairTraffic):
    """Messages one after the other, `depth` of them outstanding; their completion times are recorded."""

    kind: Literal["stream"]


@TRAFFIC.register
class PingPong(PairTraffic):
    """One message at a time; latency is half the time to its completion, as ib_write_lat counts it."""

    keeps_messages: ClassVar[bool] = False

    kind: Literal["pingpong"]
    size: Annotated[Size, Field(ge=1, le=2**30)] = 2
    count: int = Field(default=100, ge=1, le=100_000)

    def flows(self, fabric: Fabric, seed: int) -> list[Flow]:
        """The one flow."""
        return [Flow(self.name, self.source, self.destination, self.size * self.count)]

    def workload(self, fabric: Fabric, host: str, qps: int) -> dict[str, Any]:
        """A stream of one message at a time."""
        return {"kind": "pingpong", "size": self.size * self.count, "message": self.size}

    def text(self, fabric: Fabric, qps: int) -> str:
        """Count and size."""
        return f"{self.count} messages of {show_bytes(self.size)}, one at a time"
