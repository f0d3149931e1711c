"""One host's transport, sans I/O: frames and the time go in, frames, history records and the next deadline come out.

The NIC calls `next_frame` for a port that has transmit space; only then are QP and EV chosen. Order on a port:
control packets, probes, retransmissions, new data; QPs take turns.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from math import inf
from typing import Any, ClassVar, Final, cast

from typing_extensions import override

from mrclab.hosts.mrc.cc import CONTROLS
from mrclab.hosts.mrc.cc.rccc import Rccc
from mrclab.hosts.mrc.ctl import Ctl
from mrclab.hosts.mrc.endpoint_ops import EndpointOps, ignore_result
from mrclab.hosts.mrc.evs.ev import Denier
from mrclab.hosts.mrc.evs.evprofile import EvProfile, ProfileState
from mrclab.hosts.mrc.evs.evset import EvSet
from mrclab.hosts.mrc.evs.plane import pick
from mrclab.hosts.mrc.packets import headers as h
from mrclab.hosts.mrc.packets.controlqueue import ControlQueue, MrcPort
from mrclab.hosts.mrc.packets.packet import WIRE, MrcCodec
from mrclab.hosts.mrc.peers import Peer, PeerTable, plane_mask
from mrclab.hosts.mrc.qp import MrcQueuePair
from mrclab.hosts.mrc.receivelimits import receive_limits
from mrclab.hosts.mrc.recovery.credits import Credits
from mrclab.hosts.mrc.recovery.rnr import RNR_SPACING
from mrclab.hosts.mrc.scheduling.rotation import SendScheduler
from mrclab.hosts.mrc.settings import qp_settings
from mrclab.hosts.rdma import endpoint as rc
from mrclab.hosts.rdma.errors import DiscardError, VerbsError
from mrclab.hosts.rdma.packets.icrc import Verifier
from mrclab.hosts.rdma.packets.path import Frame
from mrclab.hosts.rdma.qp import QpInit
from mrclab.topo import srv6
from mrclab.topo.config.nodeconfig import NodeConfig
from mrclab.topo.economy import Secrets

_REVERSE_PROBE_RTTS: Final = 8.0  # until a probe for a reverse path has failed
_PROBE_BYTES: Final = 150  # of a probe on a link, with all headers, preamble and gap


class MrcEndpoint(rc.Endpoint[MrcPort, MrcQueuePair]):
    """The transport of one host."""

    transport_name: ClassVar[str] = "MRC"
    remote_attributes: ClassVar[tuple[str, ...]] = ("qpn", "psn", "mpr", "wimm")

    def __init__(
        self,
        config: NodeConfig,
        rng: random.Random,
        log: Callable[[dict[str, Any]], object],
        secrets: Secrets | None = None,
        codec: MrcCodec = WIRE,
    ) -> None:
        super().__init__(config, rng, log, secrets, _ports(config, codec))
        # by number: an index into a list is faster than a key
        by_number = self.ports.by_number
        self._ports = [by_number.get(number) for number in range(1 + max(by_number, default=0))]
        self.peers = PeerTable(config, rng, codec)
        self.ctl = Ctl(self)
        self.limits = receive_limits(config)
        self.scheduler = SendScheduler(self)
        self.control = ControlQueue(self, by_number)
        self.ops = EndpointOps(self)
        self.credits = Credits(self)
        self._rnr_free_at = 0.0  # when the next refused packet of any QP may be sent because its RNR timer expired

    # --- QPs --------------------------------------------------------------------------------------

    @override
    def query_device(self) -> dict[str, Any]:
        return {
            "capabilities": ["TRIM_NACK", "DYNAMIC_MPR", "SVC_TIME"],
            "cc_profiles": list(CONTROLS.profiles),
            "ev_profiles": [profile.name for profile in self.config.ev_profiles],
        }

    @override
    def make_qp(self, init: QpInit, peer: str, attributes: dict[str, Any], now: float) -> MrcQueuePair:
        """Make a QP. `attributes` are those of QpSettings: mpr, wimm, timeout_exponent, …

        `ev_profile` is a name of the node config or the number of a profile made by Ctl; so is `cc_profile`.
        """
        entry = self.peers.for_qp(peer)
        self.verbs.check_remote(peer, entry.address)
        cc_profile = attributes.get("cc_profile")
        ev_profile = self._replace_numbers(attributes)
        if attributes:
            settings = qp_settings(self.config, entry.template, **attributes)
        else:
            settings = self.peers.own.usual_settings(self.config, entry.template)
        entry = self.peers.with_qps.get(entry.address_bytes, entry)
        qp = MrcQueuePair(self, init, entry, settings, now, ev_profile)
        if ev_profile is not None:
            ev_profile.users += 1
        qp.cc_profile = cc_profile if isinstance(cc_profile, int) else None
        self.peers.enter(entry)
        return qp

    def _replace_numbers(self, attributes: dict[str, Any]) -> EvProfile | None:
        """Replace the numbers of Ctl's profiles in `attributes` by their settings; return the EV profile."""
        ctl = self.ctl
        profile: EvProfile | None = None
        if isinstance(attributes.get("ev_profile"), int):
            profile = ctl.ev_profile(attributes.pop("ev_profile"))
            if profile.state is not ProfileState.ONLINE:
                raise VerbsError(
                    "EINVAL", f"EV profile {profile.number} is {profile.state.name}; bring it ONLINE first"
                )
        if isinstance(attributes.get("cc_profile"), int):
            attributes["cc_profile"], attributes["cc_config"] = ctl.cc_profile(attributes["cc_profile"])
        elif "cc_profile" in attributes:  # settings of the node config are those of its own profile
            attributes.setdefault("cc_config", {})
        return profile

    @override
    def qp_connected(self, qp: MrcQueuePair, now: float) -> None:
        """Notify the peer of ports that are down here, and query it about ports that it reported down."""
        self.query_ports(qp.peer, now, at_once=True)
        if qp.settings.port_status_update and self.port_mask != self.peers.own.planes:
            self.ops.announce_ports(qp.peer, now)

    @override
    def qp_destroyed(self, qp: MrcQueuePair) -> None:
        peer = qp.peer
        if qp.ev_profile is not None:
            qp.ev_profile.users -= 1
        self.scheduler.remove(qp)
        self.peers.leave(peer)
        if not peer.qps:
            self.ops.forget(peer)
            self.credits.forget(peer)
            self.control.drop_peer(peer)

    # --- packets in -------------------------------------------------------------------------------

    @override
    def receive(self, port: int, frame: Any, now: float) -> None:
        entry = self._ports[port]
        assert entry is not None
        try:
            packet = entry.parser.parse(frame)
            qp = self._qps.get(packet.dqpn)
            if qp is None or packet.source != qp.peer.address_bytes:
                if packet.dqpn != h.ENDPOINT_QPN:
                    raise DiscardError("no_qp")
                self.ops.on_packet(packet, now)
                return
            placed = qp.on_packet(packet, now)
            if placed:
                entry.placed_bytes += placed
                qp.peer.data_at[entry.place] = now
                if now - qp.peer.reverse_probe_at >= qp.settings.base_rtt:
                    self._probe_reverse(qp, now)
        except DiscardError as discard:
            entry.counters[str(discard)] += 1
        except struct.error:
            entry.counters["malformed"] += 1

    def _probe_reverse(self, qp: MrcQueuePair, now: float) -> None:
        """Learn good reverse paths by one EV probe per RTT, for a QP that receives but sends nothing.

        The probe uses the control class, as the packets that it tests for: in the data class it would count as data.
        """
        peer = qp.peer
        rtt = qp.settings.base_rtt
        requestor = qp.known_requestor
        if requestor is not None and now - requestor.last_sent < rtt:
            return
        peer.reverse_probe_at = now
        port = pick(self.control.ports, self.rng)
        uplinks = peer.allowed.get(port.plane)
        if uplinks and port.reaches(peer):
            path = peer.control_path(port.plane, pick(uplinks, self.rng))
            self.ops.probe(peer, path, _REVERSE_PROBE_RTTS * rtt, ignore_result, now, control=True)

    # --- packets out ------------------------------------------------------------------------------

    @override
    def has_work(self, port: int, now: float) -> bool:
        """Return True if next_frame for this port may find something; also if only its plane's turn prevents it."""
        entry = self._ports[port]
        if entry is None or not entry.up:
            return False
        return bool(entry.control) or self.scheduler.runnable()

    @override
    def next_frame(self, port: int, now: float) -> Frame | None:
        entry = self._ports[port]
        if entry is None or not entry.up:
            return None
        if entry.control:
            return entry.control_frame(now)
        scheduler = self.scheduler
        if scheduler.urgent:
            frame = scheduler.urgent_frame(entry.plane, now)
            if frame is not None:
                return frame
        return scheduler.data_frame(entry.plane, now)

    def probe_slot(self, plane: int, now: float) -> float:
        """Reserve the time from which a probe of a retired path may be sent in a plane."""
        link = self.config.link
        seconds = 1 / link.rate_pps if link.rate is None else 8 * _PROBE_BYTES / link.rate
        return self.ports.by_plane[plane].probe_slot(seconds, now)

    def rnr_slot(self, now: float) -> float:
        """Reserve a time among all QPs whose RNR timer expired; `now` where no other is before it."""
        slot = max(now, self._rnr_free_at)
        self._rnr_free_at = slot + RNR_SPACING / (self.config.link.rate_pps * len(self.config.ports))
        return slot

    # --- ports ------------------------------------------------------------------------------------

    @property
    def port_mask(self) -> int:
        """Return the port mask: bit n−1 is set if the port in plane n is up."""
        mask = 0
        for port in self.control.ports:
            if port.up:
                mask |= 1 << port.plane - 1
        return mask

    @property
    def reported_mask(self) -> int:
        """Return the port mask of responses: all ports if peers are not to be notified of failed ones."""
        return self.port_mask if self.config.transport.port_status_update else plane_mask(self.config)

    @override
    def _port_changed(self, port: MrcPort, now: float) -> None:
        """A port went down or came up: QPs leave it after their remap delay, and return at once."""
        qps = self._qps.values()
        if port.up:
            self.control.leave_dead_ports()
            self._remap(None, now)
        else:
            self.control.leave(port)
            self.on_work()
            for delay in {qp.settings.remap_delay for qp in qps}:
                self._remap(delay, now)
        notified = dict.fromkeys(qp.peer.address_bytes for qp in qps if qp.settings.port_status_update)
        for address in notified:
            self.ops.announce_ports(self.peers.with_qps[address], now)
        self.on_work()

    def _remap(self, delay: float | None, now: float) -> None:
        """Update the QPs with this remap delay (None: all) to the ports' state, after the delay."""

        def sync(at: float) -> None:
            for qp in self._qps.values():
                if delay in {None, qp.settings.remap_delay}:
                    qp.sync_planes(at, "port")

        if delay:
            self.timers.timer(sync).arm(now + delay)
        else:
            sync(now)

    # --- peers ------------------------------------------------------------------------------------

    def has_data_for(self, peer: Peer) -> bool:
        """Return True if a QP to this peer has work that is not completed."""
        return any(qp.peer is peer and qp.outstanding for qp in self._qps.values())

    def peer_ports(self, peer: Peer, mask: int, now: float, sent_at: float = inf) -> None:
        """A peer reported which of its ports are up, at `sent_at` or later; ignored if a newer report has come."""
        if sent_at < peer.ports_at:
            return
        peer.ports_at = now
        if mask == peer.port_mask:
            return
        peer.port_mask = mask
        self.log({"kind": "peer.ports", "peer": peer.text, "mask": mask})
        for qp in self._qps.values():
            if qp.peer is peer:
                qp.sync_planes(now, "peer-port")
        self.query_ports(peer, now)

    def query_ports(self, peer: Peer, now: float, at_once: bool = False) -> None:
        """Query a peer about its ports that it reported down, if there are any and a QP leads there."""
        if peer.ports_down and peer.qps:
            self.ops.query_ports(peer, now, at_once)
        else:
            self.ops.stop_query(peer)

    def request_credit(self, peer: Peer, now: float) -> None:
        """Request credit from a peer, where its window needs more."""
        if peer.credit is not None:
            self.credits.request(peer, cast(Rccc, peer.credit.controller), now)

    # --- operation --------------------------------------------------------------------------------

    @override
    def check_progress(self, now: float) -> None:
        for qp in self._qps.values():
            if qp.known_requestor is not None:
                qp.known_requestor.check_progress(now)

    @override
    def update_config(self, config: NodeConfig, now: float) -> None:
        """Apply a new node config: its denylist at once, the rest to QPs made from now on."""
        qps = self._qps.values()
        if config.denylist:
            for qp in qps:
                qp.evs.fill(now)  # denied EVs are replaced as they would be in a set that is in use
        self.config = config
        self.peers.use_config(config)
        for qp in qps:
            if qp.known_evs is not None:
                _apply_denylist(config, qp.known_evs, qp.peer.text, now)
            qp.wake()


def _ports(config: NodeConfig, codec: MrcCodec) -> list[MrcPort]:
    address = srv6.to_bytes(srv6.from_text(config.host.address))
    verifier = Verifier(address)
    ports: list[MrcPort] = []
    for port in config.ports:
        # leading 48 bits of the outer destination of packets for this port
        route = srv6.nic_route(port.plane, config.host.downlink).to_bytes(6, "big")
        parser = codec.parser(port.number, route, address, verifier)
        ports.append(MrcPort(port.number, port.plane, parser, len(ports)))
    return ports


def _apply_denylist(config: NodeConfig, evs: EvSet, peer: str, now: float) -> None:
    """Deny and allow EVs to a peer as the denylist says; EVs that replace denied ones are new."""
    for ev in list(evs.by_value.values()):
        if config.denied(ev.plane, ev.uplink, peer):
            evs.deny(ev, now, Denier.DENYLIST)
        else:
            evs.allow(ev, now, Denier.DENYLIST)
