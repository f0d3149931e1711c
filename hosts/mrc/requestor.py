"""Sending half of a QP: messages to packets, windows, retransmission, completion.

docs/mrc-protocol.md §1.6 and §2.6. Counts in unwrapped PSNs from 0; the wire adds the QP's first PSN. `LossRecovery`
processes SACKs, ACKs and NACKs and returns which packets arrived and which are lost; that is applied here.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, Final

from typing_extensions import override

from mrclab.hosts.mrc.evs.ev import Ev
from mrclab.hosts.mrc.evs.evset import EvSet
from mrclab.hosts.mrc.packets import headers as h
from mrclab.hosts.mrc.recovery import stalls
from mrclab.hosts.mrc.recovery.inflight import InFlight
from mrclab.hosts.mrc.recovery.recovery import LossFinding, LossRecovery, RecoveryVerdict
from mrclab.hosts.mrc.recovery.retries import Retries
from mrclab.hosts.mrc.recovery.rnr import RnrBackoff
from mrclab.hosts.mrc.recovery.sendtimer import SendTimer
from mrclab.hosts.mrc.recovery.sent import INFERRED, TAIL, MrcMessage, PacketState, SentPacket
from mrclab.hosts.mrc.scheduling import SendState
from mrclab.hosts.rdma.errors import VerbsError
from mrclab.hosts.rdma.packets import wire
from mrclab.hosts.rdma.packets.path import Frame
from mrclab.hosts.rdma.packets.psn import PSN_MASK, unwrap, wrap
from mrclab.hosts.rdma.qp import SendHalf
from mrclab.hosts.rdma.timers import NEVER
from mrclab.topo.config.nodeconfig import MPR_UNIT

if TYPE_CHECKING:
    from mrclab.hosts.mrc.qp import MrcQueuePair

_FLIGHT: Final = PacketState.FLIGHT
_LOST: Final = PacketState.LOST
_LATE: Final = LossFinding.LATE
_SPURIOUS: Final = LossFinding.SPURIOUS
_TRIM_REASONS: Final = frozenset({int(h.Reason.TRIMMED), int(h.Reason.TRIMMED_LASTHOP)})
_NO_MARK: Final = int(h.Mark.NONE)
_SKIP_ONCE: Final = int(h.Mark.SKIP_ONCE)
_ALWAYS_SKIP: Final = int(h.Mark.ALWAYS_SKIP)

_TS_MASK: Final = h.TS_MASK
_TC_DATA: Final = h.Dscp.TRIMMABLE << 2 | wire.ECN_ECT
_TC_RETX: Final = h.Dscp.TRIMMABLE_RETX << 2 | wire.ECN_ECT
_TC_NO_TRIM: Final = h.TC_NO_TRIM

_RUNNABLE: Final = SendState.RUNNABLE
_BLOCKED: Final = SendState.WINDOW_BLOCKED
_IDLE: Final = SendState.IDLE


class MrcRequestor(SendHalf[MrcMessage, "MrcQueuePair"]):
    """Send queue, windows, retransmission."""

    __slots__ = (
        "_busy_since", "_cc", "_class_new", "_class_retx", "_credit_based", "_evs", "_flags", "_full_nominal", "_loss",
        "_msn", "_mtu", "_order", "_prober", "_rqmsn", "_sendtimer", "_stalled_since", "_stats", "_window",
        "in_flight_bytes", "last_progress", "last_sent", "lost", "psn_window", "recovery", "retries", "rnr",
        "unresponsive", "unsent", "wimm_in_flight",
    )  # fmt: skip

    message_class = MrcMessage

    def __init__(self, qp: MrcQueuePair) -> None:
        self.qp = qp
        s = qp.settings
        self._mtu = s.path_mtu
        self._full_nominal = s.path_mtu + (-s.path_mtu & 3) + qp.overhead
        self._flags = h.FLAG_TS if s.timestamps else 0  # of every packet
        self._stats = qp.stats
        self._cc = qp.cc
        self._credit_based = type(qp.cc).credit_based
        self._evs: EvSet | None = None  # until something is posted
        self._class_new, self._class_retx = (_TC_DATA, _TC_RETX) if s.trimming else (_TC_NO_TRIM, _TC_NO_TRIM)
        self.first_psn = 0  # of the wire, set at RTS
        self.limit_window(qp.remote_mpr)
        self.recovery = LossRecovery(s, qp.peer.byte_time, qp.peer.full_nominal)
        self._window = self.recovery.window
        self._loss = self.recovery.loss
        self.in_flight_bytes = InFlight(qp.cc)
        self.unsent: list[MrcMessage] = []
        self.incomplete = []  # all that are posted and not completed, in order
        self.lost: list[int] = []  # heap of seqs that wait for retransmission; may hold some that do not any more
        self.rnr: RnrBackoff | None = None  # once the peer lacked a receive
        self.wimm_in_flight = 0  # writes with immediate
        self.last_progress = 0.0
        self._busy_since = 0.0  # something was posted then, and there was nothing before
        self._stalled_since = NEVER  # last progress before the stall that was reported
        self.last_sent = float("-inf")
        self._order = 0
        self._msn = self._rqmsn = 0
        self.unresponsive = False  # the peer: only probes are sent, and what timed out, one packet at a time
        self.retries = Retries(self)
        self._prober = qp.prober
        self._sendtimer = SendTimer(self)

    # --- posting ----------------------------------------------------------------------------------

    @override
    def post(self, message: MrcMessage, now: float) -> None:
        """Queue a message; ENOMEM where the peer takes no further immediate yet."""
        if message.imm is not None:
            limit = self.qp.remote_wimm
            if self.wimm_in_flight >= limit:
                text = f"QP {self.qp.qpn} has {limit} immediates outstanding, as many as the peer takes"
                raise VerbsError("ENOMEM", text)
            self._rqmsn += 1
            self.wimm_in_flight += 1
        self._msn += 1
        message.msn = self._msn & 0xFFFF
        message.rqmsn = self._rqmsn & 0xFFFF
        message.packets = max(1, -(-message.length // self._mtu))
        message.sent = 0
        if not self.incomplete:
            self._evs = self.qp.evs
            self._busy_since = now
        self.unsent.append(message)
        self.incomplete.append(message)
        self.qp.stats.posted_bytes += message.length
        if self._credit_based:
            self._cc.on_post(message.unsent_bytes(self._mtu, self._full_nominal, self.qp.overhead), now)
            self.qp.endpoint.request_credit(self.qp.peer, now)
        self.retries.watch_paths(now)
        if self.qp.peer.ports_down:
            self.qp.endpoint.query_ports(self.qp.peer, now)

    def limit_window(self, mpr: int) -> None:
        """The peer's responder takes `mpr` units: [cack + 1, cack + MPR)."""
        self.psn_window = min(mpr * MPR_UNIT, self.qp.settings.mpr_psns) - 1

    # --- sending ----------------------------------------------------------------------------------

    @property
    def in_flight(self) -> bool:
        """True if anything waits for an acknowledgement."""
        return self._window.next > self._window.una

    def is_outstanding(self, psn: int) -> bool:
        """Return True if a packet with this PSN was sent and is not known to have arrived with all before it."""
        window = self._window
        return window.una <= unwrap(psn - self.first_psn, window.una) < window.next

    def has_retransmission(self) -> bool:
        """Return True if a retransmission waits and may go, as far as the congestion window is concerned."""
        if not self._next_lost():
            return False
        return not self.in_flight_bytes.packets if self.unresponsive else self.qp.cc.allows(self._mtu)

    def _next_lost(self) -> bool:
        """Return True if a retransmission waits; it is at the head of the heap then."""
        lost = self.lost
        while lost:
            packet = self._window.get(lost[0])
            if packet is not None and packet.state is _LOST:
                return True
            heappop(lost)
        return False

    def send_state(self) -> SendState:
        """Return whether the windows let this QP send now, and if not, the one that blocks it."""
        if self._prober.waiting:
            return _RUNNABLE
        if self.unresponsive:
            return _RUNNABLE if self.has_retransmission() else _IDLE
        window = self._window
        may_send_new = self.unsent and window.next - window.una < self.psn_window and not self._awaits_receive()
        if not may_send_new and not self._next_lost():
            return _IDLE
        return _RUNNABLE if self._cc.allows(self._mtu) else _BLOCKED

    def retransmission_frame(self, plane: int, now: float) -> Frame | None:
        """Return the oldest lost packet, on a path other than the one it was lost on.

        None if this plane has none for it, or another one is in turn: else the first port would carry all of them.
        """
        packet = self._window.get(self.lost[0])
        if packet is None:
            return None
        evs = self.qp.evs
        ev = evs.take_for_retransmission(plane, now, packet.lost_ev, packet.ev.plane if packet.lost_by == TAIL else 0)
        if ev is None:
            return None
        heappop(self.lost)
        used = evs.planes[plane]
        used.share += used.step
        self.qp.stats.retx_packets += 1
        ev.retransmitted += 1
        old = packet.ev.value
        frame = self._transmit(packet, ev, now, self._class_retx, h.FLAG_RTX)
        if frame is not None:
            self.qp.log("packet.retx", psn=wrap(packet.seq + self.first_psn), ev=ev.value, old_ev=old)
        return frame

    def new_frame(self, plane: int, now: float) -> Frame | None:
        """Return the next new packet; None if a window is closed, or the plane not in turn or without EV."""
        window = self._window
        if (
            not self.unsent
            or window.next - window.una >= self.psn_window
            or self.unresponsive
            or not self._cc.allows(self._mtu)
            or (self.rnr is not None and self._awaits_receive())
        ):
            return None
        evs = self._evs
        ev = evs.take(plane, now) if evs is not None else None
        if ev is None:
            return None
        packet = window.take()
        if packet.seq == window.una:
            self.last_progress = now  # nothing was in flight: the peer has been quiet since now
        if self.unsent[0].fill(packet, self._mtu, self._full_nominal, self.qp.overhead):
            del self.unsent[0]
        return self._transmit(packet, ev, now, self._class_new, 0)

    def _awaits_receive(self) -> bool:
        """Return True if the next new packet carries an immediate that the peer would refuse for want of a receive."""
        if self.rnr is None or not self.rnr.active:
            return False
        message = self.unsent[0]
        return message.imm is not None and message.sent == message.packets - 1

    def _transmit(self, packet: SentPacket, ev: Ev, now: float, traffic_class: int, flags: int) -> Frame | None:
        self._order = packet.order = self._order + 1
        packet.ev = ev
        packet.sent_at = self.last_sent = now
        packet.previous_ts = packet.ts
        packet.ts = int(now * 1e6) & _TS_MASK
        packet.sends += 1
        packet.state = _FLIGHT
        packet.sampled = False
        self._loss.sent(packet)
        self.in_flight_bytes.sent(packet.nominal, now)
        if self._credit_based:
            self.qp.endpoint.request_credit(self.qp.peer, now)
        ev.sent += 1
        size = packet.size
        stats = self._stats
        stats.sent_packets += 1
        stats.sent_bytes += size
        window = self._window
        if not self.unsent or window.next - window.una >= self.psn_window or self._cc.wants_ack():
            flags |= wire.FLAG_ACK_REQUEST
        if not self._sendtimer.armed or not self.unsent:
            self._sendtimer.plan(now)
        offset = packet.offset
        message = packet.message
        payload = message.view[offset : offset + size] if size else None
        psn = packet.seq + self.first_psn & PSN_MASK
        frame = ev.path.write(traffic_class, packet, self.qp.remote_qpn, psn, flags | self._flags, payload)
        for region in message.regions:
            if region.fault and self.region_lost(message, now):
                return None
        return frame

    # --- SACK, ACK, NACK --------------------------------------------------------------------------

    def on_sack(self, sack: h.Sack, now: float, probe_sent_at: float | None) -> None:
        """A SACK for this QP; `probe_sent_at` is set where it answers a reliability probe."""
        qp, stats = self.qp, self._stats
        stats.sacks_received += 1
        cack = unwrap(sack.cack - self.first_psn, self._window.una - 1)
        if not self._window.plausible(cack):
            stats.bogus_control += 1
            return
        self._peer_responded()
        verdict = self.recovery.on_sack(sack, cack, now, probe_sent_at)
        self._apply(verdict, now)
        if verdict.rtt is not None:
            self._prober.sack_probe_rtt = 0.0
        newly = self.in_flight_bytes.received(sack.rcvd_units)
        qp.cc.on_sack(newly, sack.mark != _NO_MARK, verdict.rtt, sack.penalty, sack.restore, now)
        if sack.mark:
            self._marked(sack, now)
        if sack.mpr and qp.settings.dynamic_mpr:
            self.limit_window(sack.mpr)
        self._after_feedback(now)

    def on_ack(self, psn: int, now: float) -> None:
        """A Transport ACK: everything up to `psn` has arrived and was executed."""
        stats = self._stats
        stats.acks_received += 1
        cack = unwrap(psn - self.first_psn, self._window.una - 1)
        if not self._window.plausible(cack):
            stats.bogus_control += 1
            return
        self._peer_responded()
        self._apply(self.recovery.on_ack(cack, now), now)
        self._after_feedback(now)

    def on_nack(self, nack: h.Nack, now: float) -> None:
        """A recoverable NACK: send the packet again, on another path."""
        qp = self.qp
        self._stats.nacks_received += 1
        seq = unwrap(nack.psn - self.first_psn, self._window.una)
        packet = self.recovery.nacked(seq, nack.timestamp, nack.entropy)
        if packet is None:
            return
        self._peer_responded()
        trimmed = nack.reason in _TRIM_REASONS
        rtt = self.recovery.trimmed_rtt(packet, now) if trimmed else None
        no_receive = nack.reason == h.Reason.NO_RESOURCE
        size = self.declare_lost(packet, "nack", now, again=not no_receive)
        if no_receive:
            if self.rnr is None:
                self.rnr = RnrBackoff(self)
            self.rnr.refuse(packet, now)
        packet.ev.nacked += 1
        qp.cc.on_nack(size, trimmed, rtt, now)
        if nack.reason == h.Reason.TRIMMED:
            reflected = qp.evs.find(nack.entropy)
            if reflected is not None:
                qp.evs.congested(reflected, now, qp.settings.base_rtt if qp.settings.ecn_skip else None, "trimmed")
        if self.retries.nacked(self.last_progress, now):
            self._after_feedback(now)

    def _apply(self, verdict: RecoveryVerdict, now: float) -> None:
        """Apply the consequences of a SACK or ACK to counters, EVs and congestion control."""
        acked = verdict.acked
        if acked:
            evs = self._evs
            selection = None if evs is None else evs.selection
            size = nominal = 0
            for packet in acked:
                packet.ev.acked += 1
                size += packet.size
                nominal += packet.nominal
                if selection is not None:
                    selection.on_ack(packet.ev)
            stats = self._stats
            stats.acked_packets += len(acked)
            stats.acked_bytes += size
            self.in_flight_bytes.acked(len(acked) - verdict.late, nominal)
            self.last_progress = now
        for packet, finding in verdict.findings:
            self._apply_finding(packet, finding, now)
        for packet, rule in verdict.lost:
            if packet.state is _FLIGHT:  # else found by two rules
                self.qp.cc.on_loss(self.declare_lost(packet, rule, now), now)

    def _apply_finding(self, packet: SentPacket, finding: LossFinding, now: float) -> None:
        stats, ev = self._stats, packet.lost_ev
        if finding is _LATE:
            stats.late_packets += 1
            self.qp.log("packet.late", psn=wrap(packet.seq + self.first_psn), ev=packet.ev.value)
            self.in_flight_bytes.late(packet)
            reason = "late"
        elif finding is _SPURIOUS:
            stats.spurious_packets += 1
            self.qp.log("packet.spurious", psn=wrap(packet.seq + self.first_psn))
            reason = "spurious"
        else:  # the copy of a tail loss probe arrived: the path of the one before it lost it
            if ev is not None:
                self.qp.evs.lost(ev, now, TAIL)
            return
        if packet.lost_by in INFERRED and ev is not None and ev.lost:  # the path was blamed wrongly
            ev.lost -= 1
            self.qp.evs.restore(ev, now, reason)

    def _marked(self, sack: h.Sack, now: float) -> None:
        """The mark of a SACK: the peer's verdict on the EV it reflects."""
        qp = self.qp
        self._stats.marks_received += 1
        ev = qp.evs.find(sack.entropy)
        if ev is None:
            return
        ev.marked += 1
        skips = sack.mark == _SKIP_ONCE and qp.settings.ecn_skip
        qp.evs.congested(ev, now, qp.settings.base_rtt if skips else None, "ecn")
        if sack.mark == _ALWAYS_SKIP:
            qp.evs.lost(ev, now, "responder")

    def _after_feedback(self, now: float) -> None:
        """Finish a SACK, ACK or NACK: settle, complete, arm the timer."""
        self.in_flight_bytes.settle(now)
        self._complete(now)
        if self.rnr is not None:
            self.rnr.settle(now)
        self._sendtimer.plan(now)
        self.window_opened(now)

    def _peer_responded(self) -> None:
        self._prober.sack_backoff = 1
        self._sendtimer.peer_responded()
        if self.unresponsive:
            self.unresponsive = False
            self.in_flight_bytes.attach()

    def window_opened(self, now: float) -> None:
        """Bytes left the window of the destination."""
        if self._credit_based:
            self.qp.endpoint.request_credit(self.qp.peer, now)
        if self.qp.qpcc.pending:
            self.qp.endpoint.scheduler.on_window_open(self.qp.qpcc)

    # --- losses -----------------------------------------------------------------------------------

    def declare_lost(self, packet: SentPacket, reason: str, now: float, again: bool = True) -> int:
        """A packet in flight is lost: send it `again` as soon as possible, or leave that to the caller.

        Return the bytes that leave the window of the destination.
        """
        qp, stats, ev = self.qp, self._stats, packet.ev
        path_to_blame = self.recovery.declare_lost(packet, reason, now)
        if again:
            heappush(self.lost, packet.seq)
            qp.urgent()
        stats.count_loss(reason)
        ev.lost += 1
        qp.log(
            "packet.lost",
            psn=wrap(packet.seq + self.first_psn),
            ev=ev.value,
            reason=reason,
            sent=packet.sent_at,
            retx=packet.sends - 1,
        )
        if reason in INFERRED and qp.evs.selection is not None:
            qp.evs.selection.on_loss(ev, now)
        if path_to_blame:
            qp.evs.lost(ev, now, reason)
        qp.wake()
        return self.in_flight_bytes.lost(packet)

    def requeue_plane(self, plane: int, now: float) -> None:
        """The port of a plane is down: packets in flight there are lost."""
        for packet in self._window.open_packets():
            if packet.state is _FLIGHT and packet.ev.plane == plane:
                self.qp.cc.on_requeue(self.declare_lost(packet, "port", now))
        self.in_flight_bytes.settle(now)
        self.window_opened(now)

    # --- completion ----------------------------------------------------------------------

    def _complete(self, now: float) -> None:
        """Complete messages whose every packet has arrived by SACK or Transport ACK, whichever comes first.

        The specification completes on the Transport ACK; the two say the same for writes, and a lost ACK then needs
        no recovery of its own.
        """
        una = self._window.una
        while self.incomplete and 0 <= self.incomplete[0].last_seq < una:  # a full CQ flushes all that are left
            message = self.incomplete.pop(0)
            if message.imm is not None:
                self.wimm_in_flight -= 1
            self.qp.complete(message, "SUCCESS", now)

    def check_progress(self, now: float) -> None:
        """Report a stall, or its end."""
        since = max(self.last_progress, self._busy_since)
        self._stalled_since = stalls.check(self, self._stalled_since, since, now)

    # --- the end ----------------------------------------------------------------------------------

    @override
    def _clear(self, now: float) -> list[MrcMessage]:
        self._sendtimer.cancel()
        self.retries.cancel()
        if self.rnr is not None:
            self.rnr.clear()
        if self._credit_based:
            self._cc.on_cancelled(self._unsent_bytes())
        self.unsent.clear()
        self.lost.clear()
        self._loss.clear()
        self._window.clear()
        self.in_flight_bytes.clear(now)
        self.window_opened(now)
        self.wimm_in_flight = 0
        self.qp.flushed_bytes += self.qp.backlog
        incomplete, self.incomplete = self.incomplete, []
        return incomplete

    def _unsent_bytes(self) -> int:
        """Return the bytes that wait to be sent, for the first time or again."""
        lost = sum([packet.nominal for packet in self._window.open_packets() if packet.state is _LOST])
        sizes = self._mtu, self._full_nominal, self.qp.overhead
        return lost + sum([message.unsent_bytes(*sizes) for message in self.unsent])

    @override
    def snapshot(self) -> dict[str, Any]:
        return {
            "inflight": self.in_flight_bytes.bytes,
            "rtt": self.recovery.rtt.srtt,
            "reorder_rtts": self._loss.reorder_rtts,
            "outstanding": self._window.next - self._window.una,
        }
