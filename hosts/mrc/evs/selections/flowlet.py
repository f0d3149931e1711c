"""Flowlets: a QP uses one EV in each plane until it pauses, as LetFlow does (Vanini et al., NSDI 2017)."""

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


class Flowlet(PathSelection):
    """One EV in each plane until the plane was idle for a gap; then a random one."""

    name: ClassVar[str] = "flowlet"
    uses_skip: ClassVar[bool] = False
    settings: ClassVar[Mapping[str, Setting]] = {
        "gap_rtts": Setting("base RTTs without a packet after which another EV is drawn", 0.0, 1e6)
    }

    def __init__(self, rng: random.Random, gap_rtts: float = 0.5) -> None:
        self._rng = rng
        self._gap_rtts = gap_rtts
        self._current: dict[int, tuple[Ev, float]] = {}  # by plane: the EV in use, and the time of its last packet

    def choose(self, active: list[Ev], avoid: Ev | None, now: float) -> Ev:
        """Return the EV in use, or draw a new one after a gap."""
        plane = active[0].plane
        ev, last = self._current.get(plane, (None, 0.0))
        if ev is None or ev is avoid or not ev.active or now - last > self._gap_rtts * self.base_rtt:
            ev = drawn(self._rng, active, avoid)
        self._current[plane] = ev, now
        return ev


PATH_SELECTIONS.register(Flowlet)
