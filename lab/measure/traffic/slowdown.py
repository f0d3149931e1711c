"""Slowdown of flows: completion time over that of the same flow on an idle fabric.

The idle time is the payload at the line rate of all NIC ports, and the base RTT of the pair beyond a full packet's
own. Histories name a flow's ends in its name, `NAME/h1>h3`, with `#N` behind it where two hosts have several.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from mrclab.lab.measure.series import quantile
from mrclab.lab.measure.traffic.completions import CompletedWork
from mrclab.topo.model import Fabric

SIZE_LIMITS = (10_000, 100_000, 1_000_000, 10_000_000)
"""Flow sizes, bytes, at which a table begins another row."""

SHARES = (0.5, 0.99, 0.999)


@dataclass(frozen=True)
class SizeRow:
    """Flows from `min_bytes` to below `max_bytes` (None: no limit); seconds and slowdowns at p50, p99, p99.9."""

    min_bytes: int
    max_bytes: int | None
    count: int
    seconds: tuple[float, ...]
    slowdowns: tuple[float, ...]


def of(fabric: Fabric, flow: CompletedWork) -> float:
    """Return a flow's slowdown; 1 is the completion time on an idle fabric."""
    return flow.seconds / idle(fabric, flow)


def idle_of(fabric: Fabric, source: str, destination: str, size: int) -> float:
    """Return the seconds that `size` bytes need from one host to another on an idle fabric."""
    return idle(fabric, CompletedWork("", f"{source}>{destination}", 0.0, 0.0, size))


def idle(fabric: Fabric, flow: CompletedWork) -> float:
    """Return the seconds that a flow of this size between these hosts needs on an idle fabric."""
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
    for min_bytes, max_bytes in zip((0, *SIZE_LIMITS), (*SIZE_LIMITS, None), strict=True):
        some = [flow for flow in every if flow.size >= min_bytes and (max_bytes is None or flow.size < max_bytes)]
        if some:
            rows.append(_row(fabric, some, min_bytes, max_bytes))
    return [*rows, _row(fabric, every, 0, None)] if len(rows) != 1 else rows


def _row(fabric: Fabric, flows: list[CompletedWork], min_bytes: int, max_bytes: int | None) -> SizeRow:
    seconds, slow = [flow.seconds for flow in flows], [of(fabric, flow) for flow in flows]
    return SizeRow(
        min_bytes,
        max_bytes,
        len(flows),
        *(tuple(quantile(values, share) for share in SHARES) for values in (seconds, slow)),
    )
