"""The sending half of a QP: messages to packets, windows, retransmission, timeouts, completion.

docs/mrc-protocol.md §1.6 and §3.6. Counts in unwrapped PSNs from 0; the wire adds the QP's first PSN. `LossRecovery`
takes in SACKs, ACKs and NACKs and returns which packets arrived and which are lost; that is applied here.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, Final

from typing_extensions import override

from mrclab.hosts.mrc.evs.ev import Ev
from mrclab.hosts.mrc.evs.evset import EvSet
from mrclab.hosts.mrc.packets import headers as h
from mrclab.hosts.mrc.recovery.inflight import InFlight
from mrclab.hosts.mrc.recovery.loss import ROUNDING
from mrclab.hosts.mrc.recovery.recovery import LossFinding, LossRecovery, RecoveryVerdict
from mrclab.hosts.mrc.recovery.rnr import RnrBackoff
from mrclab.hosts.mrc.recovery.sent import INFERRED, TAIL, MrcMessage, PacketState, SentPacket
from mrclab.hosts.mrc.recovery.stalls import StallReport
from mrclab.hosts.rdma.errors import VerbsError
from mrclab.hosts.rdma.packets import wire
from mrclab.hosts.rdma.packets.path import Frame
from mrclab.hosts.rdma.packets.psn import PSN_MASK, unwrap, wrap
from mrclab.hosts.rdma.qp import SendHalf
from mrclab.topo.economy import EMPTY_QUEUE
from mrclab.topo.nodeconfig import MPR_UNIT

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
_TC_NO_TRIM: Final = h.Dscp.NO_TRIM << 2 | wire.ECN_ECT

_OPCODES: Final = wire.write_opcodes(int(h.MrcOpcode.WRITE_FIRST))
_MIDDLE: Final = int(h.MrcOpcode.WRITE_MIDDLE)
_NEVER: Final = float("inf")
_TAIL_EARLIER_RTTS: Final = 0.5  # a packet so much older than the last one need not wait for that one's time
_MOST_TAIL_COPIES: Final = 8  # packets that one tail loss probe sends again
_LOSS_COUNTER: Final = {
    "time": "lost_time",
    TAIL: "lost_time",
    "same-ev": "lost_same_ev",
    "timeout": "lost_timeout",
    "nack": "lost_nack",
    "port": "lost_port",
}


class SendState(Enum):
    """Scheduling state of a QP."""

    RUNNABLE = 0  # its windows are open
    WINDOW_BLOCKED = 1  # there is no room in the window of its destination
    IDLE = 2  # it has nothing to send, or waits for news of its own


_RUNNABLE: Final = SendState.RUNNABLE
_BLOCKED: Final = SendState.WINDOW_BLOCKED
_IDLE: Final = SendState.IDLE


class MrcRequestor(SendHalf[MrcMessage, "MrcQueuePair"]):
    """Send queue, windows, retransmission."""

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
        self.psn_window = s.mpr_psns - 1  # the responder takes [cack + 1, cack + MPR)
        self.recovery = LossRecovery(s, qp.peer.byte_time, qp.peer.full_nominal)
        self._window = self.recovery.window
        self._loss = self.recovery.loss
        self.in_flight_bytes = InFlight(qp.cc)
        self.unsent: deque[MrcMessage] = EMPTY_QUEUE
        self.incomplete = EMPTY_QUEUE  # all that are posted and not completed, in order
        self.lost: list[int] = []  # heap of seqs that wait for retransmission; may hold some that do not any more
        self.rnr: RnrBackoff | None = None  # once the peer lacked a receive
        self.wimm_in_flight = 0
        self._last_progress = 0.0
        self._busy_since = 0.0  # something was posted then, and there was nothing before
        self._stalls = StallReport()
        self.last_sent = float("-inf")
        self._order = 0
        self._msn = self._rqmsn = 0
        self._retried_at = float("-inf")  # when a timeout or NACK last counted as a retry
        self._last_copies = float("-inf")  # when a tail loss probe last sent packets again
        self._copies_backoff = 1  # doubles with each of them until there is progress
        self.unresponsive = False  # the peer: only probes are sent, and what timed out, one packet at a time
        self._timer = qp.endpoint.timers.timer(self._on_timer)
        self._stranded = qp.endpoint.timers.timer(self._on_stranded)

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
        if self.incomplete is EMPTY_QUEUE:
            self.unsent, self.incomplete = deque(), deque()
            self._evs = self.qp.evs
            self._busy_since = now
        self.unsent.append(message)
        self.incomplete.append(message)
        self.qp.stats.posted_bytes += message.length
        if self._credit_based:
            self._cc.on_post(message.length + message.packets * self.qp.overhead, now)
            self.qp.endpoint.request_credit(self.qp.peer, now)
        self.watch_paths(now)
        if self.qp.peer.ports_down:
            self.qp.endpoint.query_ports(self.qp.peer, now)

    def limit_window(self, mpr: int) -> None:
        """The peer's responder takes `mpr` units."""
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

    def has_lost(self) -> bool:
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
        """Return whether the windows let this QP send anything now, and if not, what blocks it."""
        if self.qp.prober.waiting:
            return _RUNNABLE
        if self.unresponsive:
            return _RUNNABLE if self.has_lost() else _IDLE
        window = self._window
        may_send_new = self.unsent and window.next - window.una < self.psn_window and not self._awaits_receive()
        if not may_send_new and not self._next_lost():
            return _IDLE
        return _RUNNABLE if self._cc.allows(self._mtu) else _BLOCKED

    def lost_frame(self, plane: int, now: float) -> Frame | None:
        """The oldest lost packet on a path other than the one it was lost on.

        None if this plane has none for it, or another one is in turn: else the first port would carry all of them.
        """
        packet = self._window.get(self.lost[0])
        if packet is None:
            return None
        evs = self.qp.evs
        if not evs.usable(plane):
            return None
        if packet.lost_by == TAIL:  # in whatever plane is not the one it may have been lost in
            if packet.ev.plane == plane and any(evs.usable(other) for other in evs.planes if other != plane):
                return None
        elif not evs.in_turn_again(plane, packet.lost_ev):
            return None
        ev = evs.select(plane, now, packet.lost_ev)
        if ev is None and not evs.has_other(packet.lost_ev):
            ev = evs.select(plane, now)
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
        """The next packet of the send queue; None where a window is closed, or the plane not in turn or without EV."""
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
            self._last_progress = now  # nothing was in flight: the peer has been quiet since now
        self._fill(packet)
        return self._transmit(packet, ev, now, self._class_new, 0)

    def _awaits_receive(self) -> bool:
        """Return True if the next new packet carries an immediate that the peer would refuse for want of a receive."""
        if self.rnr is None or not self.rnr.active:
            return False
        message = self.unsent[0]
        return message.imm is not None and message.sent == message.packets - 1

    def _fill(self, packet: SentPacket) -> None:
        """Give a new packet the next piece of the send queue."""
        message = packet.message = self.unsent[0]
        index = message.sent
        message.sent = index + 1
        packet.offset = index * self._mtu
        if 0 < index < message.packets - 1:
            packet.size, packet.op, packet.nominal = self._mtu, _MIDDLE, self._full_nominal
        else:
            self._fill_edge(packet, message, index)

    def _fill_edge(self, packet: SentPacket, message: MrcMessage, index: int) -> None:
        """The first or the last piece of a message."""
        last = message.sent == message.packets
        with_imm = message.imm is not None
        packet.size = size = min(self._mtu, message.length - packet.offset)
        packet.op = _OPCODES[index == 0, last, with_imm]
        packet.nominal = size + (-size & 3) + self.qp.overhead + (4 if last and with_imm else 0)
        if index == 0:
            message.first_seq = packet.seq
            message.last_seq = packet.seq + message.packets - 1
        if last:
            self.unsent.popleft()

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
        if not self._timer.armed or not self.unsent:
            self._arm(now)
        offset = packet.offset
        message = packet.message
        payload = message.view[offset : offset + size] if size else None
        psn = packet.seq + self.first_psn & PSN_MASK
        frame = ev.path.write(traffic_class, packet, self.qp.remote_qpn, psn, flags | self._flags, payload)
        region = message.region
        return None if region is not None and region.gone() and self.region_gone(message, now) else frame

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
            qp.prober.tail_rtt = 0.0
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
        packet = self.recovery.nacked(unwrap(nack.psn - self.first_psn, self._window.una), nack.timestamp)
        if packet is None:
            return
        self._peer_responded()
        trimmed = nack.reason in _TRIM_REASONS
        rtt = self.recovery.trimmed_rtt(packet, now) if trimmed else None
        no_receive = nack.reason == h.Reason.NO_RESOURCE
        size = self._declare_lost(packet, "nack", now, again=not no_receive)
        if no_receive:
            if self.rnr is None:
                self.rnr = RnrBackoff(self)
            self.rnr.refuse(packet, now)
        packet.ev.nacked += 1
        qp.cc.on_nack(size, trimmed, rtt, now)
        if nack.reason == h.Reason.TRIMMED:
            reflected = qp.evs.find(nack.entropy)
            if reflected is not None and qp.evs.selection is not None:
                qp.evs.selection.on_mark(reflected)
            if reflected is not None and qp.settings.ecn_skip:
                qp.evs.skip(reflected, now, qp.settings.base_rtt, "trimmed")
        if self._retry_after_nack(now):
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
            self._last_progress = now
        for packet, finding in verdict.findings:
            self._apply_finding(packet, finding, now)
        for packet, rule in verdict.lost:
            if packet.state is _FLIGHT:  # else found by two rules
                self.qp.cc.on_loss(self._declare_lost(packet, rule, now), now)

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
        if qp.evs.selection is not None:
            qp.evs.selection.on_mark(ev)
        if sack.mark == _SKIP_ONCE:
            if qp.settings.ecn_skip:
                qp.evs.skip(ev, now, qp.settings.base_rtt, "ecn")
        elif sack.mark == _ALWAYS_SKIP:
            qp.evs.lost(ev, now, "responder")

    def _after_feedback(self, now: float) -> None:
        """A SACK, ACK or NACK was taken in: settle, complete, arm the timer."""
        self.in_flight_bytes.settle()
        self._complete(now)
        if self.rnr is not None:
            self.rnr.settle(now)
        self._arm(now)
        self._window_opened(now)

    def _peer_responded(self) -> None:
        self.qp.prober.tail_backoff = 1
        self._copies_backoff = 1
        if self.unresponsive:
            self.unresponsive = False
            self.in_flight_bytes.rejoin()

    def _window_opened(self, now: float) -> None:
        """Bytes left the window of the destination."""
        if self._credit_based:
            self.qp.endpoint.request_credit(self.qp.peer, now)
        if self.qp.qpcc.pending:
            self.qp.endpoint.scheduler.on_window_open(self.qp.qpcc)

    # --- losses -----------------------------------------------------------------------------------

    def _declare_lost(self, packet: SentPacket, reason: str, now: float, again: bool = True) -> int:
        """A packet in flight is lost: send it `again` as soon as possible, or leave that to the caller.

        Return the bytes that leave the window of the destination.
        """
        qp, stats, ev = self.qp, self._stats, packet.ev
        path_to_blame = self.recovery.declare_lost(packet, reason, now)
        if again:
            heappush(self.lost, packet.seq)
            qp.urgent()
        stats.lost_packets += 1
        counter = _LOSS_COUNTER[reason]
        setattr(stats, counter, getattr(stats, counter) + 1)
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
        """The port of a plane is down: what is on its way there will not arrive."""
        for packet in self._window.open_packets():
            if packet.state is _FLIGHT and packet.ev.plane == plane:
                self.qp.cc.on_requeue(self._declare_lost(packet, "port", now))
        self.in_flight_bytes.settle()
        self._window_opened(now)

    def watch_paths(self, now: float) -> None:
        """Planes came or went: without any, retries are counted as if what waits had been sent and not answered."""
        if not self._is_stranded():
            self._stranded.cancel()
        elif not self._stranded.armed:
            self._stranded.arm(now + self._loss.timeout())

    def _is_stranded(self) -> bool:
        """Return True if something waits and no plane can carry it."""
        waits = bool(self.unsent) or self.in_flight
        return waits and not any(plane.usable for plane in self.qp.evs.plane_list)

    def _on_stranded(self, now: float) -> None:
        if self._is_stranded() and self._timed_out(now):
            self.watch_paths(now)

    def _timed_out(self, now: float) -> bool:
        """Count a timeout as a retry; False where there were too many."""
        self.qp.stats.timeouts += 1
        return self._may_retry(now, after_timeout=True)

    def _retry_after_nack(self, now: float) -> bool:
        """Count a recoverable NACK as a retry where a timeout would have been one; False where there were too many.

        A NACK shows that path and peer live, so the ACK timeout stays as it is.
        """
        if now - max(self._retried_at, self._last_progress) < self.qp.settings.ack_timeout:
            return True
        self._retried_at = now
        return self._may_retry(now, after_timeout=False)

    def _may_retry(self, now: float, after_timeout: bool) -> bool:
        """Count a retry; False where there were too many and the QP is in ERROR now."""
        if self._loss.retry(after_timeout):
            return True
        self.qp.fail("RETRY_EXC_ERR", "Retry Counter Exceeded", now)
        return False

    # --- completion and time ----------------------------------------------------------------------

    def _complete(self, now: float) -> None:
        """Complete messages whose every packet has arrived by SACK or Transport ACK, whichever comes first.

        The specification completes on the Transport ACK; the two say the same for writes, and a lost ACK then needs
        no recovery of its own.
        """
        una = self._window.una
        while self.incomplete and 0 <= self.incomplete[0].last_seq < una:  # a full CQ flushes all that are left
            message = self.incomplete.popleft()
            if message.imm is not None:
                self.wimm_in_flight -= 1
            self.qp.complete(message, "SUCCESS", now)
        if not self.incomplete:
            self.unsent = self.incomplete = EMPTY_QUEUE

    def _arm(self, now: float) -> None:
        timeout = self._loss.next_timeout()
        if timeout is None:
            self._timer.cancel()
            return
        at = min(timeout, self._probe_at())
        if not self.unsent:
            at = min(at, self._tail_probe_at(timeout - self._loss.timeout()))
        self._timer.arm(max(now, at))

    def _probe_at(self) -> float:
        """Return the time of the next reliability probe: after a quiet time that doubles up to the ACK timeout.

        Probes that wait longer in the queues than the data before them are sent as slowly as they are answered: where
        ports count packets and not bytes they would fill the queue, and all data would be trimmed for ever.
        """
        prober, settings = self.qp.prober, self.qp.settings
        quiet = settings.tail_probe_rtts * max(settings.base_rtt, self.recovery.rtt.srtt, prober.tail_rtt)
        longer = min(quiet * prober.tail_backoff, max(quiet, settings.ack_timeout))
        return max(self._last_progress + quiet, prober.last_tail + longer)

    def _tail_probe_at(self, oldest: float) -> float:
        """Return when to resend the tail, as RFC 8985's TLP does; `oldest` is when one in flight was sent.

        Behind the last packet of a flow comes nothing that could show it lost. After a round trip and some slack the
        packets that are not acknowledged are sent again, a few at most, each in another plane.
        """
        pto = self.recovery.rtt.pto
        if not pto or self.unresponsive:
            return _NEVER
        early = oldest + pto + _TAIL_EARLIER_RTTS * self.recovery.rtt.srtt
        return max(min(early, self.last_sent + pto), self._last_copies + pto * self._copies_backoff)

    def _probe_tail(self, now: float) -> None:
        """A tail loss probe: send again what is overdue."""
        rtt = self.recovery.rtt
        limit = now - rtt.pto
        if now < self.last_sent + rtt.pto:
            limit -= _TAIL_EARLIER_RTTS * rtt.srtt
        overdue = self._loss.oldest(_MOST_TAIL_COPIES, limit)
        if not overdue:
            return
        self._last_copies = now
        self._copies_backoff = min(2 * self._copies_backoff, 1 << 20)
        for packet in overdue:
            if packet.lost_by == TAIL and packet.sends > 1 and packet.lost_ev is not None:
                self._loss.true_loss(now)  # two copies without an answer
                self.qp.evs.lost(packet.lost_ev, now, TAIL)
            self.qp.cc.on_requeue(self._declare_lost(packet, TAIL, now))
        self.in_flight_bytes.settle()
        self._window_opened(now)

    def _on_timer(self, now: float) -> None:
        expired = self._loss.timed_out(now)
        if expired:
            newest = max(packet.sent_at for packet in expired)
            for packet in expired:
                self.qp.cc.on_loss(self._declare_lost(packet, "timeout", now), now)
            self.in_flight_bytes.settle()
            self._window_opened(now)
            if newest >= self._retried_at:  # else they were on their way already when the last retry was counted
                self._retried_at = now
                if not self._timed_out(now):
                    return
        oldest = None if self.unsent else self._loss.next_timeout()
        if oldest is not None and now + ROUNDING >= self._tail_probe_at(oldest - self._loss.timeout()):
            self._probe_tail(now)
        if self.in_flight and now >= self._probe_at():
            if self.qp.prober.tail_backoff > 1 and not self.unresponsive:
                # two probes without an answer: leave the window of the destination to its other QPs
                self.unresponsive = True
                self.in_flight_bytes.leave()
                self._window_opened(now)
            self.qp.prober.tail(now)
        self._arm(now)

    def check_progress(self, now: float) -> None:
        """Report a stall, or its end."""
        self._stalls.check(self, max(self._last_progress, self._busy_since), now)

    # --- the end ----------------------------------------------------------------------------------

    @override
    def _clear(self, now: float) -> deque[MrcMessage]:
        self._timer.cancel()
        self._stranded.cancel()
        if self.rnr is not None:
            self.rnr.clear()
        self.unsent.clear()
        self.lost.clear()
        self._loss.clear()
        self._window.clear()
        self.in_flight_bytes.clear()
        self._window_opened(now)
        self.wimm_in_flight = 0
        incomplete, self.incomplete = self.incomplete, EMPTY_QUEUE
        return incomplete

    @override
    def snapshot(self) -> dict[str, Any]:
        return {
            "inflight": self.in_flight_bytes.bytes,
            "rtt": self.recovery.rtt.srtt,
            "reorder_rtts": self._loss.reorder_rtts,
            "outstanding": self._window.next - self._window.una,
        }
