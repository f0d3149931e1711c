"""Plan of one seed: a fabric, transfers between its hosts, and their faults. Pure: the seed decides everything.

All faults are over at `SoakPlan.calm_at`; until then they may hit any cable, switch or host, and all paths at once.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from mrclab.controller import nodefiles
from mrclab.experiments.soak.faults import SoakFault, draw_fault
from mrclab.experiments.soak.flows import SoakFlow, draw_flow
from mrclab.topo.config.transport import Kind
from mrclab.topo.model import Fabric
from mrclab.topo.spec import FabricSpec, LinkSpec, QueueSpec

_LINKS = (
    *(LinkSpec(rate_pps=20_000, delay=delay) for delay in (0.0, 1e-5, 1e-3)),
    *(LinkSpec(rate_pps=1000, delay=delay) for delay in (1e-3, 8e-3)),
    LinkSpec(rate_pps=200, delay=8e-3),
    # A packet takes longer than a round trip: probes of several QPs meet in one queue.
    *(LinkSpec(rate_pps=200, delay=delay) for delay in (0.0, 1e-3)),
    LinkSpec(rate_pps=1000, delay=1e-5),
    *(
        LinkSpec.model_validate({"rate": rate, "delay": 6e-7})
        for rate in ("10 Gb/s", "25 Gb/s", "100 Gb/s", "800 Gb/s")
    ),
    LinkSpec.model_validate({"rate": "100 Gb/s", "delay": 0.0}),
    LinkSpec.model_validate({"rate": "400 Gb/s", "delay": 2e-8}),
    LinkSpec.model_validate({"rate": "50 Mb/s", "delay": 1e-3}),
)
_FAULT_RTTS = 60  # round trips in which faults occur


@dataclass(frozen=True)
class SoakPlan:
    """Fabric, transport, writes and faults of one seed."""

    seed: int
    transport: Kind
    fabric: Fabric
    wire_format: bool
    flows: tuple[SoakFlow, ...]
    faults: tuple[SoakFault, ...]
    restarts: tuple[tuple[float, str], ...]  # (seconds, host): a process that ends, and another in its place
    after: tuple[SoakFlow, ...]  # of hosts that were restarted, begun after each restart
    rtt: float
    calm_at: float
    slow: tuple[tuple[str, float], ...] = ()  # cables longer than configured, and by how many seconds
    ev_profile: dict[str, Any] = field(default_factory=dict)  # fields of the default EV profile
    notice: float = 0.0  # seconds until peers are notified that a host was restarted
    idle: float = 0.0  # seconds without work before the last writes


def draw(seed: int) -> SoakPlan:
    """The plan of a seed."""
    rng = random.Random(f"soak/{seed}")
    transport: Kind = "roce" if rng.random() < 0.15 else "mrc"
    fabric = _fabric(rng)
    rtt = nodefiles.longest_rtt(fabric) + 4 / fabric.spec.link.rate_pps
    calm = _FAULT_RTTS * rtt
    hosts = [host.name for host in fabric.hosts]
    flows = tuple(draw_flow(rng, fabric, calm, transport) for _ in range(rng.choice((1, 1, 2, 3, 5))))
    faults = tuple(draw_fault(rng, fabric, calm) for _ in range(rng.choice((0, 1, 2, 3, 5, 8))))
    restarts: tuple[tuple[float, str], ...] = ()
    after: tuple[SoakFlow, ...] = ()
    if rng.random() < 0.2:
        times = sorted(rng.random() * calm for _ in range(rng.choice((1, 1, 3))))
        name = rng.choice(hosts)
        restarts = tuple((at, name) for at in times)
        other = rng.choice([host for host in hosts if host != name])
        ends = rng.choice(((name, other), (other, name)))
        after = (draw_flow(rng, fabric, calm, transport, ends),)
    return SoakPlan(
        seed, transport, fabric, rng.random() < 0.1, flows, faults, restarts, after, rtt, calm,
        slow=_slow(rng, fabric),
        ev_profile=_ev_profile(rng) if transport == "mrc" else {},
        notice=rng.choice((0.0, 0.0, rng.random() * 20 * rtt)),
        idle=rng.choice((0.0, 0.0, 20.0, 20_000.0)),
    )  # fmt: skip


def _slow(rng: random.Random, fabric: Fabric) -> tuple[tuple[str, float], ...]:
    """Draw cables that are longer than configured."""
    if rng.random() < 0.8:
        return ()
    most = 0.3 * nodefiles.longest_rtt(fabric)
    return tuple((link.name, rng.random() * most) for link in rng.sample(fabric.links, min(3, len(fabric.links))))


def _ev_profile(rng: random.Random) -> dict[str, Any]:
    """Draw an EV profile: mostly all paths; else few EVs, so that backups and ev_min_active have an effect."""
    if rng.random() < 0.7:
        return {}
    active = rng.choice((1, 2))
    return {"active_per_plane": active, "backup_per_plane": rng.choice((0, 1, 2)), "ev_min_active": 1}


def _fabric(rng: random.Random) -> Fabric:
    t0s = rng.choice((1, 2, 2, 3))
    queue = QueueSpec()
    if rng.random() < 0.3:
        queue = QueueSpec(depth=8, ecn_min=1, ecn_max=3, trim_threshold=4, last_hop_trim_threshold=5, control_depth=16)
    return Fabric(
        FabricSpec(
            planes=rng.choice((1, 2, 2, 4, 8)),
            t0s=t0s,
            t1s=rng.choice((1, 2, 2, 4)),
            hosts_per_t0=rng.choice((2, 3)) if t0s == 1 else rng.choice((1, 2)),
            path_mtu=rng.choice((256, 1024, 4096)),
            link=rng.choice(_LINKS),
            queue=queue,
            trimming=rng.random() < 0.6,
            last_hop_ecn=rng.random() < 0.3,
        )
    )
