"""Receiving half of a RoCEv2 QP: packets in order only, one NAK per gap, ACKs on request, CNPs for marks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mrclab.hosts.rdma.packets import wire
from mrclab.hosts.rdma.packets.psn import unwrap, wrap
from mrclab.hosts.rdma.qp import ReceiveHalf
from mrclab.hosts.rdma.states import QpState
from mrclab.hosts.roce import headers as h

if TYPE_CHECKING:
    from mrclab.hosts.roce.packets import RocePacket
    from mrclab.hosts.roce.qp import RoceQueuePair

_RNR_CODE: Final = 1  # IBTA's timer code for 10 µs; the requestor waits a round trip


_NONE_EARLY: Final[dict[int, RocePacket]] = {}  # stays empty


class RoceResponder(ReceiveHalf):
    """Expected PSN, and the current message."""

    __slots__ = (
        "_cnp_at", "_cnp_interval", "_early", "_in_message", "_keeps_early", "_left", "_length", "_nak_sent", "_rkey",
        "_va", "expected", "qp",
    )  # fmt: skip

    def __init__(self, qp: RoceQueuePair) -> None:
        super().__init__(qp.remote_psn)
        self.qp = qp
        self.expected = 0  # seq
        self._nak_sent = False  # for the gap at `expected`
        self._early = _NONE_EARLY  # with selective repeat: early packets by seq
        self._keeps_early = qp.settings.recovery == "selective_repeat"
        self._in_message = False
        self._va = self._rkey = self._left = self._length = 0  # of the current message
        self._cnp_interval = qp.settings.dcqcn.cnp_interval_rtts * qp.settings.base_rtt
        self._cnp_at = float("-inf")

    def on_write(self, packet: RocePacket, now: float) -> None:
        """Handle a data packet with a correct ICRC."""
        qp = self.qp
        stats = qp.stats
        stats.received_packets += 1
        if packet.ce:
            self._notify(packet, now)
        seq = unwrap(packet.psn - self.first_psn, self.expected)
        if seq != self.expected:
            self._out_of_order(packet, seq)
            return
        self._in_order(packet, seq, now)
        while self._early and self.expected in self._early and self.expected > seq:
            seq = self.expected
            self._in_order(self._early.pop(seq), seq, now)

    def _in_order(self, packet: RocePacket, seq: int, now: float) -> None:
        """Handle the expected packet."""
        qp = self.qp
        stats = qp.stats
        if packet.op in h.WITH_IMM and not self.receives:
            stats.no_resource += 1
            self._nak_sent = True  # one NAK of either kind per gap
            self._early.clear()
            qp.reply(packet.port, wire.Syndrome.RNR_NAK | _RNR_CODE, packet.psn, self.msn)
            return
        if not self._begin(packet, now) or not self._place(packet, now):
            return
        self._nak_sent = False
        self.expected = seq + 1
        stats.placed_packets += 1
        stats.placed_bytes += packet.size
        if self.last_placed:
            self.max_gap = max(self.max_gap, now - self.last_placed)
        self.last_placed = now
        if packet.op in h.ENDS_MESSAGE:
            self._in_message = False
            self.msn += 1
            if packet.op in h.WITH_IMM:
                qp.complete_receive(self.receives.pop(0), packet.imm, self._length, now)
        if packet.telemetry is not None:
            qp.echo = packet.telemetry
        if packet.ack_request and qp.state is not QpState.ERROR:
            qp.acknowledge(packet.port)

    def _out_of_order(self, packet: RocePacket, seq: int) -> None:
        """Acknowledge a duplicate again; send a NAK per gap, or with selective repeat for each early packet."""
        if seq < self.expected:
            self.qp.stats.duplicate_packets += 1
            self.qp.acknowledge(packet.port)
            return
        stats = self.qp.stats
        stats.out_of_order += 1
        if self._nak_sent:
            return
        self._nak_sent = not self._keeps_early
        arrived = packet.psn if self._keeps_early and self._keep(packet, seq) else None
        stats.nacks_sent += 1
        psn = wrap(self.expected + self.first_psn)
        self.qp.reply(packet.port, wire.Syndrome.NAK_SEQUENCE, psn, self.msn, arrived)

    def _keep(self, packet: RocePacket, seq: int) -> bool:
        """Keep an early packet, which its NAK names then; False if it is beyond the window, and dropped."""
        if seq - self.expected >= self.qp.settings.mpr_psns:
            return False
        if seq not in self._early:
            packet.view = memoryview(bytes(packet.view))  # the frame's memory may be reused
            if self._early is _NONE_EARLY:
                self._early = {}
            self._early[seq] = packet
        return True

    def _begin(self, packet: RocePacket, now: float) -> bool:
        """Check that opcode and length fit the message so far; take in the fields of a first packet."""
        starts = packet.op in h.STARTS_MESSAGE
        if starts is self._in_message:
            self.qp.refuse(packet, wire.Syndrome.NAK_INVALID_REQUEST, "its packets are out of sequence", now)
            return False
        if starts:
            self._va, self._rkey = packet.va, packet.rkey
            self._left = self._length = packet.dma_length
            self._in_message = True
        ends = packet.op in h.ENDS_MESSAGE
        if packet.size != (self._left if ends else self.qp.settings.path_mtu) or packet.size > self._left:
            self.qp.refuse(packet, wire.Syndrome.NAK_INVALID_REQUEST, "its packets and its length do not fit", now)
            return False
        return True

    def _place(self, packet: RocePacket, now: float) -> bool:
        size = packet.size
        if not size:
            return True
        payload = packet.view[packet.payload_at : packet.payload_at + size]
        refusal = self.qp.memory.place(self._rkey, self._va, payload, self.qp.writable_pd)
        if refusal is not None:
            self.qp.stats.access_errors += 1
            self.qp.refuse(packet, refusal.syndrome, refusal.reason, now)
            return False
        self._va += size
        self._left -= size
        return True

    def _notify(self, packet: RocePacket, now: float) -> None:
        """Handle a mark: one CNP per interval and QP."""
        stats = self.qp.stats
        stats.ecn_packets += 1
        if now - self._cnp_at >= self._cnp_interval:
            self._cnp_at = now
            stats.cnps_sent += 1
            self.qp.notify(packet.port)
