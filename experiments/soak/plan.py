"""Plan of one seed: a fabric, transfers between its hosts, and their faults. Pure: the seed decides everything.

All faults are over at `SoakPlan.calm_at`; until then they may hit any cable, switch or host, and all paths at once.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from mrclab.controller import nodefiles
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
NEVER: Final = math.inf
_LARGEST: Final = 16 << 20  # bytes of a message
_MAX_PACKETS: Final = 600  # of one flow, except the few with a message of any size
_MAX_EVS: Final = 24  # of an explicit profile
_NARROW: Final = 200  # packets/s of links that the probes of more than a few EVs would fill
Message = tuple[int, bool]  # bytes, and True for one with an immediate


@dataclass(frozen=True)
class SoakFlow:
    """Writes on QPs of their own, posted at `start` seconds.

    `back` are written the other way on the same QPs. `receives` are the seconds after `start` at which the receives of
    immediates are posted: those of `messages` and then those of `back`; the last one may be NEVER.
    """

    source: str
    destination: str
    start: float
    messages: tuple[Message, ...]
    attributes: dict[str, Any]
    back: tuple[Message, ...] = ()
    receives: tuple[float, ...] = ()
    qps: int = 1  # of the same pair, each with all of this
    profile: tuple[tuple[int, int], ...] = ()  # (plane, uplink) of each EV of an explicit profile, in its order
    ends: float = NEVER  # QPs are destroyed then, and others begin with all of this
    notice_delay: float = 0.0  # seconds until the other end is notified

    @property
    def fails(self) -> bool:
        """True if a receive is never posted, so that the QP must give up."""
        return NEVER in self.receives


@dataclass(frozen=True)
class SoakFault:
    """Fault from `at` to `until`, seconds. Kinds have the names of `mrclab.lab.faults`; `fields` depend on the kind."""

    kind: str
    at: float
    until: float
    fields: dict[str, Any]


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


# --- flows ------------------------------------------------------------------------------------------------------------


def draw_flow(
    rng: random.Random, fabric: Fabric, calm: float, transport: Kind, pair: tuple[str, str] | None = None
) -> SoakFlow:
    """Draw a flow that begins before `calm`, seconds; `pair` are its hosts, drawn where None."""
    hosts = [host.name for host in fabric.hosts]
    source, destination = pair or tuple(rng.sample(hosts, 2))
    messages = _messages(rng, fabric.spec.path_mtu)
    back = _messages(rng, fabric.spec.path_mtu) if rng.random() < 0.25 else ()
    attributes = _attributes(rng) if transport == "mrc" else {}
    immediates = sum(imm for _, imm in (*messages, *back))
    receives = _receives(rng, immediates, calm)
    if immediates and transport == "mrc" and rng.random() < 0.06:
        receives = (*receives[:-1], NEVER)
        attributes |= {"retry_linear": 2, "retry_exponential": 1}
    start = rng.choice((0.0, rng.random() * calm))
    qps = rng.choice((1, 1, 1, 1, 2, 4))
    if fabric.spec.link.rate_pps <= _NARROW or any(size == _LARGEST for size, _ in messages):
        qps = 1
    leaves = start + rng.random() * calm if rng.random() < 0.12 else NEVER
    return SoakFlow(
        source, destination, start, messages, attributes, back, receives,
        qps=qps,
        profile=_profile(rng, fabric, source, destination) if transport == "mrc" and rng.random() < 0.2 else (),
        ends=leaves,
        notice_delay=rng.choice((0.0, 0.0, rng.random() * calm / 4)),
    )  # fmt: skip


def _messages(rng: random.Random, mtu: int) -> tuple[Message, ...]:
    """Draw messages as applications send them: many small, few large, and sizes around packet boundaries."""
    left = _MAX_PACKETS
    found: list[Message] = []
    for _ in range(rng.choice((1, 1, 2, 4, 8, 24))):
        edge = rng.choice((0, 1, 8, mtu - 1, mtu, mtu + 1, 3 * mtu + 7))
        drawn = round(2 ** rng.uniform(0, math.log2(80 * mtu)))
        size = rng.choice((edge, drawn, drawn))
        if rng.random() < 0.002 and mtu >= 4096:
            size = _LARGEST
        elif size > left * mtu:
            break
        left -= -(-size // mtu)
        found.append((size, rng.random() < 0.3))
    return tuple(found)


def _receives(rng: random.Random, count: int, calm: float) -> tuple[float, ...]:
    """Draw when receives are posted: mostly at the start, else each at a time of its own, in order."""
    if rng.random() < 0.75:
        return (0.0,) * count
    return tuple(sorted(rng.random() * calm for _ in range(count)))


def _attributes(rng: random.Random) -> dict[str, Any]:
    attributes: dict[str, Any] = {
        "mpr": rng.choice((1, 1, 2, 16)),
        "cc_profile": rng.choice(("none", "uet-1.0-nscc", "uet-1.0-nscc")),
        "timestamps": rng.random() < 0.8,
        "dynamic_mpr": rng.random() < 0.3,
        "same_ev_rule": rng.random() < 0.8,
        "share_path_failures": rng.random() < 0.3,
    }
    if rng.random() < 0.15:
        attributes["always_skip_after"] = rng.choice((2, 8))
    return attributes


def _profile(rng: random.Random, fabric: Fabric, source: str, destination: str) -> tuple[tuple[int, int], ...]:
    """Draw paths between two hosts in any order: some of them, some twice."""
    paths = list(fabric.paths(source, destination))
    most = 3 if fabric.spec.link.rate_pps <= _NARROW else _MAX_EVS
    return tuple(rng.choices(paths, k=rng.randint(1, most)))


# --- faults -----------------------------------------------------------------------------------------------------------


def draw_fault(rng: random.Random, fabric: Fabric, calm: float) -> SoakFault:
    """A fault that is over by `calm`, seconds."""
    kind = rng.choice(tuple(_FIELDS))
    at, until = sorted(rng.random() * calm for _ in range(2))
    return SoakFault(kind, at, until, _FIELDS[kind](rng, fabric))


Fields = dict[str, Any]


def _place(rng: random.Random, fabric: Fabric) -> Fields:
    """Draw a cable and a direction."""
    return {"link": rng.choice(fabric.links).name, "direction": rng.choice(("both", "up", "down"))}


def _link_down(rng: random.Random, fabric: Fabric) -> Fields:
    count = rng.choice((1, 1, 2, len(fabric.links)))
    return {"links": [link.name for link in rng.sample(fabric.links, min(count, len(fabric.links)))]}


def _ev_loss(rng: random.Random, fabric: Fabric) -> Fields:
    """All packets of one path (plane, uplink) are lost on one cable."""
    plane = rng.randint(1, fabric.planes)
    return {**_place(rng, fabric), "path": (plane, rng.randint(0, fabric.most_paths))}


def _impair(rng: random.Random, fabric: Fabric) -> Fields:
    """Delays of up to several round trips, reordering, duplicates and losses."""
    wait = rng.choice((0.2, 1.0, 5.0)) * max(nodefiles.longest_rtt(fabric), 2 / fabric.spec.link.rate_pps)
    return {
        **_place(rng, fabric),
        "delay": wait,
        "jitter": rng.choice((0.0, wait)),
        "ordered": rng.random() < 0.4,
        "reorder": rng.choice((0.0, 0.3)),
        "duplicate": rng.choice((0.0, 0.2, 1.0)),
        "loss": rng.choice((0.0, 0.1)),
    }


def _swap_cables(rng: random.Random, fabric: Fabric) -> Fields:
    one = rng.choice(fabric.links)
    others = [link.name for link in fabric.links if link.kind == one.kind and link is not one]
    return {"links": [one.name, rng.choice(others or [one.name])]}


def _switch(rng: random.Random, fabric: Fabric) -> Fields:
    return {"switch": rng.choice(fabric.switches).name}


def _wrong_entry(rng: random.Random, fabric: Fabric) -> Fields:
    switch = rng.choice(fabric.switches)
    ports = range(1, len(switch.ports) + 1)
    return {"switch": switch.name, "port": rng.choice(ports), "to": rng.choice((0, rng.choice(ports)))}


def _background(rng: random.Random, fabric: Fabric) -> Fields:
    source, destination = rng.sample([host.name for host in fabric.hosts], 2)
    path = rng.choice(fabric.paths(source, destination))
    rate = rng.choice((0.3, 1.5)) * fabric.spec.link.rate_pps
    return {"source": source, "destination": destination, "path": path, "rate_pps": rate}


_FIELDS: dict[str, Callable[[random.Random, Fabric], Fields]] = {  # by kind; a seed draws in the order of its fields
    "link_down": _link_down,
    "flap": lambda rng, fabric: {
        "links": [rng.choice(fabric.links).name for _ in range(rng.randint(1, 4))],
        "edges": rng.choice((3, 10, 40)),
    },
    "loss": lambda rng, fabric: {
        "rate": rng.choice((0.01, 0.1, 0.5, 1.0)),
        **_place(rng, fabric),
        "least": rng.choice((0, 0, 300)),
    },
    "corrupt": lambda rng, fabric: {
        "offset": rng.choice((rng.randrange(140), rng.randrange(400))),
        **_place(rng, fabric),
        "rate": rng.choice((0.05, 0.5)),
    },
    "rate_limit": lambda rng, fabric: {
        "rate_pps": max(1, round(rng.choice((0.05, 0.5)) * fabric.spec.link.rate_pps)),
        **_place(rng, fabric),
    },
    "ev_loss": _ev_loss,
    "impair": _impair,
    "swap_cables": _swap_cables,
    "switch_crash": _switch,
    "switch_freeze": _switch,
    "wrong_entry": _wrong_entry,
    "background": _background,
    "deny": lambda rng, fabric: {"what": rng.choice([*(link.name for link in fabric.links), *fabric.switch_names])},
    "port_admin": lambda rng, fabric: {
        "host": rng.choice(fabric.hosts).name,
        "port": rng.randint(1, fabric.planes),
    },
}
