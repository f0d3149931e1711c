"""Timers of a sans-I/O endpoint: a heap with lazy deletion, so that moving a timer later costs nothing."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush, heapreplace
from math import inf
from typing import Final

from typing_extensions import override

NEVER: Final = inf
"""The deadline of a timer that is not armed."""


class Timer:
    """A deadline. It can be armed and cancelled at any time, and fires once per arming; a subclass has the action.

    Timers that each QP has are subclasses of their own: a bound method for each would be another object.
    """

    __slots__ = ("_queued", "_wheel", "deadline")

    def __init__(self, wheel: Timers) -> None:
        self._wheel = wheel
        self.deadline: float = NEVER
        self._queued: float = NEVER  # earliest heap entry of this timer

    def fire(self, now: float) -> None:
        """The deadline has come."""
        raise NotImplementedError

    @property
    def armed(self) -> bool:
        """True if it will fire."""
        return self.deadline != NEVER

    def arm(self, deadline: float) -> None:
        """Fire at `deadline` (seconds), not at an earlier deadline."""
        self.deadline = deadline
        if deadline < self._queued:
            self._wheel.push(deadline, self)
            self._queued = deadline

    def cancel(self) -> None:
        """Stop the timer; its heap entry is dropped later."""
        self.deadline = NEVER

    def pop(self, entry: float, now: float) -> bool:
        """Handle a heap entry: return True if the timer is due, else put it back or drop it."""
        if entry != self._queued:
            return False  # another entry represents it
        self._queued = NEVER
        deadline = self.deadline
        if deadline == NEVER:
            return False
        if deadline > now:
            self.arm(deadline)
            return False
        self.deadline = NEVER
        return True

    def moved(self, deadline: float) -> None:
        """Its heap entry is at the deadline now."""
        self._queued = deadline

    def entry_deadline(self, entry: float) -> float:
        """Return the deadline of a heap entry; NEVER if it is stale."""
        return NEVER if entry != self._queued else self.deadline


class _CallingTimer(Timer):
    """A timer that calls a function with the time."""

    __slots__ = ("_function",)

    def __init__(self, wheel: Timers, function: Callable[[float], None]) -> None:
        super().__init__(wheel)
        self._function = function

    @override
    def fire(self, now: float) -> None:
        self._function(now)


class Timers:
    """All timers of one endpoint. No deadline is before `not_before`, which is cheap to read."""

    __slots__ = ("_heap", "_serial", "not_before")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Timer]] = []
        self._serial = 0
        self.not_before: float = NEVER

    def timer(self, callback: Callable[[float], None]) -> Timer:
        """Return a new timer that calls this function, not armed."""
        return _CallingTimer(self, callback)

    def push(self, deadline: float, timer: Timer) -> None:
        """Queue a heap entry; called by `Timer` only."""
        self._serial = serial = self._serial + 1
        heappush(self._heap, (deadline, serial, timer))
        self.not_before = min(self.not_before, deadline)

    def next_deadline(self) -> float | None:
        """Return the earliest deadline; drop or move stale heads."""
        heap = self._heap
        while heap:
            entry, _, timer = heap[0]
            deadline = timer.entry_deadline(entry)
            if deadline == entry:
                self.not_before = entry
                return entry
            if deadline == NEVER:
                heappop(heap)
                timer.pop(entry, entry)
            else:
                self._serial = serial = self._serial + 1
                heapreplace(heap, (deadline, serial, timer))
                timer.moved(deadline)
        self.not_before = NEVER
        return None

    def run(self, now: float) -> None:
        """Fire everything that is due at `now`, in order of deadlines."""
        heap = self._heap
        while heap and heap[0][0] <= now:
            entry, _, timer = heappop(heap)
            if timer.pop(entry, now):
                timer.fire(now)
        self.not_before = heap[0][0] if heap else NEVER
