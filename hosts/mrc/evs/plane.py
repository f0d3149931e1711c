"""The EVs of one QP in one plane: those in rotation, the backups, and those that are drawn later."""

from __future__ import annotations

import random
from typing import Protocol, TypeVar

from mrclab.hosts.mrc.evs.ev import Ev
from mrclab.hosts.mrc.evs.states import EvState

T = TypeVar("T")


class Supply(Protocol):
    """EVs of one plane that are drawn and made when they are first needed."""

    plane: int
    left: int  # that can still be made

    def make(self) -> Ev:
        """The next of them."""


class Plane:
    """The EVs of one plane: the active ones in rotation, the others waiting or retired.

    Those that `supply` has left are as good as made: first they fill the rotation, then they are backups.
    """

    __slots__ = ("active", "at", "down_at", "evs", "number", "share", "skipped", "step", "supply", "target", "up")

    def __init__(self, number: int, evs: list[Ev], target: int, supply: Supply | None = None) -> None:
        self.supply = supply
        self.number = number
        self.evs = evs
        self.target = target  # active EVs when all is well
        self.active: list[Ev] = []
        self.at = 0  # next in rotation
        self.skipped = 0  # EVs in SKIP
        self.share = 0  # data packets sent, kept level with the other planes
        self.step = 1  # that each adds to it: more in a plane that is slower than others
        self.up = True
        self.down_at = 0.0

    @property
    def unmade(self) -> int:
        """Active EVs that are not made yet."""
        return 0 if self.supply is None else min(self.supply.left, max(0, self.target - len(self.active)))

    @property
    def usable(self) -> bool:
        """True if a packet may be sent in this plane."""
        return self.up and bool(self.active)

    def backup(self) -> Ev | None:
        """A GOOD EV that is not in rotation: of several the one whose last mark is longest ago."""
        waiting = [ev for ev in self.evs if not ev.active and ev.state is EvState.GOOD]
        return min(waiting, key=lambda ev: ev.skip_until) if waiting else None


def shuffle(evs: list[T], rng: random.Random) -> None:
    """As `rng.shuffle` has it, draw by draw, without Python's three calls for each."""
    for at in range(len(evs) - 1, 0, -1):
        bits = (at + 1).bit_length()
        other = rng.getrandbits(bits)
        while other > at:
            other = rng.getrandbits(bits)
        evs[at], evs[other] = evs[other], evs[at]
