"""Slowdown of flows: completion time over that of the same flow on an idle fabric.

The idle time is the payload at the line rate of all NIC ports, and the base RTT of the pair beyond a full packet's
own. Histories name a flow's ends in its name, `NAME/h1>h3`, with `#N` behind it where two hosts have several.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from mrclab.lab.measure.series import quantile
from mrclab.lab.measure.traffic.completions import CompletedWork
from mrclab.topo.model import Fabric

EDGES = (10_000, 100_000, 1_000_000, 10_000_000)
"""Bytes at which a table begins another row."""

SHARES = (0.5, 0.99, 0.999)


@dataclass(frozen=True)
class SizeRow:
    """Flows of `least` bytes or more, and less than `most` (None: any); seconds and slowdowns at p50, p99, p99.9."""

    least: int
    most: int | None
    count: int
    seconds: tuple[float, ...]
    slowdowns: tuple[float, ...]


def of(fabric: Fabric, flow: CompletedWork) -> float:
    """Return a flow's slowdown; 1 is as fast as it goes."""
    return flow.seconds / idle(fabric, flow)


def idle_of(fabric: Fabric, source: str, destination: str, size: int) -> float:
    """Seconds that so many bytes take from one host to another on an idle fabric."""
    return idle(fabric, CompletedWork("", f"{source}>{destination}", 0.0, 0.0, size))


def idle(fabric: Fabric, flow: CompletedWork) -> float:
    """Seconds that a flow of its size and ends takes on an idle fabric."""
    spec = fabric.spec
    rate = spec.line_pps * spec.path_mtu
    source, _, rest = flow.flow.rpartition("/")[2].partition(">")
    destination = rest.partition("#")[0]
    known = fabric.has_host(source) and fabric.has_host(destination)
    links = 2 if known and fabric.group(source) == fabric.group(destination) else spec.longest
    rtt = spec.base_rtt(links)
    if spec.link.rate is not None:  # the base RTT is that of a full packet
        rtt -= spec.byte_time(links) * max(0, spec.path_mtu - flow.size)
    return rtt + max(0.0, (flow.size - spec.path_mtu * spec.planes) / rate)


def table(fabric: Fabric, flows: Iterable[CompletedWork]) -> list[SizeRow]:
    """Rows by size, and one of all flows at the end; sizes that no flow has have none."""
    every = sorted(flows, key=lambda flow: flow.size)
    rows = []
    for least, most in zip((0, *EDGES), (*EDGES, None), strict=True):
        some = [flow for flow in every if flow.size >= least and (most is None or flow.size < most)]
        if some:
            rows.append(_row(fabric, some, least, most))
    return [*rows, _row(fabric, every, 0, None)] if len(rows) != 1 else rows


def _row(fabric: Fabric, flows: list[CompletedWork], least: int, most: int | None) -> SizeRow:
    seconds, slow = [flow.seconds for flow in flows], [of(fabric, flow) for flow in flows]
    return SizeRow(
        least, most, len(flows), *(tuple(quantile(values, share) for share in SHARES) for values in (seconds, slow))
    )
