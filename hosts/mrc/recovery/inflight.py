"""Bytes in flight of one QP, as the congestion controller of its destination counts them.

Sizes are nominal bytes (UDP length + 40). The receiver's count comes back in units of 256 bytes, rounded up, and a
packet declared lost may arrive all the same; so whenever nothing is in flight the remaining bytes are returned. Bytes
acknowledged by then count as received: a later SACK that reports them must not subtract them again.

A QP whose peer does not respond is detached from the shared controller, and does not use up the window of the others.
"""

from __future__ import annotations

from mrclab.hosts.mrc.cc import CongestionController
from mrclab.hosts.mrc.packets import headers as h
from mrclab.hosts.mrc.recovery.sent import SentPacket
from mrclab.hosts.rdma.packets.psn import unwrap_bits


class InFlight:
    """Bytes and packets in flight of one QP, mirrored in the shared controller."""

    __slots__ = ("_acked", "_rcvd_units", "bytes", "cc", "detached", "packets")

    def __init__(self, cc: CongestionController) -> None:
        self.cc = cc
        self.packets = 0  # sent and neither acknowledged nor declared lost
        self.bytes = 0
        self._acked = 0  # bytes known to have arrived, each packet once, as the receiver counts them
        self.detached = False  # the bytes in flight are not counted in the controller
        self._rcvd_units = 0  # unwrapped

    def sent(self, nominal: int, now: float) -> None:
        """A packet of this size is sent."""
        self.packets += 1
        self.bytes += nominal
        if not self.detached:
            self.cc.on_send(nominal, now)

    def detach(self) -> None:
        """Remove the bytes in flight from the controller until `attach`."""
        self.detached = True
        self.cc.on_requeue(self.bytes)

    def attach(self) -> None:
        """Count the bytes in flight in the controller again."""
        self.detached = False
        self.cc.on_requeue(-self.bytes)

    def acked(self, packets: int, nominal: int) -> None:
        """Count acknowledged packets in flight; `nominal` includes those that were declared lost.

        The bytes leave with the receiver's count.
        """
        self.packets -= packets
        self._acked += nominal

    def lost(self, packet: SentPacket) -> int:
        """Remove a lost packet; return the size that the controller removes."""
        self.packets -= 1
        self.bytes -= packet.nominal
        return 0 if self.detached else packet.nominal

    def late(self, packet: SentPacket) -> None:
        """Note that a packet declared lost arrived: the receiver's count will subtract it a second time."""
        self.bytes += packet.nominal
        self.cc.on_requeue(-packet.nominal)

    def received(self, units: int) -> int:
        """Return the bytes by which the receiver's count has grown."""
        total = unwrap_bits(units, self._rcvd_units, 24)
        newly = max(0, total - self._rcvd_units) * h.RCVD_UNIT
        self._rcvd_units = max(total, self._rcvd_units)
        self.bytes -= newly
        return newly

    def settle(self, now: float) -> None:
        """Return the remaining bytes to the controller if nothing is in flight."""
        if not self.packets and self.bytes:
            self._rcvd_units = max(self._rcvd_units, -(-self._acked // h.RCVD_UNIT))
            self.clear(now)

    def clear(self, now: float) -> None:
        """Return all bytes to the controller; they are not retransmitted."""
        self.packets = 0
        if self.detached:
            self.cc.on_requeue(-self.bytes)  # `detach` had returned them to be retransmitted
        self.cc.on_settled(self.bytes, now)
        self.bytes = 0
