"""One port of a NIC: raw socket, pacer, counters, and frames that wait."""

import logging
from collections import deque

from mrclab.hosts.nic.interface import Frame, PortCounters, full_size
from mrclab.hosts.nic.pacing import Pacer
from mrclab.hosts.nic.packetsocket import PacketSocket
from mrclab.topo.config.nodeconfig import NicPortConfig, NodeConfig
from mrclab.topo.numbers import MTU_HEADROOM

log = logging.getLogger(__name__)


class SocketPort:
    """One NIC port."""

    def __init__(self, config: NicPortConfig, node: NodeConfig) -> None:
        self.number = config.number
        self.config = config
        self.mac = bytes.fromhex(config.mac.replace(":", ""))
        self.socket = PacketSocket(config.name, node.path_mtu + MTU_HEADROOM)
        self.set_rate(node)
        self.up = False
        self.served = False  # the last request returned a frame
        self.waiting: Frame | None = None
        self.injected: deque[Frame] = deque()
        self.tx_packets = self.tx_bytes = self.rx_packets = self.rx_bytes = self.tx_errors = self.foreign = 0

    def set_rate(self, node: NodeConfig) -> None:
        """Pace at the link rate of a node config, in full packets of its transport per second."""
        self.pacer = Pacer(node.link.rate_pps, full_size(node))

    def send(self, frame: Frame, now: float) -> bool:
        """Hand a frame to the interface; return False if it is full."""
        payload = frame.payload
        parts = (frame.header, frame.trailer) if payload is None else (frame.header, payload, frame.trailer)
        try:
            self.socket.sendmsg(parts)
        except BlockingIOError:
            self.waiting = frame
            return False
        except OSError as error:
            # The frame is lost as on a dead link; the transport's loss recovery detects that.
            self.tx_errors += 1
            log.debug("%s: frame lost: %s", self.config.name, error)
        self.pacer.sent(now, frame.wire_len)
        self.tx_packets += 1
        self.tx_bytes += frame.wire_len
        return True

    def take_own(self) -> Frame | None:
        """Return the frame that the interface refused, or the next injected one."""
        frame, self.waiting = self.waiting, None
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
