"""Virtual time: what will happen, in whole picoseconds, and where they become the seconds that the hosts' classes take.

A picosecond divides the time of a byte on every link speed in use (10 ps at 800 Gb/s), so that times add up exactly,
whatever the order of adding. What is due at one time happens in the order in which it was asked for.

Events wait in bins of some dozens, which are sorted when their time comes: that costs the same per event however many
there are, and a heap of all events would cost more the more hosts there are.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Any

SECOND = 10**12
"""Picoseconds."""

_FIRST_SHIFT = 20  # a bin is 2^20 ps wide until somebody says how much happens
_LEAST_SHIFT, _MOST_SHIFT = 8, 34
_PER_BIN = 64  # events


def ticks(seconds: float) -> int:
    """Picoseconds nearest to a duration in seconds."""
    return round(seconds * SECOND)


class Work:
    """What an event calls."""

    __slots__ = ()

    def happen(self, about: Any) -> None:
        """The time has come; `about` is what was given with the event."""
        raise NotImplementedError


class _Callback(Work):
    """A function as work."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[[Any], object]) -> None:
        self._function = function

    def happen(self, about: Any) -> None:
        """Call it."""
        self._function(about)


_Event = tuple[int, int, Work, Any]  # time, serial number, work, about


class Clock:
    """What will happen, and when. `now` is in picoseconds since the world began."""

    __slots__ = ("_ahead", "_at", "_bin", "_bins", "_due", "_serial", "_shift", "halted", "now")

    def __init__(self) -> None:
        self.now = 0
        self.halted = False  # set it to have `run` return
        self._serial = 0
        self._shift = _FIRST_SHIFT
        self._bins: dict[int, list[_Event]] = {}  # by their start, shifted; in no order
        self._ahead: list[int] = []  # heap of these
        self._bin = -1  # the one that is being worked off:
        self._due: list[_Event] = []  # in order
        self._at = 0  # the next of them

    @property
    def seconds(self) -> float:
        """The time in seconds."""
        return self.now / SECOND

    @property
    def waiting(self) -> int:
        """How many events are to come."""
        return len(self._due) - self._at + sum([len(found) for found in self._bins.values()])

    def expect(self, events_per_second: float) -> None:
        """Say how much will happen, for bins that hold some dozens of events; nothing else depends on it."""
        width = int(_PER_BIN * SECOND / max(events_per_second, 1.0))
        shift = min(max(width.bit_length() - 1, _LEAST_SHIFT), _MOST_SHIFT)
        events = self._due[self._at :]
        for found in self._bins.values():
            events += found
        self.clear()
        self._shift = shift
        for event in events:
            self._bins.setdefault(event[0] >> shift, []).append(event)
        self._ahead = list(self._bins)
        heapify(self._ahead)

    def at(self, when: int, work: Callable[[Any], object], about: Any = None) -> None:
        """Call `work(about)` at a time; ValueError where that has gone by."""
        if when < self.now:
            raise ValueError(f"{when} ps has gone by: it is {self.now} ps")
        self.put(when, _Callback(work), about)

    def put(self, when: int, work: Work, about: Any) -> None:
        """The same for work that is ready to be called, at a time that has not gone by."""
        self._serial = serial = self._serial + 1
        number = when >> self._shift
        if number == self._bin:
            insort(self._due, (when, serial, work, about), self._at)
            return
        found = self._bins.get(number)
        if found is None:
            self._bins[number] = [(when, serial, work, about)]
            heappush(self._ahead, number)
        else:
            found.append((when, serial, work, about))

    def run(self, until: int) -> None:
        """Let everything happen that is due up to a time, which it is then; or less, where somebody set `halted`."""
        self.halted = False
        while self._open(until):
            due = self._due
            while self._at < len(due):
                when, _serial, work, about = due[self._at]
                if when > until:
                    break
                self._at += 1
                self.now = when
                work.happen(about)
                if self.halted:
                    return
            if self._at < len(due):
                break
        self.now = max(self.now, until)

    def _open(self, until: int) -> bool:
        """Whether something is left of a bin that begins by then; it is the one that is worked off."""
        if self._at < len(self._due):
            return True
        ahead = self._ahead
        if not ahead or ahead[0] << self._shift > until:
            return False
        self._bin = heappop(ahead)
        self._due = self._bins.pop(self._bin)
        self._due.sort()
        self._at = 0
        return True

    def clear(self) -> None:
        """Nothing of what was to come happens."""
        self._bins.clear()
        self._ahead.clear()
        self._due.clear()
        self._at = 0
        self._bin = -1

    def next_due(self) -> int | None:
        """When something happens next, None where nothing ever will."""
        if self._at < len(self._due):
            return self._due[self._at][0]
        return min([event[0] for event in self._bins[self._ahead[0]]]) if self._ahead else None

    def not_before(self, deadline: float) -> int:
        """The first tick whose time in seconds is not below `deadline`, and not in the past."""
        at = math.floor(deadline * SECOND)
        while at / SECOND < deadline:
            at += 1
        return max(at, self.now)


class MovableCall(Work):
    """One call that may be moved as often as one likes. Moving it later costs nothing: its place ahead stays."""

    __slots__ = ("_clock", "_queued", "_work", "due")

    def __init__(self, clock: Clock, work: Callable[[], object]) -> None:
        self._clock = clock
        self._work = work
        self._queued: int | None = None  # time of the event that counts
        self.due: int | None = None

    def move(self, due: int | None) -> None:
        """Call at this time and no other; None: not at all."""
        self.due = due
        if due is not None and (self._queued is None or due < self._queued):
            self._queued = due
            self._clock.put(due, self, due)

    def happen(self, about: Any) -> None:
        """One of its events came up."""
        if about != self._queued:
            return  # it was moved to an earlier time since
        self._queued = None
        if self.due is None:
            return
        if self.due > self._clock.now:
            self.move(self.due)
            return
        self.due = None
        self._work()
