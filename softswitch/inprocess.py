"""A switch driven by calls: a frame arrives at a port and a time, and the call returns its outcome with the reason.

No sockets, no threads, and a clock that moves only when set, so that a simulator can be compared with a P4 program
frame by frame. Counters of the program are attributed to the frame that they counted.

    switch = InProcess(P4_JSON.read_bytes(), priorities=8)
    switch.runtime.set_queue_rate(1000, port=2)
    outcomes = [switch.arrive(t_ns, port, frame) for t_ns, port, frame in arrivals]
    switch.run()
"""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from mrclab.softswitch.clock import SetClock, SwitchClock
from mrclab.softswitch.dataplane import DataPlane
from mrclab.softswitch.traffic_manager import State, TrafficManager


class CountedCell(NamedTuple):
    """A cell of an indirect counter that a packet was counted in."""

    counter: str
    cell: int


@dataclass
class Copy:
    """A packet that was put into a port's queue, most frames becoming one.

    `full`: the queue was, and the packet is lost. `left_ns` is when it left the queue, None while it waits; `data` the
    bytes sent then, None if egress dropped or recirculated it. `counted` are the counters of egress.
    """

    port: int
    priority: int
    full: bool = False
    left_ns: int | None = None
    data: bytes | None = None
    counted: list[CountedCell] = field(default_factory=list)


@dataclass
class FrameOutcome:
    """Outcome of a frame: ingress counters, and the packets sent for it. No copies: ingress dropped it."""

    port: int
    counted: list[CountedCell] = field(default_factory=list)
    copies: list[Copy] = field(default_factory=list)


class InProcess:
    """One program between numbered ports.

    At the same time, packets leave their queues before frames arrive. `seed` is that of the program's random numbers.
    """

    def __init__(
        self,
        config: str | bytes,
        cpu_port: int | None = None,
        drop_port: int = 511,
        priorities: int = 1,
        seed: int = 0,
    ) -> None:
        self._time = SetClock()
        self.runtime = _Traced(cpu_port, drop_port, priorities, self._time.clock, seed)
        self.runtime.commit(self.runtime.compile(config))
        self.runtime.watch_counters()

    @property
    def now_ns(self) -> int:
        """The switch's time in nanoseconds; it begins at 0."""
        return self._time.now_ns

    @property
    def next_ns(self) -> int | None:
        """Time at which the next packet leaves a queue, None while nothing waits."""
        deadline = self.runtime.traffic.deadline
        return None if deadline is None else max(math.ceil(deadline * 1e9), self._time.now_ns)

    def arrive(self, at_ns: int, port: int, frame: bytes) -> FrameOutcome:
        """Let a frame arrive, after all departures until then. Its copies are filled in when they leave."""
        self.run(at_ns)
        outcome = FrameOutcome(port)
        self.runtime.trace(outcome)
        self.runtime.inject(port, frame)
        self.runtime.settle()
        return outcome

    def run(self, until_ns: int | None = None) -> None:
        """Let packets leave their queues up to a time; without one, until the queues are empty."""
        if until_ns is not None and until_ns < self._time.now_ns:
            raise ValueError(f"time {until_ns} ns has gone by: it is {self._time.now_ns} ns")
        while (due := self.next_ns) is not None and (until_ns is None or due <= until_ns):
            self._time.now_ns = due
            waiting = self.runtime.traffic.timers[0]
            self.runtime.settle()
            if self.runtime.traffic.timers and self.runtime.traffic.timers[0] is waiting:
                self._time.now_ns += 1  # the time in seconds is rounded, and fell short of the deadline
        if until_ns is not None:
            self._time.now_ns = until_ns

    def close(self) -> None:
        """Release the switch's resources."""
        self.runtime.close()


class _Traced(DataPlane):
    """A switch that knows the frame that it currently processes."""

    def __init__(self, cpu_port: int | None, drop_port: int, priorities: int, clock: SwitchClock, seed: int) -> None:
        self.outcome = FrameOutcome(0)
        self.copy: Copy | None = None
        self._recirculated: deque[tuple[FrameOutcome, tuple[Any, ...]]] = deque()
        super().__init__(cpu_port, drop_port, priorities, clock, random.Random(seed))
        self.again = self._recirculate

    def make_queues(self, priorities: int) -> TrafficManager:
        """Return queues that attribute each packet to its frame."""
        return _TracedQueues(self, priorities)

    def _recirculate(self, packet: tuple[Any, ...]) -> None:
        self._recirculated.append((self.outcome, packet))

    def watch_counters(self) -> None:
        """Attribute the program's counts to the frame."""
        instance = self.program()
        names = instance.ingress.__globals__
        for number, counter in enumerate(instance.compiled.program.counters):
            if counter in instance.packets:
                cells = _Cells(self, counter, instance.packets[counter])
                instance.packets[counter] = names[f"packets_{number}"] = cells

    def trace(self, outcome: FrameOutcome) -> None:
        """Attribute all that happens from now on to this frame."""
        self.outcome, self.copy = outcome, None

    def count(self, counter: str, index: int) -> None:
        """Note a count."""
        (self.outcome if self.copy is None else self.copy).counted.append(CountedCell(counter, index))

    def transmit(self, number: int, data: bytearray) -> None:
        """Note a sent packet."""
        assert self.copy is not None
        assert self.copy.port == number
        self.copy.data = bytes(data)

    def settle(self) -> None:
        """Run due work, including recirculated packets, until there is none."""
        self.traffic.run()
        while self._recirculated:
            outcome, packet = self._recirculated.popleft()
            function = self.program().ingress_again
            assert function is not None
            self.trace(outcome)
            function(*packet)
            self.traffic.run()


class _TracedQueues(TrafficManager):
    """Queues that attribute each packet to its frame."""

    def __init__(self, switch: _Traced, priorities: int) -> None:
        super().__init__(priorities, switch.now_us, switch.clock)
        self._switch = switch

    def enqueue(self, port: int, priority: int, state: State) -> None:
        """Queue a packet of the current frame."""
        go_on: Callable[..., None] = state[0]
        switch, outcome, copy = self._switch, self._switch.outcome, Copy(port, priority)
        outcome.copies.append(copy)

        def egress(state: State, *place: int) -> None:
            before = switch.outcome, switch.copy
            switch.outcome, switch.copy = outcome, copy
            copy.left_ns = switch.clock.nanoseconds()
            try:
                go_on(state, *place)
            finally:
                switch.outcome, switch.copy = before

        lost = self.lost(port, priority)
        super().enqueue(port, priority, (egress, *state[1:]))
        copy.full = copy.left_ns is None and self.lost(port, priority) > lost

    def lost(self, port: int, priority: int) -> int:
        """Packets dropped since this queue was full, or since the port does not have this queue."""
        return self.dropped().get((port, priority), 0) + self.dropped_by_priority


class _Cells(list[int]):
    """The cells of a counter."""

    def __init__(self, switch: _Traced, name: str, cells: list[int]) -> None:
        super().__init__(cells)
        self._switch, self._name = switch, name

    def __setitem__(self, index: Any, value: Any) -> None:
        super().__setitem__(index, value)
        self._switch.count(self._name, index)
