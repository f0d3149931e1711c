"""Tail loss probe of one requestor, as RFC 8985 has it.

No packet follows the last one of a flow, so none could show it lost. After a round trip and some slack the packets that
are not acknowledged are retransmitted, a few at most, each in another plane.
"""

from __future__ import annotations

from typing import Final

from mrclab.hosts.mrc.recovery.loss import LossDetector
from mrclab.hosts.mrc.recovery.rtt import RttEstimator
from mrclab.hosts.mrc.recovery.sent import SentPacket
from mrclab.hosts.rdma.timers import NEVER

_EARLIER_RTTS: Final = 0.5  # a packet so much older than the last one need not wait for that one's time
_MAX_COPIES: Final = 8  # packets that one probe sends again
_MAX_BACKOFF: Final = 1 << 20


class TailLossProbe:
    """Times of the probes, and their packets. Times in seconds."""

    __slots__ = ("_backoff", "_last", "_loss", "_rtt")

    def __init__(self, loss: LossDetector, rtt: RttEstimator) -> None:
        self._loss = loss
        self._rtt = rtt
        self._last = float("-inf")
        self._backoff = 1  # doubles with each probe until the peer responds

    def reset(self) -> None:
        """The peer has responded."""
        self._backoff = 1

    def at(self, oldest: float, last_sent: float) -> float:
        """Return the time of the next probe; `oldest` and `last_sent` are sending times of packets in flight."""
        pto = self._rtt.pto
        if not pto:
            return NEVER
        early = oldest + pto + _EARLIER_RTTS * self._rtt.srtt
        return max(min(early, last_sent + pto), self._last + pto * self._backoff)

    def overdue(self, now: float, last_sent: float) -> list[SentPacket]:
        """Return the packets to send again now."""
        limit = now - self._rtt.pto
        if now < last_sent + self._rtt.pto:
            limit -= _EARLIER_RTTS * self._rtt.srtt
        packets = self._loss.oldest(_MAX_COPIES, limit)
        if packets:
            self._last = now
            self._backoff = min(2 * self._backoff, _MAX_BACKOFF)
        return packets
