"""The receiving half of a QP: placement, the receive bitmap, SACK triggers, NACKs, completions in message order.

docs/mrc-protocol.md §1.6, §2.9, §3.7. Every packet inside the window goes to memory at once, in any order; only
feedback and completions are in order.
"""

from __future__ import annotations

from heapq import heappop, heappush
from math import inf
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from mrclab.hosts.mrc.packets import headers as h
from mrclab.hosts.mrc.packets.controlpackets import ReplyItem, SackItem
from mrclab.hosts.mrc.receivelimits import units_of
from mrclab.hosts.mrc.settings import IDLE_RTTS
from mrclab.hosts.rdma.packets import wire
from mrclab.hosts.rdma.packets.psn import unwrap, unwrap_bits, wrap
from mrclab.hosts.rdma.qp import ReceiveHalf
from mrclab.hosts.rdma.states import QpState
from mrclab.hosts.rdma.timers import Timer
from mrclab.topo.config.nodeconfig import MPR_UNIT

if TYPE_CHECKING:
    from mrclab.hosts.mrc.packets.packet import MrcPacket
    from mrclab.hosts.mrc.qp import MrcQueuePair
    from mrclab.hosts.mrc.receivelimits import ReceiveLimits

_BITMAP_MASK: Final = (1 << h.BITMAP_BITS) - 1
_MIN_COUNTED: Final = 1024  # bytes that even a small packet adds to the SACK trigger
_ALL_EVERY: Final = 4  # of SACKs that show older packets, every fourth also shows a range without a gap
_MAX_AT_ONCE: Final = 128  # SACKs for gaps when the packets stop coming
_INACTIVE_RTTS: Final = 16.0  # base RTTs without a packet after which a QP gives up its share of the host's bitmaps
_STREAKS: Final = 1024  # EVs whose marks in a row are counted
_REQUESTS_SACK: Final = wire.FLAG_ACK_REQUEST | h.FLAG_RTX
_MIDDLE: Final = int(h.MrcOpcode.WRITE_MIDDLE)  # writes above it end a message
_ACK: Final = int(h.MrcOpcode.ACK)
_NACK: Final = int(h.MrcOpcode.NACK)
_NO_MARK: Final = int(h.Mark.NONE)
_SKIP_ONCE: Final = int(h.Mark.SKIP_ONCE)
_ERROR: Final = QpState.ERROR


class _DelayedSackTimer(Timer):
    """Sends the delayed SACK when no packet has come for a while."""

    __slots__ = ("_responder",)

    def __init__(self, responder: MrcResponder) -> None:
        super().__init__(responder.qp.endpoint.timers)
        self._responder = responder

    @override
    def fire(self, now: float) -> None:
        self._responder.on_delayed_sack(now)


_NO_STREAKS: Final[dict[int, int]] = {}  # stays empty


