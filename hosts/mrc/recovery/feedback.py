"""Handling of SACKs, Transport ACKs and NACKs by the sending half of a QP.

docs/mrc-protocol.md §1.6. Order within one SACK: first everything that it acknowledges, then the verdicts on what it
shows missing.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Final

from mrclab.hosts.mrc.packets import headers as h
from mrclab.hosts.mrc.recovery.loss import TOO_SOON
from mrclab.hosts.mrc.recovery.sent import INFERRED, TAIL, PacketState, SentPacket
from mrclab.hosts.mrc.responder import IDLE_RTTS
from mrclab.hosts.rdma.packets.psn import unwrap, wrap

if TYPE_CHECKING:
    from mrclab.hosts.mrc.requestor import MrcRequestor

_FLIGHT: Final = PacketState.FLIGHT
_LOST: Final = PacketState.LOST
_ACKED: Final = PacketState.ACKED
_TRIM_REASONS: Final = frozenset({int(h.Reason.TRIMMED), int(h.Reason.TRIMMED_LASTHOP)})
_NO_MARK: Final = int(h.Mark.NONE)
_SKIP_ONCE: Final = int(h.Mark.SKIP_ONCE)
_ALWAYS_SKIP: Final = int(h.Mark.ALWAYS_SKIP)
_SRTT_GAIN: Final = 0.125
_RTTVAR_GAIN: Final = 0.25
_PTO_SLACK_RTTS: Final = 0.125  # least slack of the probe timeout, beyond the time that a peer may hold a SACK
_PTO_VARIATIONS: Final = 4.0
_SLACK: Final = 2000  # µs that a peer's timer may be late


class Feedback:
    """The ears of one requestor."""

    def __init__(self, requestor: MrcRequestor) -> None:
        self._r = requestor
        self._qp = requestor.qp
        self._window = requestor.window
        self._loss = requestor.loss
        self._account = requestor.account
        self._stats = requestor.qp.stats
        self._news: list[SentPacket] = []  # whose last copy the SACK at hand proves to have arrived
        self._unstamped = not requestor.qp.settings.timestamps
        self._byte_time = requestor.qp.peer.byte_time
        self._full_nominal = requestor.qp.peer.full_nominal
        self._held_at_most = int(IDLE_RTTS * requestor.qp.settings.base_rtt * 1e6) + _SLACK
        self.srtt = 0.0
        self._rttvar = 0.0
        self.pto = 0.0  # probe timeout: so long after it was sent a packet is overdue; 0: not known
        self.answered_from = inf  # what was sent earlier may have come before the peer took anything

    # --- the three kinds --------------------------------------------------------------------------

    def on_sack(self, sack: h.Sack, now: float, probe_sent_at: float | None) -> None:
        """A SACK for this QP; `probe_sent_at` is set where it answers a reliability probe."""
        qp, r, window, stats = self._qp, self._r, self._window, self._stats
        stats.sacks_received += 1
        cack = unwrap(sack.cack - r.first_psn, window.una - 1)
        if not window.plausible(cack):
            stats.bogus_control += 1
            return
        r.heard()
        before = stats.acked_packets
        rtt: float | None = None
        if sack.probe_reply:
            if probe_sent_at is not None:
                self.answered_from = min(self.answered_from, probe_sent_at)
                self._loss.probe_answered(probe_sent_at)
        else:
            rtt = self._trigger(cack + sack.offset, sack.timestamp, now)
        shown = cack + sack.bitmap_offset
        self._ack_all(window.cumulative(cack), now)
        self._ack_all(window.bitmap(shown, sack.bitmap), now)
        end = shown + h.BITMAP_BITS
        self._judge(shown, end if end < window.top else window.next, now)  # the newest one speaks for all above it
        if stats.acked_packets != before:
            self._progress(now)
        if rtt is not None:
            self._sample(rtt)
            qp.prober.tail_rtt = 0.0
        newly = self._account.received(sack.rcvd_units)
        qp.cc.on_sack(newly, sack.mark != _NO_MARK, rtt, sack.penalty, sack.restore, now)
        if sack.mark:
            self._marked(sack, now)
        if sack.mpr and qp.settings.dynamic_mpr:
            r.limit_window(sack.mpr)
        r.after_feedback(now)

    def on_ack(self, psn: int, now: float) -> None:
        """A Transport ACK: everything up to `psn` has arrived and was executed."""
        window, stats = self._window, self._stats
        stats.acks_received += 1
        cack = unwrap(psn - self._r.first_psn, window.una - 1)
        if not window.plausible(cack):
            stats.bogus_control += 1
            return
        self._r.heard()
        news = window.cumulative(cack)
        self._ack_all(news, now)
        if news:
            self._progress(now)
        self._judge(window.next, window.next, now)
        self._r.after_feedback(now)

    def on_nack(self, nack: h.Nack, now: float) -> None:
        """A recoverable NACK: send the packet again, on another path."""
        qp, window = self._qp, self._window
        self._stats.nacks_received += 1
        packet = window.get(unwrap(nack.psn - self._r.first_psn, window.una))
        if packet is None or packet.state is not _FLIGHT or nack.timestamp not in {0, packet.ts}:
            return  # acknowledged, or already declared lost, or the NACK is about an older copy
        self._r.heard()
        trimmed = nack.reason in _TRIM_REASONS
        # where links take packets for their bytes, a trimmed one was too quick to tell anything of a full one
        rtt = now - packet.sent_at if trimmed and packet.sends == 1 and not self._byte_time else None
        if nack.reason == h.Reason.NO_RESOURCE:
            size = self._r.refuse(packet, now)
        else:
            size = self._r.declare_lost(packet, "nack", now)
        packet.ev.nacked += 1
        qp.cc.on_nack(size, trimmed, rtt, now)
        if nack.reason == h.Reason.TRIMMED:
            reflected = qp.evs.by_value.get(nack.entropy)
            if reflected is not None and qp.evs.selection is not None:
                qp.evs.selection.on_mark(reflected)
            if reflected is not None and qp.settings.ecn_skip:
                qp.evs.skip(reflected, now, self._loss.rtt_base, "trimmed")
        if self._r.retry_after_nack(now):
            self._r.after_feedback(now)

    def _sample(self, rtt: float) -> None:
        """Smooth a round-trip time as RFC 6298 does; the probe timeout follows, for those rules that SACKs may use."""
        srtt = self.srtt
        if not srtt:
            self.srtt, self._rttvar = rtt, rtt / 2
        else:
            self._rttvar += _RTTVAR_GAIN * (abs(rtt - srtt) - self._rttvar)
            self.srtt = srtt + _SRTT_GAIN * (rtt - srtt)
        settings = self._qp.settings
        if settings.sack_loss:
            base = self._loss.rtt_base
            slack = max(_PTO_SLACK_RTTS * base, _PTO_VARIATIONS * self._rttvar)
            self.pto = min(self.srtt + IDLE_RTTS * base + slack, settings.tail_probe_rtts * self.srtt)

    # --- acknowledgements -------------------------------------------------------------------------

    def _progress(self, now: float) -> None:
        self._loss.progress()
        self._r.last_progress = now

    def _trigger(self, seq: int, ts: int, now: float) -> float | None:
        """Take in the packet that triggered a SACK; return its round-trip time where it is known which copy arrived.

        It is normalised to a full packet, as the base RTT is: a small packet's round trip is shorter, and taken as it
        is it would lower the base RTT, and with it the window, for good.

        The reflected timestamp tells the copies of a packet apart: its last one proves its path, an earlier one that
        its loss was an error. It is later than what was sent by the time that the peer held the SACK. A packet gives
        its round-trip time even where a Transport ACK or another SACK acknowledged it first.
        """
        packet = self._window.get(seq)
        if packet is None:
            return None
        held = 0  # µs
        last_copy = True
        if packet.sends == 1:
            if ts:
                held = ts - packet.ts & h.TS_MASK
        else:
            last_copy = bool(ts) and ts == packet.ts
            if ts and not last_copy and ts - packet.previous_ts & h.TS_MASK <= self._held_at_most:
                self._spurious(packet)
            if last_copy and not (packet.state is _ACKED and packet.settled):
                packet.settled = True
                self._news.append(packet)
        known = packet.state is _ACKED
        if not known:
            self._ack_all([packet], now)
            self._window.arrived(packet)
        if packet.sampled or not last_copy or not (ts or (self._unstamped and not known)):
            return None
        packet.sampled = True
        return now - packet.sent_at + self._lead(packet) - (held * h.TS_UNIT if held <= self._held_at_most else 0.0)

    def _lead(self, packet: SentPacket) -> float:
        """Seconds by which the round trip of a packet is shorter than that of the link's full one, without queues."""
        return self._byte_time * (self._full_nominal - packet.nominal)

    def _ack_all(self, packets: list[SentPacket], now: float) -> None:
        """These have arrived, each by whichever of its copies."""
        stats, news, account = self._stats, self._news, self._account
        evs = self._qp.known_evs
        selection = None if evs is None else evs.selection
        for packet in packets:
            if packet.state is _FLIGHT:
                account.packets -= 1  # its bytes go when the receiver's count tells
                if packet.sends == 1:
                    news.append(packet)
                elif not packet.settled and now - packet.sent_at < TOO_SOON * (
                    self._loss.rtt_base - self._lead(packet)
                ):
                    self._spurious(packet)  # the answer came sooner than the last copy can have arrived
                elif packet.lost_by == TAIL and not packet.exposed:
                    self._r.confirm_tail_loss(packet, now)
            elif packet.state is _LOST:
                self._late(packet)
            packet.state = _ACKED
            account.acked += packet.nominal
            if packet.sent_at < self.answered_from:  # noqa: PLR1730  a call per packet costs more
                self.answered_from = packet.sent_at
            packet.ev.acked += 1
            if selection is not None:
                selection.on_ack(packet.ev)
            stats.acked_packets += 1
            stats.acked_bytes += packet.size

    # --- losses -----------------------------------------------------------------------------------

    def _judge(self, shown: int, end: int, now: float) -> None:
        """Loss rules, once all that a SACK acknowledges has been acknowledged; it shows seqs from `shown` to `end`."""
        loss, window, r = self._loss, self._window, self._r
        for arrived in self._news:
            loss.arrived(arrived, now)
        self._news.clear()
        for packet, rule in loss.judge(window.oldest(), window.una, shown, end, now):
            if packet.state is _FLIGHT:  # else found by two rules
                self._qp.cc.on_loss(r.declare_lost(packet, rule, now), now)

    def _late(self, packet: SentPacket) -> None:
        """It was declared lost, and arrived before it was sent again."""
        self._stats.late_packets += 1
        self._qp.log("packet.late", psn=wrap(packet.seq + self._r.first_psn), ev=packet.ev.value)
        self._account.late(packet)
        self._withdraw(packet, "late")

    def _spurious(self, packet: SentPacket) -> None:
        """It was declared lost and sent again, and the first copy arrived, sooner or later."""
        if packet.exposed:
            return
        packet.exposed = packet.settled = True
        self._stats.spurious_packets += 1
        self._qp.log("packet.spurious", psn=wrap(packet.seq + self._r.first_psn))
        self._withdraw(packet, "spurious")

    def _withdraw(self, packet: SentPacket, reason: str) -> None:
        """The path was blamed wrongly: it delivered, only late. (Unless a port was, or a NACK told: nobody guessed.)"""
        if packet.lost_by not in INFERRED:
            return
        self._loss.spurious(packet.lost_by)
        ev = packet.lost_ev
        if ev is not None and ev.lost:
            ev.lost -= 1
            self._qp.evs.restore(ev, reason)

    def _marked(self, sack: h.Sack, now: float) -> None:
        """M of a SACK: the peer's word on the EV it reflects."""
        qp = self._qp
        self._stats.marks_received += 1
        ev = qp.evs.by_value.get(sack.entropy)
        if ev is None:
            return
        ev.marked += 1
        if qp.evs.selection is not None:
            qp.evs.selection.on_mark(ev)
        if sack.mark == _SKIP_ONCE:
            if qp.settings.ecn_skip:
                qp.evs.skip(ev, now, self._loss.rtt_base, "ecn")
        elif sack.mark == _ALWAYS_SKIP:
            qp.evs.lost(ev, now, "responder")
