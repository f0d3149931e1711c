"""Endpoint operations: what two hosts tell each other without a QP. Port Status Update and EV probe.

Facts: docs/mrc-protocol.md §1.4.4, §1.9; choices on port status §3.8.

Requests carry an id in the PSN field and go to QP number 2; the answer comes on the control class. Updates are numbered
per peer, so that their order can be told; probes by a counter of the host's own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mrclab.hosts.mrc.evs.paths import EvRoute
from mrclab.hosts.mrc.packets import headers as h
from mrclab.hosts.mrc.packets.controlpackets import control_frame
from mrclab.hosts.mrc.packets.packet import MrcPacket
from mrclab.hosts.mrc.peer import Peer
from mrclab.hosts.rdma.packets import wire
from mrclab.hosts.rdma.packets.path import Frame
from mrclab.hosts.rdma.packets.psn import PSN_MASK
from mrclab.hosts.rdma.timers import Timer

if TYPE_CHECKING:
    from mrclab.hosts.mrc.endpoint import MrcEndpoint

_ID_MASK: Final = 0xFFFF
_UPDATE_TRIES: Final = 10  # at the first interval; then it doubles each time, and history is told
_UPDATE_RTTS: Final = 2.0  # between tries
_UPDATE_CAP_RTTS: Final = 64.0  # longest time between tries: they end with an answer, or with the last QP to the peer
_LATE_RTTS: Final = 32.0  # an older id so soon after the last update was overtaken; later, its sender counts anew
_PROBE_TRAFFIC_CLASS: Final = h.Dscp.NO_TRIM << 2 | wire.ECN_ECT


@dataclass(frozen=True)
class OpItem:
    """An endpoint packet on its way out; `path` None: the reverse path of whatever port takes it."""

    op: int
    request_id: int
    body: Callable[[float], bytes]
    path: EvRoute | None = None
    data_class: bool = False

    def frame(self, path: EvRoute, now: float) -> Frame:
        """Build it for a path."""
        body = self.body(now)
        if not self.data_class:
            return control_frame(path, self.op, h.ENDPOINT_QPN, self.request_id, body)
        bth = wire.BTH.pack(self.op, wire.MIGRATED, wire.P_KEY, h.ENDPOINT_QPN, self.request_id)
        return path.frame(_PROBE_TRAFFIC_CLASS, bth + body)


@dataclass
class ProbeResult:
    """Outcome of one EV probe; `rtt` in seconds, less the peer's service time, None where no answer came in time."""

    ev: int
    rtt: float | None = None
    mark: int = h.Mark.NONE
    port: int | None = None  # that the answer came in by


@dataclass
class _Update:
    """What a peer is to learn of the ports here."""

    peer: Peer
    request_id: int
    asked_at: float
    timer: Timer
    tries: int = 0


@dataclass
class _Probe:
    peer: Peer
    timer: Timer
    result: ProbeResult
    done: Callable[[ProbeResult], None]
    sent_at: float = 0.0


