"""Base classes and field types that several kinds of traffic share."""

import math
import re
from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, model_validator

from mrclab.lab.scenario.names import HostName, fabric_of, known_host
from mrclab.lab.scenario.units import Duration, LineShare, Size, show_bytes, show_rate, show_seconds
from mrclab.lab.traffic.base import Flow, TrafficBase
from mrclab.topo.model import Fabric

IMMEDIATES_PER_QP = 128  # most outstanding messages, as in node configs
MESSAGE = 64 * 1024  # default bytes of a message
_DEPTH_BDPS = (
    6  # messages complete in order: one lost packet delays up to 4 RTT of data, which must not stop the sender
)


_HOST_RANGE = re.compile(r"([hs])(\d{1,6})\.\.\1(\d{1,6})")
_OF_SERVER = re.compile(r"([sr])(\d{1,6})")
_MAX_NAMED = 131_072  # hosts of a range


def _some_hosts(value: object, info: ValidationInfo) -> object:
    """Take `all` as a list, and h1..h64, s1..s8, s3 and r2 in a list as the names that they stand for.

    s is a server, with all of its NICs, r a rail.
    """
    if value == "all":
        return ["all"]
    if not isinstance(value, list):
        return value
    fabric = fabric_of(info)
    return [name for one in value for name in (_names(one, fabric) if isinstance(one, str) else [one])]


def _names(one: str, fabric: Fabric | None) -> list[str]:
    """Return the names that an item of a list stands for; ValueError where the fabric has not all of them."""
    try:
        if match := _HOST_RANGE.fullmatch(one):
            kind, first, last = match[1], int(match[2]), int(match[3])
            if last - first not in range(_MAX_NAMED):
                raise ValueError(f"{one} is not a range of hosts: write the smaller number first, as in h1..h64")
            if fabric and kind == "h":
                fabric.host(f"h{last}")
            return [name for number in range(first, last + 1) for name in _names(f"{kind}{number}", fabric)]
        if fabric and (match := _OF_SERVER.fullmatch(one)):
            number = int(match[2])
            return fabric.of_server(number) if match[1] == "s" else fabric.of_rail(number)
    except LookupError as error:
        raise ValueError(f"{one}: {error}" if ".." in one else str(error)) from None
    return [one]


def _valid_name(name: str, info: ValidationInfo) -> str:
    return name if name == "all" else known_host(name, info)


def _host_or_all(names: list[str], info: ValidationInfo) -> list[str]:
    fabric = fabric_of(info)
    if fabric and names == ["all"]:
        return list(fabric.host_names)
    if "all" in names and len(names) > 1:
        raise ValueError("all is every host; leave out the others, or all")
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise ValueError(f"{twice} is named twice; name every host once")
    return names


HostList = Annotated[
    list[Annotated[str, AfterValidator(_valid_name)]], BeforeValidator(_some_hosts), AfterValidator(_host_or_all)
]


class PairTraffic(TrafficBase):
    """From one host to another."""

    source: HostName = Field(alias="from")
    destination: HostName = Field(alias="to")

    @model_validator(mode="after")
    def _two_hosts(self) -> "PairTraffic":
        if self.source == self.destination:
            raise ValueError(f"{self.name} goes from {self.source} to itself; name two hosts")
        return self

    def flows(self, fabric: Fabric, seed: int) -> list[Flow]:
        """Return the one flow."""
        return [Flow(self.name, self.source, self.destination, getattr(self, "size", None))]


Content = Annotated[
    Literal["random", "counted"],
    Field(
        description="counted: bytes are counted and not kept, so that a great many flows need no memory for them, and"
        " nothing says whether they arrived intact. Virtual time only"
    ),
]


