"""Transfers of one seed: between which hosts, which messages, on which QPs. Pure: all draws come from the seed."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Any, Final

from mrclab.topo.config.transport import Kind
from mrclab.topo.model import Fabric

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
