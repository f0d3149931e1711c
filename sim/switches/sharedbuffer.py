"""A switch with one buffer for all ports, and priority flow control: ports that can be paused.

The buffer is shared by dynamic thresholds (Choudhury and Hahne, IEEE/ACM ToN 6(2), 1998): a queue may hold alpha times
what is free. Without PFC that is the queue of an egress port, and what is beyond is dropped. With PFC (IEEE 802.1Qbb)
it is the bytes of one ingress port in the switch: above, its peer is paused (XOFF) until they are fewer (XON),
and frames in flight meanwhile have headroom of their own; only those beyond it are lost. Control packets have a
priority of their own, which is never paused.

A pause reaches the peer after the cable's delay and the frame in transmission. XON always arrives: a pause that is
refreshed until then and one with a long time are the same. XOFF is sent again where frames show that the peer does not
know of it: a port forgets its pause when carrier goes or comes, and when its cable is swapped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from mrclab.sim.clock import NEVER, SECOND, ScheduledEvent, ticks
from mrclab.sim.switches.port import (
    CONTROL,
    TRIMMABLE,
    TRIMMABLE_RETX,
    TRIMMED,
    SimSwitchPort,
    kind_of,
    serialization_ticks,
)
from mrclab.topo.numbers import FULL_HEADER_BYTES

if TYPE_CHECKING:
    from mypy_extensions import i64

    from mrclab.sim.clock import Clock
    from mrclab.sim.frame import SimFrame
    from mrclab.sim.links.cable import HalfLink
    from mrclab.topo.spec import FabricSpec

PAUSE_BYTES: Final = 64
"""Ethernet frame of a PAUSE."""

Pause = Callable[[bool], None]
"""Has a sender stop sending data, or go on."""


class Ingress:
    """Bytes that came in by one half-link and are still in the switch."""

    __slots__ = ("headroom", "headroom_used", "pause", "paused", "paused_at", "port", "shared_used")

    def __init__(self, pause: Pause | None, headroom: int, port: int) -> None:
        self.pause = pause  # of the peer
        self.port = port
        self.shared_used = 0  # in the shared part
        self.headroom_used = 0  # in the port's headroom
        self.headroom = headroom
        self.paused = False  # the peer was paused
        self.paused_at: i64 = 0  # when XOFF was last sent


class SwitchBuffer:
    """Memory that all ports of a switch share; `pause_of` returns how the sender into a half-link is paused.

    With PFC every port's headroom is reserved first: ValueError if nothing is left to share.
    """

    def __init__(
        self, clock: Clock, spec: FabricSpec, ports: int, pause_of: Callable[[HalfLink], Pause | None]
    ) -> None:
        queue, (rate, delay) = spec.queue, spec.worst
        self._clock = clock
        self._pause_of = pause_of
        self._full = spec.path_mtu + FULL_HEADER_BYTES
        self._alpha = queue.alpha
        self.pfc = queue.pfc is not None
        self._xoff = queue.pfc.xoff if queue.pfc else 0
        self._xon = queue.pfc.xon if queue.pfc else 0
        self._pause_delay = ticks(delay) + serialization_ticks(self._full + PAUSE_BYTES, round(rate))
        self._pause_again: i64 = 2 * self._pause_delay + ticks(spec.latency + spec.nic_latency)  # data stops by then
        self._headroom = spec.headroom
        self.size = queue.buffer - self._headroom * ports
        self.used = 0  # of what is shared
        self._ingress: dict[HalfLink, Ingress] = {}  # by half-link, as its far end may be moved to another port
        self._xoffs: dict[int, int] = {}  # by port

    def ingress(self, half_link: HalfLink) -> Ingress:
        """Return the ingress accounting of a half-link."""
        found = self._ingress.get(half_link)
        if found is None:
            found = Ingress(self._pause_of(half_link), self._headroom, half_link.far_port)
            self._ingress[half_link] = found
        return found

    def xoffs(self, port: int) -> int:
        """Return how often the peer of a port was paused."""
        return self._xoffs.get(port, 0)

    def forget_pauses(self, port: int) -> None:
        """Reset the count of pauses of a port's peer."""
        self._xoffs.pop(port, None)

    def admit(self, frame: SimFrame, queued: int) -> bool:
        """Admit a frame to an egress queue that holds `queued` bytes; False if it must be dropped."""
        size = frame.size
        if not self.pfc:
            if self.used + size > self.size or queued + size > self._alpha * (self.size - self.used):
                return False
            self.used += size
            return True
        ingress_port = self.ingress(frame.half_link)
        limit = self._xoff_limit()
        if (
            not ingress_port.headroom_used
            and ingress_port.shared_used + size <= limit
            and self.used + size <= self.size
        ):
            ingress_port.shared_used += size
            self.used += size
            if ingress_port.shared_used + self._full > limit:
                self._pause_peer(ingress_port)
            return True
        if ingress_port.headroom_used + size > ingress_port.headroom:
            if ingress_port.paused:  # it holds bytes, so that XON will come
                self._pause_peer(ingress_port)
            return False
        ingress_port.headroom_used += size
        self._pause_peer(ingress_port)
        return True

    def release(self, frame: SimFrame) -> None:
        """Release the bytes of a frame that was sent or lost."""
        size = frame.size
        if not self.pfc:
            self.used -= size
            return
        ingress_port = self.ingress(frame.half_link)
        headroom_used = min(size, ingress_port.headroom_used)
        ingress_port.headroom_used -= headroom_used
        ingress_port.shared_used -= size - headroom_used
        self.used -= size - headroom_used
        if ingress_port.paused and not ingress_port.headroom_used and ingress_port.shared_used <= self._xon_limit():
            ingress_port.paused = False
            self._send_pause(ingress_port, False)

    def _xoff_limit(self) -> float:
        return self._xoff or self._alpha * (self.size - self.used)

    def _xon_limit(self) -> float:
        """Bytes of an ingress port at which its peer is resumed: two packets below the XOFF limit."""
        return self._xon or max(0.0, self._xoff_limit() - 2 * self._full)

    def _pause_peer(self, ingress_port: Ingress) -> None:
        now = self._clock.now
        if not ingress_port.paused:
            ingress_port.paused = True
            self._xoffs[ingress_port.port] = self._xoffs.get(ingress_port.port, 0) + 1
        elif now - ingress_port.paused_at <= self._pause_again:
            return
        ingress_port.paused_at = now
        self._send_pause(ingress_port, True)

    def _send_pause(self, ingress_port: Ingress, on: bool) -> None:
        if ingress_port.pause is not None:
            self._clock.call_at(self._clock.now + self._pause_delay, ingress_port.pause, on)


