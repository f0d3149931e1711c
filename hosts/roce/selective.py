"""Selective repeat of RoCEv2, as in IRN: only missing packets are retransmitted.

Mittal et al., "Revisiting Network Support for RDMA" (SIGCOMM 2018), §3.1: the receiver keeps early packets and answers
each with a NAK that names the PSN that it expects and the one that arrived. At the first NAK the sender begins a
recovery, which ends when all packets sent by then are acknowledged; in it, packets below the highest one that arrived
are lost unless they arrived, and are retransmitted before new ones. Each is retransmitted once; a lost retransmission
waits for the timer, after which each ACK that does not end the recovery triggers one more.
Here a NAK has four bytes behind its AETH for the PSN that arrived, and early packets wait in the receiver until they
can be placed in order, where IRN's NIC places them at once.
"""

from __future__ import annotations


class SelectiveRepeat:
    """Sender's state: packets known to have arrived, and the next to retransmit, in unwrapped PSNs."""

    __slots__ = ("_arrived", "_highest", "_next", "_reorder", "by_timer", "until")

    def __init__(self, reorder: int = 0) -> None:
        self._reorder = reorder  # reordering window: packets that may overtake one before it counts as lost
        self.until = -1  # in recovery until this seq is acknowledged; -1: no recovery
        self._arrived: set[int] = set()
        self._highest = 0  # missing packets below this are lost
        self._next = 0  # next to examine
        self.by_timer = False  # the recovery began with a timeout

    def on_sack(self, seq: int, una: int, high: int) -> bool:
        """A packet arrived beyond the oldest unacknowledged one; return True if that begins a recovery.

        With a reordering window the oldest one is lost only once a packet so far beyond it has arrived.
        """
        self._arrived.add(seq)
        self._highest = max(self._highest, seq - self._reorder)
        if self.until >= 0 or self._highest <= una:
            return False
        self.until, self._next = high, una
        self.by_timer = False
        return True

    def timed_out(self, una: int, high: int) -> None:
        """Restart with the oldest packet. If it had arrived, the receiver has dropped what it kept: all is lost."""
        if una in self._arrived:
            self._arrived.clear()
        self.until, self._next = high, una
        self.by_timer = True
        self._highest = max(self._highest, una + 1)

    def acknowledged(self, una: int, high: int) -> None:
        """Everything below `una` has arrived; a gap beyond it continues as another recovery."""
        if self._arrived:
            self._arrived = {seq for seq in self._arrived if seq >= una}
        if 0 <= self.until <= una:
            self.until = high if self._arrived else -1
        self._next = max(self._next, una)
        if self.by_timer and self.until >= 0:
            self._highest = max(self._highest, una + 1)

    def lost(self) -> int | None:
        """Return the next packet to retransmit; None if there is none."""
        if self.until < 0:
            return None
        while self._next < self._highest and self._next in self._arrived:
            self._next += 1
        return self._next if self._next < self._highest else None

    def sent(self) -> None:
        """The packet from `lost` was sent."""
        self._next += 1

    def clear(self) -> None:
        """End the recovery: forget what has arrived and what is lost."""
        self.until, self._highest, self._next = -1, 0, 0
        self._arrived.clear()
