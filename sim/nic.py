"""A simulated NIC: the ports of a host on simulated cables, and the loop that calls everything on it at its time.

Ports serialize one frame after the other at the link's rate; an idle port takes the transport's next frame as soon as
there is one. Nothing is ever late.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

from mrclab.hosts.nic import interface
from mrclab.hosts.nic.interface import MRC_OPCODE_AT, FrameHandler, PortCounters, Transport, full_size
from mrclab.sim.clock import NEVER, SECOND, Clock, ScheduledEvent, ticks
from mrclab.sim.frame import LINK_CHECK, UNCHECKED, SimFrame, of_bytes
from mrclab.sim.links.cable import Cable, HalfLink
from mrclab.sim.switches.port import serialization_ticks
from mrclab.topo.config.nodeconfig import NicPortConfig, NodeConfig
from mrclab.topo.linkcheck import LinkCheckError, answer
from mrclab.topo.model import mac_bytes

if TYPE_CHECKING:
    from mypy_extensions import i64


class SimNicPort(ScheduledEvent):
    """One NIC port: when its link is free, its counters, and injected frames, which go before the transport's."""

    __slots__ = (
        "_free_then", "_nic", "_scheduled", "armed", "bits_per_second", "cable", "config", "foreign", "free_at",
        "half_link", "injected", "number", "paused", "rx_bytes", "rx_packets", "tx_bytes", "tx_packets", "up",
    )  # fmt: skip

    def __init__(self, nic: SimNic, config: NicPortConfig, cable: Cable, half_link: HalfLink) -> None:
        self._nic = nic
        self.number = config.number
        self.config = config
        self.cable = cable
        self.half_link = half_link
        self.up = False
        self.bits_per_second: i64 = 0
        self.free_at: i64 = 0
        self.armed = False  # an event is scheduled for `free_at`, or none may be
        self.paused = False  # by the switch, until that resumes it
        self._scheduled = False  # an event was scheduled when the pause began, and has not fired
        self._free_then: i64 = 0  # `free_at` without the pause
        self.injected: list[interface.Frame] = []
        self.tx_packets = self.tx_bytes = self.rx_packets = self.rx_bytes = self.foreign = 0

    def fire(self) -> None:
        """Report that the link is free again."""
        self._scheduled, self.armed = False, self.paused
        if not self.paused:
            self._nic.on_link_free()

    def pause(self, on: bool, now: i64) -> None:
        """Stop sending after the frame in transmission, or resume."""
        if on and not self.paused:
            self._scheduled, self.paused, self.armed = self.armed, True, True
            self._free_then, self.free_at = self.free_at, NEVER
        elif self.paused and not on:
            self.resume(max(self._free_then, now))

    def resume(self, free_at: i64) -> None:
        """End a pause; the link is free at `free_at`."""
        if self.paused:
            self.paused, self.armed = False, self._scheduled
        self.free_at = free_at

    def counters(self) -> PortCounters:
        """Return all counters; no frame is ever dropped for lack of space here."""
        return PortCounters(
            self.number, self.up, self.tx_packets, self.tx_bytes, self.rx_packets, self.rx_bytes, 0, self.foreign, 0
        )


class _Deadline(ScheduledEvent):
    """A deadline of the transport."""

    __slots__ = ("_nic",)

    def __init__(self, nic: SimNic) -> None:
        self._nic = nic

    def fire(self) -> None:
        """Call the transport, unless its deadline has moved."""
        self._nic.on_deadline(self.due)


