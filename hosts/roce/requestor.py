"""Sending half of a RoCEv2 QP: messages to packets, go-back-N, retry timer, completion.

InfiniBand RC: PSNs in order, ACKs cumulative, a NAK names the PSN that the responder expects, and everything from
there on is retransmitted; with selective repeat only the missing packets (`hosts.roce.selective`). Counts in unwrapped
PSNs ("seq") from 0; the wire adds the QP's first PSN. Nothing is kept per packet: the content of a seq follows from
its message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from typing_extensions import override

from mrclab.hosts.rdma.packets import wire
from mrclab.hosts.rdma.packets.message import PostedWrite
from mrclab.hosts.rdma.packets.path import Frame
from mrclab.hosts.rdma.packets.psn import PSN_MASK, unwrap, wrap
from mrclab.hosts.rdma.qp import SendHalf
from mrclab.hosts.rdma.states import QpState
from mrclab.hosts.rdma.timers import Timer
from mrclab.hosts.roce import headers as h
from mrclab.hosts.roce.selective import SelectiveRepeat
from mrclab.hosts.roce.telemetry import Hop

if TYPE_CHECKING:
    from mrclab.hosts.roce.qp import RoceQueuePair

_RTT_GAIN: Final = 0.125  # weight of one sample in the smoothed RTT
_PACING_CREDIT: Final = 2.0  # packets at its own rate by which a delayed QP may catch up
_ACK: Final = 0  # high bits of a syndrome
_RNR: Final = 1
_OPCODES: Final = wire.write_opcodes(int(h.RoceOpcode.WRITE_FIRST))


class RoceMessage(PostedWrite):
    """One posted write until its last packet is acknowledged."""

    __slots__ = ("start", "successor")

    start: int  # payload bytes before it, those that a reset dropped left out
    successor: RoceMessage | None


NOTHING_SENT: Final[dict[str, Any]] = {"inflight": 0, "rtt": None, "outstanding": 0}
"""Snapshot of a sending half that is not made."""


class _RetryTimer(Timer):
    """Retry timer of one requestor."""

    __slots__ = ("_requestor",)

    def __init__(self, requestor: RoceRequestor) -> None:
        super().__init__(requestor.qp.endpoint.timers)
        self._requestor = requestor

    @override
    def fire(self, now: float) -> None:
        self._requestor.on_timeout(now)


class RoceRequestor(SendHalf[RoceMessage, "RoceQueuePair"]):
    """Send queue and go-back-N."""

    __slots__ = (
        "_ack_every", "_ack_requested_at", "_cursor", "_dropped", "_limit", "_mtu", "_recovery", "_resending",
        "_retries", "_sample", "_telemetry", "_timer", "_window", "end", "high", "last_sent", "next", "next_at", "rtt",
        "una",
    )  # fmt: skip

    message_class = RoceMessage

    def __init__(self, qp: RoceQueuePair) -> None:
        self.qp = qp
        s = qp.settings
        self._mtu = s.path_mtu
        self._window = s.mpr_psns
        if s.window_bdps:
            line = s.line_rate * qp.endpoint.config.weight(qp.port)
            bdp = line * s.base_rtt / (s.path_mtu + h.HEADER_BYTES)
            self._window = max(1, min(self._window, round(s.window_bdps * bdp)))
        self._recovery = SelectiveRepeat(s.reorder_packets) if s.recovery == "selective_repeat" else None
        self._telemetry = type(qp.cc).telemetry
        self._limit = self._window  # packets in flight: of the QP's window, or of a smaller one of congestion control
        self._ack_every = 1 if self._telemetry else s.ack_packets
        self._dropped = qp.stats.posted_bytes - qp.stats.acked_bytes  # by a reset before
        self.first_psn = 0  # of the wire, set at RTS
        self.una = 0  # oldest seq that is not acknowledged
        self.next = 0  # next seq to send; goes back
        self.high = 0  # first seq that was never sent
        self.end = 0  # first seq without a message
        self.next_at = float("-inf")  # time at which the rate limiter allows the next packet
        self.incomplete = []  # all that are not completed, in order
        self._cursor: RoceMessage | None = None  # the one that `next` is in
        self._retries = 0
        self._resending = False  # gone back and not sent yet
        self._ack_requested_at = float("-inf")
        self._sample: tuple[int, float] | None = None  # a packet sent once with an ACK request, and its time
        self.rtt: float | None = None
        self.last_sent = float("-inf")
        self._timer = _RetryTimer(self)

    # --- posting ----------------------------------------------------------------------------------

    @override
    def post(self, message: RoceMessage, now: float) -> None:
        stats = self.qp.stats
        message.first_seq = self.end
        self.end += max(1, -(-message.length // self._mtu))
        message.last_seq = self.end - 1
        message.start = stats.posted_bytes - self._dropped
        message.successor = None
        stats.posted_bytes += message.length
        if self.incomplete:
            self.incomplete[-1].successor = message
        self.incomplete.append(message)
        if self._cursor is None:
            self._cursor = message
        if not self.qp.port_up():
            self.on_port_down(now)

    # --- sending ----------------------------------------------------------------------------------

    def sendable(self) -> bool:
        """True if a packet may be sent as soon as the rate limiter allows it."""
        if self._recovery is not None and self._recovery.lost() is not None:
            return True
        return self.next < self.end and self.next - self.una < self._limit

    def frame(self, now: float) -> Frame | None:
        """Return the next packet; None if its memory is lost. Call only when `sendable`."""
        qp = self.qp
        message, seq = self._cursor, self.next
        lost = None if self._recovery is None else self._recovery.lost()
        if lost is not None:
            message, seq = self._message_of(lost), lost
        assert message is not None
        offset = (seq - message.first_seq) * self._mtu
        size = min(self._mtu, message.length - offset)
        last = seq == message.last_seq
        ack_requested = self._needs_ack(seq, last or lost is not None, now)
        frame = qp.path.frame(
            h.TC_DATA,
            self._headers(message, seq, offset, size, ack_requested),
            message.view[offset : offset + size] if size else None,
        )
        if self.region_lost(message, now):
            return None
        if self._telemetry:
            frame = qp.path.with_telemetry(frame, [])
        if self._recovery is not None and lost is not None:
            self._lost("timeout" if self._recovery.by_timer else "nack", seq, 1)
            self._recovery.sent()
            self._resending = True
        else:
            self.next = seq + 1
            if last:
                self._cursor = message.successor
        if not self._timer.armed or self.high == self.una:
            self._timer.arm(now + qp.settings.ack_timeout)
        self._count(seq, size, now)
        self._pace(frame.wire_len, now)
        return frame

    def _message_of(self, seq: int) -> RoceMessage | None:
        """Return the message of a seq that is not acknowledged."""
        for message in self.incomplete:
            if seq <= message.last_seq:
                return message
        return None

    def _needs_ack(self, seq: int, last: bool, now: float) -> bool:
        """Return True for a message's last packet, every n-th, the window's last, the first after a round trip."""
        if not (
            last
            or seq % self._ack_every == 0
            or seq + 1 - self.una >= self._limit
            or now - self._ack_requested_at > self.qp.settings.base_rtt
        ):
            return False
        self._ack_requested_at = now
        if self._sample is None and seq >= self.high:
            self._sample = (seq, now)
        return True

    def _headers(self, message: RoceMessage, seq: int, offset: int, size: int, ack: bool) -> bytes:
        """Return BTH, RETH in the first packet of a message, the immediate in the last."""
        first, last = offset == 0, seq == message.last_seq
        op = _OPCODES[first, last, message.imm is not None]
        psn = seq + self.first_psn & PSN_MASK | ack << 31
        padding = wire.MIGRATED | (-size & 3) << wire.PAD_SHIFT
        if not first:
            body = wire.BTH.pack(op, padding, wire.P_KEY, self.qp.remote_qpn, psn)
        else:
            body = h.BTH_RETH.pack(
                op, padding, wire.P_KEY, self.qp.remote_qpn, psn, message.remote_va, message.rkey, message.length
            )
        return body + wire.IMMEDIATE.pack(message.imm) if op in h.WITH_IMM else body

    def _count(self, seq: int, size: int, now: float) -> None:
        stats = self.qp.stats
        stats.sent_packets += 1
        stats.sent_bytes += size
        self.last_sent = now
        if seq >= self.high:
            self.high = seq + 1
            return
        stats.retx_packets += 1
        if self._resending:
            self._resending = False
            ev = self.qp.ev
            psn = wrap(seq + self.first_psn)
            count = 1 if self._recovery is not None else self.high - seq
            self.qp.log("packet.retx", psn=psn, ev=ev, old_ev=ev, count=count)

    def _pace(self, size: int, now: float) -> None:
        """Account for a packet with the rate limiter; a delayed QP may catch up a little."""
        cc = self.qp.cc
        rate = cc.rate(now)
        cc.on_sent(size, now)
        if rate is not None:
            cost = size / rate
            self.next_at = max(self.next_at, now - _PACING_CREDIT * cost) + cost

    # --- feedback ---------------------------------------------------------------------------------

    def on_ack(self, psn: int, syndrome: int, now: float, arrived: int | None = None) -> None:
        """Handle an ACK, RNR NAK or NAK; `arrived` is the PSN that triggered a NAK, if it names one."""
        seq = unwrap(psn - self.first_psn, self.una)
        kind = syndrome >> 5
        stats = self.qp.stats
        if kind == _ACK:
            stats.acks_received += 1
            if seq < self.high:
                self._acknowledge(seq + 1, now)
            else:
                stats.bogus_control += 1
            return
        stats.nacks_received += 1
        if not self.una <= seq < self.high:
            stats.bogus_control += seq >= self.high
            return
        if syndrome == wire.Syndrome.NAK_SEQUENCE:
            self._acknowledge(seq, now)
            if self._recovery is None:
                self._go_back("nack", now)
            elif arrived is not None:
                self._on_arrival(self._recovery, unwrap(arrived - self.first_psn, seq), now)
        elif kind == _RNR:
            self._acknowledge(seq, now)
            self._go_back("rnr", now)
            self.next_at = now + self.qp.settings.base_rtt
        else:
            status, reason = wire.refusal(syndrome)
            self.qp.fail(status, reason, now)

    def on_telemetry(self, hops: list[Hop], now: float) -> None:
        """Take in the telemetry of the packet that was acknowledged last."""
        cc = self.qp.cc
        if not type(cc).telemetry:
            return
        cc.on_telemetry(self.una * self._mtu, self.high * self._mtu, hops, now)
        if window := cc.window():
            self._limit = max(1, min(self._window, int(window / (self._mtu + h.HEADER_BYTES))))

    def _acknowledge(self, until: int, now: float) -> None:
        """Complete everything before `until`."""
        if until <= self.una:
            return
        stats = self.qp.stats
        stats.acked_packets += until - self.una
        self.una = until
        self._retries = 0
        if self._recovery is not None:
            self._recovery.acknowledged(until, self.high)
        if self._sample is not None and until > self._sample[0]:
            sample = now - self._sample[1]
            self.rtt = sample if self.rtt is None else self.rtt + _RTT_GAIN * (sample - self.rtt)
            self._sample = None
        while self.incomplete and self.incomplete[0].last_seq < until:
            self.qp.complete(self.incomplete.pop(0), "SUCCESS", now)
        if self.qp.state is not QpState.RTS:
            return  # its completion queue is full
        oldest = self.incomplete[0] if self.incomplete else None
        if self.next < until:  # retransmitted although the first copy arrived
            self.next = until
            self._cursor = oldest
        if oldest is None:
            stats.acked_bytes = stats.posted_bytes - self._dropped
        else:
            stats.acked_bytes = oldest.start + max(0, until - oldest.first_seq) * self._mtu
        if self.next > until:
            self._timer.arm(now + self.qp.settings.ack_timeout)
        else:
            self._timer.cancel()

    def _on_arrival(self, recovery: SelectiveRepeat, arrived: int, now: float) -> None:
        """Take in a NAK of selective repeat: a packet beyond the oldest one has arrived."""
        if self.qp.state is not QpState.RTS or not self.una < arrived < self.high:
            return
        if recovery.on_sack(arrived, self.una, self.high):
            self._sample = None
            self._timer.arm(now + self.qp.settings.ack_timeout)
        self.qp.wake()

    def _lost(self, reason: str, seq: int, count: int) -> None:
        """Count a lost packet and log it, with the number of packets to be retransmitted."""
        stats = self.qp.stats
        stats.lost_packets += 1
        stats.lost_nack += reason == "nack"
        stats.lost_timeout += reason == "timeout"
        psn = wrap(seq + self.first_psn)
        self.qp.log("packet.lost", psn=psn, ev=self.qp.ev, reason=reason, sent=self.last_sent, count=count)

    def _go_back(self, reason: str, now: float) -> None:
        """Go back to the oldest unacknowledged packet."""
        if self.qp.state is not QpState.RTS:
            return  # a full completion queue ended it while arrivals were processed
        if reason == "timeout" and self._recovery is not None:
            self._recovery.timed_out(self.una, self.high)
            self._sample = None
            self._timer.arm(now + self.qp.settings.ack_timeout)
            self.qp.wake()
            return
        if reason != "rnr":
            self._lost(reason, self.una, self.high - self.una)
        if self._recovery is not None:
            self._recovery.clear()
        self.next = self.una
        self._cursor = self.incomplete[0] if self.incomplete else None
        self._resending = True
        self._sample = None
        self._timer.arm(now + self.qp.settings.ack_timeout)
        self.qp.wake()

    def on_timeout(self, now: float) -> None:
        """Go back: nothing was acknowledged for too long."""
        if self._is_held_back() and self.qp.port_up():
            return  # the rate limiter holds the oldest packet back; a dead port would drop it instead
        self.qp.stats.timeouts += 1
        self._retries += 1
        if self._retries > self.qp.settings.retry_count:
            self.qp.fail("RETRY_EXC_ERR", "Retry Counter Exceeded", now)
            return
        if self.high > self.una:
            self._go_back("timeout", now)
        else:
            self._timer.arm(now + self.qp.settings.ack_timeout)

    def on_port_down(self, now: float) -> None:
        """Run the retry timer as if the port had sent what waits: it drops all of it."""
        if self.incomplete and not self._timer.armed:
            self._timer.arm(now + self.qp.settings.ack_timeout)

    def _is_held_back(self) -> bool:
        """Return True if the oldest packet waits to be sent, for the first time or again."""
        return self.next <= self.una or (self._recovery is not None and self._recovery.lost() == self.una)

    # --- the end ----------------------------------------------------------------------------------

    @override
    def _clear(self, now: float) -> list[RoceMessage]:
        self._timer.cancel()
        self.una = self.next = self.high = self.end
        self._cursor = None
        if self._recovery is not None:
            self._recovery.clear()
        incomplete, self.incomplete = self.incomplete, []
        return incomplete

    @override
    def snapshot(self) -> dict[str, Any]:
        outstanding = self.next - self.una
        return {
            "inflight": outstanding * (self._mtu + h.HEADER_BYTES),
            "rtt": self.rtt,
            "outstanding": outstanding,
        }
