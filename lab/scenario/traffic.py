"""Traffic as a scenario describes it: each kind is a model, and says which flows it amounts to.

A flow is what one host sends another, over one or several QPs. Sizes are bytes of payload.
"""

import itertools
import math
import random
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from mrclab.lab.scenario.base import Strict
from mrclab.lab.scenario.moments import Trigger
from mrclab.lab.scenario.names import HostName, KnownTrigger, NewName, PathName
from mrclab.lab.scenario.transport import MAX_QPS, QpAttributes, ScenarioTransport
from mrclab.lab.scenario.units import Duration, LineShare, Size
from mrclab.topo.model import Fabric

IMMEDIATES_PER_QP = 128  # outstanding at most, as node configs have it
MESSAGE = 64 * 1024  # bytes of a message where the scenario does not say
_DEPTH_BDPS = (
    6  # messages complete in order: one lost packet holds up what was sent in 4 RTT, which must not end the sending
)
_DRAWS = 1000  # permutations drawn in search of one that leaves every T0 group
_MOST_DRAWN = 4096  # receivers up to which it is found by drawing alone


@dataclass(frozen=True)
class Flow:
    """Flow from `source` to `destination` of one traffic; `size` bytes, or None where time ends it."""

    traffic: str
    source: str
    destination: str
    size: int | None
    again: str = ""  # what tells it from another flow between the same two

    @property
    def name(self) -> str:
        """`NAME/h1>h3`, as history records name it."""
        return f"{self.traffic}/{self.source}>{self.destination}{self.again}"


def _known_paths(paths: list[PathName], info: ValidationInfo) -> list[PathName]:
    fabric = (info.context or {}).get("fabric")
    if isinstance(fabric, Fabric):
        for path in paths:
            if path.uplink > fabric.uplinks:
                raise ValueError(f"there is no uplink {path.uplink}; a T0 has uplinks 1 to {fabric.uplinks}, 0 is none")
    return paths


class TrafficBase(Strict):
    """Fields of every kind."""

    name: NewName
    start: KnownTrigger = Field(default=Trigger(), description="when it begins; 0s: with the run")
    qps: Annotated[int, Field(ge=1, le=MAX_QPS)] | None = Field(
        default=None, description="QPs of each flow, used in turn; else what transport.qps says"
    )
    paths: Annotated[list[PathName], AfterValidator(_known_paths)] = Field(
        default=[], description="MRC: its senders use these paths alone, e.g. [{plane: 1, uplink: 2}]"
    )
    attributes: QpAttributes = Field(
        default={}, description="attributes of its QPs that differ from the transport's, e.g. timeout_exponent"
    )
    transport: ScenarioTransport | None = Field(
        default=None,
        description="of its hosts, in place of the scenario's: they take part in no traffic with another one. Virtual"
        " time only",
    )

    def flows(self, fabric: Fabric, seed: int) -> list[Flow]:
        """All flows, in order."""
        raise NotImplementedError

    def workload(self, fabric: Fabric, host: str, qps: int) -> dict[str, Any]:
        """Return the workload of a host's agent, `qps` QPs per flow: fields of WorkloadSpec."""
        raise NotImplementedError

    def hosts_in(self, fabric: Fabric, seed: int) -> list[str]:
        """Hosts that send or receive, each once, in order."""
        ends = [name for flow in self.flows(fabric, seed) for name in (flow.source, flow.destination)]
        return list(dict.fromkeys(ends))

    def qps_of(self, common: int) -> int:
        """QPs of each flow, where all traffics have so many unless they say otherwise."""
        return self.qps or (self.transport.qps if self.transport is not None else common)

    @property
    def kind_name(self) -> str:
        """The value of `kind`."""
        return str(getattr(self, "kind", ""))

    @property
    def together(self) -> bool:
        """True if all flows wait for each other, so that one that fails ends them all."""
        return False

    @property
    def seconds(self) -> float | None:
        """Duration where time ends it, seconds."""
        return getattr(self, "duration", None)