class SimNic:
    """All ports of one host; `cables` gives the cable of each port and the half-link that begins there.

    With `wire_format` every frame is packed when it is sent and parsed when it arrives; the run is the same.
    """

    def __init__(
        self,
        clock: Clock,
        cables: Callable[[NicPortConfig], tuple[Cable, HalfLink]],
        wire_format: bool,
        config: NodeConfig,
        transport: Transport,
    ) -> None:
        self._clock = clock
        self._transport = transport
        self._host = config.host.name
        self._path_mtu = config.path_mtu
        self._wire_format = wire_format
        self.ports = tuple(SimNicPort(self, port, *cables(port)) for port in config.ports)
        self._set_rate(config)
        # by number: a list index is faster than a dict key
        self._by_number: list[SimNicPort | None] = [None] * (1 + max([port.number for port in self.ports], default=0))
        for port in self.ports:
            self._by_number[port.number] = port
        self._up: tuple[SimNicPort, ...] = ()
        self._pending_calls: list[Callable[[float], None]] = []
        self._handler: FrameHandler | None = None
        self._handled_opcode = -1
        self._deadline = inf  # deadline for which an event is scheduled, and the time of that event
        self._deadline_at: i64 = NEVER
        self._on = True
        self._listeners = [(port.cable, partial(self._carrier, port)) for port in self.ports]

    def _set_rate(self, config: NodeConfig) -> None:
        link = config.link
        bytes_per_second = round(link.rate_pps * full_size(config) if link.rate is None else link.rate / 8)
        for port in self.ports:
            own = port.config.rate
            port.bits_per_second = 8 * (bytes_per_second if own is None else round(own / 8))
        self._stores = link.rate is not None  # store and forward: a frame leaves with its last bit

    # --- life -------------------------------------------------------------------------------------------------------

    def connect(self) -> None:
        """Follow the carrier of the cables from now on; frames arrive by `receive`."""
        for cable, listener in self._listeners:
            cable.listen(listener)
        for port in self.ports:
            if port.cable.up:
                self._carrier(port, True)

    def disconnect(self) -> None:
        """End the NIC: it receives no frames, and its scheduled events do nothing."""
        self._on = False
        for cable, listener in self._listeners:
            cable.forget(listener)

    # --- the loop ---------------------------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        """The time in seconds."""
        return self._clock.now / SECOND

    def every(self, interval: float, work: Callable[[float], None]) -> None:
        """Call `work(now)` every `interval` seconds, for the first time after one interval."""
        step = max(1, ticks(interval))

        def run(_argument: object) -> None:
            if self._on:
                self._clock.call_at(self._clock.now + step, run)
                work(self.now)
                self.serve()

        self._clock.call_at(self._clock.now + step, run)

    def call_soon(self, work: Callable[[float], None]) -> None:
        """Call `work(now)` once, before the next frame is sent."""
        self._pending_calls.append(work)

    def until_done(self, interval: float, step: Callable[[float], bool]) -> None:
        """Call `step(now)` every `interval` seconds, first at once, until it returns False."""
        pause = max(1, ticks(interval))

        def run(_argument: object) -> None:
            if self._on:
                if step(self.now):
                    self._clock.call_at(self._clock.now + pause, run)
                self.serve()

        self._clock.call_at(self._clock.now, run)

    def serve(self) -> None:
        """Run pending calls, send frames, and schedule the transport's next deadline."""
        self._transmit()
        if self._transport.not_before() < self._deadline:
            self._schedule_deadline()

    def _schedule_deadline(self) -> None:
        """Schedule an event at the transport's deadline; one that has become too early is rescheduled when it fires."""
        deadline = self._transport.next_deadline()
        if deadline is not None and deadline < self._deadline:
            self._deadline = deadline
            self._deadline_at = at = self._clock.not_before(deadline)
            self._clock.schedule(at, _Deadline(self))

    def on_deadline(self, at: i64) -> None:
        """Call the transport if its deadline has come; `at` is when the event was due."""
        if at != self._deadline_at or not self._on:
            return  # an earlier event replaced it
        self._deadline, self._deadline_at = inf, NEVER
        deadline = self._transport.next_deadline()
        if deadline is None:
            return
        if self._clock.not_before(deadline) > at:
            self._schedule_deadline()
            return
        self._transport.on_timer(self.now)
        self.serve()

    # --- the wire ---------------------------------------------------------------------------------------------------

    def inject(self, port: int, frame: interface.Frame) -> None:
        """Send a frame before the transport's next one, if the port is up."""
        known = self._by_number[port] if 0 <= port < len(self._by_number) else None
        if known is not None and known.up:
            known.injected.append(frame)

    def divert(self, opcode: int, handler: FrameHandler) -> None:
        """Offer MRC packets with an opcode to `handler(frame, now)` first, as bytes."""
        self._handler, self._handled_opcode = handler, opcode

    def configure(self, config: NodeConfig) -> None:
        """Apply a new link rate; ports cannot change while the NIC runs, and delays belong to the cables."""
        if [port.config for port in self.ports] != list(config.ports) or config.path_mtu != self._path_mtu:
            raise ValueError("ports and path_mtu of a running NIC cannot change; restart the agent")
        self._set_rate(config)
        self._clock.call_at(self._clock.now, lambda _: self.on_link_free())  # there may be something to send now

    def load(self) -> dict[str, Any]:
        """Return zeros: a NIC in virtual time is never overloaded."""
        return {"cpu": 0.0, "delayed_frames": 0, "delay_line_drops": 0}

    def lateness(self) -> dict[str, float]:
        """Return zeros: nothing is late in virtual time."""
        return {"late": 0.0, "receive_late": 0.0}

    # --- frames -----------------------------------------------------------------------------------------------------

    def receive(self, frame: SimFrame, port: int) -> None:
        """Receive a frame from a cable."""
        if not self._on:
            return
        entry = self._by_number[port]
        assert entry is not None
        entry.rx_packets += 1
        entry.rx_bytes += frame.size
        now = self._clock.now / SECOND
        if frame.raw is not None or self._wire_format:
            self._receive_bytes(entry, frame, now)
        elif self._handler is None or frame.opcode != self._handled_opcode or not self._handler(frame.to_bytes(), now):
            self._transport.receive(port, frame, now)
        self.serve()

    def _receive_bytes(self, port: SimNicPort, frame: SimFrame, now: float) -> None:
        data = frame.to_bytes()
        if frame.fault not in {0, UNCHECKED}:
            if frame.fault == LINK_CHECK:
                self._answer_link_check(port, data)
            else:
                port.foreign += 1
            return
        if (
            len(data) > MRC_OPCODE_AT
            and data[MRC_OPCODE_AT] == self._handled_opcode
            and self._handler
            and self._handler(data, now)
        ):
            return
        self._transport.receive(port.number, data, now)

    def _answer_link_check(self, port: SimNicPort, data: bytes) -> None:
        try:
            reply = answer(memoryview(data), self._host, port.number, mac_bytes(port.config.mac))
        except LinkCheckError:
            port.foreign += 1
            return
        port.half_link.enter(of_bytes(bytes(reply)), self._clock.now)

    def _transmit(self) -> None:
        """Give every idle port a frame; ask those without one again after another got one: planes stay in step."""
        calls, clock, transport = self._pending_calls, self._clock, self._transport
        now = clock.now
        seconds = now / SECOND
        sent = True
        while sent or calls:
            sent = False
            while calls:
                calls.pop(0)(seconds)
            for port in self._up:
                if port.free_at <= now:
                    frame = port.injected.pop(0) if port.injected else transport.next_frame(port.number, seconds)
                    if frame is not None:
                        sent = True
                        self._send(port, frame, now)
        for port in self._up:
            if not port.armed and port.free_at > now and (port.injected or transport.has_work(port.number, seconds)):
                port.armed = True
                clock.schedule(port.free_at, port)

    def _send(self, port: SimNicPort, frame: interface.Frame, now: i64) -> None:
        if not isinstance(frame, SimFrame):
            frame = of_bytes(b"".join((frame.header, frame.payload or b"", frame.trailer)))
        size = frame.size
        port.tx_packets += 1
        port.tx_bytes += size
        port.free_at = now + serialization_ticks(size, port.bits_per_second)
        port.half_link.enter(frame, port.free_at if self._stores else now)

    def pause(self, number: int, on: bool) -> None:
        """A switch pauses a port, or resumes it."""
        port = self._by_number[number]
        if port is not None and port.up and self._on:
            port.pause(on, self._clock.now)
            if not on:
                self.serve()

    def on_link_free(self) -> None:
        """Serve the port whose link is free again."""
        if self._on:
            self.serve()

    def _carrier(self, port: SimNicPort, up: bool) -> None:
        port.up = up
        port.injected.clear()
        port.resume(self._clock.now)
        self._up = tuple(entry for entry in self.ports if entry.up)
        self._transport.port_event(port.number, up, self.now)
        self.serve()
