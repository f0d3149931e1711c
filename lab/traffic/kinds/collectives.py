"""Traffic of kinds `all_to_all`, `ring_all_reduce` and `send_recv_ring`, in which all hosts take part."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from mrclab.hosts.workloads import schedules
from mrclab.lab.traffic.base import TRAFFIC, Flow
from mrclab.lab.traffic.families import CollectiveTraffic
from mrclab.topo.model import Fabric


@TRAFFIC.register
class AllToAll(CollectiveTraffic):
    """Every host sends `size` bytes to every other."""

    bulk: ClassVar[bool] = True

    keeps_messages: ClassVar[bool] = False

    kind: Literal["all_to_all"]

    def flows(self, fabric: Fabric, seed: int) -> list[Flow]:
        """Each sender's flows begin with its right neighbour."""
        count = len(self.hosts)
        return [
            Flow(self.name, source, self.hosts[(place + step) % count], self.in_all(self.size))
            for place, source in enumerate(self.hosts)
            for step in range(1, count)
        ]


@TRAFFIC.register
class RingAllReduce(CollectiveTraffic):
    """All hosts reduce buffers of `size` bytes in 2(N−1) steps; each waits for the left neighbour's chunk."""

    driver: ClassVar[str] = "mrclab.lab.traffic.running.rings:RunningRing"
    kind: Literal["ring_all_reduce"]
    ahead: Annotated[int, Field(ge=1, le=64)] = Field(
        default=4, description="steps of a host that may be without acknowledgement at once; 1: each waits for its ACK"
    )

    def flows(self, fabric: Fabric, seed: int) -> list[Flow]:
        """One flow per host, to its right neighbour."""
        return [Flow(self.name, a, b, self.in_all(self.sent_by(place))) for place, (a, b) in enumerate(self.ring())]

    def workload(self, fabric: Fabric, host: str, qps: int) -> dict[str, Any]:
        """The steps of one rank."""
        ranks = {"rank": self.hosts.index(host), "ranks": len(self.hosts), "ahead": self.ahead}
        return {**super().workload(fabric, host, qps), "kind": "ring", **ranks}

    def sent_by(self, rank: int) -> int:
        """Return the bytes that a host sends in an iteration: all chunks but one in each of the two phases."""
        count = len(self.hosts)
        return sum(schedules.chunk(self.size, count, rank - step)[1] for step in range(2 * (count - 1)))

    def text(self, fabric: Fabric, qps: int) -> str:
        """One phrase with the steps of an iteration."""
        return f"{super().text(fabric, qps)}, {2 * (len(self.hosts) - 1)} steps each"


@TRAFFIC.register
class SendRecvRing(CollectiveTraffic):
    """Every host sends `size` bytes to its right neighbour and receives as many from the left."""

    keeps_messages: ClassVar[bool] = False

    kind: Literal["send_recv_ring"]

    def flows(self, fabric: Fabric, seed: int) -> list[Flow]:
        """One flow per host, to its right neighbour."""
        return [Flow(self.name, a, b, self.in_all(self.size)) for a, b in self.ring()]
