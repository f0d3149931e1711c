"""Virtual time: scheduled events in whole picoseconds, and their conversion to the seconds of the host classes.

A picosecond divides the time of a byte on every link speed in use (10 ps at 800 Gb/s), so that times add up exactly,
whatever the order of adding. Events of one time fire in the order in which they were scheduled. Annotated as `i64`,
ticks are machine integers in compiled code, also where an `int` beyond 30 bits is an object (32-bit WebAssembly).

The event queue is a calendar queue: buckets of some dozens of events, each sorted when its time comes. The cost per
event does not depend on how many are scheduled; that of a heap would grow with the number of hosts.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable
from heapq import heappop, heappush
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mypy_extensions import i64

SECOND: Final = 10**12
"""Picoseconds."""

NEVER: Final = 1 << 61
"""A tick after the end of every run; it fits into a machine integer."""

_FIRST_SHIFT: Final = 20  # a bucket is 2^20 ps wide until the event rate is known
_MIN_SHIFT, _MAX_SHIFT = 8, 34
_PER_BUCKET: Final = 128  # events at most, mostly half as many
_NEAR_BUCKETS: Final = 4096  # buckets from the current one on that are found by their place
_COMPILED: Final = not __file__.endswith(".py")

_due: Final = attrgetter("due")


def ticks(seconds: float) -> i64:
    """Picoseconds nearest to a duration in seconds, NEVER at most."""
    return min(round(seconds * SECOND), NEVER)


class ScheduledEvent:
    """An event: its action and its time. It is scheduled for one time only."""

    __slots__ = ("due",)

    due: i64

    def fire(self) -> None:
        """Run the event at its time."""
        raise NotImplementedError


class _Callback(ScheduledEvent):
    """A function as an event."""

    __slots__ = ("_argument", "_function")

    def __init__(self, function: Callable[[Any], object], argument: Any) -> None:
        self._function = function
        self._argument = argument

    def fire(self) -> None:
        """Call it."""
        self._function(self._argument)


class Clock:
    """Calendar queue of events. `now` is in picoseconds since the world began."""

    __slots__ = ("_current", "_current_number", "_far", "_near", "_shift", "_starts", "halted", "now")

    def __init__(self) -> None:
        self.now: i64 = 0
        self.halted = False  # an event sets it to have `run` return
        self._current_number: i64 = -1  # of the current bucket
        self._current: list[ScheduledEvent] = []  # events of the current bucket, last first
        self._shift: i64 = _FIRST_SHIFT
        # near buckets by start >> shift, modulo the size; events in order of scheduling
        self._near: list[list[ScheduledEvent]] = [[] for _ in range(_NEAR_BUCKETS)]
        self._far: dict[int, list[ScheduledEvent]] = {}  # far buckets by start >> shift
        self._starts: list[int] = []  # heap of start >> shift of all buckets

    @property
    def seconds(self) -> float:
        """The time in seconds."""
        return self.now / SECOND

    @property
    def pending(self) -> int:
        """Number of scheduled events."""
        far = sum([len(found) for found in self._far.values()])
        return len(self._current) + sum([len(found) for found in self._near]) + far

    def set_event_rate(self, events_per_second: float) -> None:
        """Choose the width of buckets so that each holds some dozens of events; nothing else depends on it."""
        width = int(_PER_BUCKET * SECOND / max(events_per_second, 1.0))
        shift = min(max(width.bit_length() - 1, _MIN_SHIFT), _MAX_SHIFT)
        events = self._current[::-1]
        for number in sorted(self._starts):
            events += self._take_bucket(number)
        self.clear()
        self._shift = shift
        for event in events:
            self.schedule(event.due, event)

    def call_at(self, when: i64, callback: Callable[[Any], object], argument: Any = None) -> None:
        """Call `callback(argument)` at a time; ValueError if it has passed."""
        if when < self.now:
            raise ValueError(f"{when} ps is in the past: it is {self.now} ps")
        self.schedule(when, _Callback(callback, argument))

    def schedule(self, when: i64, event: ScheduledEvent) -> None:
        """Schedule an event that is not scheduled yet, at a time that has not passed."""
        event.due = when
        number = when >> self._shift
        if number == self._current_number:
            self._insert(event, when)
            return
        if number - self._current_number < _NEAR_BUCKETS:
            near = self._near[number & _NEAR_BUCKETS - 1]
            if not near and number not in self._far:
                heappush(self._starts, number)
            near.append(event)
            return
        found = self._far.get(number)
        if found is None:
            self._far[number] = [event]
            heappush(self._starts, number)
        else:
            found.append(event)

    def _take_bucket(self, number: i64) -> list[ScheduledEvent]:
        """Remove a bucket and return its events; those scheduled while it was far off come first."""
        place = number & _NEAR_BUCKETS - 1
        found, self._near[place] = self._near[place], []
        far = self._far.pop(number, None)
        return found if far is None else far + found

    def _insert(self, event: ScheduledEvent, when: i64) -> None:
        """Insert into the current bucket, behind all events of the same time."""
        pending = self._current
        low, high = 0, len(pending)
        while low < high:
            middle = low + high >> 1
            if pending[middle].due <= when:
                high = middle
            else:
                low = middle + 1
        pending.insert(low, event)

    def run(self, until: i64) -> None:
        """Fire all events up to a time and set the clock to it; return early where an event sets `halted`.

        The garbage collector is off meanwhile: frames and events never form cycles, and there are many.
        """
        collects = gc.isenabled()
        gc.disable()
        try:
            self._run(until)
        finally:
            if collects:
                gc.enable()

    def _run(self, until: i64) -> None:
        self.halted = False
        while self._next_bucket(until):
            pending = self._current
            while pending:
                event = pending.pop()
                when = event.due
                if when > until:
                    pending.append(event)
                    break
                self.now = when
                event.fire()
                if self.halted:
                    return
            if pending:
                break
        self.now = max(self.now, until)

    def _next_bucket(self, until: i64) -> bool:
        """Make the next bucket that begins by `until` the current one; return False if there is none."""
        if self._current:
            return True
        starts = self._starts
        if not starts or starts[0] << self._shift > until:
            return False
        self._current_number = heappop(starts)
        found = self._take_bucket(self._current_number)
        self._current = _by_numbers(found, self._current_number << self._shift) if _COMPILED else _by_key(found)
        return True

    def clear(self) -> None:
        """Cancel all scheduled events."""
        self._near = [[] for _ in range(_NEAR_BUCKETS)]
        self._far.clear()
        self._starts.clear()
        self._current.clear()
        self._current_number = -1

    def next_due(self) -> int | None:
        """Return the time of the next event, None where nothing is left."""
        if self._current:
            return self._current[-1].due
        if not self._starts:
            return None
        first = self._starts[0]
        due = [event.due for event in self._near[first & _NEAR_BUCKETS - 1]]
        due += [event.due for event in self._far.get(first, ())]
        return min(due)

    def not_before(self, deadline: float) -> i64:
        """The first tick whose time in seconds is not below `deadline`, and not in the past; NEVER at most."""
        if deadline >= NEVER / SECOND:
            return NEVER
        at = math.floor(deadline * SECOND)
        while at / SECOND < deadline:
            at += 1
        return max(at, self.now)


def _by_numbers(found: list[ScheduledEvent], begin: int) -> list[ScheduledEvent]:
    """Sort a bucket that begins at a time, in order of scheduling, into a list whose last event fires first.

    Compiled, sorting small integers made of time and place takes less than half the time of a key function.
    """
    bits = len(found).bit_length()
    keys: list[int] = []
    for event in found:
        keys.append(event.due - begin << bits | len(keys))
    keys.sort(reverse=True)
    mask = (1 << bits) - 1
    return [found[key & mask] for key in keys]


def _by_key(found: list[ScheduledEvent]) -> list[ScheduledEvent]:
    """The same in the way that is fastest in plain Python: of equal times the one scheduled last comes first."""
    found.reverse()
    found.sort(key=_due, reverse=True)
    return found
