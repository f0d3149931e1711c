"""The NIC: carries frames between a host's transport and its ports, on time.

One raw socket per port, so that the kernel never chooses an egress; pacing per port; the links' delay on arrival;
carrier events; answers to link checks; and the process's only event loop. A frame is requested only when a port can
send it.

A wake-up costs more than the work for one frame. So one wake-up serves all ports, and everything that is due within a
little slack of the first event: a part of a packet time, as frames wait for each other in a real NIC too.
"""

import logging
import resource
import select
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mrclab.hosts.nic.carrier import CarrierWatch
from mrclab.hosts.nic.delayline import DelayLine
from mrclab.hosts.nic.interface import MRC_OPCODE_AT, Frame, FrameHandler, Transport
from mrclab.hosts.nic.nicport import SocketPort
from mrclab.topo.config.nodeconfig import NodeConfig
from mrclab.topo.linkcheck import LinkCheckError, answer

log = logging.getLogger(__name__)

BATCH = 32
"""Frames that a port may receive, or send, before the next one has its turn."""

BUSY_FRAMES = 8
"""A pass of the loop that moved this many frames without a delay line is followed by another without a wait."""

MAX_BUSY_PASSES = 16
"""Consecutive passes after which the descriptors are polled nevertheless."""

RETRY_S = 0.001
"""Seconds for which a full interface is left alone."""

BUSY_FOR_S = 0.01
"""Seconds after a frame for which the NIC counts as busy."""

SLACK_PACKETS = 0.5
"""Longest delay of work that shares a wake-up with other work, in packet times of a link."""

MIN_SLACK_S = 0.00025
"""Slack if packet times are shorter than a wake-up."""

SLACK_DELAYS = 0.25
"""Most slack, in delays of a link: its share of a round trip must stay small."""

MIN_REST_S = 0.00005
"""Least sleep of a NIC with a delay line: a real-time process that never sleeps is throttled."""

LONGEST_UNSEEN_S = 0.02
"""Longest interval between two reads of the rings while the NIC is busy, so that they do not overflow."""

_IPV6 = 0x86DD
_LINK_CHECK = 0x88B5
_HOP_LIMIT = 14 + 7
_FOREVER = float("inf")


