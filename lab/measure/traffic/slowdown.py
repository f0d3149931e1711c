"""Slowdown of flows: completion time over that of the same flow on an idle fabric.

The idle time is the base RTT of the pair, and the payload beyond a full packet of each plane at the rate of all planes;
where they differ, of those that finish it soonest.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from mrclab.lab.measure.series import quantile
from mrclab.lab.measure.traffic.completions import CompletedWork
from mrclab.lab.measure.traffic.flows import ends_of
from mrclab.topo.links import LINK_TIERS
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
    return flow.seconds / idle(fabric, *ends_of(flow.flow), flow.size)


def idle(fabric: Fabric, source: str, destination: str, size: int) -> float:
    """Return the seconds that `size` bytes need from one host to another on an idle fabric."""
    spec = fabric.spec
    known = fabric.has_host(source) and fabric.has_host(destination)
    links = fabric.links_between(source, destination) if known else spec.longest
    first = min(size, spec.path_mtu)
    planes = []  # (seconds until a first packet is acknowledged, bytes per second)
    for plane in range(1, spec.planes + 1) if spec.links else (1,):
        rtt = spec.plane_rtt(links, plane) - spec.plane_byte_time(links, plane) * (spec.path_mtu - first)
        packets = min(spec.tier_pps(tier, plane) for tier in LINK_TIERS[: links // 2])
        planes.append((rtt, packets * spec.path_mtu))
    planes = sorted(planes) if spec.links else planes * spec.planes
    soonest = math.inf
    rates = head_start = 0.0
    for number, (rtt, rate) in enumerate(planes, 1):
        rates += rate
        head_start += rtt * rate
        soonest = min(soonest, max(rtt, (head_start + size - number * first) / rates))
    return soonest


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
