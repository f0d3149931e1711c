"""A queue pair: its two halves, its EV set, and the wiring between them."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final

from mrclab.hosts.mrc.cc import CongestionController
from mrclab.hosts.mrc.evs import siblings
from mrclab.hosts.mrc.evs.ev import Denier, Ev, EvSet, shuffle
from mrclab.hosts.mrc.evs.evformat import uplink_of, value_of
from mrclab.hosts.mrc.evs.evprofile import MAX_EVS, ApiState, EvProfile, Mode
from mrclab.hosts.mrc.evs.probing import Prober
from mrclab.hosts.mrc.evs.selections import path_selection
from mrclab.hosts.mrc.packets import headers as h
from mrclab.hosts.mrc.packets.controlpackets import AckItem, ControlItem
from mrclab.hosts.mrc.packets.packet import MrcPacket
from mrclab.hosts.mrc.peer import HEADER_BYTES, Peer
from mrclab.hosts.mrc.requestor import MrcRequestor
from mrclab.hosts.mrc.responder import MrcResponder
from mrclab.hosts.mrc.settings import MrcQpSettings
from mrclab.hosts.mrc.stats import MrcQpStats
from mrclab.hosts.rdma import qp as rc
from mrclab.hosts.rdma.completion import CompletionQueue
from mrclab.hosts.rdma.errors import VerbsError
from mrclab.hosts.rdma.memory import Refusal
from mrclab.hosts.rdma.packets import wire
from mrclab.hosts.rdma.states import QpState
from mrclab.hosts.rdma.stats import reader
from mrclab.topo import srv6
from mrclab.topo.nodeconfig import EvProfileConfig

if TYPE_CHECKING:
    from mrclab.hosts.mrc.verbs import MrcVerbs

_RTS: Final = QpState.RTS
_RTR: Final = QpState.RTR
_SACK: Final = int(h.MrcOpcode.SACK)


class MrcQueuePair(
    rc.QueuePair["MrcVerbs", MrcQpSettings, MrcQpStats, CongestionController, MrcRequestor, MrcResponder]
):
    """One QP: its path set and what it tells its peer. `host` is the endpoint it lives in."""

    read_stats = reader(MrcQpStats)

    def __init__(
        self,
        host: MrcVerbs,
        qpn: int,
        peer: Peer,
        settings: MrcQpSettings,
        pd: int,
        send_cq: CompletionQueue,
        recv_cq: CompletionQueue,
        now: float,
        ev_profile: EvProfile | None = None,
    ) -> None:
        super().__init__(host, qpn, peer.text, pd, send_cq, recv_cq)
        self.peer = peer
        self.settings = settings
        self.stats = MrcQpStats()
        self.remote_wimm = settings.wimm
        self.awake = False  # in the endpoint's list of QPs that may have something to send
        self.pending = False  # in the list of those that wait for room in the window of their destination
        self.overhead = HEADER_BYTES if settings.timestamps else HEADER_BYTES - 4
        self.qpcc = peer.qpcc(settings, now, **_cc_parameters(settings))
        self.cc = self.qpcc.controller
        self.ev_profile = ev_profile
        self.cc_profile: int | None = None  # number of the profile made by Ctl, if it is one
        self._begin()

    # --- life -------------------------------------------------------------------------------------

    def ready_to_receive(self, peer: Mapping[str, int]) -> None:
        """RTR: the peer's QP number, first PSN, and what its responder takes."""
        super().ready_to_receive(peer)
        self.remote_wimm = min(self.settings.wimm, peer["wimm"])
        self.requestor.limit_window(peer["mpr"])

    def retune(self, settings: MrcQpSettings, peer: Mapping[str, int]) -> None:
        """Other attributes of the sending half, and of what the peer takes, before anything was sent (RTR to RTS)."""
        self.settings = settings
        self.requestor = MrcRequestor(self)
        self.remote_wimm = peer["wimm"]
        self.requestor.limit_window(peer["mpr"])

    def _begin(self) -> None:
        self.known_evs: EvSet | None = None
        self._paths_drawn = self._draw_paths()
        if self._paths_drawn is None:
            self.known_evs = self._new_evs()
        self.requestor = MrcRequestor(self)
        self.responder = MrcResponder(self)
        self.prober = Prober(self)
        if self.known_evs is not None:
            self.known_evs.fill()
            self._apply_denials(self.known_evs)
        self.sync_planes(self.host.now, "port", requeue=False)

    def close(self) -> None:
        """Nothing is outstanding any more, and nothing of it is said."""
        super().close()
        self.host.drop_control(self)

    def _halt(self) -> None:
        self.prober.stop()
        self.responder.stop()

    @property
    def backlog(self) -> int:
        """Bytes that are posted and not acknowledged."""
        return self.stats.posted_bytes - self.stats.acked_bytes

    @property
    def idle(self) -> bool:
        """True if there is nothing to send, now or when a window opens."""
        return not (self.requestor.unsent or self.requestor.lost or self.prober.tail_wanted or self.prober.queued)

    # --- EV set -----------------------------------------------------------------------------------

    @property
    def evs(self) -> EvSet:
        """The EV set. It is made when something is to be sent, or somebody asks: who only receives needs none."""
        found = self.known_evs
        return self._make_evs() if found is None else found

    def _make_evs(self) -> EvSet:
        """Make it of the paths that were drawn, and bring it in line with the ports."""
        self.known_evs = made = self._new_evs()
        self._paths_drawn = None
        made.fill()
        self.sync_planes(self.host.now, "port", requeue=False)
        return made

    def _draw_paths(self) -> array[int] | None:
        """The uplinks that make the set, plane after plane; None where the set has to be made with the QP.

        Drawn with the QP, so that what its host draws later does not hang on when the set is made.
        """
        settings, peer, rng = self.settings, self.peer, self.host.rng
        if self.ev_profile is not None or self.host.config.denylist or not settings.spray or settings.tell_siblings:
            return None
        count = settings.ev.ev_count
        self._check_count(count)
        drawn = array("H")
        if self._has_many_paths:
            drawn.extend([rng.choice(peer.uplinks(port.plane)) for port in self.host.config.ports])
            return drawn
        for port in self.host.config.ports:
            uplinks = list(peer.uplinks(port.plane))
            shuffle(uplinks, rng)
            drawn.extend(uplinks[:count])
        return drawn

    @property
    def _has_many_paths(self) -> bool:
        """True if the set is of few among many paths, which are drawn when they are first needed."""
        return all(2 * self.settings.ev.ev_count <= count for count in self._path_counts())

    def _new_evs(self) -> EvSet:
        made = self._draw_evs()
        config = self.host.config
        if any(port.rate is not None for port in config.ports):
            made.weigh({port.plane: config.weight(port) for port in config.ports})
        s = self.settings
        made.selection = path_selection(s.path_selection, self.host.rng, s.path_config, self._time, s.base_rtt)
        return made

    def _time(self) -> float:
        """The host's time, seconds."""
        return self.host.now

    def _draw_evs(self) -> EvSet:
        """The set of the EV profile where the QP has one, else paths drawn at random."""
        policy = self.settings.ev
        profile = self.ev_profile
        if profile is None:
            if self.settings.spray and self._has_many_paths:
                return self._evs_on_demand(policy)
            evs = self._random_evs(policy.ev_count)
            active = policy.active_per_plane
            if not self.settings.spray:
                plane = self.host.rng.choice(evs).plane
                evs, active = [ev for ev in evs if ev.plane == plane], 1
            return EvSet(evs, active, self._least_active(policy), self.host.rng, self._ev_changed)
        evs = self._profile_evs(profile)
        return EvSet(evs, profile.ev_count, profile.ev_min_active, self.host.rng, self._ev_changed)

    def _apply_denials(self, evs: EvSet) -> None:
        """Apply the controller's denials, of denylist or profile, to a set that was drawn again."""
        config, profile = self.host.config, self.ev_profile
        for ev in list(evs.by_value.values()):
            if config.denied(ev.plane, ev.uplink, self.peer.text):
                evs.deny(ev, Denier.DENYLIST)
            if profile is not None and profile.denies(ev.path.port, ev.api_value):
                evs.deny(ev)

    def _path_counts(self) -> list[int]:
        """Paths to the peer in each plane."""
        return [len(self.peer.uplinks(port.plane)) for port in self.host.config.ports]

    def _least_active(self, policy: EvProfileConfig) -> int:
        """The floor of EVs in use, of as many as this pair has: one for each plane inside a T0 group."""
        counts = self._path_counts()
        asked = policy.active_per_plane * len(counts)
        have = sum(min(policy.active_per_plane, count) for count in counts)
        return policy.ev_min_active * have // asked

    def _check_count(self, per_plane: int) -> None:
        found = sum(min(per_plane, count) for count in self._path_counts())
        if found > MAX_EVS:
            text = f"{per_plane} EVs per plane make {found}, but a QP has at most {MAX_EVS}; ask for fewer per plane"
            raise VerbsError("E2BIG", text)

    def _evs_on_demand(self, policy: EvProfileConfig) -> EvSet:
        """Few of many paths: each is drawn and made when it is first needed."""
        self._check_count(policy.ev_count)
        first = self._paths_drawn
        supplies = [
            _Drawn(self, port.plane, policy.ev_count, place * policy.ev_count, first[place] if first else 0)
            for place, port in enumerate(self.host.config.ports)
        ]
        active, least = policy.active_per_plane, policy.ev_min_active
        return EvSet((), active, least, self.host.rng, self._ev_changed, supplies, self._ev_made)

    def _ev_made(self, ev: Ev) -> None:
        """Apply the controller's denials to an EV that is created lazily."""
        config = self.host.config
        if config.denylist and config.denied(ev.plane, ev.uplink, self.peer.text):
            self.evs.deny(ev, Denier.DENYLIST)

    def _random_evs(self, per_plane: int) -> list[Ev]:
        """An equal number of paths per plane, drawn at random; the first ones become active, the others backup."""
        evs: list[Ev] = []
        self._check_count(per_plane)
        drawn, at = self._paths_drawn, 0
        for port in self.host.config.ports:
            uplinks = list(self.peer.uplinks(port.plane))
            if drawn is None:
                shuffle(uplinks, self.host.rng)
            else:
                count = min(per_plane, len(uplinks))
                uplinks = drawn[at : at + count].tolist()
                at += count
            evs += [
                Ev(self.peer, port.plane, up, srv6.ev_tag(len(evs) + n)) for n, up in enumerate(uplinks[:per_plane])
            ]
        return evs

    def _profile_evs(self, profile: EvProfile) -> list[Ev]:
        """The EVs that a profile holds, or for an AUTO one as many as it wants, an equal number per plane."""
        ports = {port.number: port.plane for port in self.host.config.ports}
        if profile.mode is Mode.AUTO:
            evs = self._random_evs(max(1, profile.ev_count // len(ports)))
        else:
            evs = []
            for entry in profile.entries:
                assert entry.value is not None
                plane = ports[entry.port]
                value = entry.expanded or entry.value
                uplink = uplink_of(profile.format, value, plane, self.peer.uplinks(plane), profile.hashed)
                evs.append(Ev(self.peer, plane, uplink, srv6.ev_tag(len(evs))))
        for ev, given in zip_longest(evs, profile.entries):
            ev.api_value = given.value if given else value_of(profile.format, ev.value, ev.path.destination)
        return evs

    def _ev_changed(self, ev: Ev, old: str, new: str, reason: str) -> None:
        if new == "ASSUMED_BAD":
            self.prober.watch(ev, self.host.now, reason == siblings.TOLD)
        elif old == "ASSUMED_BAD":
            self.prober.unwatch(ev)
        if self.settings.tell_siblings:
            siblings.changed(self, ev, old, new, reason)
        shown = _EVENT_WORDS.get(new)
        if "DENIED" in {old, new}:
            self.requestor.watch_paths(self.host.now)
        if self.ev_profile is not None and shown is not None and shown is not _EVENT_WORDS.get(old):
            self.ev_profile.changed(ev.path.port, ev.api_value, shown)
        if {old, new} == {"GOOD", "SKIP"}:
            return  # counted per EV (marked); a record each would drown the rest
        self.log("ev.state", ev=ev.value, plane=ev.plane, uplink=ev.uplink, old=old, new=new, reason=reason)

    def sync_planes(self, now: float, reason: str, requeue: bool = True) -> None:
        """Bring the EV set in line with the ports here and at the peer."""
        for number, plane in self.known_evs.planes.items() if self.known_evs is not None else ():
            up = self.host.plane_up(number) and self.peer.plane_up(number)
            if up and not plane.up:
                self.evs.plane_up(number, reason, shadow=self.settings.ack_timeout)
            elif not up and plane.up:
                self.evs.plane_down(number, now, reason)
                if requeue:
                    self.requestor.requeue_plane(number, now)
        self.requestor.watch_paths(now)
        self.wake()

    # --- services for the halves ------------------------------------------------------------------

    def wake(self) -> None:
        """There may be something to send."""
        if self.awake:
            self.host.on_work()
        else:
            self.host.wake(self)

    def urgent(self) -> None:
        """A retransmission or a probe waits: it goes before new data of any QP."""
        self.host.urgent = True
        self.host.wake(self)

    def send_control(self, item: ControlItem, port: int | None = None, besides: int | None = None) -> None:
        """Queue SACK, NACK or ACK for this port; if none is named for the next one, other than `besides`."""
        if not self.orphaned:
            self.host.send_control(item, self.peer, port, besides)

    def refuse(self, packet: MrcPacket, refusal: Refusal) -> None:
        """A write cannot be placed: tell the peer, and stop."""
        self.stats.access_errors += 1
        self.send_control(AckItem(self, refusal.syndrome, packet.psn, self.responder.msn))
        self.fail("REM_ACCESS_ERR", refusal.reason, at_fault=False)

    # --- packets ----------------------------------------------------------------------------------

    def on_packet(self, packet: MrcPacket, now: float) -> int:
        """Handle a packet for this QP; return the number of new payload bytes placed."""
        if h.FIRST_WRITE <= packet.op <= h.LAST_WRITE:
            if self.state is _RTS or self.state is _RTR:
                return self.responder.on_write(packet, now)
            if self.state is QpState.ERROR and not packet.trimmed:
                self.send_control(AckItem(self, wire.Syndrome.NAK_REMOTE_OPERATION, packet.psn, self.responder.msn))
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
        """A SACK for the sending half."""
        if self.state is not _RTS:
            return
        sack = packet.sack()
        sent_at = None
        if sack.probe_reply:
            sent_at = self.prober.answered(sack.offset, sack.mark, now)
        else:
            ev = self.evs.by_value.get(sack.entropy)
            if ev is None:
                self.peer.use_reverse(sack.entropy)
            else:
                self.peer.take_reverse(ev.plane, ev.uplink)
        self.requestor.feedback.on_sack(sack, now, sent_at)

    def on_nack(self, packet: MrcPacket, now: float) -> None:
        """A NACK for the sending half."""
        if self.state is not _RTS:
            return
        nack = h.Nack.unpack(packet.view, packet.body_at)
        if nack.reason == h.Reason.UNEXP_EVENT:
            self._ended_by_peer(nack.psn, "REM_OP_ERR", "the peer reported an unexpected event")
        else:
            self.requestor.feedback.on_nack(nack, now)

    def on_ack(self, packet: MrcPacket, now: float) -> None:
        """A Transport ACK or NAK."""
        if self.state is not _RTS:
            return
        syndrome = wire.AETH.unpack_from(packet.view, packet.body_at)[0] >> 24
        if syndrome >> 5 == 0:
            self.requestor.feedback.on_ack(packet.psn, now)
        else:
            self._ended_by_peer(packet.psn, *wire.refusal(syndrome))

    def _ended_by_peer(self, psn: int, status: str, reason: str) -> None:
        """The peer takes no more. Where nothing of what it names is outstanding, an earlier connection was meant."""
        if self.requestor.is_outstanding(psn):
            self.fail(status, reason)
        else:
            self.stats.bogus_control += 1

    def on_probe(self, packet: MrcPacket, now: float) -> None:
        """A reliability probe for the receiving half."""
        if self.state in {QpState.RTR, QpState.RTS}:
            self.responder.on_probe(packet, h.Probe.unpack(packet.view, packet.body_at), now)

    # --- views ------------------------------------------------------------------------------------

    def pulse(self) -> tuple[Any, ...]:
        """With the EVs, whose counters move only where the QP's do."""
        evs = self.known_evs
        told = (0, 0, 0) if evs is None else (evs.changes, evs.skips_ignored, evs.floor_hits)
        return (*super().pulse(), *told)

    def snapshot(self) -> dict[str, Any]:
        """Counters and state for a sample."""
        evs = self.known_evs
        return {
            **super().snapshot(),
            "skips_ignored": 0 if evs is None else evs.skips_ignored,
            "floor_hits": 0 if evs is None else evs.floor_hits,
        }

    def path_snapshots(self) -> list[dict[str, Any]]:
        """One entry per EV that is made."""
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


_NSCC: Final = "uet-1.0-nscc"


def _cc_parameters(settings: MrcQpSettings) -> dict[str, Any]:
    """Parameters of the congestion controller: those of the profile, and what the QP's own switches say."""
    chosen = dict(settings.cc_config)
    if not settings.quick_adapt and settings.cc_profile == _NSCC:
        chosen["disable_qa"] = True
    return chosen


_HANDLERS: Final[dict[int, Callable[[MrcQueuePair, MrcPacket, float], None]]] = {
    h.MrcOpcode.NACK: MrcQueuePair.on_nack,
    h.MrcOpcode.ACK: MrcQueuePair.on_ack,
    h.MrcOpcode.PROBE: MrcQueuePair.on_probe,
}


class _Drawn:
    """Paths of one plane to a QP's peer, in the order in which they are drawn: none twice."""

    __slots__ = ("_begin", "_first", "_qp", "_taken", "left", "plane")

    def __init__(self, qp: MrcQueuePair, plane: int, count: int, first: int, begin: int) -> None:
        self.plane = plane
        self.left = count
        self._qp = qp
        self._first = first  # index of the first EV in the QP's set
        self._begin = begin  # the uplink that was drawn with the QP; 0: none was
        self._taken: list[int] = []

    def make(self) -> Ev:
        """The next EV."""
        qp, taken = self._qp, self._taken
        uplinks = qp.peer.uplinks(self.plane)
        uplink = self._begin if self._begin and not taken else qp.host.rng.choice(uplinks)
        while uplink in taken:
            uplink = qp.host.rng.choice(uplinks)
        taken.append(uplink)
        self.left -= 1
        return Ev(qp.peer, self.plane, uplink, srv6.ev_tag(self._first + len(taken) - 1))


_EVENT_WORDS: Final = {
    "GOOD": ApiState.GOOD,
    "STANDBY": ApiState.GOOD,
    "SKIP": ApiState.GOOD,
    "PORT_DOWN": ApiState.GOOD,
    "ASSUMED_BAD": ApiState.ASSUMED_BAD,
}