@dataclass(eq=False)
class _PeriodicTask:
    """Periodic work: next due time, and interval in seconds."""

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
        """Time of the event that is being handled; it never goes back."""
        self._transport = transport
        self._host = config.host.name
        self._rate_pps = config.link.rate_pps
        self._path_mtu = config.path_mtu
        self.ports = tuple(SocketPort(port, config) for port in config.ports)
        self._up: tuple[SocketPort, ...] = ()
        self._by_interface = {port.config.name: port for port in self.ports}
        self.delay_line = DelayLine(config.link.delay)
        self._carrier = CarrierWatch(self._by_interface)
        self._readers: dict[int, Callable[[], None]] = {self._carrier.fileno(): self._carrier_changed}
        self._port_descriptors = [port.socket.fileno() for port in self.ports]
        self._last_moved = self._polled_at = self.now
        self._periodic: list[_PeriodicTask] = []
        self._pending_calls: deque[Callable[[float], None]] = deque()
        self._handler: FrameHandler | None = None
        self._handled_opcode = -1
        self._running = False
        self._least_links = min((template.links for template in config.templates), default=1)
        self._set_slack()
        self._max_receive_lateness = 0.0

    def _set_slack(self) -> None:
        """Set how late an event may be handled, and how long an arriving frame is certainly not due."""
        packets = max(SLACK_PACKETS / self._rate_pps, MIN_SLACK_S)
        self._slack = min(packets, SLACK_DELAYS * self.delay_line.link_delay)
        self._unseen = min(self._least_links * self.delay_line.link_delay, LONGEST_UNSEEN_S)

    def watch(self, descriptor: int, reader: Callable[[], None]) -> None:
        """Call `reader` whenever `descriptor` is readable."""
        self._readers[descriptor] = reader

    def inject(self, port: int, frame: Frame) -> None:
        """Send a frame of the NIC's own before the next of the transport's, if the port is up."""
        for candidate in self.ports:
            if candidate.number == port and candidate.up:
                candidate.injected.append(frame)

    def divert(self, opcode: int, handler: FrameHandler) -> None:
        """Offer MRC packets with an opcode to `handler(frame, now)`; those it accepts do not reach the transport."""
        self._handler, self._handled_opcode = handler, opcode

    def every(self, interval: float, work: Callable[[float], None]) -> None:
        """Call `work(now)` every `interval` seconds; a late call does not shift the next."""
        self._periodic.append(_PeriodicTask(self.now + interval, interval, work))

    def call_soon(self, work: Callable[[float], None]) -> None:
        """Call `work(now)` once, before the next frame is sent."""
        self._pending_calls.append(work)

    def until_done(self, interval: float, step: Callable[[float], bool]) -> None:
        """Call `step(now)` every `interval` seconds until it returns False."""

        def work(now: float) -> None:
            if not step(now):
                self._periodic.remove(task)

        task = _PeriodicTask(self.now, interval, work)
        self._periodic.append(task)

    def load(self) -> dict[str, Any]:
        """Return CPU seconds of this process, frames that wait for the links' delay, and those lost there."""
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return {
            "cpu": round(usage.ru_utime + usage.ru_stime, 6),
            "delayed_frames": len(self.delay_line),
            "delay_line_drops": self.delay_line.drops,
        }

    def lateness(self) -> dict[str, float]:
        """Return the worst lateness of sending and receiving since the last call, seconds."""
        late = max(port.pacer.take_max_lateness() for port in self.ports)
        receive_late, self._max_receive_lateness = self._max_receive_lateness, 0.0
        return {"late": round(late, 6), "receive_late": round(receive_late, 6)}

    def configure(self, config: NodeConfig) -> None:
        """Apply a new delay and rate; ports cannot change while the NIC runs."""
        if [port.config for port in self.ports] != list(config.ports) or config.path_mtu != self._path_mtu:
            raise ValueError("ports and path_mtu of a running NIC cannot change; restart the agent")
        self.delay_line.link_delay = config.link.delay
        if config.link.rate_pps != self._rate_pps:
            self._rate_pps = config.link.rate_pps
            for port in self.ports:
                port.set_rate(config)
        self._set_slack()

    def stop(self) -> None:
        """Make `run` return after the current pass."""
        self._running = False

    def run(self) -> None:
        """Serve ports, timers and watched descriptors until `stop`."""
        self._running = True
        busy_passes = 0
        while self._running:
            moved = self._pass()
            if moved:
                self._last_moved = self.now
            wake = self._wake_at()
            busy = wake <= self.now if self.delay_line.link_delay > 0 else moved >= BUSY_FRAMES
            if busy and busy_passes < MAX_BUSY_PASSES:
                busy_passes += 1
                continue
            busy_passes = 0
            self._wait(wake)

    def _wake_at(self) -> float:
        """Return the time to wake up: with the last event within the slack of the first."""
        now = self.now
        due = [task.due for task in self._periodic]
        deadline = self._transport.next_deadline()
        if deadline is not None:
            due.append(deadline)
        self._add_sends(due, now)
        line = self.delay_line
        arrival = line.next_due()
        if arrival is not None:
            due.append(arrival)
        if line.link_delay > 0 and now - self._last_moved < BUSY_FOR_S:
            # frames that arrive from now on are due a delay later, so their arrival needs no wake-up
            due.append(self._polled_at + self._unseen)
        if not due:
            return _FOREVER
        limit = min(due) + self._slack
        wake = max([at for at in due if at <= limit])
        return max(wake, line.last_due_by(limit))

    def _add_sends(self, due: list[float], now: float) -> None:
        """Add the times at which ports with work can send again; a port without frames is idle."""
        has_work = self._transport.has_work
        for port in self._up:
            pacer = port.pacer
            if port.requeued is not None:
                due.append(now + RETRY_S)
            elif pacer.free_at <= now:
                if not port.has_sent:  # the transport had no frame for it
                    pacer.idle()
                else:
                    due.append(now)
            elif port.injected or has_work(port.number, now):
                due.append(pacer.free_at)
            else:
                pacer.idle()

    def _wait(self, wake: float) -> None:
        """Sleep until `wake` (never, if infinite) or until something comes; serve the watched descriptors.

        If links have a delay, a busy NIC does not wait for frames but polls for them in time.
        """
        now = time.monotonic()
        descriptors = [*self._readers]
        rest = 0.0
        if self.delay_line.link_delay > 0 and now - self._last_moved < BUSY_FOR_S:
            rest = MIN_REST_S
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

    def _pass(self) -> int:
        """Do all work that can be done now; return the number of frames moved."""
        moved = 0
        self._polled_at = time.monotonic()
        for port in self.ports:
            if port.socket.waiting():
                moved += self._receive(port)
        if self.delay_line:
            moved += self._deliver_due()
        now = self._advance(time.monotonic())
        deadline = self._transport.next_deadline()
        if deadline is not None and deadline <= now:
            self._transport.on_timer(now)
        for task in self._periodic:
            if task.due <= now:
                self._run_periodic()
                break
        while self._pending_calls:
            self._pending_calls.popleft()(self.now)
        return moved + self._transmit()

    def _advance(self, now: float) -> float:
        """Advance the time; frames from before an event that was handled are handled at the event's time."""
        self.now = max(self.now, now)
        return self.now

    def _receive(self, port: SocketPort) -> int:
        """Handle the frames in a port's ring: link checks are answered, others delivered or put into the delay line."""
        count = size = 0
        delayed = self.delay_line.link_delay > 0
        for arrival, frame in port.socket.frames(BATCH):
            count += 1
            size += len(frame)
            ethertype = frame[12] << 8 | frame[13]
            if ethertype == _IPV6 and len(frame) > _HOP_LIMIT:
                if delayed:
                    self.delay_line.put(port.number, bytes(frame), frame[_HOP_LIMIT], arrival)
                else:
                    self._deliver(port.number, frame, self._advance(arrival))
            elif ethertype == _LINK_CHECK:
                self._answer_link_check(port, frame)
            else:
                port.foreign += 1
        port.rx_packets += count
        port.rx_bytes += size
        return count

    def _deliver_due(self) -> int:
        count = 0
        now = time.monotonic()
        for due, port, frame in self.delay_line.take_due(now):
            count += 1
            self._max_receive_lateness = max(self._max_receive_lateness, now - due)
            self._deliver(port, frame, self._advance(due))
        return count

    def _deliver(self, port: int, frame: bytes | memoryview, now: float) -> None:
        if (
            self._handler is not None
            and len(frame) > MRC_OPCODE_AT
            and frame[MRC_OPCODE_AT] == self._handled_opcode
            and self._handler(frame, now)
        ):
            return
        self._transport.receive(port, frame, now)

    def _answer_link_check(self, port: SocketPort, frame: memoryview) -> None:
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

    def _transmit(self) -> int:
        """Send the frames that ports may send now, in turns; return their number.

        A port that had nothing to send is polled again after another sent: the transport keeps planes in step.
        """
        next_frame = self._transport.next_frame
        ports = self._up
        total, sent = 0, True
        while sent and total < BATCH * len(ports):
            sent = False
            now = self._advance(time.monotonic())
            for port in ports:
                if port.pacer.free_at > now:
                    continue
                own = port.requeued is not None or port.injected
                frame = port.next_queued() if own else next_frame(port.number, now)
                port.has_sent = frame is not None and port.send(frame, now)
                if port.has_sent:
                    total += 1
                    sent = True
        return total

    def _carrier_changed(self) -> None:
        for interface, up in self._carrier.changes():
            port = self._by_interface[interface]
            port.up = up
            port.requeued = None
            port.injected.clear()
            port.socket.clear_error()
            port.pacer.reset()
            self._up = tuple(port for port in self.ports if port.up)
            log.info("%s: carrier %s", interface, "up" if up else "lost")
            self._transport.port_event(port.number, up, self.now)
