"""The NIC: carries frames between a host's transport and its ports, on time.

One raw socket per port, so that the kernel never chooses an egress; pacing per port; the links' delay on arrival;
carrier events; answers to link checks; and the process's only event loop. The transport is asked for a frame only when
a port can send it.
"""

import logging
import select
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from hosts.carrier import CarrierWatch
from hosts.delayline import DelayLine
from hosts.nicport import Frame, Port
from topo.linkcheck import LinkCheckError, answer
from topo.nodeconfig import NodeConfig

log = logging.getLogger(__name__)

BATCH = 32
"""Frames that a port may receive, or send, before another one has its turn."""

BUSY_FRAMES = 8
"""A pass of the loop that moved this many frames is followed by another without waiting."""

MAX_BUSY_PASSES = 16
"""Passes in a row after which the descriptors are looked at even so."""

RETRY_S = 0.001
"""How long an interface that took no more frames is left alone."""

BUSY_FOR_S = 0.01
"""How long after a frame the NIC counts as busy."""

_IPV6 = b"\x86\xdd"
_LINK_CHECK = b"\x88\xb5"
_HOP_LIMIT = 14 + 7
_OPCODE = 14 + 40 + 40 + 8
_ENDPOINT_REQUEST = 0xD8
_FOREVER = float("inf")


class Transport(Protocol):
    """What the NIC asks of a host's transport; `hosts.mrc.endpoint.Endpoint` in the lab."""

    def receive(self, port: int, frame: bytes | memoryview, now: float) -> None:
        """Take a frame; the buffer is the caller's again afterwards."""

    def next_frame(self, port: int, now: float) -> Frame | None:
        """Give the frame to send on a port that has space now; None when there is nothing to send there."""

    def next_deadline(self) -> float | None:
        """Say when `on_timer` wants to be called."""

    def on_timer(self, now: float) -> None:
        """Do what is due."""

    def port_event(self, port: int, up: bool, now: float) -> None:
        """Take note that a port lost or got carrier."""


@dataclass(eq=False)
class _Task:
    """Periodic work: when it is due next, seconds between two calls."""

    due: float
    interval: float
    work: Callable[[float], None]


