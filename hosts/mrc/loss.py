"""When is a packet lost? Time rule, same-EV rule and local ACK timeout over packets in order of sending.

Every rule works on a queue ordered by transmission, and looks at its head only: the cost per packet and per SACK is
constant. Facts and choices: docs/mrc-protocol.md §3.6 (three triggers, the first wins), §1.5.4 (timeout), in the
spirit of RFC 8985 (RACK): a packet is lost when one that was sent at least R later has arrived, and R widens when a
retransmission turns out spurious.
"""

from __future__ import annotations

from collections import deque

from mrclab.hosts.mrc.sent import PacketState, SentPacket
from mrclab.hosts.mrc.settings import RETRY_ENDLESS, QpSettings

TOO_SOON = 0.7  # of a base RTT: an answer within this cannot be to the last copy
_CLEARLY_RTTS = 0.5  # how much younger packets must have arrived for an absence to mean something
_GRACE_RTTS = 0.25  # a NACK may come a little after the SACK that shows the gap; so may news that took another path
_GRACE_CAP_RTTS = 2.0
_ROUNDING = 1e-9  # seconds; sent + timeout = now must count as timed out whatever floats make of it
_WIDEN_RTTS = 0.5  # per spurious retransmission
_FORGET_AFTER = 16  # true losses in a row until R is back at its start
_TIDY_AFTER = 64  # transmissions of one EV that are remembered before one looks which are over
_FLIGHT = PacketState.FLIGHT


