"""What SACKs, Transport ACKs and NACKs mean to the sending half of a QP.

docs/mrc-protocol.md §1.6. Order within one SACK: first everything that it acknowledges, then the verdicts on what it
shows missing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from mrclab.hosts.mrc import headers as h
from mrclab.hosts.mrc.loss import TOO_SOON
from mrclab.hosts.mrc.sent import PacketState, SentPacket
from mrclab.hosts.rdma.psn import unwrap, wrap

if TYPE_CHECKING:
    from mrclab.hosts.mrc.requestor import Requestor

_FLIGHT = PacketState.FLIGHT
_LOST = PacketState.LOST
_ACKED = PacketState.ACKED
_TRIM_REASONS = frozenset({int(h.Reason.TRIMMED), int(h.Reason.TRIMMED_LASTHOP)})
_SKIP_ONCE = int(h.Mark.SKIP_ONCE)
_ALWAYS_SKIP = int(h.Mark.ALWAYS_SKIP)
_SRTT_GAIN = 0.125


class Feedback:
    """The ears of one requestor."""

    def __init__(self, requestor: Requestor) -> None:
        self._r = requestor
        self._qp = requestor.qp
        self._window = requestor.window
        self._loss = requestor.loss
        self._account = requestor.account
        self._stats = requestor.qp.stats
        self._news: list[SentPacket] = []  # whose last copy the SACK at hand proves to have arrived
        self.srtt = 0.0

    # --- the three kinds --------------------------------------------------------------------------

    def on_sack(self, sack: h.Sack, now: float, probe_sent_at: float | None) -> None:
        """A SACK for this QP; `probe_sent_at` is set where it answers a reliability probe."""
        qp, r, window, stats = self._qp, self._r, self._window, self._stats
        stats.sacks_received += 1
        qp.prober.tail_backoff = 1
        cack = unwrap(sack.cack - r.first_psn, window.una - 1)
        if not window.plausible(cack):
            stats.bogus_control += 1
            return
        before = stats.acked_packets
        rtt: float | None = None
        if sack.probe_reply:
            if probe_sent_at is not None:
                self._loss.probe_answered(probe_sent_at)
        else:
            rtt = self._trigger(cack + sack.offset, sack.timestamp, now)
        shown = cack + sack.bitmap_offset
        self._ack_all(window.cumulative(cack), now)
        for packet in window.slide(shown, sack.bitmap):
            self._loss.left_behind(packet)
        self._ack_all(window.bitmap(shown, sack.bitmap), now)
        self._judge(shown, now)
        if stats.acked_packets != before:
            self._progress(now)
        if rtt is not None:
            self.srtt = rtt if not self.srtt else self.srtt + _SRTT_GAIN * (rtt - self.srtt)
        newly = self._account.received(sack.rcvd_units)
        qp.cc.on_sack(newly, sack.mark == _SKIP_ONCE, rtt, sack.penalty, sack.restore, now)
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
        news = window.cumulative(cack)
        self._ack_all(news, now)
        if news:
            self._progress(now)
        self._judge(window.next, now)
        self._r.after_feedback(now)

    def on_nack(self, nack: h.Nack, now: float) -> None:
        """A recoverable NACK: send the packet again, on another path."""
        qp, window = self._qp, self._window
        self._stats.nacks_received += 1
        packet = window.get(unwrap(nack.psn - self._r.first_psn, window.una))
        if packet is None or packet.state is not _FLIGHT or nack.timestamp not in {0, packet.ts}:
            return  # acknowledged, or already declared lost, or the NACK is about an older copy
        trimmed = nack.reason in _TRIM_REASONS
        rtt = now - packet.sent_at if trimmed and packet.sends == 1 else None
        size = self._r.declare_lost(packet, "nack", now)
        packet.ev.nacked += 1
        qp.cc.on_nack(size, trimmed, rtt, now)
        if nack.reason == h.Reason.TRIMMED and qp.settings.ecn_skip:
            reflected = qp.evs.by_value.get(nack.entropy)
            if reflected is not None:
                qp.evs.skip(reflected, now, self._loss.rtt_base, "trimmed")
        if self._r.may_retry():
            self._r.after_feedback(now)

    # --- acknowledgements -------------------------------------------------------------------------

    def _progress(self, now: float) -> None:
        self._loss.retries = 0
        self._r.last_progress = now

    def _trigger(self, seq: int, ts: int, now: float) -> float | None:
        """The packet that made the peer send this SACK; its round-trip time where it is known which copy arrived.

        The reflected timestamp tells the copies of a packet apart: its last one proves its path, an earlier one that
        its loss was an error.
        """
        packet = self._window.get(seq)
        if packet is None:
            return None
        once = packet.sends == 1
        if not once and ts and ts == packet.previous_ts and not packet.settled:
            self._spurious(packet)
        last_copy = once or (bool(ts) and ts == packet.ts)
        if last_copy and not once and not (packet.state is _ACKED and packet.settled):
            packet.settled = True
            self._news.append(packet)
        if packet.state is _ACKED:
            return None
        self._ack_all((packet,), now)
        self._window.arrived(packet)
        return now - packet.sent_at if last_copy else None

    def _ack_all(self, packets: Iterable[SentPacket], now: float) -> None:
        """These have arrived, each by whichever of its copies."""
        stats, news, account = self._stats, self._news, self._account
        for packet in packets:
            if packet.state is _FLIGHT:
                account.packets -= 1  # its bytes go when the receiver's count tells
                if packet.sends == 1:
                    news.append(packet)
                elif not packet.settled and now - packet.sent_at < TOO_SOON * self._loss.rtt_base:
                    self._spurious(packet)  # the answer came sooner than the last copy can have arrived
            elif packet.state is _LOST:
                self._late(packet)
            packet.state = _ACKED
            packet.ev.acked += 1
            stats.acked_packets += 1
            stats.acked_bytes += packet.size

    # --- losses -----------------------------------------------------------------------------------

    def _judge(self, shown: int, now: float) -> None:
        """Loss rules, once all that a SACK acknowledges has been acknowledged."""
        loss, window, r = self._loss, self._window, self._r
        for arrived in self._news:
            loss.arrived(arrived, now)
        self._news.clear()
        for packet in loss.overtaken(window.una, shown, now):
            self._qp.cc.on_loss(r.declare_lost(packet, "same-ev", now), now)
        for packet in loss.overdue(window.oldest(), window.una, shown):
            self._qp.cc.on_loss(r.declare_lost(packet, "time", now), now)

    def _late(self, packet: SentPacket) -> None:
        """It was declared lost, and arrived before it was sent again."""
        self._stats.late_packets += 1
        self._qp.log("packet.late", psn=wrap(packet.seq + self._r.first_psn), ev=packet.ev.value)
        self._account.late(packet)
        self._withdraw(packet, "late")

    def _spurious(self, packet: SentPacket) -> None:
        """It was declared lost and sent again, and the first copy had arrived."""
        self._stats.spurious_packets += 1
        self._qp.log("packet.spurious", psn=wrap(packet.seq + self._r.first_psn))
        packet.settled = True
        self._withdraw(packet, "spurious")

    def _withdraw(self, packet: SentPacket, reason: str) -> None:
        """The path was blamed wrongly: it delivered, only late."""
        self._loss.spurious()
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
        if sack.mark == _SKIP_ONCE:
            if qp.settings.ecn_skip:
                qp.evs.skip(ev, now, self._loss.rtt_base, "ecn")
        elif sack.mark == _ALWAYS_SKIP:
            qp.evs.lost(ev, now, "responder")
