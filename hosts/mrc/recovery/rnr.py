"""RNR timer: immediates that the peer refused because no receive is posted (NACK reason NO_RESOURCE).

MRC has no RNR NAK; docs/mrc-protocol.md §2.16 has the choice. Refused packets are held back. When the timer expires the
oldest of them is sent alone, as the n-th immediate takes the n-th posted receive. The timer doubles with every refusal,
up to half an ACK timeout; each packet that is accepted releases two more. No new immediate is sent meanwhile, and all
QPs of a host together send no more than one packet per `RNR_SPACING` packet times of its NIC because a timer expired.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

from mrclab.hosts.mrc.recovery.sent import PacketState, SentPacket

if TYPE_CHECKING:
    from mrclab.hosts.mrc.requestor import MrcRequestor

RNR_SPACING: Final = 16
_RELEASED_PER_ACCEPTED: Final = 2
_LOST: Final = PacketState.LOST
_ACKED: Final = PacketState.ACKED


class RnrBackoff:
    """Refused packets of one requestor, by seq, and the time of their retransmission."""

    __slots__ = ("_has_slot", "_longest", "_refused", "_released", "_requestor", "_rtt", "_timer", "_wait")

    def __init__(self, requestor: MrcRequestor) -> None:
        settings = requestor.qp.settings
        self._requestor = requestor
        self._timer = requestor.qp.endpoint.timers.timer(self._on_timer)
        self._rtt = settings.base_rtt
        self._longest = max(self._rtt, settings.ack_timeout / 2)
        self._wait = 0.0  # current, seconds; 0: none since a packet was accepted
        self._has_slot = False  # the timer waits for the host's slot, no longer for the backoff
        self._refused: list[int] = []  # heap
        self._released: list[int] = []  # retransmitted, or about to be, and neither accepted nor refused since

    @property
    def active(self) -> bool:
        """True if the peer is known to lack receives."""
        return bool(self._refused or self._released)

    def refuse(self, packet: SentPacket, now: float) -> None:
        """Hold back a packet that was in flight."""
        if packet.seq in self._released:
            self._released.remove(packet.seq)
        heappush(self._refused, packet.seq)
        if not self._timer.armed:
            self._arm(now)

    def settle(self, now: float) -> None:
        """Take in the released packets that a SACK or ACK acknowledged."""
        if not self._released:
            return
        window = self._requestor.recovery.window
        left: list[int] = []
        for seq in self._released:
            packet = window.get(seq)
            if packet is not None and packet.state is not _ACKED:
                left.append(seq)
        accepted = len(self._released) - len(left)
        if not accepted:
            return
        self._released = left
        self._wait = 0.0
        self._timer.cancel()
        self._release(_RELEASED_PER_ACCEPTED * accepted)
        if not self.active:
            self._requestor.qp.wake()
        elif not self._released:
            self._arm(now)

    def clear(self) -> None:
        """Forget all packets at the end of the QP."""
        self._timer.cancel()
        self._refused.clear()
        self._released.clear()
        self._wait = 0.0

    def _arm(self, now: float) -> None:
        self._wait = min(max(self._rtt, 2 * self._wait), self._longest)
        self._has_slot = False
        self._timer.arm(now + self._wait)

    def _on_timer(self, now: float) -> None:
        if not self._has_slot:
            self._has_slot = True
            slot = self._requestor.qp.endpoint.rnr_slot(now)
            if slot > now:
                self._timer.arm(slot)
                return
        if not self._released:
            self._release(1)
        if not self.active:
            self._requestor.qp.wake()

    def _release(self, count: int) -> None:
        """Retransmit the oldest refused packets, `count` at most."""
        requestor = self._requestor
        while count and self._refused:
            seq = heappop(self._refused)
            packet = requestor.recovery.window.get(seq)
            if packet is not None and packet.state is _LOST:
                self._released.append(seq)
                heappush(requestor.lost, seq)
                count -= 1
                requestor.qp.urgent()
