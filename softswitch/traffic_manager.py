"""Queues between ingress and egress, as simple_switch has them: per port and priority, limited in length and rate.

The rate model is behavioral-model's (queueing.h, QueueingLogicPriRL): a packet may leave not before it came and not
before 1/rate after its predecessor's turn; that time is fixed when it is queued. Of the packets whose time has come,
highest priority goes first. A full queue drops arriving packets.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable
from typing import Any

from mrclab.softswitch.clock import REAL, SwitchClock

DEFAULT_DEPTH = 64
EARLY_SHARE = 1 / 16
"""Share of the time between two packets, and of a timer's precision at most, by which a packet may leave early.

Waiting for a time that is nearer than the precision of timers costs a wake-up and gains nothing. The times themselves
are not moved, so that the rate holds.
"""

State = tuple[Any, ...]


class Queue:
    """One queue: waiting packets as (state, time to leave, enqueue time in µs, depth found)."""

    __slots__ = ("delay", "depth", "dropped", "early", "last", "port", "priority", "timer_seconds", "waiting")

    def __init__(self, port: int, priority: int, depth: int, delay: float, timer_seconds: float) -> None:
        self.port = port
        self.priority = priority
        self.depth = depth
        self.timer_seconds = timer_seconds
        self.set_delay(delay)
        self.last = -math.inf
        self.dropped = 0
        self.waiting: deque[tuple[State, float, int, int]] = deque()

    def set_delay(self, delay: float) -> None:
        """Set the seconds between two packets."""
        self.delay = delay
        self.early = min(delay * EARLY_SHARE, self.timer_seconds)


class TrafficManager:
    """All queues of a switch. A queue state begins with the egress function that continues with it.

    `clock_us` is the program's clock, `clock` the queues'.
    """

    def __init__(self, priorities: int, clock_us: Callable[[], int], clock: SwitchClock = REAL) -> None:
        self.priorities = priorities
        self.needs_time = False
        self.dropped_by_priority = 0
        self._clock_us = clock_us
        self._now, self._timer_seconds = clock.seconds, clock.timer_seconds
        self._queues: dict[int, list[Queue]] = {}
        self.timers: list[tuple[float, int, int, Queue]] = []
        self._count = 0
        self._busy = False
        self._max_lateness = 0.0
        self._depths = [DEFAULT_DEPTH] * priorities
        self._delays = [0.0] * priorities

    def _port(self, port: int) -> list[Queue]:
        queues = self._queues.get(port)
        if queues is None:
            settings = zip(self._depths, self._delays, strict=True)
            queues = [Queue(port, n, *setting, self._timer_seconds) for n, setting in enumerate(settings)]
            self._queues[port] = queues
        return queues

    def _selected(self, port: int | None, priority: int | None) -> list[Queue]:
        ports = list(self._queues) if port is None else [port]
        return [q for p in ports for q in self._port(p) if priority is None or q.priority == priority]

    @staticmethod
    def _set_default(defaults: list[Any], value: float, priority: int | None) -> None:
        """Note a value for ports that get their queues later."""
        for number in range(len(defaults)):
            if priority is None or number == priority:
                defaults[number] = value

    def set_rate(self, rate_pps: int, port: int | None = None, priority: int | None = None) -> None:
        """Limit queues to packets per second (0: no limit); packets already queued keep their times."""
        delay = 1.0 / rate_pps if rate_pps else 0.0
        if port is None:
            self._set_default(self._delays, delay, priority)
        for queue in self._selected(port, priority):
            queue.set_delay(delay)

    def set_depth(self, depth: int, port: int | None = None, priority: int | None = None) -> None:
        """Set the capacity of queues in packets."""
        if port is None:
            self._set_default(self._depths, depth, priority)
        for queue in self._selected(port, priority):
            queue.depth = depth

    def enqueue(self, port: int, priority: int, state: State) -> None:
        """Queue a packet, or send it at once if nothing delays it."""
        queues = self._queues.get(port)
        if queues is None:
            queues = self._port(port)
        if priority >= self.priorities:
            self.dropped_by_priority += 1
            return
        queue = queues[priority]
        waiting = queue.waiting
        if len(waiting) >= queue.depth:
            queue.dropped += 1
            return
        enqueued = self._clock_us() if self.needs_time else 0
        delay = queue.delay
        now = self._now() if delay or waiting else 0.0
        leave = queue.last + delay
        if not waiting and not self._busy and (not delay or leave - queue.early <= now):
            if delay:
                queue.last = max(now, leave)
            self._busy = True
            try:
                state[0](state, port, priority, enqueued, 0, 0)
            finally:
                self._busy = False
            return
        leave = max(now or self._now(), leave)
        queue.last = leave
        leave -= queue.early
        if not waiting:
            self._count += 1
            heapq.heappush(self.timers, (leave, -priority, self._count, queue))
        waiting.append((state, leave, enqueued, len(waiting)))

    @property
    def deadline(self) -> float | None:
        """Time at which the next packet may leave (seconds of the clock), None while nothing waits."""
        return self.timers[0][0] if self.timers else None

    def run(self) -> None:
        """Send all packets whose time has come, highest priority first."""
        timers = self.timers
        now = self._now()
        if not timers or timers[0][0] > now:
            return
        self._max_lateness = max(self._max_lateness, now - timers[0][0])
        ready: list[tuple[int, float, int, Queue]] = []
        while timers and timers[0][0] <= now:
            leave, rank, count, queue = heapq.heappop(timers)
            heapq.heappush(ready, (rank, leave, count, queue))
        while ready:
            queue = heapq.heappop(ready)[3]
            waiting = queue.waiting
            state, _, enqueued, found = waiting.popleft()
            if waiting:
                leave = waiting[0][1]
                self._count += 1
                if leave <= now:
                    heapq.heappush(ready, (-queue.priority, leave, self._count, queue))
                else:
                    heapq.heappush(timers, (leave, -queue.priority, self._count, queue))
            self._busy = True
            try:
                state[0](state, queue.port, queue.priority, enqueued, found, len(waiting))
            finally:
                self._busy = False

    def take_lateness(self) -> float:
        """Return the longest delay of a packet beyond its due time since the last call, seconds."""
        worst, self._max_lateness = self._max_lateness, 0.0
        return worst

    def clear(self) -> None:
        """Forget all packets (a new program cannot read the old one's)."""
        self.timers.clear()
        for queues in self._queues.values():
            for queue in queues:
                queue.waiting.clear()

    def dropped(self) -> dict[tuple[int, int], int]:
        """Return tail drops by (port, priority), where there were any."""
        return {(q.port, q.priority): q.dropped for queues in self._queues.values() for q in queues if q.dropped}
