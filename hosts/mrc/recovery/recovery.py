"""Recovery of one requestor: conclusions from a SACK, Transport ACK or NACK about the packets that were sent.

docs/mrc-protocol.md §1.6. It keeps the records of packets and returns a `RecoveryVerdict`, which the requestor applies
to counters, EVs, congestion control and the send queue. Within one SACK everything acknowledged is processed first,
then the loss rules judge the packets that it shows missing.
"""

from __future__ import annotations

from enum import Enum
from math import inf
from typing import Final

from mrclab.hosts.mrc.packets import headers as h
from mrclab.hosts.mrc.recovery.loss import TOO_SOON, LossDetector
from mrclab.hosts.mrc.recovery.rtt import RttEstimator
from mrclab.hosts.mrc.recovery.sent import INFERRED, TAIL, PacketState, SentPacket
from mrclab.hosts.mrc.recovery.window import SendWindow
from mrclab.hosts.mrc.settings import IDLE_RTTS, MrcQpSettings

_FLIGHT: Final = PacketState.FLIGHT
_LOST: Final = PacketState.LOST
_ACKED: Final = PacketState.ACKED
_SLACK: Final = 2000  # µs that a peer's timer may be late


class LossFinding(Enum):
    """Finding on an earlier loss of a packet that has arrived."""

    LATE = 0  # declared lost, and arrived before the retransmission
    SPURIOUS = 1  # declared lost and retransmitted, and the first copy arrived
    TAIL_LOST = 2  # the copy of a tail loss probe arrived, and not the one before it


_LATE: Final = LossFinding.LATE
_SPURIOUS: Final = LossFinding.SPURIOUS
_TAIL_LOST: Final = LossFinding.TAIL_LOST
_NO_FINDINGS: Final[list[tuple[SentPacket, LossFinding]]] = []  # stays empty
_NONE_LOST: Final[list[tuple[SentPacket, str]]] = []  # stays empty


class RecoveryVerdict:
    """Consequences of one SACK or ACK. One object per QP: it is valid until the next."""

    __slots__ = ("acked", "findings", "late", "lost", "rtt")

    def __init__(self) -> None:
        self.acked: list[SentPacket] = []  # newly
        self.late = 0  # of these were declared lost before, and not in flight
        self.findings = _NO_FINDINGS  # in order
        self.lost = _NONE_LOST  # with the rule; two rules may find the same packet
        self.rtt: float | None = None  # seconds, if the copy that arrived is known

    def begin(self) -> None:
        """Start the verdict on the next SACK or ACK."""
        self.acked = []
        self.late = 0
        self.findings = _NO_FINDINGS
        self.lost = _NONE_LOST
        self.rtt = None

    def find(self, packet: SentPacket, finding: LossFinding) -> None:
        """Append a finding about a packet."""
        if self.findings is _NO_FINDINGS:
            self.findings = []
        self.findings.append((packet, finding))


