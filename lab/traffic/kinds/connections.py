"""Traffic of kind `matrix`: a connection matrix of uet-htsim, on the hosts of this fabric."""

from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, ValidationInfo

from mrclab.lab.scenario.files.inputfile import FromFile, InputFile
from mrclab.lab.scenario.names import fabric_of
from mrclab.lab.scenario.units import Size, show_bytes
from mrclab.lab.traffic import matrix
from mrclab.lab.traffic.base import TRAFFIC, Flow, TrafficBase
from mrclab.lab.traffic.families import MESSAGE, Content, outstanding
from mrclab.lab.traffic.matrix import Connection, Matrix
from mrclab.topo.model import Fabric

_SECONDS = {"ps": 1e-12, "us": 1e-6}


def _enough_hosts(file: InputFile[Matrix], info: ValidationInfo) -> InputFile[Matrix]:
    fabric, nodes = fabric_of(info), file.content.nodes
    if fabric and nodes > (hosts := len(fabric.hosts)):
        raise ValueError(f"{file} has {nodes} nodes and the fabric {hosts} hosts; raise fabric.t0s or hosts_per_t0")
    return file


MatrixField = Annotated[
    InputFile[Matrix],
    FromFile("a connection matrix such as permutation.cm", ".cm", matrix.read),
    AfterValidator(_enough_hosts),
]


@TRAFFIC.register
class ConnectionMatrix(TrafficBase):
    """The connections of a uet-htsim connection matrix (`.cm`): node 0 is h1, and so on; each is a stream of its own.

    Start times count from the workload's; a trigger lets others begin when a connection is acknowledged or has arrived.
    """

    driver: ClassVar[str] = "mrclab.lab.traffic.running.connections:RunningMatrix"
    local_fields: ClassVar[frozenset[str]] = frozenset({"file"})
    kind: Literal["matrix"]
    file: MatrixField = Field(description="path of the matrix, from the scenario's folder, e.g. permutation.cm")
    unit: Literal["ps", "us"] = Field(
        default="ps", description="of start times: ps as its loader and generators have it, us as htsim_uec takes them"
    )
    message: Annotated[Size, Field(ge=1, le=2**30)] = Field(default=MESSAGE, description="bytes of each message")
    depth: Annotated[int, Field(ge=1, le=4096)] | None = Field(
        default=None, description="messages outstanding per connection; default: six bandwidth-delay products"
    )
    content: Content = "random"

    @property
    def matrix(self) -> Matrix:
        """Matrix of the file."""
        return self.file.content

    def flows(self, fabric: Fabric, seed: int) -> list[Flow]:
        """One flow per connection; where two hosts have several, each but the first is named by `#` and its number."""
        return [flow for flow, _ in self.timed(fabric)]

    def timed(self, fabric: Fabric) -> Iterator[tuple[Flow, float | None]]:
        """Return flows in the order of the file, with seconds after the workload's begin; None for triggered ones."""
        hosts = fabric.hosts
        seen: Counter[tuple[int, int]] = Counter()
        for place, one in enumerate(self.matrix.connections, 1):
            seen[one.source, one.destination] += 1
            suffix = f"#{one.number or place}" if seen[one.source, one.destination] > 1 else ""
            flow = Flow(self.name, hosts[one.source].name, hosts[one.destination].name, one.size, suffix)
            yield flow, self._seconds(one)

    def _seconds(self, one: Connection) -> float | None:
        return None if one.start is None else one.start * _SECONDS[self.unit]

    @property
    def longest_wait(self) -> tuple[float, str]:
        """Begin of the last connection that no trigger begins."""
        last = max((self._seconds(one) or 0.0 for one in self.matrix.connections), default=0.0)
        return last, "its last connection begins at"

    def workload(self, fabric: Fabric, host: str, qps: int) -> dict[str, Any]:
        """Streams; each flow has its own size and start."""
        largest = max(one.size for one in self.matrix.connections)
        depth = min(outstanding(fabric, qps, self.message, self.depth), max(1, -(-largest // self.message)))
        bounds = {"size": None, "duration": None, "rate": None, **({"counted": True} if self.is_counted else {})}
        return {"kind": "stream", "message": min(self.message, largest), "depth": depth, **bounds}

    @property
    def together(self) -> bool:
        """True with triggers: a connection that waits for a failed one never begins."""
        return bool(self.matrix.triggers)

    def text(self, fabric: Fabric, qps: int) -> str:
        """Count of connections and their bytes."""
        count, size = len(self.matrix.connections), sum(one.size for one in self.matrix.connections)
        return f"{count} connections of {self.file}, {show_bytes(size)} in all"
