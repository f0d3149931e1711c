"""Bitmap: EVs in turn, each left out once per penalty, as in uet-htsim's load balancing of that name."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from mrclab.hosts.mrc.evs.selections.oblivious import RotatingPaths
from mrclab.topo.config.algorithms import PATH_SELECTIONS
from mrclab.topo.config.registry import Setting

if TYPE_CHECKING:
    from mrclab.hosts.mrc.evs.ev import Ev


class Bitmap(RotatingPaths):
    """EVs in turn; a mark or a loss adds penalties, and each penalty leaves the EV out once."""

    name: ClassVar[str] = "bitmap"
    settings: ClassVar[Mapping[str, Setting]] = {
        "mark_penalty": Setting("penalties of a mark", 0, 1000),
        "loss_penalty": Setting("penalties of a loss", 0, 1000),
        "most": Setting("penalties that an EV can have", 0, 1000),
    }

    def __init__(self, rng: random.Random, mark_penalty: float = 1, loss_penalty: float = 4, most: float = 15) -> None:
        super().__init__(rng)
        self._mark, self._loss, self._most = int(mark_penalty), int(loss_penalty), int(most)
        self._penalties: dict[int, int] = {}  # by EV value, where there are any

    def choose(self, active: list[Ev], avoid: Ev | None, now: float) -> Ev:
        """Return the next EV without a penalty; after one round, the next of all."""
        penalties = self._penalties
        ev = super().choose(active, avoid, now)
        for _ in range(len(active)):
            left = penalties.get(ev.value, 0)
            if not left:
                break
            if left == 1:
                del penalties[ev.value]
            else:
                penalties[ev.value] = left - 1
            ev = super().choose(active, avoid, now)
        return ev

    def on_mark(self, ev: Ev) -> None:
        """Add a penalty."""
        self._penalise(ev, self._mark)

    def on_loss(self, ev: Ev, now: float) -> None:
        """Add more penalties."""
        self._penalise(ev, self._loss)

    def _penalise(self, ev: Ev, by: int) -> None:
        found = min(self._most, self._penalties.get(ev.value, 0) + by)
        if found:
            self._penalties[ev.value] = found


PATH_SELECTIONS.register(Bitmap)
