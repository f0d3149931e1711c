"""A queue pair of MRC: its two halves, its EV set, and the dispatch of packets to them."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from typing_extensions import override

from mrclab.hosts.mrc.evs import samepeer, sources
from mrclab.hosts.mrc.evs.ev import Denier, Ev
from mrclab.hosts.mrc.evs.evprofile import API_STATES, EvProfile
from mrclab.hosts.mrc.evs.evset import EvSet
from mrclab.hosts.mrc.evs.probing import Prober
from mrclab.hosts.mrc.packets import headers as h
from mrclab.hosts.mrc.packets.controlpackets import ControlItem, ReplyItem
from mrclab.hosts.mrc.packets.packet import MrcPacket
from mrclab.hosts.mrc.peers import NOMINAL_OVERHEAD, Peer
from mrclab.hosts.mrc.recovery.sent import TAIL
from mrclab.hosts.mrc.requestor import MrcRequestor
from mrclab.hosts.mrc.responder import MrcResponder
from mrclab.hosts.mrc.settings import MrcQpSettings
from mrclab.hosts.rdma import qp as rc
from mrclab.hosts.rdma.memory import Refusal
from mrclab.hosts.rdma.packets import wire
from mrclab.hosts.rdma.states import QpState
from mrclab.hosts.rdma.stats import QpStats, reader

if TYPE_CHECKING:
    from mrclab.hosts.mrc.endpoint import MrcEndpoint

_RTS: Final = QpState.RTS
_RTR: Final = QpState.RTR
_SACK: Final = int(h.MrcOpcode.SACK)
_NSCC: Final = "uet-1.0-nscc"

_LOSS_COUNTER: Final = {
    "time": "lost_time",
    TAIL: "lost_time",
    "same-ev": "lost_same_ev",
    "timeout": "lost_timeout",
    "nack": "lost_nack",
    "port": "lost_port",
}
"""Counter of a loss by its reason."""


class MrcQpStats(QpStats):
    """Counters of one QP since it was created."""

    lost_time: int = 0
    lost_same_ev: int = 0
    lost_port: int = 0
    spurious_packets: int = 0  # declared lost and retransmitted although the first copy arrived
    late_packets: int = 0  # declared lost, arrived before the retransmission
    sacks_received: int = 0
    marks_received: int = 0
    tail_probes: int = 0  # SACK probes
    path_probes: int = 0
    probe_replies: int = 0
    trimmed_packets: int = 0
    out_of_window: int = 0
    no_bitmap: int = 0  # packets refused for lack of a bitmap
    no_pkt_buffer: int = 0  # packets refused for lack of a buffer
    penalties: int = 0  # SACKs with a congestion penalty
    always_skips_sent: int = 0  # SACKs with ALWAYS_SKIP
    sacks_sent: int = 0
    probes_answered: int = 0

    def count_loss(self, reason: str) -> None:
        """Count a packet that was declared lost."""
        self.lost_packets += 1
        counter = _LOSS_COUNTER[reason]
        setattr(self, counter, getattr(self, counter) + 1)


_read_stats: Final = reader(MrcQpStats)


class MrcQueuePair(rc.QueuePair[MrcRequestor, MrcResponder]):
    """One QP."""

    __slots__ = (
        "_began", "_uplinks", "cc", "cc_profile", "endpoint", "ev_profile", "flushed_bytes", "in_rotation", "known_evs",
        "known_prober", "memory", "overhead", "peer", "pending", "qpcc", "remote_mpr", "remote_wimm", "settings",
        "stats",
    )  # fmt: skip

    requestor_class = MrcRequestor
    responder_class = MrcResponder

    def __init__(
        self,
        endpoint: MrcEndpoint,
        init: rc.QpInit,
        peer: Peer,
        settings: MrcQpSettings,
        now: float,
        ev_profile: EvProfile | None = None,
    ) -> None:
        super().__init__(endpoint.events, init, peer.text)
        self.endpoint = endpoint
        self.memory = endpoint.memory
        self.peer = peer
        self.settings = settings
        self.stats = MrcQpStats()
        self.flushed_bytes = 0  # posted and neither acknowledged nor outstanding any more
        self.remote_wimm = settings.wimm
        self.in_rotation = False  # in the round robin of the scheduler
        self.pending = False  # in the list of QPs blocked by the window of their destination
        self.overhead = NOMINAL_OVERHEAD if settings.timestamps else NOMINAL_OVERHEAD - 4
        self.qpcc = peer.qpcc(settings, now, _cc_parameters(settings))
        self.cc = self.qpcc.controller
        self.ev_profile = ev_profile
        self.known_prober: Prober | None = None
        self.cc_profile: int | None = None  # number of the profile made by Ctl, if it is one
        self._begin(now)

    # --- states -----------------------------------------------------------------------------------

    @override
    def ready_to_receive(self, peer: Mapping[str, int]) -> None:
        super().ready_to_receive(peer)
        self.remote_wimm = min(self.settings.wimm, peer["wimm"])
        self.remote_mpr = peer["mpr"]
        if self.known_requestor is not None:  # made before by a refused post, or as a reset QP left the rotation
            self.known_requestor.limit_window(self.remote_mpr)

    def retune(self, settings: MrcQpSettings, peer: Mapping[str, int]) -> None:
        """Change attributes of the sending half and of the peer's limits before anything is sent (RTR to RTS)."""
        self.settings = settings
        self.known_requestor = None
        self.remote_wimm = peer["wimm"]
        self.remote_mpr = peer["mpr"]

    @property
    def prober(self) -> Prober:
        """Its probes, made at their first use: a QP that only receives sends none."""
        found = self.known_prober
        if found is None:
            found = self.known_prober = Prober(self)
        return found

    @override
    def _begin(self, now: float) -> None:
        super()._begin(now)
        self._began = now
        self.remote_mpr = self.settings.mpr
        self.known_prober = None
        self.known_evs: EvSet | None = None
        self._uplinks: array[int] | None = sources.draw_uplinks(self)
        if self._uplinks is None:
            self.known_evs = sources.ev_set(self, None)
        if self.known_evs is not None:
            self.known_evs.fill(now)
            sources.apply_denials(self, self.known_evs, now)
        self.sync_planes(now, "port", requeue=False)

    @override
    def close(self, now: float) -> None:
        super().close(now)
        self.endpoint.control.drop_qp(self)

    @override
    def _halt(self) -> None:
        if self.known_prober is not None:
            self.known_prober.stop()
        if self.known_responder is not None:
            self.known_responder.stop()

    @property
    def backlog(self) -> int:
        """Bytes that are posted, not acknowledged and not flushed."""
        return self.stats.posted_bytes - self.stats.acked_bytes - self.flushed_bytes

    @property
    def idle(self) -> bool:
        """True if there is nothing to send, now or when a window opens."""
        requestor, prober = self.known_requestor, self.known_prober
        if requestor is not None and (requestor.unsent or requestor.lost):
            return False
        return prober is None or not prober.waiting

    # --- EV set -----------------------------------------------------------------------------------

    @property
    def evs(self) -> EvSet:
        """The EV set, created lazily from the uplinks drawn with the QP: a QP that only receives needs none."""
        found = self.known_evs
        return self._make_evs() if found is None else found

    def _make_evs(self) -> EvSet:
        self.known_evs = made = sources.ev_set(self, self._uplinks)
        self._uplinks = None
        made.fill(self._began)
        self.sync_planes(self._began, "port", requeue=False)
        return made

    def ev_made(self, ev: Ev, now: float) -> None:
        """Apply the controller's denials to an EV that was created lazily."""
        config = self.endpoint.config
        if config.denylist and config.denied(ev.plane, ev.uplink, self.peer.text):
            self.evs.deny(ev, now, Denier.DENYLIST)

    def ev_changed(self, ev: Ev, old: str, new: str, reason: str, now: float) -> None:
        """An EV changed its state: probe it if retired, notify control interface and QPs of the same peer, log."""
        if new == "ASSUMED_BAD":
            self.prober.watch(ev, now, reason == samepeer.REASON)
        elif old == "ASSUMED_BAD":
            self.prober.unwatch(ev)
        if self.settings.share_path_failures:
            samepeer.notify(self, ev, old, new, reason, now)
        if "DENIED" in {old, new}:
            self._watch_paths(now)
        if self.ev_profile is not None and API_STATES[new] is not API_STATES[old]:
            self.ev_profile.changed(ev.path.port, ev.api_value, API_STATES[new])
        if {old, new} == {"GOOD", "SKIP"}:
            return  # counted per EV (marked); a record for each would drown the others
        self.log("ev.state", ev=ev.value, plane=ev.plane, uplink=ev.uplink, old=old, new=new, reason=reason)

    def sync_planes(self, now: float, reason: str, requeue: bool = True) -> None:
        """Update the EV set to the ports here and at the peer."""
        for plane in self.known_evs.plane_list if self.known_evs is not None else ():
            number = plane.number
            up = self.endpoint.ports.plane_up(number) and self.peer.plane_up(number)
            if up and not plane.up:
                self.evs.plane_up(number, now, reason, shadow=self.settings.ack_timeout)
            elif not up and plane.up:
                self.evs.plane_down(number, now, reason)
                if requeue and self.known_requestor is not None:
                    self.known_requestor.requeue_plane(number, now)
        self._watch_paths(now)
        self.wake()

    def _watch_paths(self, now: float) -> None:
        if self.known_requestor is not None:
            self.known_requestor.retries.watch_paths(now)

    # --- services for the halves ------------------------------------------------------------------

    @override
    def wake(self) -> None:
        if self.in_rotation:
            self.endpoint.on_work()
        else:
            self.endpoint.scheduler.wake(self)

    def urgent(self) -> None:
        """A retransmission or a probe waits: it goes before new data of any QP."""
        scheduler = self.endpoint.scheduler
        scheduler.urgent = True
        scheduler.wake(self)

    def send_control(self, item: ControlItem, port: int | None = None, besides: int | None = None) -> None:
        """Queue SACK, NACK or ACK for this port; if none is named for the next one, other than `besides`."""
        if not self.owner_died:
            self.endpoint.control.send(item, self.peer, port, besides)

    def _send_nak(self, packet: MrcPacket, syndrome: int) -> None:
        self.send_control(ReplyItem(self, h.MrcOpcode.ACK, packet.psn, h.Ack(syndrome, self.responder.msn)))

    def refuse(self, packet: MrcPacket, refusal: Refusal, now: float) -> None:
        """Fail: a write cannot be placed; notify the peer."""
        self.stats.access_errors += 1
        self._send_nak(packet, refusal.syndrome)
        self.fail("REM_ACCESS_ERR", refusal.reason, now, at_fault=False)

    # --- packets ----------------------------------------------------------------------------------

    def on_packet(self, packet: MrcPacket, now: float) -> int:
        """Handle a packet for this QP; return the number of new payload bytes placed."""
        if h.FIRST_WRITE <= packet.op <= h.LAST_WRITE:
            if self.state is _RTS or self.state is _RTR:
                return self.responder.on_write(packet, now)
            if self.state is QpState.ERROR and not packet.trimmed:
                self._send_nak(packet, wire.Syndrome.NAK_REMOTE_OPERATION)
            return 0
        if packet.op == _SACK:  # most of the others
            self.on_sack(packet, now)
            self.wake()
            return 0
        handler = _HANDLERS.get(packet.op)
        if handler is not None:
            handler(self, packet, now)
            self.wake()
        return 0

    def on_sack(self, packet: MrcPacket, now: float) -> None:
        """Handle a SACK for the sending half."""
        if self.state is not _RTS:
            return
        sack: h.Sack = packet.content
        sent_at = None
        if sack.probe_reply:
            sent_at = self.prober.on_reply(sack.offset, sack.mark, now)
        else:
            ev = self.evs.find(sack.entropy)
            if ev is None:
                self.peer.use_reverse(sack.entropy)
            else:
                self.peer.take_reverse(ev.plane, ev.uplink)
        self.requestor.on_sack(sack, now, sent_at)

    def on_nack(self, packet: MrcPacket, now: float) -> None:
        """Handle a NACK for the sending half."""
        if self.state is not _RTS:
            return
        nack: h.Nack = packet.content
        if nack.reason == h.Reason.UNEXP_EVENT:
            self._ended_by_peer(nack.psn, "REM_OP_ERR", "the peer reported an unexpected event", now)
        else:
            self.requestor.on_nack(nack, now)

    def on_ack(self, packet: MrcPacket, now: float) -> None:
        """Handle a Transport ACK or NAK."""
        if self.state is not _RTS:
            return
        ack: h.Ack = packet.content
        syndrome = ack.syndrome
        if syndrome >> 5 == 0:
            self.requestor.on_ack(packet.psn, now)
        else:
            status, reason = wire.refusal(syndrome)
            self._ended_by_peer(packet.psn, status, reason, now)

    def _ended_by_peer(self, psn: int, status: str, reason: str, now: float) -> None:
        """The peer has failed. If nothing that it names is outstanding, the packet belongs to an earlier connection."""
        if self.requestor.is_outstanding(psn):
            self.fail(status, reason, now)
        else:
            self.stats.bogus_control += 1

    def on_probe(self, packet: MrcPacket, now: float) -> None:
        """Handle a reliability probe for the receiving half."""
        if self.state in {QpState.RTR, QpState.RTS}:
            self.responder.on_probe(packet, packet.content, now)

    # --- views ------------------------------------------------------------------------------------

    @override
    def receive_limits(self) -> dict[str, int]:
        return {"mpr": self.settings.mpr, "wimm": self.settings.wimm}

    @override
    def counters(self) -> tuple[Any, ...]:
        """Counters, with those of the EV set, as EVs' own counters change only if the QP's do."""
        evs = self.known_evs
        shown = (0, 0, 0) if evs is None else (evs.changes, evs.skips_ignored, evs.floor_hits)
        return (_read_stats(self.stats), self.cc.snapshot(), *shown)

    @override
    def rows(self) -> dict[str, Any]:
        return {**self.stats.as_dict(), **self.cc.snapshot()}

    @override
    def _nothing_sent(self) -> dict[str, Any]:
        return {"inflight": 0, "rtt": 0.0, "reorder_rtts": self.settings.reorder_rtts, "outstanding": 0}

    @override
    def snapshot(self) -> dict[str, Any]:
        evs = self.known_evs
        return {
            **super().snapshot(),
            "skips_ignored": 0 if evs is None else evs.skips_ignored,
            "floor_hits": 0 if evs is None else evs.floor_hits,
        }

    @override
    def query(self) -> dict[str, Any]:
        return {**super().query(), "cc_profile": self.settings.cc_profile}

    @override
    def path_snapshots(self) -> list[dict[str, Any]]:
        """One row for each EV that was made."""
        evs = self.known_evs
        if evs is None:
            return []
        return [
            {
                "qp": self.qpn,
                "ev": ev.value,
                "plane": ev.plane,
                "uplink": ev.uplink,
                "sent_packets": ev.sent,
                "acked_packets": ev.acked,
                "lost_packets": ev.lost,
                "nacked_packets": ev.nacked,
                "marked_packets": ev.marked,
                "retx_packets": ev.retransmitted,
                "state": ev.shown_state if evs.planes[ev.plane].up else "PORT_DOWN",
            }
            for ev in evs.by_value.values()
        ]


def _cc_parameters(settings: MrcQpSettings) -> dict[str, Any]:
    """Parameters of the congestion controller: those of the profile, and the QP's own switches."""
    chosen = dict(settings.cc_config)
    if not settings.quick_adapt and settings.cc_profile == _NSCC:
        chosen["disable_qa"] = True
    return chosen


_HANDLERS: Final[dict[int, Callable[[MrcQueuePair, MrcPacket, float], None]]] = {
    h.MrcOpcode.NACK: MrcQueuePair.on_nack,
    h.MrcOpcode.ACK: MrcQueuePair.on_ack,
    h.MrcOpcode.PROBE: MrcQueuePair.on_probe,
}