class BoundedTraffic(TrafficBase):
    """A number of bytes, or a duration."""

    bulk: ClassVar[bool] = True

    size: Annotated[Size, Field(ge=1)] | None = Field(default=None, description="bytes of each flow")
    duration: Annotated[Duration, Field(gt=0)] | None = Field(default=None, description="seconds, in place of a size")
    message: Annotated[Size, Field(ge=1, le=2**30)] = Field(default=MESSAGE, description="bytes of each message")
    depth: Annotated[int, Field(ge=1, le=4096)] | None = Field(
        default=None, description="messages outstanding per flow; default: six bandwidth-delay products"
    )
    rate: LineShare | None = Field(
        default=None, description="of each flow, e.g. 80% of line; default: as fast as it goes"
    )
    content: Content = "random"

    @model_validator(mode="after")
    def _size_or_duration(self) -> "BoundedTraffic":
        if (self.size is None) == (self.duration is None):
            raise ValueError(f"{self.name} needs either a size or a duration, such as duration: 10s")
        return self

    def workload(self, fabric: Fabric, host: str, qps: int) -> dict[str, Any]:
        """Messages by all QPs in turn."""
        bounds = {"size": self.size, "duration": self.duration, "rate": self.rate and self.rate * line_rate(fabric)}
        bounds |= {"counted": True} if self.is_counted else {}
        depth = outstanding(fabric, qps, self.message, self.depth)
        return {"kind": "stream", "message": self.message, "depth": depth, **bounds}

    def text(self, fabric: Fabric, qps: int) -> str:
        """Size or duration, messages and rate."""
        done = BoundedTraffic.workload(self, fabric, "", qps)
        bound = f"for {show_seconds(self.duration)}" if self.duration else show_bytes(self.size or 0)
        rate = f", at {show_rate(done['rate'])}" if done["rate"] else ""
        return f"{bound} in messages of {show_bytes(self.message)}, {done['depth']} outstanding{rate}"


class CollectiveTraffic(TrafficBase):
    """Rounds of all hosts, a number of them or for a time; a host's next begins when its own ended at both ends."""

    iterates: ClassVar[bool] = True

    hosts: HostList = Field(default=["all"], validate_default=True, description="all, or a list in the ring's order")
    size: Annotated[Size, Field(ge=1, le=2**30)]
    iterations: Annotated[int, Field(ge=1, le=100_000)] | None = Field(
        default=None, description="how often; once where neither this nor a duration is given"
    )
    duration: Annotated[Duration, Field(gt=0)] | None = Field(
        default=None, description="in place of iterations: they begin until then, and the last one begun ends"
    )

    @model_validator(mode="after")
    def _enough(self) -> "CollectiveTraffic":
        if len(self.hosts) < 2 and self.hosts != ["all"]:
            raise ValueError(f"{self.name} needs at least two hosts")
        if self.iterations is not None and self.duration is not None:
            raise ValueError(f"{self.name} has both iterations and a duration; leave one of them out")
        return self

    @property
    def together(self) -> bool:
        """True."""
        return True

    @property
    def rounds(self) -> int | None:
        """Number of rounds; None where time ends it."""
        return None if self.duration is not None else self.iterations or 1

    def workload(self, fabric: Fabric, host: str, qps: int) -> dict[str, Any]:
        """Rounds."""
        return {"kind": "rounds", "size": self.size, "iterations": self.rounds, "duration": self.duration}

    def in_all(self, once: int) -> int | None:
        """Bytes of all iterations given those of one; None if time ends them."""
        return None if self.rounds is None else once * self.rounds

    def ring(self) -> Iterator[tuple[str, str]]:
        """Yield every host with its right neighbour."""
        return zip(self.hosts, [*self.hosts[1:], self.hosts[0]], strict=True)

    def text(self, fabric: Fabric, qps: int) -> str:
        """Size, and how often."""
        times = f"for {show_seconds(self.duration)}" if self.duration is not None else "once"
        if (self.rounds or 0) > 1:
            times = f"{self.rounds} times"
        return f"{show_bytes(self.size)} per host, {times}"


def outstanding(fabric: Fabric, qps: int, message: int, depth: int | None) -> int:
    """Return the messages outstanding in one flow: at least two per QP, at most as many as receivers accept."""
    enough = max(2 * qps, math.ceil(_DEPTH_BDPS * bdp(fabric) / message) + 1)
    return min(IMMEDIATES_PER_QP * qps, depth or enough)


def line_rate(fabric: Fabric) -> float:
    """Return the payload that a host can send on all its NIC ports, bytes per second."""
    return float(fabric.spec.line_pps * fabric.spec.path_mtu)


def bdp(fabric: Fabric) -> float:
    """Return the bandwidth-delay product of a host's longest path, bytes of payload."""
    first, last = fabric.hosts[0].name, fabric.hosts[-1].name
    return line_rate(fabric) * (fabric.base_rtt(first, last) if first != last else 0.0)
