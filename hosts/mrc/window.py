"""The send window: which packets are out, and which of them are known to have arrived.

What has arrived is one integer with a bit per packet, relative to the oldest that is missing. A SACK is answered in
the number of its new bits, however large the window is.
"""

from __future__ import annotations

from mrclab.hosts.mrc.sent import PacketState, SentPacket

_ACKED = PacketState.ACKED


class SendWindow:
    """Packets by seq. The records sit in a ring twice as long as the window: a packet stays known for a while."""

    __slots__ = ("_mask", "_shown", "_shown_end", "_slots", "next", "sacked", "una")

    def __init__(self, window: int) -> None:
        size = 1 << (2 * window - 1).bit_length()
        self._mask = size - 1
        self._slots = [SentPacket() for _ in range(size)]
        self.una = 0  # oldest seq that is missing
        self.next = 0  # next new seq
        self.sacked = 0  # bit i: una + i has arrived
        self._shown = self._shown_end = 0  # the seqs that SACKs have spoken of last

    def take(self) -> SentPacket:
        """The record of the next new packet."""
        seq = self.next
        self.next = seq + 1
        packet = self._slots[seq & self._mask]
        packet.seq = seq
        packet.sends = 0
        packet.lost_ev = None
        packet.settled = False
        return packet

    def get(self, seq: int) -> SentPacket | None:
        """The packet with this seq; None if it was never sent or its record was used again."""
        packet = self._slots[seq & self._mask]
        return packet if packet.seq == seq and 0 <= seq < self.next else None

    def oldest(self) -> SentPacket | None:
        """The oldest missing packet."""
        return self._slots[self.una & self._mask] if self.una < self.next else None

    def plausible(self, cack: int) -> bool:
        """Whether a peer may say that it has everything up to this seq."""
        return self.una - 2 - self._mask < cack < self.next

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

    def slide(self, base: int, bitmap: int) -> list[SentPacket]:
        """The bitmap moves on to `base`; return the missing packets that it showed before and now leaves behind."""
        start = max(self._shown, self.una)
        count = min(base, self._shown_end) - start
        if base >= self._shown:
            self._shown = base
            self._shown_end = max(self._shown_end, base + bitmap.bit_length())
        if count <= 0:
            return []
        return self._select(start, ~(self.sacked >> start - self.una) & (1 << count) - 1)

    def clear(self) -> None:
        """Nothing is in flight any more."""
        self.una = self.next
        self.sacked = 0

    def _select(self, first: int, bits: int) -> list[SentPacket]:
        slots, mask = self._slots, self._mask
        found: list[SentPacket] = []
        while bits:
            low = bits & -bits
            bits ^= low
            found.append(slots[first + low.bit_length() - 1 & mask])
        return found
