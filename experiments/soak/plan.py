"""Plan of one seed: a fabric, transfers between its hosts, and their faults. Pure: the seed decides everything.

Everything that breaks is whole again at `SoakPlan.calm_at`; until then anything may happen to any cable, switch or
host, all paths at once included.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mrclab.controller import nodefiles
from mrclab.topo.model import Fabric
from mrclab.topo.spec import FabricSpec, LinkSpec, QueueSpec
from mrclab.topo.transport import Kind

_LINKS = (
    *(LinkSpec(rate_pps=20_000, delay=delay) for delay in (0.0, 1e-5, 1e-3)),
    *(LinkSpec(rate_pps=1000, delay=delay) for delay in (1e-3, 8e-3)),
    LinkSpec(rate_pps=200, delay=8e-3),
    # A packet takes longer than a round trip: probes of several QPs meet in one queue.
    *(LinkSpec(rate_pps=200, delay=delay) for delay in (0.0, 1e-3)),
    LinkSpec(rate_pps=1000, delay=1e-5),
    *(LinkSpec.model_validate({"rate": rate, "delay": 6e-7}) for rate in ("25 Gb/s", "100 Gb/s", "800 Gb/s")),
)
_FAULT_RTTS = 60  # how long things break, in round trips


@dataclass(frozen=True)
class SoakFlow:
    """Writes on one QP. `messages` are (bytes, with an immediate), posted at `start` seconds."""

    source: str
    destination: str
    start: float
    messages: tuple[tuple[int, bool], ...]
    attributes: dict[str, Any]

    @property
    def size(self) -> int:
        """Bytes of all messages."""
        return sum(size for size, _ in self.messages)


@dataclass(frozen=True)
class Blow:
    """Something breaks at `at` and is whole again at `until`, seconds. `fields` are what its kind takes."""

    kind: str
    at: float
    until: float
    fields: dict[str, Any]


@dataclass(frozen=True)
class SoakPlan:
    """All of one seed."""

    seed: int
    transport: Kind
    fabric: Fabric
    wire_format: bool
    flows: tuple[SoakFlow, ...]
    blows: tuple[Blow, ...]
    restarts: tuple[tuple[float, str], ...]  # (seconds, host): a process that ends, and another in its place
    after: tuple[SoakFlow, ...]  # of hosts that were restarted, begun anew
    rtt: float
    calm_at: float


def draw(seed: int) -> SoakPlan:
    """The plan of a seed."""
    rng = random.Random(f"soak/{seed}")
    transport: Kind = "roce" if rng.random() < 0.15 else "mrc"
    fabric = _fabric(rng)
    rtt = nodefiles.longest_rtt(fabric) + 4 / fabric.spec.link.rate_pps
    calm = _FAULT_RTTS * rtt
    hosts = [host.name for host in fabric.hosts]
    flows = tuple(_flow(rng, fabric, hosts, calm, transport) for _ in range(rng.choice((1, 1, 2, 3, 5))))
    blows = tuple(_blow(rng, fabric, calm) for _ in range(rng.choice((0, 1, 2, 3, 5, 8))))
    restarts: tuple[tuple[float, str], ...] = ()
    after: tuple[SoakFlow, ...] = ()
    if rng.random() < 0.15:
        restarts = ((rng.random() * calm, rng.choice(hosts)),)
        name = restarts[0][1]
        other = rng.choice([host for host in hosts if host != name])
        ends = rng.choice(((name, other), (other, name)))
        after = (_flow(rng, fabric, list(ends), calm, transport, ends),)
    return SoakPlan(seed, transport, fabric, rng.random() < 0.1, flows, blows, restarts, after, rtt, calm)


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


def _flow(
    rng: random.Random,
    fabric: Fabric,
    hosts: list[str],
    calm: float,
    transport: Kind,
    ends: tuple[str, str] | None = None,
) -> SoakFlow:
    source, destination = ends or tuple(rng.sample(hosts, 2))
    mtu = fabric.spec.path_mtu
    sizes = (0, 1, mtu - 1, mtu, 3 * mtu + 7, 20 * mtu, 80 * mtu)
    messages = tuple((rng.choice(sizes), rng.random() < 0.3) for _ in range(rng.randint(1, 6)))
    attributes: dict[str, Any] = {}
    if transport == "mrc":
        attributes = {
            "mpr": rng.choice((1, 1, 2, 16)),
            "cc_profile": rng.choice(("none", "uet-1.0-nscc", "uet-1.0-nscc")),
            "timestamps": rng.random() < 0.8,
            "dynamic_mpr": rng.random() < 0.3,
            "same_ev_rule": rng.random() < 0.8,
        }
    return SoakFlow(source, destination, rng.choice((0.0, rng.random() * calm)), messages, attributes)


# --- what befalls them ----------------------------------------------------------------------------------------------


def _blow(rng: random.Random, fabric: Fabric, calm: float) -> Blow:
    kind = rng.choice(tuple(_FIELDS))
    at, until = sorted(rng.random() * calm for _ in range(2))
    return Blow(kind, at, until, _FIELDS[kind](rng, fabric))


def _link(rng: random.Random, fabric: Fabric) -> str:
    return rng.choice(fabric.links).name


def _way(rng: random.Random) -> str:
    return rng.choice(("both", "up", "down"))


def _cut(rng: random.Random, fabric: Fabric) -> dict[str, Any]:
    count = rng.choice((1, 1, 2, len(fabric.links)))
    return {"links": [link.name for link in rng.sample(fabric.links, min(count, len(fabric.links)))]}


def _storm(rng: random.Random, fabric: Fabric) -> dict[str, Any]:
    return {"links": [_link(rng, fabric) for _ in range(rng.randint(1, 4))], "edges": rng.choice((3, 10, 40))}


def _lose(rng: random.Random, fabric: Fabric) -> dict[str, Any]:
    rate = rng.choice((0.01, 0.1, 0.5, 1.0))
    return {"link": _link(rng, fabric), "direction": _way(rng), "rate": rate, "least": rng.choice((0, 0, 300))}


def _damage(rng: random.Random, fabric: Fabric) -> dict[str, Any]:
    offset = rng.choice((rng.randrange(140), rng.randrange(400)))
    return {"link": _link(rng, fabric), "direction": _way(rng), "rate": rng.choice((0.05, 0.5)), "offset": offset}


def _police(rng: random.Random, fabric: Fabric) -> dict[str, Any]:
    share = rng.choice((0.05, 0.5))
    rate = max(1, round(share * fabric.spec.link.rate_pps))
    return {"link": _link(rng, fabric), "direction": _way(rng), "rate_pps": rate}


def _path(rng: random.Random, fabric: Fabric) -> dict[str, Any]:
    """All of one path (plane, uplink) dies on one cable."""
    plane = rng.randint(1, fabric.planes)
    return {"link": _link(rng, fabric), "direction": _way(rng), "path": (plane, rng.randint(0, fabric.uplinks))}


def _detour(rng: random.Random, fabric: Fabric) -> dict[str, Any]:
    """Waits of up to several round trips, overtaking, twins and losses."""
    wait = rng.choice((0.2, 1.0, 5.0)) * max(nodefiles.longest_rtt(fabric), 2 / fabric.spec.link.rate_pps)
    return {
        "link": _link(rng, fabric),
        "direction": _way(rng),
        "delay": wait,
        "jitter": rng.choice((0.0, wait)),
        "ordered": rng.random() < 0.4,
        "reorder": rng.choice((0.0, 0.3)),
        "duplicate": rng.choice((0.0, 0.2, 1.0)),
        "loss": rng.choice((0.0, 0.1)),
    }


def _swap(rng: random.Random, fabric: Fabric) -> dict[str, Any]:
    one = rng.choice(fabric.links)
    others = [link.name for link in fabric.links if link.kind == one.kind and link is not one]
    return {"links": [one.name, rng.choice(others or [one.name])]}


def _switch(rng: random.Random, fabric: Fabric) -> dict[str, Any]:
    return {"switch": rng.choice(fabric.switches).name}


def _wrong_entry(rng: random.Random, fabric: Fabric) -> dict[str, Any]:
    switch = rng.choice(fabric.switches)
    ports = range(1, len(switch.ports) + 1)
    return {"switch": switch.name, "port": rng.choice(ports), "to": rng.choice((0, rng.choice(ports)))}


def _noise(rng: random.Random, fabric: Fabric) -> dict[str, Any]:
    source, destination = rng.sample([host.name for host in fabric.hosts], 2)
    path = rng.choice(fabric.paths(source, destination))
    rate = rng.choice((0.3, 1.5)) * fabric.spec.link.rate_pps
    return {"source": source, "destination": destination, "path": path, "rate_pps": rate}


def _deny(rng: random.Random, fabric: Fabric) -> dict[str, Any]:
    names = [*(link.name for link in fabric.links), *(switch.name for switch in fabric.switches)]
    return {"what": rng.choice(names)}


def _port_admin(rng: random.Random, fabric: Fabric) -> dict[str, Any]:
    return {"host": rng.choice(fabric.hosts).name, "port": rng.randint(1, fabric.planes)}


_FIELDS: dict[str, Callable[[random.Random, Fabric], dict[str, Any]]] = {
    "cut": _cut,
    "storm": _storm,
    "lose": _lose,
    "damage": _damage,
    "police": _police,
    "path": _path,
    "detour": _detour,
    "swap": _swap,
    "crash": _switch,
    "freeze": _switch,
    "wrong_entry": _wrong_entry,
    "noise": _noise,
    "deny": _deny,
    "port_admin": _port_admin,
}
