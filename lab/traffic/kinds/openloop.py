"""Traffic of kind `open_loop`: flows of random sizes between random hosts, which do not wait for each other."""

import math
import random
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from mrclab.lab.kinds import WorldName
from mrclab.lab.scenario.units import Percent, show_bytes
from mrclab.lab.traffic.base import TRAFFIC, Flow, TrafficBase
from mrclab.lab.traffic.families import HostList
from mrclab.lab.traffic.flowsizes import FlowSizes, SizesField, published
from mrclab.topo.model import Fabric


@TRAFFIC.register
class OpenLoop(TrafficBase):
    """Poisson arrivals: each flow has a size drawn from a distribution, and QPs of its own while it runs."""

    driver: ClassVar[str] = "mrclab.lab.traffic.running.openloop:RunningOpenLoop"
    worlds: ClassVar[frozenset[WorldName]] = frozenset({"sim"})

    content: ClassVar[str] = "counted"
    keeps_qps: ClassVar[bool] = False
    keeps_messages: ClassVar[bool] = False
    local_fields: ClassVar[frozenset[str]] = frozenset({"file"})

    kind: Literal["open_loop"]
    sizes: Literal["ai", "data_mining", "hadoop", "web_search"] | None = Field(
        default=None, description="a distribution of flow sizes, in place of a file"
    )
    file: SizesField | None = Field(
        default=None, description="another distribution: a file of lines `bytes percent`, from the scenario's folder"
    )
    load: Annotated[Percent, Field(gt=0, le=2)] = Field(
        description="payload that arrives, of what the hosts can send across the fabric, e.g. 60%"
    )
    count: Annotated[int, Field(ge=1, le=100_000_000, alias="flows", description="how many begin")]
    hosts: HostList = Field(default=["all"], validate_default=True, description="all, or a list: senders and receivers")
    cross_group: bool = Field(default=False, description="no flow stays within a T0 group, where that is possible")

    @model_validator(mode="after")
    def _two_hosts(self) -> "OpenLoop":
        if (self.sizes is None) == (self.file is None):
            raise ValueError(f"{self.name} needs either sizes, such as web_search, or a file")
        if len(self.hosts) < 2 and self.hosts != ["all"]:
            raise ValueError(f"{self.name} needs at least two hosts")
        if self.qps not in {None, 1} or self.paths:
            raise ValueError(f"each flow of {self.name} has one QP that draws its paths; leave qps and paths out")
        return self

    def flows(self, fabric: Fabric, seed: int) -> list[Flow]:
        """Return none: no flow exists all the time."""
        return []

    def hosts_in(self, fabric: Fabric, seed: int) -> list[str]:
        """Return all hosts."""
        return list(self.hosts)

    def workload(self, fabric: Fabric, host: str, qps: int) -> dict[str, Any]:
        """Return nothing: the world's driver begins flows."""
        return {"kind": "open_loop"}

    @property
    def distribution(self) -> FlowSizes:
        """Distribution of the flows' sizes."""
        if self.file is not None:
            return self.file.content
        assert self.sizes is not None
        return published(self.sizes)

    def rate(self, fabric: Fabric) -> float:
        """Flows per second of all hosts together."""
        return self.load * capacity(fabric, self.hosts) / self.distribution.mean

    def arrivals(self, fabric: Fabric, seed: int) -> Iterator[tuple[float, str, str, int]]:
        """Yield (seconds after the begin, source, destination, bytes) in order, drawn from the seed."""
        draw = random.Random(f"{seed}/{self.name}/open loop")
        hosts, rate, sizes = self.hosts, self.rate(fabric), self.distribution
        group = [fabric.group(name) for name in hosts] if self.cross_group else []
        if group and len(set(group)) < 2:
            group = []
        at = 0.0
        for _ in range(self.count):
            at += draw.expovariate(rate)
            source = draw.randrange(len(hosts))
            destination = source
            while destination == source or (group and group[source] == group[destination]):
                destination = draw.randrange(len(hosts))
            yield at, hosts[source], hosts[destination], sizes.at(draw.random())

    def text(self, fabric: Fabric, qps: int) -> str:
        """Count, sizes and load."""
        sizes = self.distribution
        mean = show_bytes(round(sizes.mean))
        return f"{self.count:,} flows of {sizes} (mean {mean}) between {len(self.hosts)} hosts at {self.load:.0%}"


def capacity(fabric: Fabric, hosts: Collection[str]) -> float:
    """Return the payload bytes per second that these hosts together can send across the fabric: 100 % load.

    That is what passes the narrowest tier of each plane, of all planes: NIC ports, uplinks of T0s where hosts are of
    several T0 groups, and uplinks of pods where they are of several pods.
    """
    spec, groups = fabric.spec, Counter(map(fabric.group, hosts))
    pods: dict[int, list[int]] = defaultdict(list)
    for group, number in groups.items():
        pods[fabric.shape.pod("t0", group)].append(number)
    packets = 0.0
    for plane in range(1, spec.planes + 1):
        port, above = spec.tier_pps("nic", plane), spec.tier_pps("t0-t1", plane) if len(groups) > 1 else math.inf
        top = spec.tier_pps("t1-t2", plane) if len(pods) > 1 else math.inf
        packets += sum(min(top, sum(min(above, number * port) for number in numbers)) for numbers in pods.values())
    return packets * spec.path_mtu
