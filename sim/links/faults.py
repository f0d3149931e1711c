"""Faults of frames on a simulated cable: counterparts of the nft rules and of the relay, with the same random numbers.

A seeded fault loses the same packets, by number, as on the wire; random numbers that the kernel draws there come from
the world's seed here.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from math import exp
from typing import TYPE_CHECKING, Final

from mrclab.sim.clock import SECOND
from mrclab.sim.frame import of_bytes
from mrclab.topo import srv6
from mrclab.topo.cables.cablefaults import (
    Action,
    Corrupt,
    LoadLoss,
    Loss,
    LossCycle,
    Match,
    RateLimit,
    SeededLoss,
)
from mrclab.topo.cables.impairment import Impairer

if TYPE_CHECKING:
    from mrclab.sim.clock import Clock
    from mrclab.sim.frame import SimFrame
    from mrclab.sim.links.cable import HalfLink

_ETHERNET: Final = 14
_PATH_MASK: Final = srv6.ev(srv6.MAX_PLANE, srv6.MAX_INDEX, 0)


Decider = Callable[[int], bool]
"""Decision for each packet that matches, by its number from 0 since the start of the fault; called in order."""


class _Matches:
    """Predicate of a Match on frames. Lengths are those of the IP packet, as the kernel counts them."""

    __slots__ = ("_evs", "_length", "_paths", "_usids", "always")

    def __init__(self, match: Match) -> None:
        self._length = match.min_length
        self._usids = frozenset(match.usids)
        self._evs = frozenset(match.evs)
        self._paths = frozenset(srv6.ev(plane, uplink, 0) for plane, uplink in match.paths)
        self.always = not (match.min_length or match.usids or match.evs or match.paths)

    def __call__(self, frame: SimFrame) -> bool:
        if frame.size - _ETHERNET < self._length:
            return False
        if self._usids and (frame.usids is None or self._usids.isdisjoint(frame.usids[frame.at :])):
            return False
        if self._evs or self._paths:
            return frame.usids is not None and (frame.ev in self._evs or frame.ev & _PATH_MASK in self._paths)
        return True


class FrameFault:
    """A fault that drops or corrupts frames of a half-link; `seen` counts frames that matched, `hit` the dropped."""

    __slots__ = ("_clock", "_decide", "_matches", "hit", "seen")

    def __init__(self, clock: Clock, match: Match, action: Action, seed: str) -> None:
        self._clock = clock
        self._matches = _Matches(match)
        self._decide = decider(action, seed, clock)
        self.seen = self.hit = 0

    def on_frame(self, frame: SimFrame, half_link: HalfLink) -> SimFrame | None:
        """Return the frame, or None if it is lost."""
        if not (self._matches.always or self._matches(frame)):
            return frame
        number = self.seen
        self.seen = number + 1
        if not self._decide(number):
            return frame
        self.hit += 1
        return self.apply(frame)

    def apply(self, frame: SimFrame) -> SimFrame | None:
        """Drop a frame that is hit."""
        return None


class Corrupting(FrameFault):
    """A fault that flips bits of one byte."""

    __slots__ = ("_at", "_flip")

    def __init__(self, clock: Clock, match: Match, action: Corrupt, seed: str) -> None:
        super().__init__(clock, match, action, seed)
        self._at, self._flip = _ETHERNET + action.offset, action.flip

    def apply(self, frame: SimFrame) -> SimFrame | None:
        """Return the frame with its bits flipped; one that is too short for that byte stays as it is."""
        data = bytearray(frame.to_bytes())  # without telemetry, which has no bytes
        if self._at >= len(data):
            return frame
        data[self._at] ^= self._flip
        return of_bytes(bytes(data))


class LoadedLoss(FrameFault):
    """A fault that loses frames at random, with a rate that grows with the load of the link."""

    __slots__ = ("_above", "_bits", "_draw", "_full", "_last", "_rate", "_window")

    def __init__(self, clock: Clock, match: Match, action: LoadLoss) -> None:
        super().__init__(clock, match, action, action.seed)
        self._draw = random.Random(action.seed)
        self._rate, self._above = action.rate, action.above
        self._window = action.window * SECOND
        self._full = action.bits_per_second * action.window
        self._bits = 0.0  # in the window, exponentially weighted
        self._last = clock.now

    def on_frame(self, frame: SimFrame, half_link: HalfLink) -> SimFrame | None:
        """Lose the frame with a probability that grows with the current load."""
        now = self._clock.now
        elapsed: int = now - self._last
        self._bits = self._bits * exp(-elapsed / self._window) + 8 * frame.size
        self._last = now
        self.seen += 1
        over = (min(1.0, self._bits / self._full) - self._above) / (1 - self._above)
        if over <= 0 or self._draw.random() >= self._rate * over:
            return frame
        self.hit += 1
        return None


def injected(clock: Clock, match: Match, action: Action, seed: str) -> FrameFault:
    """Make the fault of one half-link; `seed` replaces the kernel's random numbers."""
    if isinstance(action, Corrupt):
        return Corrupting(clock, match, action, seed)
    if isinstance(action, LoadLoss):
        return LoadedLoss(clock, match, action)
    return FrameFault(clock, match, action, seed)


def decider(action: Action, seed: str, clock: Clock) -> Decider:
    """Return the function that decides by number which packets an action hits, as its nft rule does."""
    if isinstance(action, RateLimit):
        return _Bucket(action, clock)
    if isinstance(action, Loss | Corrupt):
        draw, share = random.Random(seed), action.probability
        return lambda _number: draw.random() < share
    if isinstance(action, SeededLoss):
        action = LossCycle(*action.numbers())
    if isinstance(action, LossCycle):
        cycle, numbers = action.packets, frozenset(action.lost)
        return lambda number: number % cycle in numbers
    return lambda _number: True


class _Bucket:
    """The kernel's token bucket (nft_limit.c): `burst` packets' worth of time at most, a packet costs one."""

    __slots__ = ("_clock", "_cost", "_last", "_most", "_tokens")

    def __init__(self, limit: RateLimit, clock: Clock) -> None:
        self._clock = clock
        self._cost = SECOND // limit.packets_per_second
        self._most = self._tokens = self._cost * limit.burst
        self._last = clock.now

    def __call__(self, number: int) -> bool:
        now = self._clock.now
        self._tokens = min(self._most, self._tokens + now - self._last)
        self._last = now
        if self._tokens < self._cost:
            return True
        self._tokens -= self._cost
        return False


class HalfLinkDetour:
    """A relay in one half-link: the impairer delays, duplicates or loses frames."""

    __slots__ = ("_clock", "impairer")

    def __init__(self, clock: Clock, impairer: Impairer) -> None:
        self._clock = clock
        self.impairer = impairer

    def on_frame(self, frame: SimFrame, half_link: HalfLink) -> SimFrame | None:
        """Hold the frame, and its copies, until each departs."""
        clock = self._clock
        leaves = [max(clock.now, round(at * SECOND)) for at in self.impairer.departures(clock.seconds)]
        for number, at in enumerate(leaves):
            clock.call_at(at, self._release, (half_link, frame if number == 0 else frame.copy()))
        return None

    def _release(self, pending: tuple[HalfLink, SimFrame]) -> None:
        half_link, frame = pending
        half_link.leave_detour(frame)
