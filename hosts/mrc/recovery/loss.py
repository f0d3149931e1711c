"""Loss detection: time rule, same-EV rule and local ACK timeout over packets in order of sending.

Every rule works on a queue ordered by transmission, and looks at its head only: the cost per packet and per SACK is
constant. Facts and choices: docs/mrc-protocol.md §2.6 (three triggers, the first wins), §1.5.4 (timeout), in the
spirit of RFC 8985 (RACK): a packet is lost when one that was sent at least R later has arrived, and R widens when a
retransmission turns out spurious.

A suspect is lost once a SACK that is new enough shows it missing: the current one, or the next whose bitmap covers it.
No step depends on the number of packets in flight.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final

from mrclab.hosts.mrc.evs.ev import NO_COPIES
from mrclab.hosts.mrc.recovery.sent import PacketState, SentPacket
from mrclab.hosts.mrc.settings import RETRY_ENDLESS, MrcQpSettings
from mrclab.topo.economy import EMPTY_QUEUE

TOO_SOON: Final = 0.7  # of a base RTT: a response within this time cannot be to the last copy
_GRACE_RTTS: Final = 0.25  # a NACK may come a little after the SACK that shows the gap; so may feedback by another path
_GRACE_CAP_RTTS: Final = 2.0
_UNSHOWN_RTTS: Final = 2.0  # beyond R: time for a peer to show a gap; one that shows the newest 64 only never does
ROUNDING: Final = 1e-9  # seconds; sent + timeout = now must count as timed out despite rounding
_WIDEN_RTTS: Final = 0.5  # per spurious retransmission
_FORGET_AFTER: Final = 16  # round trips with true losses only, until the rules are reset
_TIDY_AFTER: Final = 64  # transmissions of one EV kept before finished ones are removed
_BLOCK_BITS: Final = 6  # suspects are grouped by blocks of one bitmap's length
_FLIGHT: Final = PacketState.FLIGHT

Entry = tuple[int, SentPacket]  # transmission number and its packet


class LossDetector:
    """Queues and timers of one requestor."""

    def __init__(self, settings: MrcQpSettings) -> None:
        self._settings = settings
        self._same_ev = settings.same_ev_rule and settings.sack_loss
        self._by_time = settings.sack_loss
        self._unexamined: deque[Entry] = EMPTY_QUEUE  # in flight, not yet examined by the time rule
        self._examined: deque[Entry] = EMPTY_QUEUE  # older, in flight: examined, and not yet covered by a SACK
        self.rtt_base = settings.base_rtt
        self.reorder_rtts = settings.reorder_rtts
        self.newest_arrived = -1.0  # sending time of the latest packet known to have arrived
        self.retries = 0
        self._expiries = 0  # timeouts since the last progress
        self.timeout = self._doubled()
        self.grace_rtts = _GRACE_RTTS
        self._suspects: deque[tuple[float, Entry]] = EMPTY_QUEUE
        self._unshown: dict[int, list[tuple[Entry, str]]] = {}  # block -> suspects, to be confirmed by a SACK
        self._tidied = 0  # blocks below hold nothing
        self._true_rounds = 0
        self._round_at = float("-inf")  # begin of the last of them

    # --- events -----------------------------------------------------------------------------------

    def sent(self, packet: SentPacket) -> None:
        """Add a packet that is sent (order, EV and time are set)."""
        entry: Any = (packet.order, packet)  # Any: one object for both queues in the compiled form, too
        if self._unexamined is EMPTY_QUEUE:
            self._unexamined = deque()
        self._unexamined.append(entry)
        fifo = packet.ev.fifo
        if fifo is NO_COPIES:
            fifo = packet.ev.fifo = []
        elif len(fifo) > _TIDY_AFTER:
            while fifo and _stale(fifo[0]):
                del fifo[0]
        fifo.append(entry)

    def arrived(self, packet: SentPacket, now: float) -> None:
        """The last copy of a packet arrived: packets of the same EV that it overtook become suspects."""
        self.newest_arrived = max(self.newest_arrived, packet.sent_at)
        fifo = packet.ev.fifo
        order = packet.order
        while fifo and fifo[0][0] <= order:
            entry = fifo.pop(0)
            if entry[1] is not packet and self._same_ev and not _stale(entry):
                if self._suspects is EMPTY_QUEUE:
                    self._suspects = deque()
                self._suspects.append((now, entry))

    def probe_answered(self, sent_at: float) -> None:
        """A reliability probe of this time got its response: packets sent long before it should have arrived."""
        self.newest_arrived = max(self.newest_arrived, sent_at)

    def clear(self) -> None:
        """Nothing is in flight any more."""
        self._examined.clear()
        self._unexamined.clear()
        self._suspects.clear()
        self._unshown.clear()

    def spurious(self, rule: str) -> None:
        """This rule declared a packet lost that had arrived: widen it, or in the end switch it off."""
        self._true_rounds = 0
        if rule == "same-ev":
            self._same_ev = self._same_ev and self.grace_rtts < _GRACE_CAP_RTTS
            self.grace_rtts = min(2 * self.grace_rtts, _GRACE_CAP_RTTS)
        elif rule == "time":
            self.reorder_rtts = min(
                self.reorder_rtts + _WIDEN_RTTS, max(self._settings.reorder_cap_rtts, self._settings.reorder_rtts)
            )

    def true_loss(self, now: float) -> None:
        """A packet was lost; after enough round trips with true losses the rules are reset.

        Counted by round trips, since the proof of an error takes one to arrive.
        """
        if now - self._round_at < self.rtt_base:
            return
        self._round_at = now
        self._true_rounds += 1
        if self._true_rounds >= _FORGET_AFTER:
            self.reorder_rtts = self._settings.reorder_rtts
            self.grace_rtts = _GRACE_RTTS
            self._same_ev = self._settings.same_ev_rule and self._by_time
            self._true_rounds = 0

    # --- verdicts ---------------------------------------------------------------------------------

    def judge(
        self, oldest: SentPacket | None, una: int, shown: int, end: int, now: float
    ) -> list[tuple[SentPacket, str]]:
        """Return lost packets with the rule for each, after everything that a SACK acknowledges was processed.

        `oldest` is the packet at `una`, if any, which every SACK and ACK shows missing; this one also shows the seqs
        from `shown` up to `end` (not included).
        """
        found: list[tuple[SentPacket, str]] = []
        suspects = self._suspects
        if suspects:
            limit = now - self.grace_rtts * self.rtt_base
            while suspects and suspects[0][0] <= limit:
                self._suspect(suspects.popleft()[1], "same-ev", una, shown, end, found)
        if self._by_time:
            self._overdue(oldest, una, shown, end, found)
        if self._unshown:
            self._confirm(una, shown, end, found)
        return found

    def _overdue(
        self, oldest: SentPacket | None, una: int, shown: int, end: int, found: list[tuple[SentPacket, str]]
    ) -> None:
        """Apply the time rule; a suspect that no SACK covers for long is lost as well."""
        limit = self.newest_arrived - self.reorder_rtts * self.rtt_base
        unexamined = self._unexamined
        if unexamined and unexamined[0][1].sent_at <= limit:
            for entry in _take_older(unexamined, limit):
                if not self._suspect(entry, "time", una, shown, end, found):
                    if self._examined is EMPTY_QUEUE:
                        self._examined = deque()
                    self._examined.append(entry)
        if self._examined:
            found += [(p, "time") for _, p in _take_older(self._examined, limit - _UNSHOWN_RTTS * self.rtt_base)]
        if oldest is not None and oldest.state is _FLIGHT and oldest.sent_at <= limit:
            found.append((oldest, "time"))  # skipped while no SACK could cover it

    def _suspect(
        self, entry: Entry, rule: str, una: int, shown: int, end: int, found: list[tuple[SentPacket, str]]
    ) -> bool:
        """Suspect this transmission: it is lost if the current SACK shows it missing, else a later SACK decides."""
        if _stale(entry):
            return True
        packet = entry[1]
        seq = packet.seq
        if shown <= seq < end or seq == una:
            found.append((packet, rule))
            return True
        self._unshown.setdefault(seq >> _BLOCK_BITS, []).append((entry, rule))
        return False

    def _confirm(self, una: int, shown: int, end: int, found: list[tuple[SentPacket, str]]) -> None:
        """Return suspects that earlier SACKs did not cover and this one shows missing."""
        unshown = self._unshown
        first, last = shown >> _BLOCK_BITS, end - 1 >> _BLOCK_BITS
        blocks = range(first, last + 1)
        for block in blocks if len(blocks) <= len(unshown) else [b for b in unshown if b in blocks]:
            waiting = unshown.get(block)
            if waiting is None:
                continue
            left: list[tuple[Entry, str]] = []
            for entry, rule in waiting:
                if _stale(entry):
                    continue
                if shown <= entry[1].seq < end:
                    found.append((entry[1], rule))
                else:
                    left.append((entry, rule))
            if left:
                unshown[block] = left
            else:
                del unshown[block]
        done = una >> _BLOCK_BITS
        if done > self._tidied:
            for block in [b for b in unshown if b < done]:
                del unshown[block]
            self._tidied = done

    def timed_out(self, now: float) -> list[SentPacket]:
        """Return packets whose local ACK timeout has passed."""
        limit = now - self.timeout + ROUNDING
        return [packet for queue in (self._examined, self._unexamined) for _, packet in _take_older(queue, limit)]

    def oldest(self, most: int, limit: float) -> list[SentPacket]:
        """Return the oldest packets in flight, up to `limit` and `most` of them; they stay in their queues."""
        found: list[SentPacket] = []
        for queue in (self._examined, self._unexamined):
            for entry in queue:
                if len(found) == most or entry[1].sent_at > limit + ROUNDING:
                    break
                if not _stale(entry):
                    found.append(entry[1])
        return found

    def _doubled(self) -> float:
        """Return the local ACK timeout: fixed for the linear retries, then doubled each time."""
        doublings = max(0, self._expiries - self._settings.retry_linear)
        return self._settings.ack_timeout * float(1 << min(doublings, 24 - self._settings.timeout_exponent))

    def next_timeout(self) -> float | None:
        """Return the time at which the oldest packet in flight times out."""
        oldest = _head(self._examined) if self._examined else None
        if oldest is None:
            oldest = _head(self._unexamined)
        if oldest is not None:
            return oldest.sent_at + self.timeout
        self._examined = self._unexamined = EMPTY_QUEUE
        return None

    def progress(self) -> None:
        """Something new was acknowledged: reset the retries."""
        self.retries = 0
        if self._expiries:
            self._expiries = 0
            self.timeout = self._doubled()

    def retry(self, after_timeout: bool = True) -> bool:
        """Count a retry; False when the counter is exhausted."""
        self.retries += 1
        if after_timeout:
            self._expiries += 1
            self.timeout = self._doubled()
        if self._settings.retry_exponential >= RETRY_ENDLESS:
            return True
        return self.retries <= self._settings.retry_linear + self._settings.retry_exponential


def _take_older(queue: deque[Entry], limit: float) -> list[Entry]:
    """Remove the transmissions up to `limit` from a queue in order of sending; return those still in flight."""
    found: list[Entry] = []
    while queue:
        entry = queue[0]
        if not _stale(entry):
            if entry[1].sent_at > limit:
                break
            found.append(entry)
        queue.popleft()
    return found


def _head(queue: deque[Entry]) -> SentPacket | None:
    """Return the first packet of a queue that is still in flight; remove those before it."""
    while queue:
        entry = queue[0]
        if not _stale(entry):
            return entry[1]
        queue.popleft()
    return None


def _stale(entry: Entry) -> bool:
    """Return True if this transmission is no longer in flight (acknowledged, declared lost, or retransmitted since)."""
    order, packet = entry
    return packet.order != order or packet.state is not _FLIGHT