class _Pair(TrafficBase):
    """From one host to another."""

    source: HostName = Field(alias="from")
    destination: HostName = Field(alias="to")

    @model_validator(mode="after")
    def _two_hosts(self) -> "_Pair":
        if self.source == self.destination:
            raise ValueError(f"{self.name} goes from {self.source} to itself; name two hosts")
        return self

    def flows(self, fabric: Fabric, seed: int) -> list[Flow]:
        """The one flow."""
        return [Flow(self.name, self.source, self.destination, getattr(self, "size", None))]


class _Bounded(TrafficBase):
    """Either so many bytes, or for so long."""

    size: Annotated[Size, Field(ge=1)] | None = Field(default=None, description="bytes of each flow")
    duration: Annotated[Duration, Field(gt=0)] | None = Field(default=None, description="seconds, in place of a size")
    message: Annotated[Size, Field(ge=1, le=2**30)] = Field(default=MESSAGE, description="bytes of each message")
    depth: Annotated[int, Field(ge=1, le=4096)] | None = Field(
        default=None, description="messages outstanding per flow; else six bandwidth-delay products"
    )
    rate: LineShare | None = Field(default=None, description="of each flow, e.g. 80% of line; else as fast as it goes")
    content: Literal["random", "counted"] = Field(
        default="random",
        description="counted: bytes are counted and not kept, so that a great many flows need no memory for them, and"
        " nothing says whether they arrived intact. Virtual time only",
    )

    @model_validator(mode="after")
    def _size_or_duration(self) -> "_Bounded":
        if (self.size is None) == (self.duration is None):
            raise ValueError(f"{self.name} needs either a size or a duration, such as duration: 10s")
        return self

    def workload(self, fabric: Fabric, host: str, qps: int) -> dict[str, Any]:
        """Messages by all QPs in turn."""
        bounds = {"size": self.size, "duration": self.duration, "rate": self.rate and self.rate * line_rate(fabric)}
        if self.content == "counted":
            bounds["counted"] = True
        depth = outstanding(fabric, qps, self.message, self.depth)
        return {"kind": "stream", "message": self.message, "depth": depth, **bounds}


class Write(_Pair):
    """One transfer of random bytes as one RDMA write; over several QPs, one part by each."""

    kind: Literal["write"] = "write"
    size: Size

    def workload(self, fabric: Fabric, host: str, qps: int) -> dict[str, Any]:
        """One message."""
        return {"kind": "write", "size": self.size}


class Stream(_Bounded, _Pair):
    """Messages one after the other, `depth` of them outstanding; their completion times are recorded."""

    kind: Literal["stream"]


class PingPong(_Pair):
    """One message at a time; latency is half the time to its completion, as ib_write_lat counts it."""

    kind: Literal["pingpong"]
    size: Annotated[Size, Field(ge=1, le=2**30)] = 2
    count: int = Field(default=100, ge=1, le=100_000)

    def flows(self, fabric: Fabric, seed: int) -> list[Flow]:
        """The one flow."""
        return [Flow(self.name, self.source, self.destination, self.size * self.count)]

    def workload(self, fabric: Fabric, host: str, qps: int) -> dict[str, Any]:
        """A stream of one message at a time."""
        return {"kind": "pingpong", "size": self.size * self.count, "message": self.size}


def _some_hosts(value: object) -> object:
    return ["all"] if value == "all" else value


def _host_or_all(names: list[str], info: ValidationInfo) -> list[str]:
    fabric = (info.context or {}).get("fabric")
    if names == ["all"] and isinstance(fabric, Fabric):
        return list(fabric.host_names)
    known: set[str] = set()
    for name in names:
        if name in known:
            raise ValueError(f"{name} is named twice; name every host once")
        known.add(name)
    return names


def _named(name: str, info: ValidationInfo) -> str:
    fabric = (info.context or {}).get("fabric")
    return fabric.host(name).name if isinstance(fabric, Fabric) and name != "all" else name


def _valid_name(name: str, info: ValidationInfo) -> str:
    try:
        return _named(name, info)
    except LookupError as error:
        raise ValueError(str(error)) from None


HostList = Annotated[
    list[Annotated[str, AfterValidator(_valid_name)]], BeforeValidator(_some_hosts), AfterValidator(_host_or_all)
]


