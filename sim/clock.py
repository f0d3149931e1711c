"""Virtual time: scheduled events in whole picoseconds, and their conversion to the seconds of the host classes.

A picosecond divides the time of a byte on every link speed in use (10 ps at 800 Gb/s), so that times add up exactly,
whatever the order of adding. What is due at one time happens in the order in which it was asked for.

Events wait in bins of some dozens, which are sorted when their time comes: that costs the same per event however many
there are, and a heap of all events would cost more the more hosts there are.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable
from heapq import heappop, heappush
from operator import attrgetter
from typing import Any, Final

SECOND: Final = 10**12
"""Picoseconds."""

NEVER: Final = 1 << 61
"""A tick after the end of every run, that is a machine's own number still."""

_FIRST_SHIFT: Final = 20  # a bucket is 2^20 ps wide until the event rate is known
_LEAST_SHIFT, _MOST_SHIFT = 8, 34
_PER_BIN: Final = 128  # events at most, mostly half as many
_RING: Final = 4096  # bins from the one that is worked off on that are found by their place
_COMPILED: Final = not __file__.endswith(".py")

_due: Final = attrgetter("due")


def ticks(seconds: float) -> int:
    """Picoseconds nearest to a duration in seconds."""
    return round(seconds * SECOND)


class Work:
    """An event: its action and its time. It is scheduled for one time only."""

    __slots__ = ("due",)

    due: int

    def happen(self) -> None:
        """The time has come."""
        raise NotImplementedError


class _Callback(Work):
    """A function as work."""

    __slots__ = ("_about", "_function")

    def __init__(self, function: Callable[[Any], object], about: Any) -> None:
        self._function = function
        self._about = about

    def happen(self) -> None:
        """Call it."""
        self._function(self._about)


class Clock:
    """Calendar queue of events. `now` is in picoseconds since the world began."""

    __slots__ = ("_ahead", "_bin", "_bins", "_open_bin", "_ring", "_shift", "halted", "now")

    def __init__(self) -> None:
        self.now = 0
        self.halted = False  # set it to have `run` return
        self._bin = -1  # the one that is being worked off:
        self._open_bin: list[Work] = []  # last first
        self._shift = _FIRST_SHIFT
        # near ones by their start, shifted, modulo the size; each in the order in which it was asked for
        self._ring: list[list[Work]] = [[] for _ in range(_RING)]
        self._bins: dict[int, list[Work]] = {}  # those beyond, by their start, shifted
        self._ahead: list[int] = []  # heap of the starts of all

    @property
    def seconds(self) -> float:
        """The time in seconds."""
        return self.now / SECOND

    @property
    def waiting(self) -> int:
        """Number of events to come."""
        far = sum([len(found) for found in self._bins.values()])
        return len(self._open_bin) + sum([len(found) for found in self._ring]) + far

    def expect(self, events_per_second: float) -> None:
        """Say how much will happen, for bins that hold some dozens of events; nothing else depends on it."""
        width = int(_PER_BIN * SECOND / max(events_per_second, 1.0))
        shift = min(max(width.bit_length() - 1, _LEAST_SHIFT), _MOST_SHIFT)
        events = self._open_bin[::-1]
        for number in sorted(self._ahead):
            events += self._taken(number)
        self.clear()
        self._shift = shift
        for event in events:
            self.put(event.due, event)

    def at(self, when: int, work: Callable[[Any], object], about: Any = None) -> None:
        """Call `work(about)` at a time; ValueError where that has gone by."""
        if when < self.now:
            raise ValueError(f"{when} ps has gone by: it is {self.now} ps")
        self.put(when, _Callback(work, about))

    def put(self, when: int, work: Work) -> None:
        """The same for work that is ready, and does not wait yet, at a time that has not gone by."""
        work.due = when
        number = when >> self._shift
        if number == self._bin:
            self._squeeze_in(work, when)
            return
        if number - self._bin < _RING:
            near = self._ring[number & _RING - 1]
            if not near and number not in self._bins:
                heappush(self._ahead, number)
            near.append(work)
            return
        found = self._bins.get(number)
        if found is None:
            self._bins[number] = [work]
            heappush(self._ahead, number)
        else:
            found.append(work)

    def _taken(self, number: int) -> list[Work]:
        """Take out a bin. What was asked for when it was far off comes first."""
        place = number & _RING - 1
        found, self._ring[place] = self._ring[place], []
        far = self._bins.pop(number, None)
        return found if far is None else far + found

    def _squeeze_in(self, work: Work, when: int) -> None:
        """Into the bin that is being worked off, behind all that is due by then."""
        waiting = self._open_bin
        low, high = 0, len(waiting)
        while low < high:
            middle = low + high >> 1
            if waiting[middle].due <= when:
                high = middle
            else:
                low = middle + 1
        waiting.insert(low, work)

    def run(self, until: int) -> None:
        """Let everything happen that is due up to a time, which it is then; or less, where somebody set `halted`.

        Meanwhile no garbage is looked for: frames and events never refer to themselves, and there are many.
        """
        collects = gc.isenabled()
        gc.disable()
        try:
            self._run(until)
        finally:
            if collects:
                gc.enable()

    def _run(self, until: int) -> None:
        self.halted = False
        while self._open(until):
            waiting = self._open_bin
            while waiting:
                work = waiting.pop()
                when = work.due
                if when > until:
                    waiting.append(work)
                    break
                self.now = when
                work.happen()
                if self.halted:
                    return
            if waiting:
                break
        self.now = max(self.now, until)

    def _open(self, until: int) -> bool:
        """Return True if something is left of a bin that begins by then; it is the one that is worked off."""
        if self._open_bin:
            return True
        ahead = self._ahead
        if not ahead or ahead[0] << self._shift > until:
            return False
        self._bin = heappop(ahead)
        found = self._taken(self._bin)
        self._open_bin = _in_order(found, self._bin << self._shift) if _COMPILED else _sorted(found)
        return True

    def clear(self) -> None:
        """Cancel all scheduled events."""
        self._ring = [[] for _ in range(_RING)]
        self._bins.clear()
        self._ahead.clear()
        self._open_bin.clear()
        self._bin = -1

    def next_due(self) -> int | None:
        """Return the time of the next event, None where nothing is left."""
        if self._open_bin:
            return self._open_bin[-1].due
        if not self._ahead:
            return None
        first = self._ahead[0]
        due = [event.due for event in self._ring[first & _RING - 1]]
        due += [event.due for event in self._bins.get(first, ())]
        return min(due)

    def not_before(self, deadline: float) -> int:
        """The first tick whose time in seconds is not below `deadline`, and not in the past."""
        at = math.floor(deadline * SECOND)
        while at / SECOND < deadline:
            at += 1
        return max(at, self.now)


def _in_order(found: list[Work], begin: int) -> list[Work]:
    """A bin that begins then, first asked for first, as a list whose last happens first.

    Compiled, small numbers that say time and place are sorted in less than half the time that a key for each takes.
    """
    bits = len(found).bit_length()
    keys: list[int] = []
    for work in found:
        keys.append(work.due - begin << bits | len(keys))
    keys.sort(reverse=True)
    mask = (1 << bits) - 1
    return [found[key & mask] for key in keys]


def _sorted(found: list[Work]) -> list[Work]:
    """The same, as plain Python does it best. What is due together: asked for last, first in the list."""
    found.reverse()
    found.sort(key=_due, reverse=True)
    return found
