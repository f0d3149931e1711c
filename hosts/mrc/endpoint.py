"""One host's transport, sans I/O: frames and the time go in, frames, history records and the next deadline come out.

The NIC calls `next_frame` for a port that has transmit space; only then are QP and EV chosen. Order on a port:
control packets, probes, retransmissions, new data; QPs take turns.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from math import inf
from typing import Any, Final, cast

from mrclab.hosts.mrc.cc import Qpcc
from mrclab.hosts.mrc.cc.rccc import Rccc
from mrclab.hosts.mrc.endpoint_ops import EndpointOps, OpItem, ProbeResult
from mrclab.hosts.mrc.evs.ev import Denier, EvSet
from mrclab.hosts.mrc.packets import headers as h
from mrclab.hosts.mrc.packets.codec import WIRE, MrcCodec
from mrclab.hosts.mrc.packets.controlpackets import ControlItem
from mrclab.hosts.mrc.packets.outbox import MrcPort, Outbox
from mrclab.hosts.mrc.packets.packet import MrcPacket
from mrclab.hosts.mrc.peer import OwnSide, Peer, plane_mask
from mrclab.hosts.mrc.qp import MrcQueuePair
from mrclab.hosts.mrc.recovery.credits import Credits
from mrclab.hosts.mrc.recovery.intake import intake_of
from mrclab.hosts.mrc.requestor import SendState
from mrclab.hosts.mrc.scheduling import QpScheduler, scheduler
from mrclab.hosts.mrc.verbs import MrcVerbs
from mrclab.hosts.rdma.errors import DiscardError, VerbsError
from mrclab.hosts.rdma.keys import Secrets
from mrclab.hosts.rdma.packets.icrc import Verifier
from mrclab.hosts.rdma.packets.path import Frame
from mrclab.topo import srv6
from mrclab.topo.nodeconfig import NodeConfig

_STRANGERS: Final = 256  # peers without a QP that are remembered
_REVERSE_PROBE_RTTS: Final = 8.0  # until a probe for a reverse path is given up
_PROBE_BYTES: Final = 150  # of a probe on a link, with all headers, preamble and gap
_PROBE_SHARE: Final = 0.1  # of a link, that probes of retired paths take at most

_READY: Final = SendState.READY
_RESTS: Final = SendState.IDLE


def _ignore(result: ProbeResult) -> None:
    """The reverse path is set where the answer arrives."""
    del result


class MrcEndpoint(MrcVerbs):
    """The transport of one host."""

    def __init__(
        self,
        config: NodeConfig,
        rng: random.Random,
        log: Callable[[dict[str, Any]], None],
        secrets: Secrets | None = None,
        codec: MrcCodec = WIRE,
    ) -> None:
        self.codec = codec
        self.own = OwnSide(config)
        self._address = srv6.to_bytes(self.own.address)
        verifier = Verifier(self._address)
        self._ports: dict[int, MrcPort] = {}
        for port in config.ports:
            # leading 48 bits of the outer destination of what is for this port
            route = srv6.nic_route(port.plane, config.host.downlink).to_bytes(6, "big")
            parser = codec.parser(port.number, route, self._address, verifier)
            self._ports[port.number] = MrcPort(port.number, port.plane, parser, len(self._ports))
        # by number: a place in a list is found sooner than a key
        self._by_number: list[MrcPort | None] = [self._ports.get(n) for n in range(1 + max(self._ports, default=0))]
        self.outbox = Outbox(self._ports)
        self._by_plane = {port.plane: port for port in self._ports.values()}
        self._active: list[MrcQueuePair] = []  # in turn; few, as those that only wait are not among them
        self.intake = intake_of(config)
        self._scheduler = scheduler(config.transport.scheduler, config.transport.scheduler_config)
        self.urgent = False  # a QP may have a retransmission or a probe to send
        super().__init__(config, rng, log, secrets)
        self.ops = EndpointOps(self)
        self.credits = Credits(self)
        self._strangers: dict[bytes, Peer] = {}  # peers without a QP that asked or were asked something

    def probe_slot(self, plane: int, now: float) -> float:
        """Reserve the time from which a probe of a retired path may go: all together take a tenth of a link at most.

        Many QPs with many EVs on a slow link would else fill it with probes, each too late to count, for ever.
        """
        port = self._by_plane[plane]
        link = self.config.link
        seconds = 1 / link.rate_pps if link.rate is None else 8 * _PROBE_BYTES / link.rate
        slot = max(now, port.probes_from)
        port.probes_from = slot + seconds / _PROBE_SHARE
        return slot

    # --- packets in -------------------------------------------------------------------------------

    def receive(self, port: int, frame: Any, now: float) -> None:
        """Take a whole Ethernet frame. No reference to it is kept."""
        self.now = now
        entry = self._by_number[port]
        assert entry is not None
        try:
            packet = entry.parser.parse(frame)
            qp = self.qps.get(packet.dqpn)
            if qp is None or packet.source != qp.peer.address_bytes:
                self._dispatch_other(packet, now)
                return
            placed = qp.on_packet(packet, now)
            if placed:
                entry.placed_bytes += placed
                qp.peer.heard[entry.place] = now
                if now - qp.peer.reverse_probe_at >= qp.settings.base_rtt:
                    self._probe_reverse(qp, now)
        except DiscardError as discard:
            entry.counters[str(discard)] += 1
        except struct.error:
            entry.counters["malformed"] += 1

    def _dispatch_other(self, packet: MrcPacket, now: float) -> None:
        if packet.dqpn != h.ENDPOINT_QPN:
            raise DiscardError("no_qp")
        self.ops.on_packet(packet, now)

    def _probe_reverse(self, qp: MrcQueuePair, now: float) -> None:
        """A QP that receives but sends nothing learns of good paths for its control packets by one EV probe per RTT.

        It goes where those go, in the control class: a queue that counts packets would give it the place of data.
        """
        peer = qp.peer
        rtt = qp.settings.base_rtt
        if now - qp.requestor.last_sent < rtt:
            return
        peer.reverse_probe_at = now
        port = self.rng.choice(list(self._ports.values()))
        uplinks = peer.allowed.get(port.plane)
        if uplinks and port.reaches(peer):
            path = peer.control_path(port.plane, self.rng.choice(uplinks))
            self.ops.probe(peer, path, _REVERSE_PROBE_RTTS * rtt, _ignore, now, control=True)

    # --- packets out ------------------------------------------------------------------------------

    def has_work(self, port: int, now: float) -> bool:
        """Return True if next_frame for this port may find something; also if only its plane's turn prevents it."""
        entry = self._by_number[port]
        if entry is None or not entry.up:
            return False
        if entry.control:
            return True
        while self._active:
            if not self._set_aside(self._active[0]):
                return True
        return False

    def next_frame(self, port: int, now: float) -> Frame | None:
        """The frame that this port should send now, or None."""
        self.now = now
        entry = self._by_number[port]
        if entry is None or not entry.up:
            return None
        if entry.control:
            return entry.control_frame(now)
        plane = entry.plane
        if self.urgent:
            frame = self._urgent_frame(plane, now)
            if frame is not None:
                return frame
        active = self._active
        if self._scheduler is not None and len(active) > 1:
            return self._scheduled_frame(self._scheduler, plane, now)
        left = len(active)
        while left and active:
            left -= 1
            qp = active[0]
            frame = qp.requestor.new_frame(plane, now)
            if frame is None and self._set_aside(qp):
                continue
            if len(active) > 1:
                active.append(active.pop(0))
            if qp.qpcc.pending and self.room(qp.qpcc):
                left += 1
            if frame is not None:
                return frame
        return None

    def _scheduled_frame(self, order: QpScheduler, plane: int, now: float) -> Frame | None:
        """New data of the QP that the scheduler chooses, among those that can send in this plane."""
        waiting = list(self._active)
        while waiting:
            qp = waiting.pop(order.choose(waiting))
            frame = qp.requestor.new_frame(plane, now)
            if frame is not None:
                if qp.qpcc.pending:
                    self.room(qp.qpcc)
                return frame
            self._active.remove(qp)
            self._active.insert(0, qp)
            self._set_aside(qp)
        return None

    def _set_aside(self, qp: MrcQueuePair) -> bool:
        """Take the first QP off the rotation if its windows let it send nothing; False where they do.

        It comes back with news of its own, or when there is room in the window of its destination. So nobody looks
        at QPs that wait, however many there are.
        """
        standing = qp.requestor.standing()
        if standing is _READY:
            return False
        del self._active[0]
        qp.awake = False
        if standing is _RESTS:
            if qp.qpcc.pending:
                self.room(qp.qpcc)
        elif not qp.pending:
            qp.pending = True
            qp.qpcc.wait(qp)
        return True

    def room(self, qpcc: Qpcc) -> bool:
        """There may be room in a window: the QP that has waited longest has a try, and if it sends the next one."""
        pending = qpcc.pending
        while pending and qpcc.controller.allows(0):
            qp = pending.popleft()
            qp.pending = False
            if not qp.awake and not qp.idle:
                self._rouse(qp, first=True)
                return True
        return False

    def _rouse(self, qp: MrcQueuePair, first: bool) -> None:
        """Into the rotation."""
        qp.awake = True
        if first:
            self._active.insert(0, qp)
        else:
            self._active.append(qp)
        if qp.requestor.lost or qp.prober.waiting:
            self.urgent = True
        self.on_work()

    def _urgent_frame(self, plane: int, now: float) -> Frame | None:
        """A probe or a retransmission; where no QP has any, `urgent` is over."""
        self.urgent = False
        for qp in self._active:
            if not (qp.requestor.lost or qp.prober.waiting):
                continue
            self.urgent = True
            if qp.prober.wants(plane):
                frame = qp.prober.frame(plane, now)
                if frame is not None:
                    return frame
            if qp.requestor.has_lost():
                frame = qp.requestor.lost_frame(plane, now)
                if frame is not None:
                    return frame
        return None

    def wake(self, qp: MrcQueuePair) -> None:
        """The QP may have something to send."""
        if not qp.awake and not qp.idle:
            self._rouse(qp, first=False)
        else:
            self.on_work()

    def send_control(
        self, item: ControlItem | OpItem, peer: Peer, port: int | None = None, besides: int | None = None
    ) -> None:
        """Queue a control packet; see Outbox."""
        self.outbox.send(item, peer, port, besides)
        self.on_work()

    def ask_credit(self, peer: Peer, now: float) -> None:
        """Ask a peer for credit, where its window wants more."""
        if peer.credit is not None:
            self.credits.ask(peer, cast(Rccc, peer.credit.controller), now)

    def was_trimmed(self, peer: Peer, size: int) -> None:
        """A packet of a peer came without its payload."""
        self.credits.on_trimmed(peer, size, self.now)

    def drop_control(self, qp: MrcQueuePair) -> None:
        """Send nothing that a QP had to say."""
        self.outbox.drop_qp(qp)

    # --- ports ------------------------------------------------------------------------------------

    def plane_up(self, plane: int) -> bool:
        """Return True if the local port of a plane is up."""
        return self._by_plane[plane].up

    def plane_of(self, port: int) -> int:
        """The plane of a port."""
        return self._ports[port].plane

    def has_data_for(self, peer: Peer) -> bool:
        """Return True if a QP to this peer has work that is not completed."""
        return any(qp.peer is peer and qp.requestor.incomplete for qp in self.qps.values())

    @property
    def port_mask(self) -> int:
        """Bit n−1: the port in plane n is up."""
        return sum(1 << port.plane - 1 for port in self._ports.values() if port.up)

    @property
    def told_mask(self) -> int:
        """The port mask that answers carry: all ports where peers are not to be told of those that are down."""
        return self.port_mask if self.config.transport.port_status_update else plane_mask(self.config)

    def _port_changed(self, entry: MrcPort, now: float) -> None:
        """QPs leave a dead port after their remap delay, and return at once."""
        if not entry.up:
            self.outbox.leave(entry)
            self.on_work()
        else:
            self.outbox.leave_dead_ports()
        delays = {qp.settings.remap_delay for qp in self.qps.values()} if not entry.up else {0.0}
        for delay in delays:
            self._remap(delay if not entry.up else None, now)
        told = dict.fromkeys(qp.peer.address_bytes for qp in self.qps.values() if qp.settings.port_status_update)
        for address in told:
            self.ops.announce_ports(self.peers[address], now)

    def _remap(self, delay: float | None, now: float) -> None:
        """Bring the QPs with this remap delay (None: all) in line with the ports, after it."""

        def sync(at: float) -> None:
            for qp in self.qps.values():
                if delay in {None, qp.settings.remap_delay}:
                    qp.sync_planes(at, "port")

        if delay:
            self.timers.timer(sync).arm(now + delay)
        else:
            sync(now)

    def peer(self, address: str) -> Peer:
        """Return the peer with this inner address; EINVAL if the node config has no template for it."""
        made = Peer(self.config, address, self.rng, self.codec, self.own)
        return self.known_peer(made.address_bytes) or made

    def known_peer(self, address: bytes) -> Peer | None:
        """A peer by address, for endpoint packets: they need no QP. None if the node config does not know it."""
        found = self.peers.get(address) or self._strangers.get(address)
        if found is None:
            try:
                found = Peer(self.config, srv6.text(srv6.from_bytes(address)), self.rng, self.codec, self.own)
            except VerbsError:
                return None
            if len(self._strangers) >= _STRANGERS:
                self._strangers.clear()
            self._strangers[address] = found
        return found

    def peer_ports(self, peer: Peer, mask: int, now: float, said_at: float = inf) -> None:
        """A peer told which of its ports are up, at `said_at` or later; no news if something came in since."""
        if said_at < peer.ports_at:
            return
        peer.ports_at = now
        if mask == peer.port_mask:
            return
        peer.port_mask = mask
        self.log({"kind": "peer.ports", "peer": peer.text, "mask": mask})
        for qp in self.qps.values():
            if qp.peer is peer:
                qp.sync_planes(now, "peer-port")
        self.ask_ports(peer, now)

    def ask_ports(self, peer: Peer, now: float, at_once: bool = False) -> None:
        """Ask a peer about the ports that it reported down, where there are any and a QP leads there."""
        if peer.ports_down and peer.qps:
            self.ops.ask_ports(peer, now, at_once)
        else:
            self.ops.ask_no_more(peer)

    def check_progress(self, now: float) -> None:
        """Report QPs that have made no progress for long, and those that go on again."""
        self.now = now
        for qp in self.qps.values():
            qp.requestor.check_progress(now)

    def connected(self, qp: MrcQueuePair) -> None:
        """A peer that has not heard of a port that is down should, and one that reported some down is asked anew."""
        self.ask_ports(qp.peer, self.now, at_once=True)
        if qp.settings.port_status_update and self.port_mask != plane_mask(self.config):
            self.ops.announce_ports(qp.peer, self.now)

    def forget(self, qp: MrcQueuePair) -> None:
        """A QP is gone: nothing of it may go out any more."""
        if qp.awake:
            self._active.remove(qp)
            qp.awake = False
        if qp.pending:
            qp.qpcc.pending.remove(qp)
            qp.pending = False
        if not qp.peer.qps:
            self.ops.forget(qp.peer)
            self.credits.forget(qp.peer)
            self.outbox.drop_peer(qp.peer)

    # --- the controller's word --------------------------------------------------------------------

    def update_config(self, config: NodeConfig, now: float) -> None:
        """A new node config: its denylist counts at once, the rest for QPs made from now on."""
        self.now = now
        if config.denylist:
            for qp in self.qps.values():
                qp.evs.fill()  # what is denied is replaced as it would be in a set that is in use
        self.config = config
        self._strangers.clear()
        for peer in self.peers.values():
            peer.apply_denylist(config, self.rng)
        for qp in self.qps.values():
            if qp.known_evs is not None:
                _apply_denylist(config, qp.known_evs, qp.peer.text)
            qp.wake()

    def _paths_of(self, qp: MrcQueuePair) -> list[dict[str, Any]]:
        return qp.path_snapshots()


def _apply_denylist(config: NodeConfig, evs: EvSet, peer: str) -> None:
    """Deny and allow what the denylist says of the paths to a peer; those that take a denied one's place are new."""
    for ev in list(evs.by_value.values()):
        if config.denied(ev.plane, ev.uplink, peer):
            evs.deny(ev, Denier.DENYLIST)
        else:
            evs.allow(ev, Denier.DENYLIST)