class Permutation(_Bounded):
    """Every host sends to one other, and receives from one."""

    kind: Literal["permutation"]
    hosts: HostList = Field(default=["all"], validate_default=True, description="senders; all, or a list")
    to: HostList | None = Field(default=None, description="receivers, as many; else the senders themselves")
    shift: int | None = Field(default=None, description="host i sends to host i + shift; else drawn from the seed")
    cross_group: bool = Field(default=True, description="drawn pairs never share a T0 group, where that is possible")

    @model_validator(mode="after")
    def _as_many(self) -> "Permutation":
        if self.to is not None and len(self.to) != len(self.hosts):
            raise ValueError(f"{self.name} has {len(self.hosts)} senders and {len(self.to)} receivers; name as many")
        if self.to is None and len(self.hosts) < 2 and self.hosts != ["all"]:
            raise ValueError(f"{self.name} needs at least two hosts")
        if self.to is None and self.shift is not None and self.shift % len(self.hosts) == 0 and self.hosts != ["all"]:
            raise ValueError(f"shift {self.shift} sends every host's bytes to itself; name another")
        return self

    def flows(self, fabric: Fabric, seed: int) -> list[Flow]:
        """One flow per sender."""
        pairs = zip(self.hosts, self._receivers(fabric, seed), strict=True)
        return [Flow(self.name, source, destination, self.size) for source, destination in pairs]

    def _receivers(self, fabric: Fabric, seed: int) -> list[str]:
        targets = list(self.to or self.hosts)
        if self.shift is not None:
            return [targets[(place + self.shift) % len(targets)] for place in range(len(targets))]
        draw = random.Random(f"{seed}/{self.name}/permutation")
        group = {name: fabric.group(name) for name in {*self.hosts, *targets}}
        best, fewest = targets, len(targets) + 1
        for _ in range(_DRAWS if len(targets) <= _MOST_DRAWN else 1):
            draw.shuffle(targets)
            pairs = list(zip(self.hosts, targets, strict=True))
            if any(source == destination for source, destination in pairs) and len(targets) <= _MOST_DRAWN:
                continue
            inside = sum(group[a] == group[b] for a, b in pairs) if self.cross_group else 0
            if inside < fewest:
                best, fewest = list(targets), inside
            if not inside:
                break
        return best if len(targets) <= _MOST_DRAWN else self._mended(best, group, draw)

    def _mended(self, targets: list[str], group: Mapping[str, int], draw: random.Random) -> list[str]:
        """A drawn permutation of so many that none is right by luck: whoever must not be a pair swaps with another."""

        def wrong(source: str, destination: str) -> bool:
            return source == destination or (self.cross_group and group[source] == group[destination])

        for place, source in enumerate(self.hosts):
            for _ in range(_DRAWS):
                if not wrong(source, targets[place]):
                    break
                other = draw.randrange(len(targets))
                if not wrong(source, targets[other]) and not wrong(self.hosts[other], targets[place]):
                    targets[place], targets[other] = targets[other], targets[place]
        return targets


class Incast(_Bounded):
    """Many hosts send to one."""

    kind: Literal["incast"]
    sources: HostList = Field(alias="from", description="senders; all (but the receiver), or a list")
    destination: HostName = Field(alias="to")

    @model_validator(mode="after")
    def _somebody_sends(self) -> "Incast":
        if not set(self.sources) - {self.destination}:
            raise ValueError(f"{self.name} has no sender but {self.destination} itself; name others")
        return self

    def flows(self, fabric: Fabric, seed: int) -> list[Flow]:
        """One flow per sender."""
        senders = [name for name in self.sources if name != self.destination]
        return [Flow(self.name, source, self.destination, self.size) for source in senders]


