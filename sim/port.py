"""An egress port of a simulated switch: two queues, ECN, trimming, tail drops, as p4src and the targets have it.

The data queue lets one packet go per packet time of the link (behavioral-model's rate limiter: 1/rate after the
predecessor's turn, at once where that is over); the control queue is not limited. So a packet's time to leave is known
when it comes, and one event takes it to the far end of the cable. What is only known when it leaves, the depth behind
it, is caught up on by whatever happens at the port next: nobody can look in between.
"""

from __future__ import annotations

import random
from collections import deque
from functools import lru_cache
from typing import TYPE_CHECKING

from mrclab.sim.clock import SECOND
from mrclab.topo.numbers import Dscp

if TYPE_CHECKING:
    from mrclab.sim.cable import Way
    from mrclab.sim.clock import Clock
    from mrclab.sim.frame import SimFrame
    from mrclab.topo.spec import FabricSpec

_ECN_NOT_ECT = 0
NO_TRIM, TRIMMABLE, TRIMMABLE_RETX, TRIMMED, TRIMMED_LASTHOP, CONTROL, OTHER, CPU = range(8)
"""Traffic classes, the cells of a port's counter `tx`."""

_CLASSES = [OTHER] * 64
for _dscp, _class in (
    (Dscp.NO_TRIM, NO_TRIM), (Dscp.TRIMMABLE, TRIMMABLE), (Dscp.TRIMMABLE_RETX, TRIMMABLE_RETX),
    (Dscp.TRIMMED, TRIMMED), (Dscp.TRIMMED_LASTHOP, TRIMMED_LASTHOP), (Dscp.CONTROL, CONTROL),
):  # fmt: skip
    _CLASSES[_dscp] = _class
_IN_DATA_QUEUE = [traffic_class in {NO_TRIM, TRIMMABLE, TRIMMABLE_RETX, OTHER} for traffic_class in _CLASSES]
_MAY_BE_TRIMMED = [traffic_class in {TRIMMABLE, TRIMMABLE_RETX} for traffic_class in _CLASSES]

_NOBODY: deque[SimFrame] = deque()
"""What waits at a port where nothing does: stays empty."""


@lru_cache
def _speed(rate_pps: float, rate: float | None) -> tuple[int, int]:
    """Ticks of a packet, and bits per second, 0 where packets count and not bytes: the same objects for all ports."""
    return round(SECOND / rate_pps), 0 if rate is None else round(rate)


