"""EVs of one QP in one plane: those in rotation, the backups, and those that are drawn later."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Protocol, TypeVar

from mrclab.hosts.mrc.evs.ev import Ev
from mrclab.hosts.mrc.evs.states import EvState

T = TypeVar("T")


class EvFactory(Protocol):
    """Lazily created EVs of one plane."""

    plane: int
    left: int  # that are not created yet

    def make(self) -> Ev:
        """Return the next of them."""


class Plane:
    """EVs of one plane: the active ones in rotation, the others waiting or retired.

    EVs left in `factory` count as created: first they fill the rotation, then they are backups.
    """

    __slots__ = ("active", "at", "down_at", "evs", "factory", "number", "share", "skipped", "step", "target", "up")

    def __init__(self, number: int, evs: list[Ev], target: int, factory: EvFactory | None = None) -> None:
        self.factory = factory
        self.number = number
        self.evs = evs
        self.target = target  # active EVs without failures
        self.active: list[Ev] = []
        self.at = 0  # next in rotation
        self.skipped = 0  # EVs in SKIP
        self.share = 0  # data packets sent, kept equal across planes
        self.step = 1  # increment per packet: larger in slower planes
        self.up = True
        self.down_at = 0.0

    @property
    def unmade(self) -> int:
        """Active EVs that are not made yet."""
        return 0 if self.factory is None else min(self.factory.left, max(0, self.target - len(self.active)))

    @property
    def usable(self) -> bool:
        """True if this plane can send a packet."""
        return self.up and bool(self.active)

    def backup(self) -> Ev | None:
        """Return a GOOD EV that is not in rotation: the one whose last mark is oldest."""
        waiting = [ev for ev in self.evs if not ev.active and ev.state is EvState.GOOD]
        return min(waiting, key=lambda ev: ev.skip_until) if waiting else None


def pick(items: Sequence[T], rng: random.Random) -> T:
    """Return what `rng.choice` does, without its two Python calls."""
    count = len(items)
    bits, draw = count.bit_length(), rng.getrandbits
    place: int = draw(bits)
    while place >= count > 0:  # of nothing, as there: IndexError
        place = draw(bits)
    return items[place]


def shuffle(evs: list[T], rng: random.Random) -> None:
    """Shuffle as `rng.shuffle` does, draw by draw, without its three Python calls for each."""
    draw = rng.getrandbits
    for at in range(len(evs) - 1, 0, -1):
        bits = (at + 1).bit_length()
        other: int = draw(bits)
        while other > at:
            other = draw(bits)
        evs[at], evs[other] = evs[other], evs[at]