class _Collective(TrafficBase):
    """All hosts work together, so often or for so long; a host begins anew when it has sent and received all before."""

    hosts: HostList = Field(default=["all"], validate_default=True, description="all, or a list in the ring's order")
    size: Annotated[Size, Field(ge=1, le=2**30)]
    iterations: Annotated[int, Field(ge=1, le=100_000)] | None = Field(
        default=None, description="how often; once where neither this nor a duration is given"
    )
    duration: Annotated[Duration, Field(gt=0)] | None = Field(
        default=None, description="in place of iterations: they begin until then, and the last one begun ends"
    )

    @model_validator(mode="after")
    def _enough(self) -> "_Collective":
        if len(self.hosts) < 2 and self.hosts != ["all"]:
            raise ValueError(f"{self.name} needs at least two hosts")
        if self.iterations is not None and self.duration is not None:
            raise ValueError(f"{self.name} has both iterations and a duration; leave one of them out")
        return self

    @property
    def together(self) -> bool:
        """They do."""
        return True

    @property
    def rounds(self) -> int | None:
        """Number of rounds; None where time ends it."""
        return None if self.duration is not None else self.iterations or 1

    def workload(self, fabric: Fabric, host: str, qps: int) -> dict[str, Any]:
        """Rounds."""
        return {"kind": "rounds", "size": self.size, "iterations": self.rounds, "duration": self.duration}

    def in_all(self, once: int) -> int | None:
        """Bytes of all iterations given those of one; None where time ends them."""
        return None if self.rounds is None else once * self.rounds

    def _ring(self) -> Iterator[tuple[str, str]]:
        return zip(self.hosts, [*self.hosts[1:], self.hosts[0]], strict=True)


class AllToAll(_Collective):
    """Every host sends `size` bytes to every other."""

    kind: Literal["all_to_all"]

    def flows(self, fabric: Fabric, seed: int) -> list[Flow]:
        """Each sender's flows begin with its right neighbour."""
        count = len(self.hosts)
        return [
            Flow(self.name, source, self.hosts[(place + step) % count], self.in_all(self.size))
            for place, source in enumerate(self.hosts)
            for step in range(1, count)
        ]


class RingAllReduce(_Collective):
    """All hosts reduce buffers of `size` bytes in 2(N−1) steps; each waits for the left neighbour's chunk."""

    kind: Literal["ring_all_reduce"]
    ahead: Annotated[int, Field(ge=1, le=64)] = Field(
        default=4, description="steps of a host that may be without acknowledgement at once; 1: each waits for its ACK"
    )

    def flows(self, fabric: Fabric, seed: int) -> list[Flow]:
        """One flow per host, to its right neighbour."""
        return [Flow(self.name, a, b, self.in_all(self.sent_by(place))) for place, (a, b) in enumerate(self._ring())]

    def workload(self, fabric: Fabric, host: str, qps: int) -> dict[str, Any]:
        """The steps of one rank."""
        ranks = {"rank": self.hosts.index(host), "ranks": len(self.hosts), "ahead": self.ahead}
        return {**super().workload(fabric, host, qps), "kind": "ring", **ranks}

    def sent_by(self, rank: int) -> int:
        """Bytes that a host sends in an iteration: all chunks but one in each of the two phases."""
        chunks = chunk_sizes(self.size, len(self.hosts))
        count = len(chunks)
        return sum(chunks[(rank - step) % count] for step in range(2 * (count - 1)))


class SendRecvRing(_Collective):
    """Every host sends `size` bytes to its right neighbour and receives as many from the left."""

    kind: Literal["send_recv_ring"]

    def flows(self, fabric: Fabric, seed: int) -> list[Flow]:
        """One flow per host, to its right neighbour."""
        return [Flow(self.name, a, b, self.in_all(self.size)) for a, b in self._ring()]


class ProgramSpec(Strict):
    """One program of somebody else, written to OCP's MRC headers, on one host."""

    host: HostName
    command: Annotated[str, Field(min_length=1)] = Field(
        description="as a shell would split it; {h3} is h3's address for TCP, e.g. ./mrc_example -d mrc0 {h3}"
    )
    ready: str | None = Field(default=None, description="what it says before the next one starts, a regular expression")

    @field_validator("command")
    @classmethod
    def _can_be_split(cls, command: str) -> str:
        if not shlex.split(command):  # ValueError where a quote is not closed
            raise ValueError("the command has no words")
        return command

    @field_validator("ready")
    @classmethod
    def _is_a_pattern(cls, ready: str | None) -> str | None:
        try:
            re.compile(ready or "")
        except re.error as error:
            raise ValueError(f"{ready!r} is no regular expression: {error}") from None
        return ready


