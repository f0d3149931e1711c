"""Timer of one requestor: ACK timeouts, tail loss probes, SACK probes.

One timer fires at the earliest of the three. A peer that responds to none of two SACK probes is unresponsive:
its QP leaves the window of the destination to the other QPs.

Tail loss probes are those of RFC 8985: no packet follows the last one of a flow, so none could show it lost. After a
round trip and some slack the packets that are not acknowledged are retransmitted, a few at most, each in another plane.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from typing_extensions import override

from mrclab.hosts.mrc.recovery.loss import ROUNDING
from mrclab.hosts.mrc.recovery.sent import TAIL
from mrclab.hosts.rdma.timers import NEVER, Timer

if TYPE_CHECKING:
    from mrclab.hosts.mrc.requestor import MrcRequestor


_EARLIER_RTTS: Final = 0.5  # a packet so much older than the last one need not wait for that one's time
_MAX_COPIES: Final = 8  # packets that one tail loss probe sends again
_MAX_BACKOFF: Final = 1 << 20


class SendTimer(Timer):
    """Declares packets lost when it fires."""

    __slots__ = ("_loss", "_requestor", "_rtt", "_tail_backoff", "_tail_probed_at")

    def __init__(self, requestor: MrcRequestor) -> None:
        super().__init__(requestor.qp.endpoint.timers)
        self._requestor = requestor
        self._loss = requestor.recovery.loss
        self._rtt = requestor.recovery.rtt
        self._tail_probed_at = float("-inf")  # time of the last tail loss probe
        self._tail_backoff = 1  # doubles with each until the peer responds

    def peer_responded(self) -> None:
        """Tail loss probes are as frequent as at first again."""
        self._tail_backoff = 1

    def plan(self, now: float) -> None:
        """Fire at the next timeout or probe; never while nothing is in flight."""
        timeout = self._loss.next_timeout()
        if timeout is None:
            self.cancel()
            return
        at = min(timeout, self._probe_at())
        if not self._requestor.unsent:
            at = min(at, self._tail_probe_at(timeout - self._loss.timeout))
        self.arm(max(now, at))

    def _probe_at(self) -> float:
        """Return the time of the next SACK probe, a reliability probe for want of SACKs."""
        requestor = self._requestor
        return requestor.qp.prober.next_sack_probe(requestor.last_progress, self._rtt.srtt)

    def _tail_probe_at(self, oldest: float) -> float:
        """Return the time of the next tail loss probe; `oldest` is when the oldest packet in flight was sent."""
        rtt, requestor = self._rtt, self._requestor
        pto = rtt.pto
        if requestor.unresponsive or not pto:
            return NEVER
        early = oldest + pto + _EARLIER_RTTS * rtt.srtt
        return max(min(early, requestor.last_sent + pto), self._tail_probed_at + pto * self._tail_backoff)

    @override
    def fire(self, now: float) -> None:
        requestor = self._requestor
        if not self._expire(now):
            return
        oldest = None if requestor.unsent else self._loss.next_timeout()
        if oldest is not None and now + ROUNDING >= self._tail_probe_at(oldest - self._loss.timeout):
            self._probe_tail(now)
        if requestor.in_flight and now >= self._probe_at():
            prober = requestor.qp.prober
            if prober.sack_backoff > 1 and not requestor.unresponsive:  # two probes without a response
                requestor.unresponsive = True
                requestor.in_flight_bytes.detach()
                requestor.window_opened(now)
            prober.request_sack(now)
        self.plan(now)

    def _expire(self, now: float) -> bool:
        """Declare packets lost whose ACK timeout has expired; False where that failed the QP."""
        requestor = self._requestor
        expired = self._loss.timed_out(now)
        if not expired:
            return True
        newest = max(packet.sent_at for packet in expired)
        for packet in expired:
            requestor.qp.cc.on_loss(requestor.declare_lost(packet, "timeout", now), now)
        requestor.in_flight_bytes.settle(now)
        requestor.window_opened(now)
        return requestor.retries.expired(newest, now)

    def _probe_tail(self, now: float) -> None:
        """Send a tail loss probe: the oldest overdue packets again."""
        rtt, requestor = self._rtt, self._requestor
        limit = now - rtt.pto
        if now < requestor.last_sent + rtt.pto:
            limit -= _EARLIER_RTTS * rtt.srtt
        overdue = self._loss.oldest(_MAX_COPIES, limit)
        if not overdue:
            return
        self._tail_probed_at = now
        self._tail_backoff = min(2 * self._tail_backoff, _MAX_BACKOFF)
        for packet in overdue:
            if packet.lost_by == TAIL and packet.sends > 1 and packet.lost_ev is not None:
                self._loss.true_loss(now)  # two copies without a response
                requestor.qp.evs.lost(packet.lost_ev, now, TAIL)
            requestor.qp.cc.on_requeue(requestor.declare_lost(packet, TAIL, now))
        requestor.in_flight_bytes.settle(now)
        requestor.window_opened(now)
