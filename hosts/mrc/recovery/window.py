"""The send window: which packets are out, and which of them are known to have arrived.

What has arrived is one integer with a bit per packet, relative to the oldest that is missing. A SACK is answered in
the number of its new bits, however large the window is.
"""

from __future__ import annotations

from typing import Final

from mrclab.hosts.mrc.recovery.sent import PacketState, SentPacket

_ACKED: Final = PacketState.ACKED
_FIRST_RING: Final = 8
_NEVER: Final = 1 << 61
_UNUSED: Final = SentPacket()  # in every slot that no packet had yet: no seq is its


class SendWindow:
    """Packets by seq. The records sit in a ring, and a packet stays known for a while after it was acknowledged.

    The ring doubles when more than half of it is outstanding, up to twice the window.
    """

    __slots__ = ("_grow_at", "_largest", "_mask", "_slots", "next", "sacked", "una")

    def __init__(self, window: int) -> None:
        self._largest = 1 << (2 * window - 1).bit_length()
        self._mask = 0
        self._grow_at = 0  # packets outstanding
        self._slots: list[SentPacket] = [_UNUSED]
        self.una = 0  # oldest seq that is missing
        self.next = 0  # next new seq
        self.sacked = 0  # bit i: una + i has arrived

    def take(self) -> SentPacket:
        """The record of the next new packet."""
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
        packet.settled = packet.exposed = False
        return packet

    def get(self, seq: int) -> SentPacket | None:
        """The packet with this seq; None if it was never sent or its record was used again."""
        packet = self._slots[seq & self._mask]
        return packet if packet.seq == seq and 0 <= seq < self.next else None

    def oldest(self) -> SentPacket | None:
        """The oldest missing packet."""
        return self._slots[self.una & self._mask] if self.una < self.next else None

    def plausible(self, cack: int) -> bool:
        """Return True if a peer may say that it has everything up to this seq."""
        return self.una - 1 - self._largest < cack < self.next

    def open_packets(self) -> list[SentPacket]:
        """All from the oldest missing one on; for rare events."""
        slots, mask = self._slots, self._mask
        return [slots[seq & mask] for seq in range(self.una, self.next)]

    # --- what arrived -----------------------------------------------------------------------------

    def arrived(self, packet: SentPacket) -> None:
        """This packet has arrived."""
        offset = packet.seq - self.una
        if offset >= 0:
            self.sacked |= 1 << offset

    def cumulative(self, cack: int) -> list[SentPacket]:
        """Everything up to `cack` has arrived: move on; return what was not known to have."""
        una = self.una
        if cack < una:
            return []
        slots, mask = self._slots, self._mask
        news = [packet for seq in range(una, cack + 1) if (packet := slots[seq & mask]).state is not _ACKED]
        self.sacked >>= cack + 1 - una
        self.una = cack + 1
        return news

    def bitmap(self, base: int, bitmap: int) -> list[SentPacket]:
        """A SACK's bitmap with its first seq: this has arrived; return what was not known to have."""
        una = self.una
        shift = base - una
        bits = bitmap << shift if shift >= 0 else bitmap >> -shift
        bits &= (1 << (self.next - una)) - 1 & ~self.sacked
        self.sacked |= bits
        return self._select(una, bits)

    @property
    def top(self) -> int:
        """The first seq above all that are known to have arrived."""
        return self.una + self.sacked.bit_length()

    def clear(self) -> None:
        """Nothing is in flight any more."""
        self.una = self.next
        self.sacked = 0

    def _grow(self) -> None:
        """Twice as many records; each that is known keeps its own."""
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