class RanksSpec(Strict):
    """The ranks of one job, a host each, with the environment that torchrun sets."""

    command: Annotated[str, Field(min_length=1)] = Field(
        description="what every rank runs, as a shell would split it, e.g. python examples/train/gpt.py --steps 20;"
        " python is the one that runs the lab"
    )
    hosts: HostList = Field(default=["all"], validate_default=True, description="all, or a list in the order of ranks")
    steps: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="steps that the job reports, so that a fault can begin at 50% of it"
    )

    @field_validator("command")
    @classmethod
    def _can_be_split(cls, command: str) -> str:
        if not shlex.split(command):
            raise ValueError("the command has no words")
        return command


class Programs(TrafficBase):
    """Programs of other people on lib_mrc.so: `programs`, each started when the one before is ready, of which the first
    receives; or the `ranks` of a job, such as training, which start together."""

    kind: Literal["program"]
    programs: list[ProgramSpec] = Field(default=[], description="programs, in the order of their start")
    ranks: RanksSpec | None = Field(default=None, description="one job with a rank on every host")
    files: list[str] = Field(
        default=[], description="patterns of what they leave in $MRCLAB_FILES, taken into the results, e.g. ['*.csv']"
    )

    @model_validator(mode="after")
    def _own_qps(self) -> "Programs":
        if self.qps is not None or self.paths or self.attributes:
            raise ValueError(f"{self.name} makes its QPs by itself; leave qps, paths and attributes out")
        if bool(self.programs) == (self.ranks is not None):
            raise ValueError(f"{self.name} needs either programs or ranks")
        if len(set(self.places)) < 2 and self.places != ["all"]:
            raise ValueError(f"{self.name} has programs on one host alone; a flow needs two hosts")
        return self

    @property
    def steps(self) -> int | None:
        """Steps that the ranks report, where that is said."""
        return self.ranks.steps if self.ranks is not None else None

    @property
    def places(self) -> list[str]:
        """The host of each program, in their order."""
        return list(self.ranks.hosts) if self.ranks is not None else [one.host for one in self.programs]

    @property
    def commands(self) -> list[ProgramSpec]:
        """Each program with its host."""
        if self.ranks is None:
            return self.programs
        return [ProgramSpec(host=host, command=self.ranks.command) for host in self.ranks.hosts]

    def flows(self, fabric: Fabric, seed: int) -> list[Flow]:
        """From each host to that of the first program; between ranks, from each host to every other."""
        if self.ranks is not None:
            return [Flow(self.name, a, b, None) for a, b in itertools.permutations(self.places, 2)]
        first = self.programs[0].host
        senders = dict.fromkeys(one.host for one in self.programs if one.host != first)
        return [Flow(self.name, source, first, None) for source in senders]

    def workload(self, fabric: Fabric, host: str, qps: int) -> dict[str, Any]:
        """Nothing that an agent does by itself."""
        return {"kind": "program", "commands": [f"{one.host}: {one.command}" for one in self.commands]}

    @property
    def together(self) -> bool:
        """One that fails leaves the others waiting."""
        return True


def outstanding(fabric: Fabric, qps: int, message: int, depth: int | None) -> int:
    """Messages outstanding in one flow: at least two for every QP, never more than receivers take."""
    enough = max(2 * qps, math.ceil(_DEPTH_BDPS * bdp(fabric) / message) + 1)
    return min(IMMEDIATES_PER_QP * qps, depth or enough)


def line_rate(fabric: Fabric) -> float:
    """Payload that a host can send with all its NIC ports, bytes per second."""
    spec = fabric.spec
    return float(spec.planes * spec.link.rate_pps * spec.path_mtu)


def bdp(fabric: Fabric) -> float:
    """Payload that a host has on the longest way and back at that rate, bytes."""
    first, last = fabric.hosts[0].name, fabric.hosts[-1].name
    return line_rate(fabric) * (fabric.base_rtt(first, last) if first != last else 0.0)


def chunk_sizes(size: int, count: int) -> list[int]:
    """A buffer in `count` chunks that differ by one byte at most."""
    return [(size * (i + 1)) // count - (size * i) // count for i in range(count)]


def all_flows(traffic: Sequence[TrafficBase], fabric: Fabric, seed: int) -> list[Flow]:
    """The flows of several traffics."""
    return [flow for entry in traffic for flow in entry.flows(fabric, seed)]