class LossRecovery:
    """Window, loss detector and round-trip times. Counts in unwrapped PSNs from 0."""

    __slots__ = (
        "_answered_from", "_byte_time", "_full_nominal", "_longest_hold", "_proven", "_unstamped", "_verdict",
        "loss", "rtt", "window",
    )  # fmt: skip

    def __init__(self, settings: MrcQpSettings, byte_time: float, full_nominal: int) -> None:
        self.window = SendWindow(settings.mpr_psns)
        self.loss = LossDetector(settings)
        self.rtt = RttEstimator(settings)
        self._byte_time = byte_time  # serialization delay of one byte over a path, seconds
        self._full_nominal = full_nominal  # bytes of the link's full packet
        self._verdict = RecoveryVerdict()
        self._proven: list[SentPacket] = []  # packets whose last copy this SACK proves to have arrived
        self._unstamped = not settings.timestamps
        self._longest_hold = int(IDLE_RTTS * settings.base_rtt * 1e6) + _SLACK
        self._answered_from = inf  # oldest sending time answered; before it the peer may not have been in RTR

    # --- SACK, ACK and NACK -----------------------------------------------------------------------

    def on_sack(self, sack: h.Sack, cack: int, now: float, probe_sent_at: float | None) -> RecoveryVerdict:
        """Take a SACK with this plausible `cack`; `probe_sent_at` is set where it answers a reliability probe."""
        verdict, window = self._verdict, self.window
        verdict.begin()
        if not sack.probe_reply:
            verdict.rtt = self._trigger(cack + sack.offset, sack.timestamp, now)
        elif probe_sent_at is not None:
            self._answered_from = min(self._answered_from, probe_sent_at)
            self.loss.probe_answered(probe_sent_at)
        shown = cack + sack.bitmap_offset
        self._ack(window.cumulative(cack), now)
        self._ack(window.bitmap(shown, sack.bitmap), now)
        end = shown + h.BITMAP_BITS
        self._judge(shown, end if end < window.top else window.next, now)  # the newest shows all above it missing
        if verdict.rtt is not None:
            self.rtt.sample(verdict.rtt)
        return verdict

    def on_ack(self, cack: int, now: float) -> RecoveryVerdict:
        """Take a Transport ACK with this plausible `cack`: everything up to it has arrived."""
        verdict, window = self._verdict, self.window
        verdict.begin()
        self._ack(window.cumulative(cack), now)
        self._judge(window.next, window.next, now)
        return verdict

    def nacked(self, seq: int, timestamp: int, entropy: int) -> SentPacket | None:
        """Return the packet in flight that a NACK refuses; None if it refers to an older copy, or to none.

        Copies differ in their timestamps, and without these in their EVs, as a retransmission takes another one.
        """
        packet = self.window.get(seq)
        if packet is None or packet.state is not _FLIGHT:
            return None
        is_last = timestamp == packet.ts if timestamp else packet.sends == 1 or entropy == packet.ev.value
        return packet if is_last else None

    def trimmed_rtt(self, packet: SentPacket, now: float) -> float | None:
        """Return the round-trip time of a trimmed packet that a NACK shows.

        On links with a rate in bytes, a trimmed packet was too fast to show the time of a full one.
        """
        return now - packet.sent_at if packet.sends == 1 and not self._byte_time else None

    # --- losses -----------------------------------------------------------------------------------

    def declare_lost(self, packet: SentPacket, rule: str, now: float) -> bool:
        """Mark a packet in flight as lost; return True if its path is to blame.

        It is not if a NACK or a port is the reason, nor if the peer may not have accepted any packet yet.
        """
        packet.state = _LOST
        packet.lost_ev = packet.ev
        packet.lost_by = rule
        packet.settled = packet.disproved = False
        if rule not in INFERRED or packet.sent_at < self._answered_from:
            return False
        self.loss.true_loss(now)
        return True

    def _judge(self, shown: int, end: int, now: float) -> None:
        """Apply the loss rules; the SACK at hand shows seqs from `shown` to `end`."""
        loss, window, verdict = self.loss, self.window, self._verdict
        for packet in self._proven:
            loss.arrived(packet, now)
        self._proven.clear()
        verdict.lost = loss.judge(window.oldest(), window.una, shown, end, now)
        if verdict.acked:
            loss.progress()

    # --- arrivals ---------------------------------------------------------------------------------

    def _trigger(self, seq: int, ts: int, now: float) -> float | None:
        """Take in the packet that triggered a SACK; return its round-trip time if the copy that arrived is known.

        It is normalised to a full packet, as the base RTT is: a small packet's round trip is shorter, and taken as it
        is it would lower the base RTT, and with it the window, for good.

        The reflected timestamp distinguishes the copies of a packet: its last one proves its path, an earlier one that
        its loss was an error. It is later than what was sent by the time that the peer held the SACK. A packet gives
        its round-trip time even where a Transport ACK or another SACK acknowledged it first.
        """
        packet = self.window.get(seq)
        if packet is None:
            return None
        hold = 0  # µs
        last_copy = True
        if packet.sends == 1:
            if ts:
                hold = ts - packet.ts & h.TS_MASK
        else:
            last_copy = bool(ts) and ts == packet.ts
            if ts and not last_copy and ts - packet.previous_ts & h.TS_MASK <= self._longest_hold:
                self._spurious(packet)
            if last_copy and not (packet.state is _ACKED and packet.settled):
                packet.settled = True
                self._proven.append(packet)
        known = packet.state is _ACKED
        if not known:
            self._ack([packet], now)
            self.window.arrived(packet)
        if packet.sampled or not last_copy or not (ts or (self._unstamped and not known)):
            return None
        packet.sampled = True
        return now - packet.sent_at + self._lead(packet) - (hold * h.TS_UNIT if hold <= self._longest_hold else 0.0)

    def _lead(self, packet: SentPacket) -> float:
        """Return the seconds by which the round trip of a packet is shorter than that of a full one, without queues."""
        return self._byte_time * (self._full_nominal - packet.nominal)

    def _ack(self, packets: list[SentPacket], now: float) -> None:
        """Mark packets as arrived, each by any of its copies."""
        if not packets:
            return
        verdict, newest = self._verdict, self._proven
        for packet in packets:
            if packet.state is _FLIGHT:
                if packet.sends == 1:
                    newest.append(packet)
                elif not packet.settled and now - packet.sent_at < TOO_SOON * (self.loss.rtt_base - self._lead(packet)):
                    self._spurious(packet)  # the response came sooner than the last copy can have arrived
                elif packet.lost_by == TAIL and not packet.disproved:
                    self.loss.true_loss(now)
                    verdict.find(packet, _TAIL_LOST)
            elif packet.state is _LOST:
                verdict.late += 1
                self._not_lost(packet, _LATE)
            packet.state = _ACKED
            if packet.sent_at < self._answered_from:  # noqa: PLR1730  a call per packet costs more
                self._answered_from = packet.sent_at
        verdict.acked += packets

    def _spurious(self, packet: SentPacket) -> None:
        """A packet was declared lost and retransmitted, and the first copy arrived."""
        if packet.disproved:
            return
        packet.disproved = packet.settled = True
        self._not_lost(packet, _SPURIOUS)

    def _not_lost(self, packet: SentPacket, finding: LossFinding) -> None:
        """The rule that declared it lost was wrong (a port or a NACK is no such rule)."""
        if packet.lost_by in INFERRED:
            self.loss.spurious(packet.lost_by)
        self._verdict.find(packet, finding)
