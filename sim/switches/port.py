"""An egress port of a simulated switch: two queues, ECN, trimming, tail drops, as p4src and the targets have it.

The data queue lets one packet go per packet time of the link (behavioral-model's rate limiter: 1/rate after the
predecessor's turn, at once where that is over); the control queue is not limited. So a packet's time to leave is known
when it comes, and one event takes it to the far end of the cable. What is only known when it leaves, the depth behind
it, is caught up on by whatever happens at the port next: nobody can look in between.

Where links have a rate in bits, a port is a switch chip's and not the P4 program's on a target: thresholds and depth
are bytes (of full packets), a packet is trimmed by the depth that it finds when it comes, and the control queue, which
takes time, has a limit too.
"""

from __future__ import annotations

import random
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from mrclab.hosts.roce.telemetry import Hop
from mrclab.sim.clock import NEVER, SECOND
from mrclab.topo.numbers import FULL_HEADER_BYTES, SACK_BYTES, Dscp

if TYPE_CHECKING:
    from mypy_extensions import i64

    from mrclab.sim.clock import Clock
    from mrclab.sim.frame import SimFrame
    from mrclab.sim.links.cable import HalfLink
    from mrclab.topo.spec import FabricSpec

_ECN_NOT_ECT: Final = 0
NO_TRIM: Final = 0
TRIMMABLE: Final = 1
TRIMMABLE_RETX: Final = 2
TRIMMED: Final = 3
TRIMMED_LASTHOP: Final = 4
CONTROL: Final = 5
OTHER: Final = 6
CPU: Final = 7
"""Traffic classes, the cells of a port's counter `tx`."""

_CLASSES: Final[list[int]] = [OTHER] * 64
for _dscp, _class in (
    (Dscp.NO_TRIM, NO_TRIM), (Dscp.TRIMMABLE, TRIMMABLE), (Dscp.TRIMMABLE_RETX, TRIMMABLE_RETX),
    (Dscp.TRIMMED, TRIMMED), (Dscp.TRIMMED_LASTHOP, TRIMMED_LASTHOP), (Dscp.CONTROL, CONTROL),
):  # fmt: skip
    _CLASSES[_dscp] = _class


def kind_of(dscp: int) -> int:
    """Traffic class of a code point."""
    return _CLASSES[dscp]


def takes(size: int, bits_per_second: int) -> int:
    """Ticks that so many bytes take. Machine's own numbers, compiled: a product beyond 2^31 is Python's else."""
    bits: i64 = size * 8
    rate: i64 = bits_per_second
    return bits * SECOND // rate


@lru_cache
def _speed(rate_pps: float, rate: float | None) -> tuple[int, int]:
    """Ticks of a packet, and bits per second, 0 where packets count and not bytes: the same objects for all ports."""
    return round(SECOND / rate_pps), 0 if rate is None else round(rate)


@lru_cache
def _longest_control(depth: int, rate: float | None) -> int:
    """Ticks that a full control queue takes."""
    return NEVER if rate is None else round(depth * SACK_BYTES * 8 * SECOND / rate)