class SimSwitchPort:
    """One port of a switch. `register` is the P4 program's: depth of the data queue at the last packet that left it."""

    __slots__ = (
        "_bits_per_second", "_clock", "_control_free", "_depth",
        "_ecn_min", "_ecn_span", "_interval", "_last", "_last_hop_dscp", "_random", "_seed", "_trim_at",
        "dropped", "evs", "marks", "number", "register", "trims", "tx_bytes", "tx_packets", "waiting", "way",
    )  # fmt: skip

    def __init__(self, clock: Clock, number: int, spec: FabricSpec, to_host: bool, way: Way, seed: str) -> None:
        queue = spec.queue
        self.number = number
        self.way = way
        self._clock = clock
        self._seed = seed
        self._random: random.Random | None = None  # made when something is first drawn: most ports never do
        self._interval, self._bits_per_second = _speed(spec.link.rate_pps, spec.link.rate)
        self._control_free = 0  # when the link has sent the last packet of the control queue, where bytes count
        self._depth = queue.depth
        self._last = -self._interval
        self._trim_at = 0  # 0: never
        if spec.trimming:
            self._trim_at = queue.last_hop_trim_threshold if to_host else queue.trim_threshold
        self._last_hop_dscp = Dscp.TRIMMED_LASTHOP if to_host else Dscp.TRIMMED
        self._ecn_min = queue.ecn_min
        self._ecn_span = queue.ecn_max - queue.ecn_min if not to_host or spec.last_hop_ecn else 0  # 0: never
        self.waiting = _NOBODY
        self.register = 0
        self.tx_packets = [0] * 8
        self.tx_bytes = [0] * 8
        self.marks = self.trims = self.dropped = 0
        self.evs: dict[int, list[int]] = {}  # the switch's, of EVs that are watched

    def send(self, frame: SimFrame) -> None:
        """Queue a frame, trimmed where the queue is long, or drop it where that is full."""
        now = self._clock.now
        waiting = self.waiting
        if waiting and waiting[0].leave <= now:
            self.settle()
            waiting = self.waiting
        dscp = frame.dscp
        trim_at = self._trim_at
        if trim_at and _MAY_BE_TRIMMED[dscp] and frame.trimmable and self.register + (trim_at >> 2) >= trim_at:
            dither = self._draw((trim_at >> 1) + 1)
            if self.register + (trim_at >> 2) >= trim_at + dither:
                frame.trim(self._last_hop_dscp)
                self.trims += 1
                dscp = frame.dscp
        if not _IN_DATA_QUEUE[dscp]:
            frame.leave = now if not self._bits_per_second else self._control_leaves(frame, now)
            kind = _CLASSES[dscp]
            self.tx_packets[kind] += 1
            self.tx_bytes[kind] += frame.size
            if self.evs:
                self._count_ev(frame)
        elif len(waiting) >= self._depth:
            self.dropped += 1
            return
        else:
            if self._bits_per_second:
                leave = max(now, self._last) + frame.size * 8 * SECOND // self._bits_per_second
            else:
                leave = self._last + self._interval
            if leave <= now:
                leave = now
                self.register = 0
                self._count(frame, _CLASSES[dscp])
            else:
                if waiting is _NOBODY:
                    waiting = self.waiting = deque()
                waiting.append(frame)
            self._last = frame.leave = leave
        self.way.enter(frame, frame.leave)

    def _control_leaves(self, frame: SimFrame, now: int) -> int:
        """When a frame of the control queue has left: behind those before it, ahead of all data but what it delays.

        Data that is queued already keeps its time; data that comes later waits longer by what the frame took.
        """
        takes = frame.size * 8 * SECOND // self._bits_per_second
        self._control_free = max(now, self._control_free) + takes
        self._last = max(now, self._last) + takes
        return self._control_free

    def send_of_cpu(self, frame: SimFrame) -> None:
        """Send what the controller gave, past all queues."""
        frame.leave = self._clock.now
        self._count(frame, CPU)
        self.way.enter(frame, frame.leave)

    def settle(self) -> None:
        """Catch up on the frames that have left by now."""
        now, waiting = self._clock.now, self.waiting
        while waiting and waiting[0].leave <= now:
            frame = waiting.popleft()
            self.register = depth = len(waiting)
            above = depth - self._ecn_min
            if above > 0 and self._ecn_span and frame.ecn != _ECN_NOT_ECT and above > self._draw(self._ecn_span):
                frame.mark()
                self.marks += 1
            kind = _CLASSES[frame.dscp]
            self.tx_packets[kind] += 1
            self.tx_bytes[kind] += frame.size
            if self.evs:
                self._count_ev(frame)
        if not waiting:
            self.waiting = _NOBODY  # an empty deque takes more than all else of a port

    def _draw(self, count: int) -> int:
        """A number below `count`."""
        source = self._random
        if source is None:
            source = self._random = random.Random(self._seed)
        return int(source.random() * count)

    def _count(self, frame: SimFrame, traffic_class: int) -> None:
        self.tx_packets[traffic_class] += 1
        self.tx_bytes[traffic_class] += frame.size
        if self.evs:
            self._count_ev(frame)

    def _count_ev(self, frame: SimFrame) -> None:
        """Only an MRC frame has an EV: what RoCEv2 writes in its place is another number."""
        if frame.trimmable and (cell := self.evs.get(frame.ev)) is not None:
            cell[0] += 1
            cell[1] += frame.size

    def depth(self) -> int:
        """Frames that wait now."""
        self.settle()
        return len(self.waiting)

    def lose_waiting(self) -> None:
        """The switch stands still or is dead: what waits is lost."""
        self.settle()
        for frame in self.waiting:
            frame.gone = True
        self.waiting.clear()
        self._last = self._clock.now - self._interval

    def clear(self) -> None:
        """The switch is dead: what waits is lost, and what it counted forgotten."""
        self.lose_waiting()
        self.register = 0
        self.tx_packets = [0] * 8
        self.tx_bytes = [0] * 8
        self.marks = self.trims = self.dropped = 0
