"""Faults of one seed: target, kind and time. Pure: all draws come from the seed."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mrclab.controller import nodefiles
from mrclab.topo.model import Fabric


@dataclass(frozen=True)
class SoakFault:
    """Fault from `at` to `until`, seconds. Kinds have the names of `mrclab.lab.faults`; `fields` depend on the kind."""

    kind: str
    at: float
    until: float
    fields: dict[str, Any]


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