class EndpointOps:
    """Requests and answers of one host."""

    def __init__(self, endpoint: MrcEndpoint) -> None:
        self._endpoint = endpoint
        self._updates: dict[bytes, _Update] = {}  # by address of the peer
        self._probes: dict[int, _Probe] = {}
        self._next_id = 0

    # --- requests ---------------------------------------------------------------------------------

    def announce_ports(self, peer: Peer, now: float) -> None:
        """Tell a peer which ports are up, again and again until it answers."""
        self._drop_update(peer)
        peer.updates_sent = peer.updates_sent + 1 & _ID_MASK
        address = peer.address_bytes
        # The timer finds the update by the peer: a reference would be a cycle, and agents collect none while they send.
        timer = self._endpoint.timers.timer(lambda at: self._send_update(self._updates[address], at))
        update = self._updates[address] = _Update(peer, peer.updates_sent, now, timer)
        self._send_update(update, now)

    def probe(
        self,
        peer: Peer,
        path: EvRoute,
        timeout: float,
        done: Callable[[ProbeResult], None],
        now: float,
        control: bool = False,
    ) -> None:
        """Probe one path of a peer, in the data class unless told; `done` is called with the result."""
        self._next_id = request_id = self._next_id + 1 & _ID_MASK
        timer = self._endpoint.timers.timer(lambda _now: self._end_probe(request_id))
        probe = self._probes[request_id] = _Probe(peer, timer, ProbeResult(path.value), done)
        timer.arm(now + timeout)

        def body(at: float) -> bytes:
            probe.sent_at = at
            return h.EndpointRequest(h.EndpointOp.EV_PROBE, 0, h.timestamp(at)).pack()

        self._endpoint.send_control(
            OpItem(h.MrcOpcode.ENDPOINT_REQUEST, request_id, body, path, data_class=not control), peer, path.port
        )

    def forget(self, peer: Peer) -> None:
        """No QP leads there any more."""
        self._drop_update(peer)
        for request_id in [i for i, probe in self._probes.items() if probe.peer is peer]:
            self._probes.pop(request_id).timer.cancel()

    def _drop_update(self, peer: Peer) -> None:
        update = self._updates.pop(peer.address_bytes, None)
        if update is not None:
            update.timer.cancel()

    def _send_update(self, update: _Update, now: float) -> None:
        update.tries += 1
        endpoint = self._endpoint
        ports = [p.number for p in endpoint.config.ports if endpoint.plane_up(p.plane)]
        port = ports[update.tries % len(ports)] if ports else endpoint.config.ports[0].number

        def body(at: float) -> bytes:
            return h.EndpointRequest(h.EndpointOp.PORT_STATUS_UPDATE, endpoint.port_mask, h.timestamp(at)).pack()

        endpoint.send_control(OpItem(h.MrcOpcode.ENDPOINT_REQUEST, update.request_id, body), update.peer, port)
        if update.tries == _UPDATE_TRIES + 1:
            endpoint.log({"kind": "port.update.unanswered", "peer": update.peer.text})
        doublings = min(max(0, update.tries - _UPDATE_TRIES), 16)
        rtts = min(_UPDATE_RTTS * (1 << doublings), _UPDATE_CAP_RTTS)
        update.timer.arm(now + rtts * update.peer.template.base_rtt)

    def _end_probe(self, request_id: int) -> None:
        """Its answer is here, or will not come any more."""
        probe = self._probes.pop(request_id)
        probe.timer.cancel()
        probe.done(probe.result)

    # --- packets in -------------------------------------------------------------------------------

    def on_packet(self, packet: MrcPacket, now: float) -> None:
        """An endpoint request or response."""
        peer = self._endpoint.known_peer(packet.source)
        if packet.op == h.MrcOpcode.ENDPOINT_REQUEST:
            self._on_request(packet, peer, now)
        elif packet.op == h.MrcOpcode.ENDPOINT_RESPONSE and peer is not None:
            self._on_response(packet, peer, now)

    def _on_request(self, packet: MrcPacket, peer: Peer | None, now: float) -> None:
        request = h.EndpointRequest.unpack(packet.view, packet.body_at)
        if peer is None:
            return  # no template leads there
        if request.op == h.EndpointOp.PORT_STATUS_UPDATE and not self._take_update(peer, packet.psn, request, now):
            return  # and no answer: who sent it will send the newer one, or this one again
        entropy, stamp, op = packet.entropy, request.timestamp, request.op

        def body(at: float) -> bytes:
            held = int((at - now) * 1e9)
            return h.EndpointResponse(
                op, entropy, self._endpoint.told_mask, stamp, min(max(held, 0), 0xFFFFFFFF)
            ).pack()

        self._endpoint.send_control(
            OpItem(h.MrcOpcode.ENDPOINT_RESPONSE, packet.psn & PSN_MASK, body), peer, packet.port
        )

    def _take_update(self, peer: Peer, request_id: int, request: h.EndpointRequest, now: float) -> bool:
        """False for an update that a newer one has overtaken."""
        behind = peer.update_id - request_id & _ID_MASK
        if 0 < behind < 1 << 15 and now - peer.update_at < _LATE_RTTS * peer.template.base_rtt:
            return False
        peer.update_id = request_id
        peer.update_at = now
        self._endpoint.peer_ports(peer, request.port_mask, now)
        return True

    def _on_response(self, packet: MrcPacket, peer: Peer, now: float) -> None:
        """The answer to a request; its mask counts if it was asked for after the last news of that peer's ports."""
        response = h.EndpointResponse.unpack(packet.view, packet.body_at)
        if response.op == h.EndpointOp.PORT_STATUS_UPDATE:
            update = self._updates.get(packet.source)
            if update is None or update.request_id != packet.psn:
                return
            self._drop_update(peer)
            self._endpoint.peer_ports(peer, response.port_mask, now, update.asked_at)
            return
        probe = self._probes.get(packet.psn)
        if probe is None or probe.peer.address_bytes != packet.source:
            return
        probe.result.rtt = now - probe.sent_at - response.service_time * 1e-9
        probe.result.port = packet.port
        probe.peer.use_reverse(response.entropy)
        self._endpoint.peer_ports(peer, response.port_mask, now, probe.sent_at)
        self._end_probe(packet.psn)
