"""The sending half of a QP: messages to packets, windows, retransmission, timeouts, completion.

docs/mrc-protocol.md §1.6 and §3.6. Counts in unwrapped PSNs from 0; the wire adds the QP's first PSN. What SACKs, ACKs
and NACKs say is read by Feedback; which packets are lost is decided by LossDetector.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, Final

from mrclab.hosts.mrc.evs.ev import Ev, EvSet
from mrclab.hosts.mrc.packets import headers as h
from mrclab.hosts.mrc.recovery.account import Account
from mrclab.hosts.mrc.recovery.feedback import Feedback
from mrclab.hosts.mrc.recovery.loss import ROUNDING, LossDetector
from mrclab.hosts.mrc.recovery.rnr import RnrBackoff
from mrclab.hosts.mrc.recovery.sent import INFERRED, TAIL, MrcMessage, PacketState, SentPacket
from mrclab.hosts.mrc.recovery.window import SendWindow
from mrclab.hosts.rdma.emptyqueue import EMPTY_QUEUE
from mrclab.hosts.rdma.errors import VerbsError
from mrclab.hosts.rdma.packets import wire
from mrclab.hosts.rdma.packets.path import Frame
from mrclab.hosts.rdma.packets.psn import PSN_MASK, unwrap, wrap
from mrclab.hosts.rdma.qp import SendHalf
from mrclab.topo.nodeconfig import MPR_UNIT

if TYPE_CHECKING:
    from mrclab.hosts.mrc.qp import MrcQueuePair

_FLIGHT: Final = PacketState.FLIGHT
_LOST: Final = PacketState.LOST

_TS_MASK: Final = h.TS_MASK
_TC_DATA: Final = h.Dscp.TRIMMABLE << 2 | wire.ECN_ECT
_TC_RETX: Final = h.Dscp.TRIMMABLE_RETX << 2 | wire.ECN_ECT
_TC_NO_TRIM: Final = h.Dscp.NO_TRIM << 2 | wire.ECN_ECT

_OPCODES: Final = wire.write_opcodes(int(h.MrcOpcode.WRITE_FIRST))
_MIDDLE: Final = int(h.MrcOpcode.WRITE_MIDDLE)
_NEVER: Final = float("inf")
_STALL_RTTS: Final = 64.0  # base RTTs without progress that are reported
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

    READY = 0  # as far as its windows are concerned
    PENDING = 1  # there is no room in the window of its destination
    IDLE = 2  # it has nothing to send, or waits for news of its own


_READY: Final = SendState.READY
_PENDING: Final = SendState.PENDING
_RESTS: Final = SendState.IDLE


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
        self._asks_credit = type(qp.cc).credit_based
        self._evs: EvSet | None = None  # until something is posted
        self._class_new, self._class_retx = (_TC_DATA, _TC_RETX) if s.trimming else (_TC_NO_TRIM, _TC_NO_TRIM)
        self.first_psn = 0  # of the wire, set at RTS
        self.psn_window = s.mpr_psns - 1  # the responder takes [cack + 1, cack + MPR)
        self.window = SendWindow(s.mpr_psns)
        self.account = Account(qp.cc)
        self.loss = LossDetector(s)
        self.feedback = Feedback(self)
        self.unsent: deque[MrcMessage] = EMPTY_QUEUE
        self.incomplete: deque[MrcMessage] = EMPTY_QUEUE  # all that are posted and not completed, in order
        self.lost: list[int] = []  # heap of seqs that wait for retransmission; may hold some that do not any more
        self.rnr: RnrBackoff | None = None  # once the peer lacked a receive
        self.wimm_in_flight = 0
        self.last_progress = 0.0
        self._busy_since = 0.0  # something was posted then, and there was nothing before
        self._stalled_since = _NEVER  # the last progress before the stall that was reported
        self.last_sent = float("-inf")
        self._order = 0
        self._msn = self._rqmsn = 0
        self._retried_at = float("-inf")  # when a timeout or NACK last counted as a retry
        self._last_copies = float("-inf")  # when a tail loss probe last sent packets again
        self._copies_backoff = 1  # doubles with each of them until there is progress
        self.silent = False  # nothing was heard for long: only questions go out, and what timed out, one at a time
        self._timer = qp.timers.timer(self._on_timer)
        self._stranded = qp.timers.timer(self._on_stranded)

    # --- posting ----------------------------------------------------------------------------------

    def post(self, message: MrcMessage) -> None:
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
            self._busy_since = self.qp.host.now
        self.unsent.append(message)
        self.incomplete.append(message)
        self.qp.stats.posted_bytes += message.length
        now = self.qp.host.now
        if self._asks_credit:
            self._cc.on_post(message.length + message.packets * self.qp.overhead, now)
            self._ask_credit(now)
        self.watch_paths(now)
        if self.qp.peer.ports_down:
            self.qp.host.ask_ports(self.qp.peer, now)

    def limit_window(self, mpr: int) -> None:
        """The peer's responder takes `mpr` units."""
        self.psn_window = min(mpr * MPR_UNIT, self.qp.settings.mpr_psns) - 1

    # --- sending ----------------------------------------------------------------------------------

    @property
    def in_flight(self) -> bool:
        """True if anything waits for an acknowledgement."""
        return self.window.next > self.window.una

    def is_outstanding(self, psn: int) -> bool:
        """Return True if a packet with this PSN was sent and is not known to have arrived with all before it."""
        window = self.window
        return window.una <= unwrap(psn - self.first_psn, window.una) < window.next

    def has_lost(self) -> bool:
        """Return True if a retransmission waits and may go, as far as the congestion window is concerned."""
        if not self._next_lost():
            return False
        return not self.account.packets if self.silent else self.qp.cc.allows(self._mtu)

    def _next_lost(self) -> bool:
        """Return True if a retransmission waits; it is at the head of the heap then."""
        lost = self.lost
        while lost:
            packet = self.window.get(lost[0])
            if packet is not None and packet.state is _LOST:
                return True
            heappop(lost)
        return False

    def standing(self) -> SendState:
        """Return True if the windows let this QP send anything now, and if not, what that hangs on."""
        if self.qp.prober.waiting:
            return _READY
        if self.silent:
            return _READY if self.has_lost() else _RESTS
        window = self.window
        may_send_new = self.unsent and window.next - window.una < self.psn_window and not self._awaits_receive()
        if not may_send_new and not self._next_lost():
            return _RESTS
        return _READY if self._cc.allows(self._mtu) else _PENDING

    def lost_frame(self, plane: int, now: float) -> Frame | None:
        """The oldest lost packet on a path other than the one it was lost on.

        None if this plane has none for it, or another one is in turn: else the first port would carry all of them.
        """
        packet = self.window.get(self.lost[0])
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
        ev = evs.select(plane, packet.lost_ev)
        if ev is None and not evs.has_other(packet.lost_ev):
            ev = evs.select(plane)
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
        window = self.window
        if (
            not self.unsent
            or window.next - window.una >= self.psn_window
            or self.silent
            or not self._cc.allows(self._mtu)
            or (self.rnr is not None and self._awaits_receive())
        ):
            return None
        evs = self._evs
        ev = evs.take(plane) if evs is not None else None
        if ev is None:
            return None
        packet = window.take()
        if packet.seq == window.una:
            self.last_progress = now  # nothing was in flight: silence starts now
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
        self.loss.sent(packet)
        self.account.sent(packet.nominal, now)
        if self._asks_credit:
            self._ask_credit(now)
        ev.sent += 1
        size = packet.size
        stats = self._stats
        stats.sent_packets += 1
        stats.sent_bytes += size
        window = self.window
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
        return None if region is not None and region.gone() and self.region_gone(message) else frame

    # --- silence ----------------------------------------------------------------------------------

    def heard(self) -> None:
        """The peer answers."""
        self.qp.prober.tail_backoff = 1
        self._copies_backoff = 1
        if self.silent:
            self.silent = False
            self.account.rejoin()

    def _fall_silent(self) -> None:
        """Two questions about the tail were not answered: leave the window of the destination to its other QPs."""
        self.silent = True
        self.account.leave()
        self._tell_room()

    def _ask_credit(self, now: float) -> None:
        """Tell the peer what credit the destination's window wants, where that has changed."""
        self.qp.host.ask_credit(self.qp.peer, now)

    def _tell_room(self) -> None:
        """Something left the window of the destination."""
        if self._asks_credit:
            self._ask_credit(self.qp.host.now)
        if self.qp.qpcc.pending:
            self.qp.host.room(self.qp.qpcc)

    # --- losses -----------------------------------------------------------------------------------

    def refuse(self, packet: SentPacket, now: float) -> int:
        """The peer has no receive for a packet in flight: hold it back; return what leaves the account."""
        if self.rnr is None:
            self.rnr = RnrBackoff(self)
        size = self.declare_lost(packet, "nack", now, again=False)
        self.rnr.refuse(packet, now)
        return size

    def declare_lost(self, packet: SentPacket, reason: str, now: float, again: bool = True) -> int:
        """A packet in flight is lost, and without a NACK its path is to blame, unless the peer took nothing at all yet.

        It is sent `again` as soon as possible, or when the caller says so. Returns what leaves the account.
        """
        qp = self.qp
        stats = qp.stats
        packet.state = _LOST
        packet.lost_ev = packet.ev
        packet.lost_by = reason
        packet.settled = packet.exposed = False
        if again:
            heappush(self.lost, packet.seq)
            self.qp.urgent()
        stats.lost_packets += 1
        counter = _LOSS_COUNTER[reason]
        setattr(stats, counter, getattr(stats, counter) + 1)
        packet.ev.lost += 1
        qp.log(
            "packet.lost",
            psn=wrap(packet.seq + self.first_psn),
            ev=packet.ev.value,
            reason=reason,
            sent=packet.sent_at,
            retx=packet.sends - 1,
        )
        if reason in INFERRED and qp.evs.selection is not None:
            qp.evs.selection.on_loss(packet.ev)
        if reason in INFERRED and packet.sent_at >= self.feedback.answered_from:
            self.loss.true_loss(now)
            qp.evs.lost(packet.ev, now, reason)
        qp.wake()
        return self.account.lost(packet)

    def requeue_plane(self, plane: int, now: float) -> None:
        """The port of a plane is down: what is on its way there will not arrive."""
        for packet in self.window.open_packets():
            if packet.state is _FLIGHT and packet.ev.plane == plane:
                self.qp.cc.on_requeue(self.declare_lost(packet, "port", now))
        self.account.settle()
        self._tell_room()

    def watch_paths(self, now: float) -> None:
        """Planes came or went: without any, retries are counted as if what waits had been sent and not answered."""
        if not self._is_stranded():
            self._stranded.cancel()
        elif not self._stranded.armed:
            self._stranded.arm(now + self.loss.timeout())

    def _is_stranded(self) -> bool:
        """Return True if something waits and no plane can carry it."""
        waits = bool(self.unsent) or self.in_flight
        return waits and not any(plane.usable for plane in self.qp.evs.planes.values())

    def _on_stranded(self, now: float) -> None:
        if self._is_stranded() and self._timed_out():
            self.watch_paths(now)

    def _timed_out(self) -> bool:
        """Count a timeout as a retry; False where there were too many."""
        self.qp.stats.timeouts += 1
        return self._may_retry(after_timeout=True)

    def retry_after_nack(self, now: float) -> bool:
        """Count a recoverable NACK as a retry where a silent peer would have cost one; False where there were too many.

        A NACK shows that path and peer live, so the ACK timeout stays as it is.
        """
        if now - max(self._retried_at, self.last_progress) < self.qp.settings.ack_timeout:
            return True
        self._retried_at = now
        return self._may_retry(after_timeout=False)

    def _may_retry(self, after_timeout: bool) -> bool:
        """Count a retry; False where there were too many and the QP is in ERROR now."""
        if self.loss.retry(after_timeout):
            return True
        self.qp.fail("RETRY_EXC_ERR", "Retry Counter Exceeded")
        return False

    # --- completion and time ----------------------------------------------------------------------

    def after_feedback(self, now: float) -> None:
        """A SACK, ACK or NACK has been taken in: settle, complete, set the clock."""
        self.account.settle()
        self._complete()
        if self.rnr is not None:
            self.rnr.settle(now)
        self._arm(now)
        self._tell_room()

    def _complete(self) -> None:
        """Messages whose every packet has arrived are done, as SACK or Transport ACK tells it, whichever comes first.

        The specification completes on the Transport ACK; the two say the same for writes, and a lost ACK then needs
        no recovery of its own.
        """
        una = self.window.una
        while self.incomplete and 0 <= self.incomplete[0].last_seq < una:  # a full CQ flushes all that are left
            message = self.incomplete.popleft()
            if message.imm is not None:
                self.wimm_in_flight -= 1
            self.qp.complete(message, "SUCCESS")
        if not self.incomplete:
            self.unsent = self.incomplete = EMPTY_QUEUE

    def _arm(self, now: float) -> None:
        timeout = self.loss.next_timeout()
        if timeout is None:
            self._timer.cancel()
            return
        at = min(timeout, self._probe_at())
        if not self.unsent:
            at = min(at, self._tail_probe_at(timeout - self.loss.timeout()))
        self._timer.arm(max(now, at))

    def _probe_at(self) -> float:
        """Return the time of the next tail loss probe: after a silence that doubles up to the ACK timeout.

        Questions that wait longer in the queues than the data before them are asked as slowly as they are answered:
        where ports count packets and not bytes they would fill the queue, and all data would be trimmed for ever.
        """
        prober, settings = self.qp.prober, self.qp.settings
        silence = settings.tail_probe_rtts * max(self.loss.rtt_base, self.feedback.srtt, prober.tail_rtt)
        longer = min(silence * prober.tail_backoff, max(silence, settings.ack_timeout))
        return max(self.last_progress + silence, prober.last_tail + longer)

    def _tail_probe_at(self, oldest: float) -> float:
        """Return when to resend the tail, as RFC 8985's TLP does; `oldest` is when one in flight was sent.

        Behind the last packet of a flow comes nothing that could show it lost. After a round trip and some slack the
        packets that are not acknowledged are sent again, a few at most, each in another plane.
        """
        pto = self.feedback.pto
        if not pto or self.silent:
            return _NEVER
        early = oldest + pto + _TAIL_EARLIER_RTTS * self.feedback.srtt
        return max(min(early, self.last_sent + pto), self._last_copies + pto * self._copies_backoff)

    def _probe_tail(self, now: float) -> None:
        """A tail loss probe: send again what is overdue."""
        feedback = self.feedback
        limit = now - feedback.pto
        if now < self.last_sent + feedback.pto:
            limit -= _TAIL_EARLIER_RTTS * feedback.srtt
        overdue = self.loss.oldest(_MOST_TAIL_COPIES, limit)
        if not overdue:
            return
        self._last_copies = now
        self._copies_backoff = min(2 * self._copies_backoff, 1 << 20)
        for packet in overdue:
            if packet.lost_by == TAIL and packet.sends > 1:
                self.confirm_tail_loss(packet, now)  # two copies without an answer
            self.qp.cc.on_requeue(self.declare_lost(packet, TAIL, now))
        self.account.settle()
        self._tell_room()

    def confirm_tail_loss(self, packet: SentPacket, now: float) -> None:
        """The copy that a tail loss probe sent was acknowledged, and the one before it was not: its path lost it."""
        if packet.lost_ev is not None:
            self.loss.true_loss(now)
            self.qp.evs.lost(packet.lost_ev, now, TAIL)

    def _on_timer(self, now: float) -> None:
        expired = self.loss.timed_out(now)
        if expired:
            newest = max(packet.sent_at for packet in expired)
            for packet in expired:
                self.qp.cc.on_loss(self.declare_lost(packet, "timeout", now), now)
            self.account.settle()
            self._tell_room()
            if newest >= self._retried_at:  # else they were on their way already when the last retry was counted
                self._retried_at = now
                if not self._timed_out():
                    return
        oldest = None if self.unsent else self.loss.next_timeout()
        if oldest is not None and now + ROUNDING >= self._tail_probe_at(oldest - self.loss.timeout()):
            self._probe_tail(now)
        if self.in_flight and now >= self._probe_at():
            if self.qp.prober.tail_backoff > 1 and not self.silent:
                self._fall_silent()
            self.qp.prober.tail(now)
        self._arm(now)

    # --- progress ---------------------------------------------------------------------------------

    def check_progress(self, now: float) -> None:
        """Report a stall, no progress for 64 base RTTs while something is outstanding, and its end."""
        since = max(self.last_progress, self._busy_since)
        if self._stalled_since != _NEVER:
            if self.incomplete and since <= self._stalled_since:
                return
            seconds = (since if self.incomplete else now) - self._stalled_since
            self.qp.log("qp.resumed", peer=self.qp.peer_text, seconds=round(seconds, 9))
            self._stalled_since = _NEVER
        if self.incomplete and now - since >= _STALL_RTTS * self.loss.rtt_base:
            self._stalled_since = since
            self.qp.log("qp.stalled", peer=self.qp.peer_text, since=since, reason=self._stall_reason())

    def _stall_reason(self) -> str:
        """Return what keeps this QP from progress, as far as it is known here."""
        qp = self.qp
        here = [port.plane for port in qp.host.config.ports if qp.host.plane_up(port.plane)]
        found = (
            (not here, "no NIC port is up"),
            (not any(qp.peer.plane_up(plane) for plane in here), "the peer reported that its ports are down"),
            (not any(plane.usable for plane in qp.evs.planes.values()), "every EV is denied"),
            (self.silent, "the peer does not answer"),
            (self.rnr is not None and self.rnr.active, "the peer has no receive posted"),
            (self.in_flight, "what is sent is lost or refused"),
        )
        return next((reason for holds, reason in found if holds), "the window of the destination is full")

    # --- the end ----------------------------------------------------------------------------------

    def _clear(self) -> deque[MrcMessage]:
        self._timer.cancel()
        self._stranded.cancel()
        if self.rnr is not None:
            self.rnr.clear()
        self.unsent.clear()
        self.lost.clear()
        self.loss.clear()
        self.window.clear()
        self.account.clear()
        self._tell_room()
        self.wimm_in_flight = 0
        incomplete, self.incomplete = self.incomplete, EMPTY_QUEUE
        return incomplete

    def snapshot(self) -> dict[str, Any]:
        """Numbers for samples."""
        return {
            "inflight": self.account.bytes,
            "rtt": self.feedback.srtt,
            "reorder_rtts": self.loss.reorder_rtts,
            "outstanding": self.window.next - self.window.una,
        }
