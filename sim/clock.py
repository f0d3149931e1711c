"""Virtual time: an event heap in whole picoseconds, and where they become the seconds that the hosts' classes take.

A picosecond divides the time of a byte on every link speed in use (10 ps at 800 Gb/s), so that times add up exactly,
whatever the order of adding. What is due at one time happens in the order in which it was asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

SECOND = 10**12
"""Picoseconds."""

_Event = tuple[int, int, Callable[[Any], object], Any]


def ticks(seconds: float) -> int:
    """Picoseconds nearest to a duration in seconds."""
    return round(seconds * SECOND)


class Clock:
    """What will happen, and when. `now` is in picoseconds since the world began.

    Entries of `heap` are (time, serial number, work, about); whoever pushes one by itself takes the next `serial`.
    """

    __slots__ = ("halted", "heap", "now", "serial")

    def __init__(self) -> None:
        self.now = 0
        self.halted = False  # set it to have `run` return
        self.heap: list[_Event] = []
        self.serial = 0

    @property
    def seconds(self) -> float:
        """The time in seconds."""
        return self.now / SECOND

    def at(self, when: int, work: Callable[[Any], object], about: Any = None) -> None:
        """Call `work(about)` at a time; ValueError where that has gone by."""
        if when < self.now:
            raise ValueError(f"{when} ps has gone by: it is {self.now} ps")
        self.serial += 1
        heappush(self.heap, (when, self.serial, work, about))

    def run(self, until: int) -> None:
        """Let everything happen that is due up to a time, which it is then; or less, where somebody set `halted`."""
        heap = self.heap
        self.halted = False
        while heap and heap[0][0] <= until:
            self.now, _, work, about = heappop(heap)
            work(about)
            if self.halted:
                return
        self.now = max(self.now, until)

    def next_due(self) -> int | None:
        """When something happens next, None where nothing ever will."""
        return self.heap[0][0] if self.heap else None

    def not_before(self, deadline: float) -> int:
        """The first tick whose time in seconds is not below `deadline`, and not in the past."""
        at = math.floor(deadline * SECOND)
        while at / SECOND < deadline:
            at += 1
        return max(at, self.now)


class MovableCall:
    """One call that may be moved as often as one likes. Moving it later costs nothing: its place in the heap stays."""

    __slots__ = ("_clock", "_queued", "_work", "due")

    def __init__(self, clock: Clock, work: Callable[[], object]) -> None:
        self._clock = clock
        self._work = work
        self._queued: int | None = None  # time of the heap's entry that counts
        self.due: int | None = None

    def move(self, due: int | None) -> None:
        """Call at this time and no other; None: not at all."""
        self.due = due
        if due is not None and (self._queued is None or due < self._queued):
            self._queued = due
            self._clock.at(due, self._come_up, due)

    def _come_up(self, entry: int) -> None:
        if entry != self._queued:
            return  # it was moved to an earlier time since
        self._queued = None
        if self.due is None:
            return
        if self.due > entry:
            self.move(self.due)
            return
        self.due = None
        self._work()
