"""REPS, Recycled Entropy Packet Spraying: EVs whose packets came back without a mark are used again.

Bonato et al., "REPS: Recycled Entropy Packet Spraying for Adaptive Load Balancing and Failure Mitigation"
(arXiv:2407.21625). A ring of some entries holds the EVs of the latest unmarked ACKs; a packet takes the oldest valid
entry, or a random EV if there is none. After a loss REPS freezes: it stops exploring and cycles through the ring,
valid or not, until the freeze ends. Here each plane has a ring, since the load is balanced across planes anyway.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from mrclab.hosts.mrc.evs.selections import PathSelection
from mrclab.hosts.mrc.evs.selections.oblivious import drawn
from mrclab.topo.config.algorithms import PATH_SELECTIONS
from mrclab.topo.config.registry import Setting

if TYPE_CHECKING:
    from mrclab.hosts.mrc.evs.ev import Ev


class _Ring:
    """Latest EVs with unmarked ACKs, oldest overwritten first."""

    __slots__ = ("evs", "head", "turn", "valid")

    def __init__(self) -> None:
        self.evs: list[Ev] = []
        self.valid: list[bool] = []
        self.head = 0  # where the next entry goes
        self.turn = 0  # next entry while frozen


class Reps(PathSelection):
    """REPS: the EVs of unmarked ACKs again, oldest first; else a random one."""

    name: ClassVar[str] = "reps"
    uses_skip: ClassVar[bool] = False
    settings: ClassVar[Mapping[str, Setting]] = {
        "cache": Setting("entries of the ring of each plane", 1, 4096),
        "freeze_rtts": Setting("base RTTs without exploration after a loss; 0: never frozen", 0.0, 1e6),
    }

    def __init__(self, rng: random.Random, cache: float = 8, freeze_rtts: float = 10.0) -> None:
        self._rng = rng
        self._cache = int(cache)
        self._freeze_rtts = freeze_rtts
        self._rings: dict[int, _Ring] = {}
        self._frozen_until = float("-inf")

    def choose(self, active: list[Ev], avoid: Ev | None, now: float) -> Ev:
        """Return the oldest valid entry; while frozen, the next entry of any kind."""
        ring = self._rings.get(active[0].plane)
        if ring is not None:
            frozen = self._frozen_until > float("-inf") and now < self._frozen_until
            for _ in range(len(ring.evs)):
                ev = self._reused(ring) if frozen else self._recycled(ring)
                if ev is None:
                    break
                if ev.active and ev is not avoid:
                    return ev
        return drawn(self._rng, active, avoid)

    def _recycled(self, ring: _Ring) -> Ev | None:
        """Remove and return the oldest valid entry; None if there is none."""
        size = len(ring.evs)
        for step in range(size):
            at = (ring.head + step) % size
            if ring.valid[at]:
                ring.valid[at] = False
                return ring.evs[at]
        return None

    def _reused(self, ring: _Ring) -> Ev | None:
        at = ring.turn % len(ring.evs)
        ring.turn = at + 1
        ring.valid[at] = False
        return ring.evs[at]

    def on_ack(self, ev: Ev) -> None:
        """Store the EV in place of the oldest entry."""
        ring = self._rings.get(ev.plane)
        if ring is None:
            ring = self._rings[ev.plane] = _Ring()
        if len(ring.evs) < self._cache:
            ring.evs.append(ev)
            ring.valid.append(True)
            ring.head = len(ring.evs) % self._cache
            return
        ring.evs[ring.head] = ev
        ring.valid[ring.head] = True
        ring.head = (ring.head + 1) % self._cache

    def on_mark(self, ev: Ev) -> None:
        """Invalidate the latest entry of this EV: its packet was acknowledged, and marked."""
        ring = self._rings.get(ev.plane)
        if ring is None:
            return
        size = len(ring.evs)
        for step in range(1, size + 1):
            at = (ring.head - step) % size
            if ring.valid[at] and ring.evs[at] is ev:
                ring.valid[at] = False
                return

    def on_loss(self, ev: Ev, now: float) -> None:
        """Enter freezing mode: for some round trips even invalid entries of the ring are reused."""
        if self._freeze_rtts:
            self._frozen_until = now + self._freeze_rtts * self.base_rtt


PATH_SELECTIONS.register(Reps)