class LossDetector:
    """The queues and clocks of one requestor."""

    def __init__(self, settings: QpSettings) -> None:
        self._settings = settings
        self._same_ev = settings.same_ev_rule and settings.sack_loss
        self._by_time = settings.sack_loss
        self._ranked: deque[tuple[int, SentPacket]] = deque()  # in flight, and the time rule has not looked at them yet
        self._passed: deque[tuple[int, SentPacket]] = deque()  # all older ones in flight: it did, and let them pass
        self.rtt_base = settings.base_rtt
        self.reorder_rtts = settings.reorder_rtts
        self.newest_arrived = -1.0  # sending time of the youngest packet known to have arrived
        self.retries = 0
        self.grace_rtts = _GRACE_RTTS
        self._suspects: deque[tuple[float, tuple[int, SentPacket]]] = deque()
        self._true_losses = 0

    # --- events -----------------------------------------------------------------------------------

    def sent(self, packet: SentPacket) -> None:
        """A packet (order, EV and time set) goes out."""
        entry = (packet.order, packet)
        self._ranked.append(entry)
        fifo = packet.ev.fifo
        if len(fifo) > _TIDY_AFTER:
            while fifo and _stale(fifo[0]):
                fifo.popleft()
        fifo.append(entry)

    def arrived(self, packet: SentPacket, now: float) -> None:
        """The last copy of a packet is known to have arrived: those of the same EV that it overtook are suspects."""
        self.newest_arrived = max(self.newest_arrived, packet.sent_at)
        fifo = packet.ev.fifo
        order = packet.order
        while fifo and fifo[0][0] <= order:
            entry = fifo.popleft()
            if entry[1] is not packet and self._same_ev and not _stale(entry):
                self._suspects.append((now, entry))

    def overtaken(self, una: int, shown: int, now: float) -> list[SentPacket]:
        """Suspects that neither a NACK nor a SACK cleared in time: lost by the same-EV rule."""
        found: list[SentPacket] = []
        suspects = self._suspects
        limit = now - self.grace_rtts * self.rtt_base
        while suspects and suspects[0][0] <= limit:
            entry = suspects.popleft()[1]
            if not _stale(entry) and self._seen_missing(entry[1], una, shown):
                found.append(entry[1])
        return found

    def probe_answered(self, sent_at: float) -> None:
        """A reliability probe sent at this time got its answer: what was sent long before it should have arrived."""
        self.newest_arrived = max(self.newest_arrived, sent_at)

    def left_behind(self, packet: SentPacket) -> None:
        """The bitmap moves on and this packet, which it showed missing, is not in it any more."""
        packet.missing_age = self.newest_arrived - packet.sent_at

    def clear(self) -> None:
        """Nothing is in flight any more."""
        self._passed.clear()
        self._ranked.clear()
        self._suspects.clear()

    def spurious(self) -> None:
        """A packet that was declared lost had arrived: be slower to judge."""
        self._true_losses = 0
        self.grace_rtts = min(2 * self.grace_rtts, _GRACE_CAP_RTTS)
        self.reorder_rtts = min(
            self.reorder_rtts + _WIDEN_RTTS, max(self._settings.reorder_cap_rtts, self._settings.reorder_rtts)
        )

    def true_loss(self) -> None:
        """A retransmission was needed; after enough of them R is back at its start."""
        self._true_losses += 1
        if self._true_losses >= _FORGET_AFTER:
            self.reorder_rtts = self._settings.reorder_rtts
            self.grace_rtts = _GRACE_RTTS
            self._true_losses = 0

    # --- verdicts ---------------------------------------------------------------------------------

    @property
    def reorder_time(self) -> float:
        """R in seconds."""
        return self.reorder_rtts * self.rtt_base

    def overdue(self, oldest: SentPacket | None, una: int, shown: int) -> list[SentPacket]:
        """Packets lost by the time rule, oldest first. `oldest` is the packet at `una`, if any."""
        if not self._by_time:
            return []
        limit = self.newest_arrived - self.reorder_time
        older = _take_older(self._ranked, limit)
        self._passed.extend(older)
        found = [packet for _, packet in older if self._seen_missing(packet, una, shown)]
        if oldest is not None and oldest.state is _FLIGHT and oldest.sent_at <= limit and oldest not in found:
            found.append(oldest)  # its turn was passed over while no SACK could show it
        return found

    def timed_out(self, now: float) -> list[SentPacket]:
        """Packets whose local ACK timeout has passed."""
        limit = now - self.timeout() + _ROUNDING
        return [packet for queue in (self._passed, self._ranked) for _, packet in _take_older(queue, limit)]

    def timeout(self) -> float:
        """The local ACK timeout in force: fixed for the linear retries, then doubled each time."""
        doublings = max(0, self.retries - self._settings.retry_linear)
        return self._settings.ack_timeout * float(1 << min(doublings, 24 - self._settings.timeout_exponent))

    def next_timeout(self) -> float | None:
        """When the oldest packet in flight times out."""
        for waiting in (self._passed, self._ranked):
            while waiting and _stale(waiting[0]):
                waiting.popleft()
            if waiting:
                return waiting[0][1].sent_at + self.timeout()
        return None

    def retry(self) -> bool:
        """Count a retry; False when the counter is exhausted."""
        self.retries += 1
        if self._settings.retry_exponential >= RETRY_ENDLESS:
            return True
        return self.retries <= self._settings.retry_linear + self._settings.retry_exponential

    def _seen_missing(self, packet: SentPacket, una: int, shown: int) -> bool:
        """Whether SACKs showed this transmission missing after others, sent clearly later, had arrived.

        The bitmap holds the newest 64 only (`shown` is its first seq). Below it only the oldest gap is known for
        certain, and what was missing for a while already when the bitmap left it behind.
        """
        return packet.seq >= shown or packet.seq == una or packet.missing_age >= _CLEARLY_RTTS * self.rtt_base


def _take_older(queue: deque[tuple[int, SentPacket]], limit: float) -> list[tuple[int, SentPacket]]:
    """Take the transmissions up to `limit` off a queue in order of sending; those no longer in flight are dropped."""
    found: list[tuple[int, SentPacket]] = []
    while queue:
        entry = queue[0]
        if not _stale(entry):
            if entry[1].sent_at > limit:
                break
            found.append(entry)
        queue.popleft()
    return found


def _stale(entry: tuple[int, SentPacket]) -> bool:
    """Whether this transmission is no longer in flight (acknowledged, declared lost, or sent again since)."""
    order, packet = entry
    return packet.order != order or packet.state is not _FLIGHT
