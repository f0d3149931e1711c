"""Faults of frames on a simulated cable: twins of the nft rules and of the relay, drawing the same numbers.

A fault of the wire that draws from a seed loses here the packets of the same numbers; what the kernel draws for itself
there is drawn from the world's seed here.
"""

from __future__ import annotations

import random
from math import exp
from typing import TYPE_CHECKING, Final, Protocol

from mrclab.sim.clock import SECOND
from mrclab.sim.frame import of_bytes
from mrclab.topo import srv6
from mrclab.topo.cables.cablefaults import (
    Action,
    Corrupt,
    EveryNth,
    LoadLoss,
    Loss,
    LossCycle,
    Match,
    Packets,
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


class Decider(Protocol):
    """Decision for each packet by its number; called once per packet that matches, in order."""

    def __call__(self, number: int) -> bool:
        """`number` counts from 0, from the start of the fault."""


class _Matches:
    """A Match as a question about frames; `lengths` are those of the IP packet, as the kernel counts them there."""

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
    """A fault of one way of a cable that takes or damages frames; `seen` and `hit` count those it met and acted on."""

    __slots__ = ("_clock", "_decide", "_matches", "hit", "number", "seen")

    def __init__(self, clock: Clock, match: Match, action: Action, seed: str) -> None:
        self._clock = clock
        self._matches = _Matches(match)
        self._decide = decider(action, seed, clock)
        self.seen = self.hit = 0

    def meet(self, frame: SimFrame, way: HalfLink) -> SimFrame | None:
        """Lose the frame, or let it go on."""
        if not (self._matches.always or self._matches(frame)):
            return frame
        number = self.seen
        self.seen = number + 1
        if not self._decide(number):
            return frame
        self.hit += 1
        return self.apply(frame)

    def apply(self, frame: SimFrame) -> SimFrame | None:
        """Handle a frame that is hit: drop it."""
        return None


class Corrupting(FrameFault):
    """A fault that flips bits of one byte."""

    __slots__ = ("_at", "_flip")

    def __init__(self, clock: Clock, match: Match, action: Corrupt, seed: str) -> None:
        super().__init__(clock, match, action, seed)
        self._at, self._flip = _ETHERNET + action.offset, action.flip

    def apply(self, frame: SimFrame) -> SimFrame | None:
        """The frame goes on as the bytes that it has become; one that is too short for the byte stays whole."""
        if self._at >= frame.size:
            return frame
        data = bytearray(frame.to_bytes())
        data[self._at] ^= self._flip
        return of_bytes(bytes(data))


class LoadedLoss(FrameFault):
    """A fault that loses frames by chance, the more of them the busier the link has been."""

    __slots__ = ("_above", "_bits", "_draw", "_full", "_last", "_rate", "_window")

    def __init__(self, clock: Clock, match: Match, action: LoadLoss) -> None:
        super().__init__(clock, match, action, action.seed)
        self._draw = random.Random(action.seed)
        self._rate, self._above = action.rate, action.above
        self._window = action.window * SECOND
        self._full = action.bits_per_second * action.window
        self._bits = 0.0  # of the window, older ones with less weight
        self._last = clock.now

    def meet(self, frame: SimFrame, way: HalfLink) -> SimFrame | None:
        """Lose the frame with the chance that the load of the moment gives it."""
        now = self._clock.now
        self._bits = self._bits * exp((self._last - now) / self._window) + 8 * frame.size
        self._last = now
        self.seen += 1
        over = (min(1.0, self._bits / self._full) - self._above) / (1 - self._above)
        if over <= 0 or self._draw.random() >= self._rate * over:
            return frame
        self.hit += 1
        return None


def injected(clock: Clock, match: Match, action: Action, seed: str) -> FrameFault:
    """The fault of one way; `seed` is for what the kernel would draw."""
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
    if isinstance(action, EveryNth):
        period, first = action.n, action.first - 1
        return lambda number: number % period == first
    if isinstance(action, Packets):
        listed = frozenset(number - 1 for number in action.numbers)
        return lambda number: number in listed
    if isinstance(action, SeededLoss) and action.probability < 1:
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
    """A relay in one way of a cable: frames go on when the impairer lets them, twice or not at all."""

    __slots__ = ("_clock", "impairer", "sent")

    def __init__(self, clock: Clock, impairer: Impairer) -> None:
        self._clock = clock
        self.impairer = impairer
        self.sent = 0

    def meet(self, frame: SimFrame, way: HalfLink) -> SimFrame | None:
        """Hold the frame, and copies of it, until they leave."""
        clock = self._clock
        leaves = [max(clock.now, round(at * SECOND)) for at in self.impairer.departures(clock.seconds)]
        for number, at in enumerate(leaves):
            clock.at(at, self._let_go, (way, frame if number == 0 else frame.copy()))
        return None

    def _let_go(self, held: tuple[HalfLink, SimFrame]) -> None:
        way, frame = held
        if way.leave_detour(frame):
            self.sent += 1
