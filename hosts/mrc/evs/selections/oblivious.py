"""Oblivious spraying: selections without feedback, random or in turn."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, ClassVar

from mrclab.hosts.mrc.evs.selections import PathSelection
from mrclab.topo.config.algorithms import PATH_SELECTIONS

if TYPE_CHECKING:
    from mrclab.hosts.mrc.evs.ev import Ev


class Oblivious(PathSelection):
    """A random active EV for each packet; marks have no effect."""

    name: ClassVar[str] = "oblivious"
    uses_skip: ClassVar[bool] = False

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def choose(self, active: list[Ev], avoid: Ev | None, now: float) -> Ev:
        """Return a random EV."""
        return drawn(self._rng, active, avoid)


class RotatingPaths(PathSelection):
    """The active EVs in a fixed order; marks have no effect."""

    name: ClassVar[str] = "round_robin"
    uses_skip: ClassVar[bool] = False

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._at: dict[int, int] = {}  # by plane

    def choose(self, active: list[Ev], avoid: Ev | None, now: float) -> Ev:
        """Return the next EV; QPs begin at random places."""
        plane = active[0].plane
        at = self._at.get(plane)
        if at is None:
            at = self._rng.randrange(len(active))
        ev = active[at % len(active)]
        if ev is avoid and len(active) > 1:
            at += 1
            ev = active[at % len(active)]
        self._at[plane] = (at + 1) % len(active)
        return ev


def drawn(rng: random.Random, active: list[Ev], avoid: Ev | None) -> Ev:
    """Return a random EV, other than `avoid` if there is another."""
    count = len(active)
    at = rng.randrange(count)
    if active[at] is avoid and count > 1:
        at = (at + 1 + rng.randrange(count - 1)) % count
    return active[at]


PATH_SELECTIONS.register(Oblivious)
PATH_SELECTIONS.register(RotatingPaths)
