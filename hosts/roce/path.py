"""The way of one QP's packets, as bytes: Ethernet, IPv6 and UDP, the same for all of them but for class and length."""

from __future__ import annotations

from mrclab.hosts.nic.seam import Frame
from mrclab.hosts.rdma.packets import wire
from mrclab.hosts.rdma.packets.path import Route
from mrclab.hosts.roce.telemetry import Hop


class PlainPath(Route):
    """One 5-tuple out of one NIC port. ECMP in the switches makes it one path."""

    __slots__ = ("_addresses", "_macs", "sport")

    def __init__(self, macs: bytes, source: bytes, destination: bytes, sport: int) -> None:
        super().__init__()
        self._macs = macs  # destination and source
        self._addresses = source + destination
        self.sport = sport

    def telling(self, frame: Frame, hops: list[Hop]) -> Frame:
        """Return the frame with room for telemetry, or with telemetry; as bytes it has none."""
        return frame

    def _prefix(self, traffic_class: int, udp_len: int) -> bytes:
        word = 6 << 28 | traffic_class << 20
        ipv6 = wire.IPV6.pack(word, udp_len, wire.NEXT_UDP, wire.HOP_LIMIT, self._addresses[:16], self._addresses[16:])
        udp = wire.UDP.pack(self.sport, wire.UDP_PORT, udp_len, 0)
        return self._macs + wire.ETHERTYPE_IPV6.to_bytes(2, "big") + ipv6 + udp
