"""NIC port: packet socket, pacer, counters, and frames that go before those of the transport."""

import logging
from collections import deque

from mrclab.hosts.nic.interface import Frame, PortCounters, full_size
from mrclab.hosts.nic.packetsocket import PacketSocket
from mrclab.topo.config.nodeconfig import NicPortConfig, NodeConfig
from mrclab.topo.numbers import MTU_HEADROOM

BURST_FRAMES = 2.0
"""Full-size frames that may be sent back to back after idle time."""

_ROUNDING_S = 1e-9
"""Margin for rounding of the clock, without which a burst would be one frame short."""

CATCH_UP_S = 0.02
"""Largest lateness that a backlogged port makes up for; link time beyond it is lost."""


class Pacer:
    """Pacer of one port: frames leave no faster than the link carries their bytes.

    `free_at` is the time at which the link has sent all its frames. A frame may be sent from then on; after idle time
    about two full-size frames may be sent back to back. A port with frames that the process serves late, as the machine
    is busy, makes up for that within `CATCH_UP_S`: a scheduling delay costs no link rate. Times are seconds of one
    clock, sizes bytes.
    """

    __slots__ = ("_backlogged", "_catch_up", "_idle_credit", "_seconds_per_byte", "free_at", "max_lateness")

    def __init__(self, rate_pps: float, full_size: int) -> None:
        """A link that carries `rate_pps` frames of `full_size` bytes per second."""
        if rate_pps <= 0 or full_size <= 0:
            raise ValueError(f"a link of {rate_pps} packets/s of {full_size} bytes carries nothing")
        self._seconds_per_byte = 1.0 / (rate_pps * full_size)
        self._idle_credit = (BURST_FRAMES - 1.0) / rate_pps + _ROUNDING_S
        self._catch_up = max(CATCH_UP_S, self._idle_credit)
        self._backlogged = False
        self.free_at = float("-inf")
        self.max_lateness = 0.0

    def sent(self, now: float, size: int) -> None:
        """Account for a frame of `size` bytes sent at `now`, which must not be before `free_at`."""
        if self._backlogged:
            late = now - self.free_at
            self.max_lateness = max(self.max_lateness, late)
            start = self.free_at if late <= self._catch_up else now - self._catch_up
        else:
            start = max(self.free_at, now - self._idle_credit)
            self._backlogged = True
        self.free_at = start + size * self._seconds_per_byte

    def idle(self) -> None:
        """Note that the link was free and there was nothing to send: the next frame is not late."""
        self._backlogged = False

    def reset(self) -> None:
        """Reset, as when the port comes up."""
        self._backlogged = False
        self.free_at = float("-inf")

    def take_max_lateness(self) -> float:
        """Return the worst lateness (seconds) of a backlogged frame since the last call."""
        worst, self.max_lateness = self.max_lateness, 0.0
        return worst


log = logging.getLogger(__name__)


class SocketPort:
    """One NIC port on a packet socket.

    `requeued` is the frame that the interface refused, `injected` holds frames that no QP sent (faults, probes).
    """

    def __init__(self, config: NicPortConfig, node: NodeConfig) -> None:
        self.number = config.number
        self.config = config
        self.mac = bytes.fromhex(config.mac.replace(":", ""))
        self.socket = PacketSocket(config.name, node.path_mtu + MTU_HEADROOM)
        self.set_rate(node)
        self.up = False
        self.has_sent = False  # when it was polled last
        self.requeued: Frame | None = None
        self.injected: deque[Frame] = deque()
        self.tx_packets = self.tx_bytes = self.rx_packets = self.rx_bytes = self.tx_errors = self.foreign = 0

    def set_rate(self, node: NodeConfig) -> None:
        """Pace at the link rate of a node config, in full packets of its transport per second."""
        self.pacer = Pacer(node.link.rate_pps, full_size(node))

    def send(self, frame: Frame, now: float) -> bool:
        """Hand a frame to the interface; return False, and requeue it, if the interface's queue is full."""
        payload = frame.payload
        parts = (frame.header, frame.trailer) if payload is None else (frame.header, payload, frame.trailer)
        try:
            self.socket.sendmsg(parts)
        except BlockingIOError:
            self.requeued = frame
            return False
        except OSError as error:
            # The frame is lost as on a dead link; the transport's loss recovery detects that.
            self.tx_errors += 1
            log.debug("%s: frame lost: %s", self.config.name, error)
        else:
            self.tx_packets += 1
            self.tx_bytes += frame.wire_len
        self.pacer.sent(now, frame.wire_len)
        return True

    def next_queued(self) -> Frame | None:
        """Return the requeued frame, or the next injected one."""
        frame, self.requeued = self.requeued, None
        return self.injected.popleft() if frame is None else frame

    def counters(self) -> PortCounters:
        """Return all counters."""
        return PortCounters(
            self.number,
            self.up,
            self.tx_packets,
            self.tx_bytes,
            self.rx_packets,
            self.rx_bytes,
            self.tx_errors,
            self.foreign,
            self.socket.count_drops() + self.socket.truncated,
        )
