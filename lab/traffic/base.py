"""Base class of traffic: fields of every kind, and the methods that a kind may override.

A kind is one class in one module of `mrclab.lab.traffic.kinds` (or of another package, by the entry point group
`mrclab.traffic`), registered with `@TRAFFIC.register`. A flow of its `flows` goes from one host to another, over one or
several QPs; its `workload` is the part of a host's agent. Sizes are bytes of payload.
"""

import pkgutil
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, TypeAlias

from pydantic import Field

from mrclab.lab.kinds import Kinds, WorldName, unsupported
from mrclab.lab.scenario.base import OfKind
from mrclab.lab.scenario.files.inputfile import SourceFile
from mrclab.lab.scenario.names import KnownTrigger, NewName, PathName
from mrclab.lab.scenario.sections.transport import MAX_QPS, QpAttributes, ScenarioTransport
from mrclab.lab.scenario.triggers import Trigger
from mrclab.topo.model import Fabric

if TYPE_CHECKING:
    from mrclab.lab.run.world import World
    from mrclab.lab.traffic.running.flows import Running


class Flow(NamedTuple):
    """Flow from `source` to `destination` of one workload; `size` bytes, or None where time ends it."""

    traffic: str
    source: str
    destination: str
    size: int | None
    suffix: str = ""  # distinguishes flows between the same two hosts

    @property
    def hosts(self) -> tuple[str, str]:
        """Return source and destination."""
        return self.source, self.destination

    @property
    def name(self) -> str:
        """`NAME/h1>h3`, as history records name it."""
        return f"{self.traffic}/{self.source}>{self.destination}{self.suffix}"


class TrafficBase(OfKind):
    """Fields of every kind.

    `worlds` names the worlds in which the kind means something; `bulk` is True where its hosts send as fast as they can
    and do not wait between messages, `iterates` where its hosts record iterations, `keeps_qps` where the history has
    its QPs, `keeps_messages` where it has the time of each message. `local_fields` name files of this machine, or
    commands to run on it. `driver` is the class that drives it in a world, a name, as models load where nothing runs.
    """

    driver: ClassVar[str] = "mrclab.lab.traffic.running.flows:Running"
    worlds: ClassVar[frozenset[WorldName]] = frozenset({"wire", "sim"})
    bulk: ClassVar[bool] = False
    iterates: ClassVar[bool] = False
    keeps_qps: ClassVar[bool] = True
    keeps_messages: ClassVar[bool] = True
    local_fields: ClassVar[frozenset[str]] = frozenset()

    name: NewName
    start: KnownTrigger = Field(default=Trigger(), description="when it begins; 0s: with the run")
    qps: Annotated[int, Field(ge=1, le=MAX_QPS)] | None = Field(
        default=None, description="QPs of each flow, used in turn; default: what transport.qps says"
    )
    paths: list[PathName] = Field(
        default=[], description="MRC: its senders use only these paths, e.g. [{plane: 1, uplink: 2}]"
    )
    attributes: QpAttributes = Field(
        default={}, description="attributes of its QPs that differ from the transport's, e.g. timeout_exponent"
    )
    transport: ScenarioTransport | None = Field(
        default=None,
        description="transport of its hosts, in place of the scenario's; a host's traffic all has the same one. Virtual"
        " time only",
    )

    @abstractmethod
    def flows(self, fabric: Fabric, seed: int) -> list[Flow]:
        """Return all flows, in order."""
        raise NotImplementedError

    @abstractmethod
    def workload(self, fabric: Fabric, host: str, qps: int) -> dict[str, Any]:
        """Return the workload of a host's agent, `qps` QPs per flow: fields of WorkloadSpec."""
        raise NotImplementedError

    def hosts_in(self, fabric: Fabric, seed: int) -> list[str]:
        """Return the hosts that send or receive, each once, in order."""
        ends = [name for flow in self.flows(fabric, seed) for name in (flow.source, flow.destination)]
        return list(dict.fromkeys(ends))

    def qps_of(self, common: int) -> int:
        """Return the QPs of each flow; `qps` is the scenario's default."""
        return self.qps or (self.transport.qps if self.transport is not None else common)

    @property
    def longest_wait(self) -> tuple[float, str]:
        """Seconds of the longest wait that its fields or file ask for, and for what in words; 0: none is known."""
        return 0.0, ""

    @property
    def together(self) -> bool:
        """True if all flows depend on each other, so that one failure ends them all."""
        return False

    @property
    def seconds(self) -> float | None:
        """Duration, seconds, if time ends it."""
        return self.__dict__.get("duration")  # a failed attribute of a model is slow, and many flows ask

    @property
    def is_counted(self) -> bool:
        """True if both ends count the bytes and take no digest of them."""
        return getattr(self, "content", "random") == "counted"

    @property
    def source_file(self) -> SourceFile | None:
        """File that it is made of, its field `file`; None for kinds without one."""
        return self.__dict__.get("file")

    def text(self, fabric: Fabric, qps: int) -> str:
        """Return one phrase for plans."""
        return " ".join((type(self).__doc__ or self.kind_name).split()).rstrip(".")

    def refusals(self, world: WorldName) -> Iterator[str]:
        """Yield, in one phrase each with its remedy, why it cannot run in a world."""
        if world not in self.worlds:
            (other,) = self.worlds
            yield f"{unsupported(self.kind_name, self.worlds, world)}; run it with --world {other}"
        if world == "wire" and self.transport is not None:
            yield (
                "transport: hosts of the wire all have that of the scenario; leave it out, or run it with --world sim"
            )
        if world == "wire" and world in self.worlds and self.is_counted:
            yield "content: counted is for virtual time; leave it out, or run it with --world sim"

    def running(self, world: "World", qps: int, seed: int) -> "Running":
        """Return the driver of this traffic in a world that is up; nothing begins yet."""
        driver: type[Running] = pkgutil.resolve_name(self.driver)
        return driver(world, self, qps, seed)


TRAFFIC: Kinds[TrafficBase] = Kinds("traffic", "mrclab.traffic", "mrclab.lab.traffic.kinds")
"""All kinds of traffic."""

if TYPE_CHECKING:
    Traffic: TypeAlias = TrafficBase
else:
    Traffic = TRAFFIC.union()


def all_flows(traffic: Sequence[TrafficBase], fabric: Fabric, seed: int) -> list[Flow]:
    """The flows of several workloads."""
    return [flow for entry in traffic for flow in entry.flows(fabric, seed)]
