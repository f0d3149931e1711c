"""Send window: packets in flight, and which of them are known to have arrived.

The packets that have arrived are one integer with a bit per packet, relative to the oldest missing one. A SACK costs
time in proportion to its new bits, however large the window is.
"""

from __future__ import annotations

from typing import Final

from mrclab.hosts.mrc.recovery.sent import PacketState, SentPacket

_ACKED: Final = PacketState.ACKED
_FIRST_RING: Final = 8
_NEVER: Final = 1 << 61
_UNUSED: Final = SentPacket()  # in every unused slot: not a valid seq


class SendWindow:
    """Packets by seq. The records are in a ring, and a packet remains known for a while after it was acknowledged.

    The ring doubles when more than half of it is outstanding, up to twice the window.
    """

    __slots__ = ("_grow_at", "_largest", "_mask", "_slots", "next", "sacked", "una")

    def __init__(self, window: int) -> None:
        self._largest = 1 << (2 * window - 1).bit_length()
        self._mask = 0
        self._grow_at = 0  # packets outstanding
        self._slots: list[SentPacket] = [_UNUSED]
        self.una = 0  # oldest missing seq
        self.next = 0  # next new seq
        self.sacked = 0  # bit i: una + i has arrived

    def take(self) -> SentPacket:
        """Return the record of the next new packet."""
        seq = self.next
        self.next = seq + 1
        if seq - self.una >= self._grow_at:
            self._grow()
        packet = self._slots[seq & self._mask]
        if packet is _UNUSED:
            packet = self._slots[seq & self._mask] = SentPacket()
        packet.seq = seq
        packet.sends = 0
        packet.lost_ev = None
        packet.settled = packet.disproved = False
        return packet

    def get(self, seq: int) -> SentPacket | None:
        """Return the packet with this seq; None if it was never sent or its record was reused."""
        packet = self._slots[seq & self._mask]
        return packet if packet.seq == seq and 0 <= seq < self.next else None

    def oldest(self) -> SentPacket | None:
        """Oldest missing packet."""
        return self._slots[self.una & self._mask] if self.una < self.next else None

    def plausible(self, cack: int) -> bool:
        """Return True if the peer can have received everything up to this seq."""
        return self.una - 1 - self._largest < cack < self.next

    def open_packets(self) -> list[SentPacket]:
        """Return all packets from the oldest missing one; for rare events."""
        slots, mask = self._slots, self._mask
        return [slots[seq & mask] for seq in range(self.una, self.next)]

    # --- what arrived -----------------------------------------------------------------------------

    def arrived(self, packet: SentPacket) -> None:
        """Mark a packet as arrived."""
        offset = packet.seq - self.una
        if offset >= 0:
            self.sacked |= 1 << offset

    def cumulative(self, cack: int) -> list[SentPacket]:
        """Mark everything up to `cack` as arrived; return the packets not known to have arrived before."""
        una = self.una
        if cack < una:
            return []
        slots, mask = self._slots, self._mask
        newly_acked = [packet for seq in range(una, cack + 1) if (packet := slots[seq & mask]).state is not _ACKED]
        self.sacked >>= cack + 1 - una
        self.una = cack + 1
        return newly_acked

    def bitmap(self, base: int, bitmap: int) -> list[SentPacket]:
        """Mark the packets of a SACK's bitmap, from its first seq, as arrived; return those not known before."""
        una = self.una
        shift = base - una
        bits = bitmap << shift if shift >= 0 else bitmap >> -shift
        bits &= (1 << (self.next - una)) - 1 & ~self.sacked
        self.sacked |= bits
        return self._select(una, bits)

    @property
    def top(self) -> int:
        """First seq above all that are known to have arrived."""
        return self.una + self.sacked.bit_length()

    def clear(self) -> None:
        """Reset: nothing is in flight."""
        self.una = self.next
        self.sacked = 0

    def _grow(self) -> None:
        """Double the ring; each known packet keeps its record."""
        slots = self._slots
        size = len(slots)
        if size == 1:
            size = min(_FIRST_RING, self._largest) // 2
            slots = [_UNUSED] * size
        if 2 * size > self._largest:
            self._grow_at = _NEVER
            return
        grown = slots + [_UNUSED] * size
        for at, packet in enumerate(slots):
            if packet.seq & size:
                grown[at], grown[at + size] = grown[at + size], packet
        self._slots = grown
        self._mask = 2 * size - 1
        self._grow_at = size

    def _select(self, first: int, bits: int) -> list[SentPacket]:
        slots, mask = self._slots, self._mask
        found: list[SentPacket] = []
        while bits:
            low = bits & -bits
            bits ^= low
            found.append(slots[first + low.bit_length() - 1 & mask])
        return found