class _TransmitEnd(ScheduledEvent):
    """The end of a frame's transmission."""

    __slots__ = ("_port",)

    def __init__(self, port: PausablePort) -> None:
        self._port = port

    def fire(self) -> None:
        """Finish the transmission."""
        self._port.on_transmitted(self)


class PausablePort(SimSwitchPort):
    """Egress port of a switch with a shared buffer: control first, then data unless a peer has paused it.

    `storms` counts detections of the watchdog: data that a pause had blocked for too long. As in SONiC, waiting and
    arriving data is then dropped (or sent in spite of pauses) until no pause was there for the restoration time.
    """

    __slots__ = (
        "_blocked_since", "_buffer", "_control_queue", "_data_queue", "_forwards", "_in_service", "_paused_since",
        "_paused_ticks", "_restoration", "_resumed_at", "_storming", "_transmit_end", "_waiting_control", "_watchdog",
        "paused", "storms",
    )  # fmt: skip

    def __init__(
        self,
        clock: Clock,
        number: int,
        spec: FabricSpec,
        to_host: bool,
        half_link: HalfLink,
        seed: str,
        buffer: SwitchBuffer,
        rate: float | None,
    ) -> None:
        super().__init__(clock, number, spec, to_host, half_link, seed, rate)
        self._buffer = buffer
        self._data_queue: deque[SimFrame] = deque()
        self._control_queue: deque[SimFrame] = deque()
        self._waiting_control = 0  # bytes
        self._in_service: SimFrame | None = None
        self._transmit_end = _TransmitEnd(self)
        self.paused = False
        self._paused_since: i64 = 0
        self._paused_ticks: i64 = 0
        self._storming = False
        self.storms = 0
        pfc = spec.queue.pfc
        self._watchdog: i64 = ticks(pfc.watchdog) if pfc is not None and pfc.watchdog is not None else NEVER
        self._restoration: i64 = ticks(pfc.watchdog_restoration or 0) if pfc is not None else 0
        self._forwards = pfc is not None and pfc.watchdog_action == "forward"
        self._blocked_since: i64 = NEVER  # since when a pause blocks data here
        self._resumed_at: i64 = 0

    def send(self, frame: SimFrame) -> None:
        """Queue a frame, trimmed where the queue is long, or drop it where the buffer has no room."""
        kind = kind_of(frame.dscp)
        depth = self._backlog
        if depth >= self._trim_from and TRIMMABLE <= kind <= TRIMMABLE_RETX and frame.trimmable:
            kind = self._may_trim(frame, kind, depth)
        if TRIMMED <= kind <= CONTROL:
            if serialization_ticks(self._waiting_control, self._bits_per_second) >= self._control_longest:
                self.dropped += 1
                return
            self._control_queue.append(frame)
            self._waiting_control += frame.size
        elif (self._storming and not self._forwards) or not self._buffer.admit(frame, depth):
            self.dropped += 1
            return
        else:
            self._data_queue.append(frame)
            self.waiting += 1
            self._backlog += frame.size
            if self.paused and self._blocked_since == NEVER:
                self._start_watchdog()
        if self._in_service is None:
            self._serve()

    def _serve(self) -> None:
        if self._control_queue:
            frame = self._control_queue.popleft()
            self._waiting_control -= frame.size
        elif self._data_queue and (not self.paused or (self._storming and self._forwards)):
            frame = self._data_queue.popleft()
        else:
            return
        self._in_service = frame
        duration = serialization_ticks(frame.size, self._bits_per_second)
        self._clock.schedule(self._clock.now + duration, self._transmit_end)

    def on_transmitted(self, event: _TransmitEnd) -> None:
        """Send a frame whose transmission ends, unless it was lost meanwhile."""
        frame = self._in_service
        if event is not self._transmit_end or frame is None:
            return
        self._in_service = None
        kind = kind_of(frame.dscp)
        if not TRIMMED <= kind <= CONTROL:
            self.waiting -= 1
            self.register = self._backlog = depth = self._backlog - frame.size
            if depth > self._ecn_min:
                self._may_mark(frame, depth - self._ecn_min)
            self._buffer.release(frame)
        now = self._clock.now
        frame.leave = now
        self._count(frame, kind)
        if frame.telemetry is not None and not TRIMMED <= kind <= CONTROL:
            self._stamp(frame, frame.telemetry, now)
        self.half_link.enter(frame, now)
        self._serve()

    # --- pauses -----------------------------------------------------------------------------------------------------

    def pause(self, on: bool) -> None:
        """Stop sending data, or resume: a PAUSE frame of the peer arrived."""
        if on == self.paused:
            return
        now = self._clock.now
        self.paused = on
        if on:
            self._paused_since = now
            if self._data_queue:
                self._start_watchdog()
            return
        self._paused_ticks += now - self._paused_since
        self._blocked_since = NEVER
        self._resumed_at = now
        if self._storming:
            if self._restoration:
                self._clock.call_at(now + self._restoration, self._end_storm, now)
            else:
                self._storming = False
        if self._in_service is None:
            self._serve()

    def forget_pause(self) -> None:
        """End the pause of the peer, if there is one."""
        self.pause(False)

    def _start_watchdog(self) -> None:
        """Begin the watchdog's detection time: a pause blocks data from now on."""
        if self._watchdog < NEVER and not self._storming:
            self._blocked_since = now = self._clock.now
            self._clock.call_at(now + self._watchdog, self._detect, now)

    def _detect(self, since: i64) -> None:
        """Begin a storm if a pause has blocked data since then."""
        if self._blocked_since != since:
            return
        self._blocked_since = NEVER
        self._storming = True
        self.storms += 1
        if not self._forwards:
            self.dropped += len(self._data_queue)
            self._drop_data()
        elif self._in_service is None:
            self._serve()

    def _end_storm(self, since: i64) -> None:
        """End a storm where no pause has come since then."""
        if not self.paused and self._resumed_at == since:
            self._storming = False

    @property
    def xoffs(self) -> int:
        """Number of pauses sent to this port's peer."""
        return self._buffer.xoffs(self.number)

    @property
    def paused_seconds(self) -> float:
        """Time for which this port's peer has kept it from sending data so far."""
        return (self._paused_ticks + (self._clock.now - self._paused_since if self.paused else 0)) / SECOND

    # --- life -------------------------------------------------------------------------------------------------------

    def catch_up(self) -> None:
        """Do nothing: frames leave by events here."""

    def queued(self) -> int:
        """Number of frames in both queues and in transmission; data is waiting until it was transmitted."""
        frame = self._in_service
        sends_control = frame is not None and TRIMMED <= kind_of(frame.dscp) <= CONTROL
        return self.waiting + len(self._control_queue) + sends_control

    def _drop_data(self) -> None:
        while self._data_queue:
            frame = self._data_queue.popleft()
            self.waiting -= 1
            self._backlog -= frame.size
            self._buffer.release(frame)

    def lose_waiting(self) -> None:
        """Lose all queued frames and the one in transmission: the switch is frozen or killed."""
        self._drop_data()
        self._control_queue.clear()
        self._waiting_control = 0
        frame, self._in_service = self._in_service, None
        if frame is not None:
            self._transmit_end = _TransmitEnd(self)
            if not TRIMMED <= kind_of(frame.dscp) <= CONTROL:
                self._buffer.release(frame)
        self.waiting = self._backlog = 0
        self._blocked_since = NEVER

    def clear(self) -> None:
        """Forget pauses too: a new process has counted none, and knows of none until its peer sends one again."""
        super().clear()
        self.paused = self._storming = False
        self._paused_ticks = self.storms = 0
        self._buffer.forget_pauses(self.number)