class SimSwitchPort:
    """One port of a switch. `register` is the P4 program's: depth of the data queue at the last packet that left it.

    Depths and thresholds are in packets or, where the link has a `rate` in bits, in bytes.

    `waiting` frames stand in the queue, from `_first` on by `SimFrame.behind`; the first leaves at `next_leaves`.
    """

    __slots__ = (
        "_backlog", "_bits_per_second", "_clock", "_control", "_control_bytes", "_control_free", "_control_longest",
        "_data", "_data_bytes", "_depth", "_ecn_min", "_ecn_span", "_first", "_interval", "_last", "_last_hop_dscp",
        "_newest", "_others", "_random", "_seed", "_trim_at", "_trim_from", "dropped", "evs", "marks", "next_leaves",
        "number", "register", "trims", "waiting", "way",
    )  # fmt: skip

    def __init__(
        self,
        clock: Clock,
        number: int,
        spec: FabricSpec,
        to_host: bool,
        way: HalfLink,
        seed: str,
        rate: float | None,
    ) -> None:
        queue = spec.queue
        self._clock = clock
        self.way = way
        self.next_leaves = NEVER
        self.register = 0
        unit = 1
        if spec.link.rate is not None and rate is not None:  # as long in time as at the fabric's rate
            unit = round((spec.path_mtu + FULL_HEADER_BYTES) * rate / spec.link.rate)
        self._trim_at = 0  # 0: never
        if spec.trimming:
            self._trim_at = unit * (queue.last_hop_trim_threshold if to_host else queue.trim_threshold)
        self._trim_from = self._trim_at - (self._trim_at >> 2) if self._trim_at else NEVER  # least depth that may trim
        self._interval, self._bits_per_second = _speed(spec.link.rate_pps, rate)
        self._last = -self._interval
        self._depth = unit * queue.depth
        self._control_longest = _longest_control(queue.control_depth, rate)
        self.waiting = 0
        self._backlog = 0  # what waits, as depths count it
        self._first: SimFrame | None = None
        self._newest: SimFrame | None = None
        self._ecn_min = unit * queue.ecn_min
        # 0: never
        self._ecn_span = unit * (queue.ecn_max - queue.ecn_min) if not to_host or spec.last_hop_ecn else 0
        self._control_free = 0  # when the link has sent the last packet of the control queue, where bytes count
        self.evs: dict[int, list[int]] = {}  # the switch's, of EVs that are watched
        self._others: dict[int, tuple[int, int]] | None = None  # of classes that are rare
        self._clear_counters()
        self.number = number
        self._seed = seed
        self._random: random.Random | None = None  # made when something is first drawn: most ports never do
        self._last_hop_dscp = int(Dscp.TRIMMED_LASTHOP if to_host else Dscp.TRIMMED)

    def send(self, frame: SimFrame) -> None:
        """Queue a frame, trimmed where the queue is long, or drop it where that is full."""
        now = self._clock.now
        if self.next_leaves <= now:
            self.settle(now)
        kind = _CLASSES[frame.dscp]
        rate = self._bits_per_second
        depth = self._backlog if rate else self.register
        if depth >= self._trim_from and TRIMMABLE <= kind <= TRIMMABLE_RETX and frame.trimmable:
            kind = self._may_trim(frame, kind, depth)
        if TRIMMED <= kind <= CONTROL:  # past all data
            if self._control_free - now >= self._control_longest:
                self.dropped += 1
                return
            frame.leave = leave = now if not rate else self._control_leaves(frame, now)
            self._count(frame, kind)
        elif self._backlog + (frame.size if rate else 1) > self._depth:
            self.dropped += 1
            return
        else:
            busy_until = self._last
            leave = max(now, busy_until) + takes(frame.size, rate) if rate else busy_until + self._interval
            if leave <= now:
                frame.leave = leave = now
                self.register = 0
                self._count(frame, kind)
                if frame.telemetry is not None:
                    self._stamp(frame, frame.telemetry, now)
            else:
                self._queue(frame, leave)
            self._last = frame.leave = leave
        self.way.enter(frame, leave)

    def _may_trim(self, frame: SimFrame, kind: int, depth: int) -> int:
        """Trim a frame where the depth, against a threshold that is drawn for it, says so; its class then."""
        trim_at = self._trim_at
        dither = self._draw((trim_at >> 1) + 1)
        if depth + (trim_at >> 2) < trim_at + dither:
            return kind
        frame.trim(self._last_hop_dscp)
        self.trims += 1
        return _CLASSES[frame.dscp]

    def _queue(self, frame: SimFrame, leave: int) -> None:
        """Behind those that wait."""
        newest = self._newest
        if newest is None:
            self._first = frame
            self.next_leaves = leave
        else:
            newest.behind = frame
        self._newest = frame
        self.waiting += 1
        self._backlog += frame.size if self._bits_per_second else 1

    def _control_leaves(self, frame: SimFrame, now: int) -> int:
        """Return when a frame of the control queue has left: behind those before it, ahead of data not yet in service.

        Data that is queued already keeps its time; data that comes later waits longer by what the frame took.
        """
        ticks = takes(frame.size, self._bits_per_second)
        self._control_free = max(now, self._control_free) + ticks
        self._last = max(now, self._last) + ticks
        return self._control_free

    def send_of_cpu(self, frame: SimFrame) -> None:
        """Send what the controller gave, past all queues."""
        frame.leave = now = self._clock.now
        self._count(frame, CPU)
        self.way.enter(frame, now)

    def catch_up(self) -> None:
        """Take note of the frames that have left by now."""
        now = self._clock.now
        if self.next_leaves <= now:
            self.settle(now)

    def settle(self, now: int) -> None:
        """The same where the first of them has."""
        frame = self._first
        while frame is not None and frame.leave <= now:
            following = frame.behind
            frame.behind = None
            self.waiting -= 1
            self.register = self._backlog = depth = self._backlog - (frame.size if self._bits_per_second else 1)
            if depth > self._ecn_min:
                self._may_mark(frame, depth - self._ecn_min)
            self._count(frame, _CLASSES[frame.dscp])
            if frame.telemetry is not None:
                self._stamp(frame, frame.telemetry, frame.leave)
            frame = following
        self._first = frame
        if frame is None:
            self._newest = None
            self.next_leaves = NEVER
        else:
            self.next_leaves = frame.leave

    def _may_mark(self, frame: SimFrame, above: int) -> None:
        """Mark a frame that leaves a queue so much longer than what is never marked."""
        if self._ecn_span and frame.ecn != _ECN_NOT_ECT and above > self._draw(self._ecn_span):
            frame.mark()
            self.marks += 1

    def _stamp(self, frame: SimFrame, hops: list[Hop], at: int) -> None:
        """Write telemetry of this port into a frame that leaves at a time."""
        sent = self._data_bytes + self._control_bytes
        for _, size in (self._others or {}).values():
            sent += size
        rate = self._bits_per_second / 8 or frame.size * SECOND / self._interval
        queue = self._backlog if self._bits_per_second else self._backlog * frame.size
        hops.append(Hop(id(self), rate, queue, sent, at / SECOND))

    def _draw(self, count: int) -> int:
        """A number below `count`."""
        source = self._random
        if source is None:
            source = self._random = random.Random(self._seed)
        return int(source.random() * count)

    def _count(self, frame: SimFrame, kind: int) -> None:
        """A frame of this class leaves. Nearly all are data or control packets, which have counters of their own."""
        if kind == TRIMMABLE:
            self._data += 1
            self._data_bytes += frame.size
        elif kind == CONTROL:
            self._control += 1
            self._control_bytes += frame.size
        else:
            if self._others is None:
                self._others = {}
            packets, size = self._others.get(kind, (0, 0))
            self._others[kind] = packets + 1, size + frame.size
        if self.evs:
            self._count_ev(frame)

    def _count_ev(self, frame: SimFrame) -> None:
        """Only an MRC frame has an EV: what RoCEv2 writes in its place is another number."""
        if frame.trimmable and (cell := self.evs.get(frame.ev)) is not None:
            cell[0] += 1
            cell[1] += frame.size

    def sent(self) -> list[tuple[int, int]]:
        """Frames and bytes that left, by class."""
        others = self._others or {}
        found = [others.get(kind, (0, 0)) for kind in range(CPU + 1)]
        found[TRIMMABLE] = self._data, self._data_bytes
        found[CONTROL] = self._control, self._control_bytes
        return found

    @property
    def now(self) -> int:
        """The time in ticks."""
        return self._clock.now

    def backlog(self, now: int) -> int:
        """Packets or bytes, as depths count them, that wait in the data queue."""
        if self.next_leaves <= now:
            self.settle(now)
        return self._backlog

    def depth(self) -> int:
        """Frames that wait now."""
        self.catch_up()
        return self.waiting

    def lose_waiting(self) -> None:
        """The switch stands still or is dead: what waits is lost."""
        self.catch_up()
        frame = self._first
        while frame is not None:
            frame.gone = True
            following = frame.behind
            frame.behind = None
            frame = following
        self._first = self._newest = None
        self.next_leaves = NEVER
        self.waiting = self._backlog = self.register = 0
        self._last = self._clock.now - self._interval

    def clear(self) -> None:
        """The switch is dead: what waits is lost, and what it counted forgotten."""
        self.lose_waiting()
        self._clear_counters()

    def _clear_counters(self) -> None:
        self._data = self._data_bytes = self._control = self._control_bytes = 0
        self._others = None
        self.marks = self.trims = self.dropped = 0