class MrcResponder(ReceiveHalf):
    """Receive window of one QP."""

    __slots__ = (
        "_ack_due", "_all_at", "_always_skip_after", "_delayed_entropy", "_delayed_sack_timer", "_delayed_seq",
        "_delayed_since", "_delayed_timestamp", "_delivered", "_echo", "_ends", "_gap_at", "_grants_credit",
        "_idle_after", "_inactivity_timer", "_limits", "_memory", "_penalised", "_receiving",
        "_restoring_until", "_sack_delayed", "_sack_requested", "_stats", "_streaks", "_threshold", "_turn", "_units",
        "_unreported", "_waiting", "base", "bits", "highest", "qp", "rcvd_bytes", "window",
    )  # fmt: skip

    def __init__(self, qp: MrcQueuePair) -> None:
        super().__init__(qp.remote_psn)
        self.qp = qp
        self._stats = qp.stats
        self._memory = qp.memory
        self.base = 0  # next seq expected: cack + 1
        self.bits = 0  # bit i: base + i has arrived
        self.highest = -1
        self.window = qp.settings.mpr_psns - 1
        self._echo = qp.settings.ecn_echo
        self._always_skip_after = qp.settings.always_skip_after
        self._streaks = _NO_STREAKS  # EV -> ECN marks in a row
        self._grants_credit = type(qp.cc).credit_based
        self._limits = qp.endpoint.limits
        self._units = 0  # of bitmap, beyond the first
        self._penalised = False  # the peer got a congestion penalty
        self._restoring_until = inf  # until then SACKs report that the penalty is over
        self.rcvd_bytes = 0
        # heap of (last seq, MSN, RQMSN, immediate, length, ACK requested) of messages whose last packet arrived
        self._ends: list[tuple[int, int, int, int | None, int, int]] = []
        self._delivered = 0  # immediates, and with them receives used up
        self._waiting: SackItem | None = None  # queued SACK without a mark, which may still be updated
        self._turn = 0  # of the SACKs whose bitmap cannot show everything
        self._gap_at = self._all_at = 0  # where the bitmap of the next that shows gaps, or everything, may begin
        self._unreported = 0  # bytes towards the SACK trigger
        self._threshold = qp.settings.sack_gen_threshold
        self._ack_due = False  # messages were completed without a Transport ACK
        self._sack_requested = 0  # not 0: one of them requested it
        self._sack_delayed = False  # a SACK is delayed; the fields that it will reflect:
        self._delayed_entropy = self._delayed_timestamp = self._delayed_seq = 0
        self._delayed_since = 0.0
        self._delayed_sack_timer: _DelayedSackTimer | None = None
        self._idle_after = IDLE_RTTS * qp.settings.base_rtt
        self._receiving = False  # packets came recently: it has a share of the host's bitmaps
        self._inactivity_timer: Timer | None = None  # gives up that share when no packet has come for long

    # --- packets ----------------------------------------------------------------------------------

    def on_write(self, packet: MrcPacket, now: float) -> int:
        """Handle a data packet with a valid ICRC, or a trimmed one; return the number of bytes placed."""
        stats = self._stats
        stats.received_packets += 1
        if packet.ce:
            stats.ecn_packets += 1
        elif self._streaks:
            self._streaks.pop(packet.entropy, None)
        seq = unwrap(packet.psn - self.first_psn, self.base)
        distance = seq - self.base
        if packet.trimmed:
            self._on_trimmed(packet, seq, distance, now)
            return 0
        if distance < 0 or self.bits >> distance & 1:
            self._on_duplicate(packet, seq, now)
            return 0
        if distance >= self.window:
            stats.out_of_window += 1
            self._nack(packet, h.Reason.PSN_OOR_WINDOW)
            return 0
        ends = packet.op > _MIDDLE
        if (ends and packet.op in h.WITH_IMM and not self._has_receive(packet, now)) or (
            self._limits is not None and not self._admit(self._limits, packet, distance, now)
        ):
            return 0
        size, at = packet.size, packet.body_at
        view = packet.view if not at and size == len(packet.view) else packet.view[at : at + size]
        refusal = self._memory.place(packet.rkey, packet.va, view, self.qp.writable_pd)
        if refusal is not None and size:  # the key of a write without data is not checked, as in InfiniBand
            self.qp.refuse(packet, refusal, now)
            return 0
        self._count(packet, seq, now)
        self.bits |= 1 << distance
        if ends:
            self._note_end(packet, seq)
        if not self.bits & 1 or self._advance(packet, now):
            self._trigger(packet, seq, now)
        return size

    def _on_duplicate(self, packet: MrcPacket, seq: int, now: float) -> None:
        self.qp.stats.duplicate_packets += 1
        self.qp.peer.rotate_reverse(packet.entropy)
        self._sack(packet, seq, now)

    def _has_receive(self, packet: MrcPacket, now: float) -> bool:
        """Return True if the receive for this immediate is posted: the n-th immediate takes the n-th receive."""
        ahead = unwrap_bits(packet.rqmsn, self._delivered, 16) - self._delivered
        if ahead < 1:
            self._unexpected(packet, f"immediate {packet.rqmsn} came again in a new packet", now)
            return False
        if ahead > len(self.receives):
            self.qp.stats.no_resource += 1
            self._nack(packet, h.Reason.NO_RESOURCE)
            return False
        return True

    def _admit(self, limits: ReceiveLimits, packet: MrcPacket, distance: int, now: float) -> bool:
        """Return True if this host has bitmap and buffer for a packet this far above the oldest gap."""
        more = units_of(distance) - self._units
        if more > 0:
            if not limits.take_bitmaps(more):
                self.qp.stats.no_bitmap += 1
                self._nack(packet, h.Reason.NO_BITMAP)
                return False
            self._units += more
        if not limits.take(packet.nominal, now):
            self.qp.stats.no_pkt_buffer += 1
            self._nack(packet, h.Reason.NO_PKT_BUFFER)
            return False
        return True

    def _release_bitmaps(self, keep: int) -> None:
        """Give back all units but those that the remaining out-of-order packets need."""
        if self._limits is not None and keep < self._units:
            self._limits.give_bitmaps(self._units - keep)
            self._units = keep

    def _unexpected(self, packet: MrcPacket, reason: str, now: float) -> None:
        """End the QP after a protocol violation of the peer, and notify the peer."""
        self._nack(packet, h.Reason.UNEXP_EVENT)
        self.qp.fail("REM_INV_REQ_ERR", f"the peer broke the protocol: {reason}", now, at_fault=False)

    def _count(self, packet: MrcPacket, seq: int, now: float) -> None:
        """Count a packet that was placed in memory."""
        stats = self._stats
        stats.placed_packets += 1
        stats.placed_bytes += packet.size
        gap = now - self.last_placed
        if gap > self.max_gap and self.last_placed:
            self.max_gap = gap
        self.last_placed = now
        self.rcvd_bytes += packet.nominal
        if seq > self.highest:  # noqa: PLR1730  a call per packet costs more
            self.highest = seq

    def _note_end(self, packet: MrcPacket, seq: int) -> None:
        """Note the last packet of a message, which is complete once everything up to it has arrived."""
        imm = packet.imm if packet.op in h.WITH_IMM else None
        heappush(self._ends, (seq, packet.msn, packet.rqmsn, imm, packet.dma_length, packet.flags & _REQUESTS_SACK))

    def _advance(self, packet: MrcPacket, now: float) -> bool:
        """Advance past the oldest gap, which this packet closed, and complete messages; False if the QP failed."""
        run = (~self.bits & self.bits + 1).bit_length() - 1
        self.bits >>= run
        self.base += run
        if self._units:
            self._release_bitmaps(units_of(max(self.bits.bit_length() - 1, 0)))
        ends = self._ends
        while ends and ends[0][0] < self.base:
            _, msn, rqmsn, imm, length, requested = heappop(ends)
            self._sack_requested |= requested
            with_imm = imm is not None
            if msn != self.msn + 1 & 0xFFFF or rqmsn != self._delivered + with_imm & 0xFFFF:
                self._unexpected(packet, f"message {msn} with {rqmsn} immediates is not the next one", now)
                return False
            self.msn = msn
            self._ack_due = True
            if imm is not None:
                self._delivered += 1
                self.qp.complete_receive(self.receives.pop(0), imm, length, now)
                if self.qp.state is _ERROR:  # its completion queue is full
                    return False
        return True

    def _on_trimmed(self, packet: MrcPacket, seq: int, distance: int, now: float) -> None:
        self.qp.stats.trimmed_packets += 1
        if distance < 0 or self.bits >> max(distance, 0) & 1:
            self._sack(packet, seq, now)  # it arrived whole before
            return
        if self._grants_credit:
            self.qp.endpoint.credits.on_trimmed(self.qp.peer, packet.nominal, now)
        self._nack(packet, h.Reason.TRIMMED_LASTHOP if packet.dscp == h.Dscp.TRIMMED_LASTHOP else h.Reason.TRIMMED)

    # --- feedback ---------------------------------------------------------------------------------

    def _trigger(self, packet: MrcPacket, seq: int, now: float) -> None:
        """Send a SACK for one of the specification's five reasons; else delay it until packets stop coming.

        A request in the last packet of a message also has a SACK sent when the message is complete.
        """
        size = packet.size
        self._unreported += max(_MIN_COUNTED, size)
        if (
            self._unreported > self._threshold
            or packet.flags & _REQUESTS_SACK
            or (packet.ce and self._echo)
            or self._sack_requested
        ):
            self._sack(packet, seq, now)
        else:
            self._sack_delayed = True
            self._delayed_entropy, self._delayed_timestamp, self._delayed_seq = packet.entropy, packet.timestamp, seq
            self._delayed_since = now
            self._await_more(now)

    def _await_more(self, now: float) -> None:
        """Arm the timer of the delayed SACK: it fires when no packet has come for a while."""
        timer = self._delayed_sack_timer
        if timer is None:
            timer = self._delayed_sack_timer = _DelayedSackTimer(self)
        timer.arm(now + self._idle_after)

    def on_delayed_sack(self, now: float) -> None:
        """Send the delayed SACK, its timestamp advanced by the delay, and the gaps: no packet arrived for a while."""
        if not self._sack_delayed:
            self._show_gaps(self._delayed_entropy)
            return
        self._sack_delayed = False
        self._unreported = 0
        timestamp = self._delayed_timestamp
        if timestamp:
            timestamp = timestamp + int((now - self._delayed_since) * 1e6) & h.TS_MASK
        self._queue_sack(SackItem(self.qp, _NO_MARK, self._delayed_entropy, timestamp, self._delayed_seq, None))
        self._show_gaps(self._delayed_entropy)
        self._acknowledge()

    def _show_gaps(self, entropy: int) -> None:
        """Send SACKs for all gaps that the newest bitmap does not show, as no packet will trigger them."""
        at, newest = 0, self._newest_start() - self.base
        for _ in range(_MAX_AT_ONCE):
            if at >= newest:
                return
            self.qp.send_control(SackItem(self.qp, _NO_MARK, entropy, 0, self.base - 1, None, gaps=True))
            at = self._gap_from(at + h.BITMAP_BITS)

    def _sack(self, packet: MrcPacket, seq: int, now: float) -> None:
        self._unreported = 0
        self._sack_delayed = False
        if self.highest - self.base >= h.BITMAP_BITS:  # there may be gaps that it does not show
            self._delayed_entropy = packet.entropy
            self._await_more(now)
        elif self._delayed_sack_timer is not None:
            self._delayed_sack_timer.cancel()
        mark = self._mark(packet) if packet.ce and self._echo else _NO_MARK
        self._queue_sack(SackItem(self.qp, mark, packet.entropy, packet.timestamp, seq, None))
        self._acknowledge()

    def _mark(self, packet: MrcPacket) -> int:
        """Return the action for a marked packet's EV: skip it, or always skip it after a number of marks in a row."""
        if not self._always_skip_after:
            return _SKIP_ONCE
        streaks, entropy = self._streaks, packet.entropy
        if streaks is _NO_STREAKS:
            streaks = self._streaks = {}
        elif len(streaks) >= _STREAKS:
            streaks.clear()
        streak = streaks[entropy] = streaks.get(entropy, 0) + 1
        if streak < self._always_skip_after:
            return _SKIP_ONCE
        del streaks[entropy]
        self.qp.stats.always_skips_sent += 1
        return int(h.Mark.ALWAYS_SKIP)

    def _acknowledge(self) -> None:
        """Queue one Transport ACK, behind a SACK, for all messages completed since the last one."""
        if self._ack_due:
            self._ack_due = False
            self._sack_requested = 0
            psn = wrap(self.base - 1 + self.first_psn)
            self.qp.send_control(ReplyItem(self.qp, _ACK, psn, h.Ack(wire.Syndrome.ACK, self.msn)))

    def _nack(self, packet: MrcPacket, reason: h.Reason) -> None:
        content = h.Nack(reason, packet.entropy, packet.psn, packet.timestamp)
        self.qp.send_control(ReplyItem(self.qp, _NACK, 0, content))

    def on_probe(self, packet: MrcPacket, probe: h.Probe, now: float) -> None:
        """Respond to a reliability probe at once, with the current state."""
        self.qp.stats.probes_answered += 1
        self.qp.peer.rotate_reverse(packet.entropy)
        mark = _SKIP_ONCE if packet.ce and self._echo else _NO_MARK
        response = SackItem(self.qp, mark, packet.entropy, probe.timestamp, 0, probe.probe_id)
        if now - self.last_placed <= self._idle_after:
            self.qp.send_control(response)
            return
        # the reverse path of one plane may be dead, and each response could take it: two responses, by two planes
        self.qp.send_control(response, packet.port)
        again = SackItem(self.qp, mark, packet.entropy, probe.timestamp, 0, probe.probe_id)
        self.qp.send_control(again, besides=packet.port)
        self._show_gaps(packet.entropy)

    def _queue_sack(self, item: SackItem) -> None:
        """Send a SACK, or update one that still waits for a port where its bitmap shows everything."""
        if item.mark == _NO_MARK and self.highest - self.base < h.BITMAP_BITS:
            waiting = self._waiting
            if waiting is not None:
                waiting.entropy, waiting.timestamp, waiting.seq = item.entropy, item.timestamp, item.seq
                return
            self._waiting = item
        self.qp.send_control(item)

    def take_sack(self, item: SackItem, now: float) -> h.Sack:
        """Return the content of a SACK as a port sends it: built that late, it shows the latest state."""
        if item is self._waiting:
            self._waiting = None
        sack = self._make(item, now)
        return sack if self._limits is None else self._with_penalty(self._limits, sack, now)

    def _with_penalty(self, limits: ReceiveLimits, sack: h.Sack, now: float) -> h.Sack:
        """Request a window penalty while this host's memory is congested, and notify the peer of its end.

        The notification lasts a round trip, since one SACK may be lost.
        """
        penalty = limits.penalty(now)
        if penalty:
            self.qp.stats.penalties += 1
            self._penalised = True
            self._restoring_until = inf
            sack.penalty = penalty
            return sack
        if not self._penalised or not limits.below_restore_level():
            return sack
        self._restoring_until = min(self._restoring_until, now + self.qp.settings.base_rtt)
        self._penalised = now < self._restoring_until
        sack.restore = True
        return sack

    def _newest_start(self) -> int:
        """Return the PSN at which the bitmap begins: it shows the newest 64."""
        return max(self.highest - (h.BITMAP_BITS - 1), self.base)

    def _next_start(self, gaps: bool) -> int:
        """Return the first seq of the next bitmap: of the newest 64 and, if that is not all, of older ones in turn.

        Every second bitmap begins at an older gap, and every eighth in a range without one, as the SACK that showed it
        may be lost. So each gap is shown several times per round trip, however many packets are outstanding.
        """
        newest = self._newest_start()
        base = self.base
        if newest == base:
            return base
        self._turn = turn = self._turn + 1
        if not gaps and turn & 1:
            return newest
        if not gaps and turn % (2 * _ALL_EVERY) == 0:
            at = max(self._all_at, base)
            if at >= newest:
                at = base
            self._all_at = at + h.BITMAP_BITS
            return at
        at = base + self._gap_from(max(self._gap_at - base, 0))
        if at >= newest:
            at = base
        self._gap_at = at + h.BITMAP_BITS
        return at

    def _gap_from(self, distance: int) -> int:
        """Return the distance from the base to the first gap at or beyond a distance."""
        missing = ~self.bits >> distance
        return distance + (missing & -missing).bit_length() - 1

    def _make(self, item: SackItem, now: float) -> h.Sack:
        cack = self.base - 1
        first = self._next_start(item.gaps)
        settings = self.qp.settings
        from_cack = max(-0x8000, min(0x7FFF, item.seq - cack))
        bits = self.bits
        return h.Sack(
            mark=item.mark,
            probe_reply=item.probe_id is not None,
            offset=from_cack if item.probe_id is None else item.probe_id,
            entropy=item.entropy,
            cack=wrap(cack + self.first_psn),
            mpr=self._reported_mpr(now) if settings.dynamic_mpr else 0,
            bitmap_offset=first - cack,
            bitmap=bits >> (first - self.base) & _BITMAP_MASK if bits else 0,
            timestamp=item.timestamp,
            ooo_count=bits.bit_count() if bits else 0,
            rcvd_units=-(-self.rcvd_bytes // h.RCVD_UNIT) & 0xFFFFFF,
        )

    def _reported_mpr(self, now: float) -> int:
        """Return the MPR to report; from then on the QP counts as receiving until nothing has come for a while."""
        most = (self.window + 1) // MPR_UNIT
        limits = self._limits
        if limits is None:
            return most
        if not self._receiving:
            self._receiving = True
            limits.receivers += 1
            if self._inactivity_timer is None:
                self._inactivity_timer = self.qp.endpoint.timers.timer(self._on_inactivity)
            self._inactivity_timer.arm(now + _INACTIVE_RTTS * self.qp.settings.base_rtt)
        return min(most, limits.share())

    def _on_inactivity(self, now: float) -> None:
        """Give up the share if nothing has come for a while."""
        due = self.last_placed + _INACTIVE_RTTS * self.qp.settings.base_rtt
        if due > now and self._inactivity_timer is not None:
            self._inactivity_timer.arm(due)
        else:
            self._release_share()

    def _release_share(self) -> None:
        if self._inactivity_timer is not None:
            self._inactivity_timer.cancel()
        if self._receiving and self._limits is not None:
            self._limits.receivers -= 1
        self._receiving = False

    def stop(self) -> None:
        """Cancel timers and release limits: the QP ends."""
        self._release_bitmaps(0)
        self._release_share()
        if self._delayed_sack_timer is not None:
            self._delayed_sack_timer.cancel()
        self._sack_delayed = False
