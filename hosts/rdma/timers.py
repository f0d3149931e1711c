"""Deadlines of a sans-I/O endpoint: a heap with lazy deletion, so that moving a timer later costs nothing."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count


class Timer:
    """One deadline and what to do at it. Arm and cancel as often as you like; it fires once per arming."""

    __slots__ = ("_queued", "_wheel", "callback", "deadline")

    def __init__(self, wheel: Timers, callback: Callable[[float], None]) -> None:
        self._wheel = wheel
        self.callback = callback  # called with the time
        self.deadline: float | None = None
        self._queued: float | None = None  # earliest heap entry that stands for this timer

    def arm(self, deadline: float) -> None:
        """Fire at `deadline` (seconds) and not at any earlier-set time."""
        self.deadline = deadline
        if self._queued is None or deadline < self._queued:
            self._wheel.push(deadline, self)
            self._queued = deadline

    def cancel(self) -> None:
        """Do not fire."""
        self.deadline = None

    def pop(self, entry: float, now: float) -> bool:
        """A heap entry came up: True if the timer is due, else put back or dropped."""
        if entry != self._queued:
            return False  # another entry stands for it
        self._queued = None
        if self.deadline is None:
            return False
        if self.deadline > now:
            self.arm(self.deadline)
            return False
        self.deadline = None
        return True

    def entry_deadline(self, entry: float) -> float | None:
        """The deadline that a heap entry stands for; None if it stands for nothing any more."""
        if entry != self._queued or self.deadline is None:
            return None
        return self.deadline


class Timers:
    """All timers of one endpoint."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Timer]] = []
        self._serial = count()

    def timer(self, callback: Callable[[float], None]) -> Timer:
        """A new timer, not armed."""
        return Timer(self, callback)

    def push(self, deadline: float, timer: Timer) -> None:
        """For Timer only."""
        heappush(self._heap, (deadline, next(self._serial), timer))

    def next_deadline(self) -> float | None:
        """The earliest deadline; stale heads are dropped or moved on the way."""
        heap = self._heap
        while heap:
            entry, _, timer = heap[0]
            deadline = timer.entry_deadline(entry)
            if deadline == entry:
                return entry
            heappop(heap)
            timer.pop(entry, entry)
        return None

    def run(self, now: float) -> None:
        """Fire everything that is due at `now`, in order of deadlines."""
        heap = self._heap
        while heap and heap[0][0] <= now:
            entry, _, timer = heappop(heap)
            if timer.pop(entry, now):
                timer.callback(now)