class Nic:
    """All ports of one host and the loop that serves them.

    `watch` adds descriptors and `every` periodic work to the loop. Raises PacketSocketError when a port cannot be
    opened.
    """

    def __init__(self, config: NodeConfig, transport: Transport) -> None:
        self.now = time.monotonic()
        """Time of the event that is being handled; never goes back."""
        self._transport = transport
        self._host = config.host.name
        self._rate_pps = config.link.rate_pps
        self._path_mtu = config.path_mtu
        self.ports = tuple(Port(port, config) for port in config.ports)
        self._by_interface = {port.config.name: port for port in self.ports}
        self.delay_line = DelayLine(config.link.delay)
        self._carrier = CarrierWatch(self._by_interface)
        self._readers: dict[int, Callable[[], None]] = {self._carrier.fileno(): self._carrier_changed}
        self._port_descriptors = [port.socket.fileno() for port in self.ports]
        self._last_moved = self.now
        self._periodic: list[_Task] = []
        self._taker: Callable[[bytes | memoryview, float], bool] | None = None
        self._running = False
        self.worst_receive_late = 0.0

    def watch(self, descriptor: int, reader: Callable[[], None]) -> None:
        """Call `reader` whenever `descriptor` is readable."""
        self._readers[descriptor] = reader

    def inject(self, port: int, frame: Frame) -> None:
        """Send a frame that is not the transport's before the next of the transport's, if the port is up."""
        for candidate in self.ports:
            if candidate.number == port and candidate.up:
                candidate.injected.append(frame)

    def divert(self, taker: Callable[[bytes | memoryview, float], bool]) -> None:
        """Offer endpoint requests to `taker(frame, now)` first; those that it takes do not reach the transport."""
        self._taker = taker

    def every(self, interval: float, work: Callable[[float], None]) -> None:
        """Call `work(now)` every `interval` seconds; a late call does not shift the next."""
        self._periodic.append(_Task(self.now + interval, interval, work))

    def until_done(self, interval: float, step: Callable[[], bool]) -> None:
        """Call `step()` every `interval` seconds until it returns False."""

        def work(_now: float) -> None:
            if not step():
                self._periodic.remove(task)

        task = _Task(self.now, interval, work)
        self._periodic.append(task)

    def configure(self, config: NodeConfig) -> None:
        """Take a changed delay and rate; ports cannot change while the NIC runs."""
        if [port.config for port in self.ports] != list(config.ports) or config.path_mtu != self._path_mtu:
            raise ValueError("ports and path_mtu of a running NIC cannot change; restart the agent")
        self.delay_line.link_delay = config.link.delay
        if config.link.rate_pps != self._rate_pps:
            self._rate_pps = config.link.rate_pps
            for port in self.ports:
                port.set_rate(config)

    def stop(self) -> None:
        """Make `run` return after the current pass."""
        self._running = False

    def run(self) -> None:
        """Serve ports, timers and watched descriptors until `stop`."""
        self._running = True
        busy_passes = 0
        while self._running:
            moved, wake = self._pass()
            if moved >= BUSY_FRAMES and busy_passes < MAX_BUSY_PASSES:
                busy_passes += 1
                continue
            busy_passes = 0
            self._wait(wake, moved > 0)

    def _wait(self, wake: float, moved: bool) -> None:
        """Sleep until `wake` (never, if infinite) or until something comes; serve the watched descriptors.

        Where links have a delay, a busy NIC does not wait for frames but looks for them in time, and rests a little
        between two passes: waking up costs more than what there is to do for one frame.
        """
        now = time.monotonic()
        if moved:
            self._last_moved = now
        descriptors = [*self._readers]
        rest = 0.0
        delay = self.delay_line.link_delay
        if delay > 0 and now - self._last_moved < BUSY_FOR_S:
            wake = min(wake, now + delay / 2)
            rest = min(delay, 1 / self._rate_pps) / 3
        else:
            descriptors += self._port_descriptors
        timeout = None if wake == _FOREVER else max(rest, wake - now)
        ready, _, _ = select.select(descriptors, (), (), timeout)
        for descriptor in ready:
            reader = self._readers.get(descriptor)
            if reader is not None:
                self._advance(time.monotonic())
                reader()

    def close(self) -> None:
        """Close all sockets."""
        for port in self.ports:
            port.socket.close()
        self._carrier.close()

    def _pass(self) -> tuple[int, float]:
        """Do everything that can be done now; return frames moved and when there is more to do."""
        moved = sum(self._receive(port) for port in self.ports)
        if self.delay_line.link_delay > 0:
            moved += self._deliver_due()
        self._advance(time.monotonic())
        deadline = self._transport.next_deadline()
        if deadline is not None and deadline <= self.now:
            self._transport.on_timer(self.now)
        self._run_periodic()
        sent, wake = self._transmit()
        for due in (self._transport.next_deadline(), self.delay_line.next_due()):
            if due is not None and due < wake:
                wake = due
        for task in self._periodic:
            wake = min(wake, task.due)
        return moved + sent, wake

    def _advance(self, now: float) -> float:
        """Move the time on; frames that came before something already handled are handled at its time."""
        self.now = max(self.now, now)
        return self.now

    def _receive(self, port: Port) -> int:
        """Take what waits in a port's ring: link checks are answered, packets delivered or put into the delay line."""
        count = 0
        delayed = self.delay_line.link_delay > 0
        for arrival, frame in port.socket.frames(time.monotonic(), BATCH):
            count += 1
            port.rx_packets += 1
            port.rx_bytes += len(frame)
            ethertype = frame[12:14]
            if ethertype == _IPV6 and len(frame) > _HOP_LIMIT:
                if delayed:
                    self.delay_line.put(port.number, bytes(frame), frame[_HOP_LIMIT], arrival)
                else:
                    self._deliver(port.number, frame, self._advance(arrival))
            elif ethertype == _LINK_CHECK:
                self._answer_link_check(port, frame)
            else:
                port.foreign += 1
        return count

    def _deliver_due(self) -> int:
        count = 0
        now = time.monotonic()
        for due, port, frame in self.delay_line.take_due(now):
            count += 1
            self.worst_receive_late = max(self.worst_receive_late, now - due)
            self._deliver(port, frame, self._advance(due))
        return count

    def _deliver(self, port: int, frame: bytes | memoryview, now: float) -> None:
        if (
            self._taker is not None
            and len(frame) > _OPCODE
            and frame[_OPCODE] == _ENDPOINT_REQUEST
            and self._taker(frame, now)
        ):
            return
        self._transport.receive(port, frame, now)

    def _answer_link_check(self, port: Port, frame: memoryview) -> None:
        try:
            reply = answer(frame, self._host, port.number, port.mac)
        except LinkCheckError as error:
            port.foreign += 1
            log.debug("%s: %s", port.config.name, error)
            return
        try:
            port.socket.sendmsg((reply,))
        except OSError as error:
            log.warning("%s: link check not answered: %s", port.config.name, error)

    def _run_periodic(self) -> None:
        for task in [task for task in self._periodic if task.due <= self.now]:
            task.due += ((self.now - task.due) // task.interval + 1) * task.interval
            task.work(self.now)

    def _transmit(self) -> tuple[int, float]:
        """Send what ports may send now, in turns; return how many frames, and when a port may send again.

        A port counts as idle only when none sends: the transport keeps planes in step, so one may wait for another.
        """
        ports = [port for port in self.ports if port.up]
        in_a_row = BATCH if len(ports) == 1 else 1
        total, sent = 0, 1
        while sent and total < BATCH * len(ports):
            sent = sum([self._transmit_port(port, in_a_row) for port in ports])
            total += sent
        wake = self.now if sent else _FOREVER
        for port in ports:
            if port.waiting is not None:
                wake = min(wake, self.now + RETRY_S)
            elif port.pacer.free_at > self.now:
                wake = min(wake, port.pacer.free_at)
            elif not sent:
                port.pacer.idle()
        return total, wake

    def _transmit_port(self, port: Port, limit: int) -> int:
        transport, pacer, number = self._transport, port.pacer, port.number
        for count in range(limit):
            now = self._advance(time.monotonic())
            if pacer.free_at > now:
                return count
            own = port.waiting is not None or port.injected
            frame = port.take_own() if own else transport.next_frame(number, now)
            if frame is None or not port.send(frame, now):
                return count
        return limit

    def _carrier_changed(self) -> None:
        for interface, up in self._carrier.changes():
            port = self._by_interface[interface]
            port.up = up
            port.waiting = None
            port.injected.clear()
            port.socket.clear_error()
            port.pacer.reset()
            log.info("%s: carrier %s", interface, "up" if up else "lost")
            self._transport.port_event(port.number, up, self.now)
