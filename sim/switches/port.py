"""An egress port of a simulated switch: two queues, ECN, trimming, tail drops, as p4src and the targets have it.

The data queue lets one packet go per packet time of the link (behavioral-model's rate limiter: 1/rate after the
predecessor's turn, at once where that is over); the control queue is not limited. So a packet's departure time is known
when it arrives, and one event takes it to the far end of the cable. The depth it leaves behind, known only at
departure, is worked out at the port's next event: nothing reads it in between.

Where links have a rate in bits, a port is a switch chip's and not the P4 program's on a target: thresholds and depth
are bytes (of full packets), a packet is trimmed by the depth that it finds on arrival, and the control queue, which is
limited to the link rate, has a limit of depth too.
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


def serialization_ticks(size: i64, bits_per_second: i64) -> i64:
    """Serialization delay of `size` bytes in ticks."""
    return size * 8 * SECOND // bits_per_second


@lru_cache
def _speed(rate_pps: float, rate: float | None) -> tuple[int, int]:
    """Ticks of a packet, and bits per second, 0 where packets count and not bytes: the same objects for all ports."""
    return round(SECOND / rate_pps), 0 if rate is None else round(rate)


@lru_cache
def _longest_control(depth: int, rate: float | None) -> int:
    """Serialization delay of a full control queue in ticks."""
    return NEVER if rate is None else round(depth * SACK_BYTES * 8 * SECOND / rate)


class SimSwitchPort:
    """One port of a switch. `register` is the P4 program's: depth of the data queue at the last packet that left it.

    Depths and thresholds are in packets or, where the link has a `rate` in bits, in bytes.

    `waiting` frames are in the queue, from `_first` on by `SimFrame.next_queued`; the first leaves at `next_leaves`.
    """

    __slots__ = (
        "_backlog", "_bits_per_second", "_clock", "_control", "_control_bytes", "_control_free", "_control_longest",
        "_data", "_data_bytes", "_depth", "_ecn_min", "_ecn_span", "_first", "_interval", "_last", "_last_hop_dscp",
        "_newest", "_others", "_random", "_seed", "_trim_at", "_trim_from", "dropped", "evs", "half_link", "marks",
        "next_leaves", "number", "register", "trims", "waiting",
    )  # fmt: skip

    def __init__(
        self,
        clock: Clock,
        number: int,
        spec: FabricSpec,
        to_host: bool,
        half_link: HalfLink,
        seed: str,
        rate: float | None,
    ) -> None:
        queue = spec.queue
        full = unit = 1
        if spec.link.rate is not None and rate is not None:  # as long in time as at the fabric's rate
            full = spec.path_mtu + FULL_HEADER_BYTES
            unit = max(1, round(full * rate / spec.link.rate))
        trim_at = 0  # never
        if spec.trimming:
            trim_at = unit * (queue.last_hop_trim_threshold if to_host else queue.trim_threshold)
        interval, bits_per_second = _speed(spec.link.rate_pps, rate)
        # what each packet needs comes first: compiled, an object's attributes lie in memory in this order
        self._clock = clock
        self.half_link = half_link
        self.next_leaves: i64 = NEVER
        self.register = 0
        self._backlog = 0  # depth of the data queue
        self._bits_per_second: i64 = bits_per_second
        self._trim_from = trim_at - (trim_at >> 2) if trim_at else NEVER  # least depth that may trim
        self._depth = max(unit * queue.depth, full)  # one that holds no packet would carry none
        self._last: i64 = -interval
        self._interval: i64 = interval
        self._first: SimFrame | None = None
        self._newest: SimFrame | None = None
        self.waiting = 0
        self._ecn_min = unit * queue.ecn_min
        self._data = self._data_bytes = self._control = self._control_bytes = 0
        self.evs: dict[int, list[int]] = {}  # the switch's, of EVs that are watched
        self._control_free: i64 = 0  # when the link has sent the last packet of the control queue, where bytes count
        self._control_longest: i64 = _longest_control(queue.control_depth, rate)
        self._trim_at = trim_at
        # 0: never
        self._ecn_span = unit * (queue.ecn_max - queue.ecn_min) if not to_host or spec.last_hop_ecn else 0
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
            self.dequeue(now)
        kind = _CLASSES[frame.dscp]
        rate = self._bits_per_second
        depth = self._backlog if rate else self.register
        if depth >= self._trim_from and TRIMMABLE <= kind <= TRIMMABLE_RETX and frame.trimmable:
            kind = self._may_trim(frame, kind, depth)
        if TRIMMED <= kind <= CONTROL:  # by the control queue
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
            leave = (
                max(now, busy_until) + serialization_ticks(frame.size, rate) if rate else busy_until + self._interval
            )
            if leave <= now:
                frame.leave = leave = now
                self.register = 0
                self._count(frame, kind)
                if frame.telemetry is not None:
                    self._stamp(frame, frame.telemetry, now)
            else:
                self._queue(frame, leave)
            self._last = frame.leave = leave
        self.half_link.enter(frame, leave)

    def _may_trim(self, frame: SimFrame, kind: int, depth: int) -> int:
        """Trim a frame if the depth exceeds a randomly dithered threshold; return its class then."""
        trim_at = self._trim_at
        dither = self._draw((trim_at >> 1) + 1)
        if depth + (trim_at >> 2) < trim_at + dither:
            return kind
        frame.trim(self._last_hop_dscp)
        self.trims += 1
        return _CLASSES[frame.dscp]

    def _queue(self, frame: SimFrame, leave: i64) -> None:
        """Append to the data queue."""
        newest = self._newest
        if newest is None:
            self._first = frame
            self.next_leaves = leave
        else:
            newest.next_queued = frame
        self._newest = frame
        self.waiting += 1
        self._backlog += frame.size if self._bits_per_second else 1

    def _control_leaves(self, frame: SimFrame, now: i64) -> i64:
        """Return when a frame of the control queue has left: after those before it, before data not in transmission.

        Data that is queued already keeps its time; later data waits longer by the frame's serialization delay.
        """
        ticks = serialization_ticks(frame.size, self._bits_per_second)
        self._control_free = max(now, self._control_free) + ticks
        self._last = max(now, self._last) + ticks
        return self._control_free

    def send_packet_out(self, frame: SimFrame) -> None:
        """Send a packet-out of the controller, past all queues."""
        frame.leave = now = self._clock.now
        self._count(frame, CPU)
        self.half_link.enter(frame, now)

    def catch_up(self) -> None:
        """Remove the frames that have left by now from the queue."""
        now = self._clock.now
        if self.next_leaves <= now:
            self.dequeue(now)

    def dequeue(self, now: i64) -> None:
        """Remove the frames that have left; to be called when the first one has."""
        frame = self._first
        while frame is not None and frame.leave <= now:
            following = frame.next_queued
            frame.next_queued = None
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
        """Mark a frame with ECN-CE at random; the queue it leaves is `above` the least depth that marks."""
        if self._ecn_span and frame.ecn != _ECN_NOT_ECT and above > self._draw(self._ecn_span):
            frame.mark()
            self.marks += 1

    def _stamp(self, frame: SimFrame, hops: list[Hop], at: i64) -> None:
        """Append this port's telemetry to a frame that leaves at a time."""
        sent = self._data_bytes + self._control_bytes
        for _, size in (self._others or {}).values():
            sent += size
        rate = self._bits_per_second / 8 or frame.size * SECOND / self._interval
        queue = self._backlog if self._bits_per_second else self._backlog * frame.size
        hops.append(Hop(id(self), rate, queue, sent, at / SECOND))

    def _draw(self, count: int) -> int:
        """Return a random number below `count`."""
        source = self._random
        if source is None:
            source = self._random = random.Random(self._seed)
        return int(source.random() * count)

    def _count(self, frame: SimFrame, kind: int) -> None:
        """Count a frame that leaves. Nearly all are data or control packets, which have counters of their own."""
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
        """Count a frame of a watched EV; only MRC frames have EVs, RoCEv2 has another number in this place."""
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
    def now(self) -> i64:
        """The time in ticks."""
        return self._clock.now

    def backlog(self, now: i64) -> int:
        """Depth of the data queue, in packets or bytes."""
        if self.next_leaves <= now:
            self.dequeue(now)
        return self._backlog

    def depth(self) -> int:
        """Number of frames in the data queue now."""
        self.catch_up()
        return self.waiting

    def queued(self) -> int:
        """Number of frames in all queues and in transmission now."""
        return self.depth()

    def forget_pause(self) -> None:
        """End the pause of the peer: carrier went or came, or another peer is there."""

    def lose_waiting(self) -> None:
        """Lose all queued frames: the switch is frozen or killed."""
        self.catch_up()
        frame = self._first
        while frame is not None:
            frame.flushed = True
            following = frame.next_queued
            frame.next_queued = None
            frame = following
        self._first = self._newest = None
        self.next_leaves = NEVER
        self.waiting = self._backlog = self.register = 0
        self._last = self._clock.now - self._interval

    def clear(self) -> None:
        """Lose all queued frames and reset the counters: the switch is killed."""
        self.lose_waiting()
        self._clear_counters()

    def _clear_counters(self) -> None:
        self._data = self._data_bytes = self._control = self._control_bytes = 0
        self._others = None
        self.marks = self.trims = self.dropped = 0
