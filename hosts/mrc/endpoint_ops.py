"""Endpoint operations: what two hosts tell each other without a QP. Port Status Update and EV probe.

Facts: docs/mrc-protocol.md §1.4.4, §1.9.

Requests carry an id in the PSN field and go to QP number 2; the answer comes on the control class.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mrclab.hosts.mrc import headers as h
from mrclab.hosts.mrc.controlpackets import control_frame
from mrclab.hosts.mrc.packet import Packet
from mrclab.hosts.mrc.paths import Path
from mrclab.hosts.mrc.peer import Peer
from mrclab.hosts.rdma import wire
from mrclab.hosts.rdma.path import Frame
from mrclab.hosts.rdma.psn import PSN_MASK
from mrclab.hosts.rdma.timers import Timer

if TYPE_CHECKING:
    from mrclab.hosts.mrc.endpoint import Endpoint

_ID_MASK = 0xFFFF
_UPDATE_TRIES = 10
_UPDATE_RTTS = 2.0  # between tries
_PROBE_TRAFFIC_CLASS = h.Dscp.NO_TRIM << 2 | wire.ECN_ECT


@dataclass(frozen=True)
class OpItem:
    """An endpoint packet on its way out; `path` None: the reverse path of whatever port takes it."""

    op: int
    request_id: int
    body: Callable[[float], bytes]
    path: Path | None = None
    data_class: bool = False

    def frame(self, path: Path, now: float) -> Frame:
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
class _Request:
    peer: Peer
    timer: Timer
    tries: int = 0
    sent_at: float = 0.0
    result: ProbeResult | None = None
    done: Callable[[ProbeResult], None] | None = None


class EndpointOps:
    """Requests and answers of one host."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._requests: dict[int, _Request] = {}
        self._updates: dict[bytes, int] = {}  # peer -> id of the update under way
        self._next_id = 0

    # --- requests ---------------------------------------------------------------------------------

    def announce_ports(self, peer: Peer, now: float) -> None:
        """Tell a peer which ports are up, again and again until it answers."""
        old = self._updates.pop(peer.address_bytes, None)
        if old is not None:
            self._drop(old)
        request_id, request = self._new(peer, self._repeat_update)
        self._updates[peer.address_bytes] = request_id
        self._send_update(request_id, request, now)

    def probe(
        self,
        peer: Peer,
        path: Path,
        timeout: float,
        done: Callable[[ProbeResult], None],
        now: float,
        control: bool = False,
    ) -> None:
        """Probe one path of a peer, in the data class unless told; `done` is called with the result."""
        request_id, request = self._new(peer, self._probe_failed)
        request.result = ProbeResult(path.value)
        request.done = done
        request.timer.arm(now + timeout)

        def body(at: float) -> bytes:
            request.sent_at = at
            return h.EndpointRequest(h.EndpointOp.EV_PROBE, 0, h.timestamp(at)).pack()

        self._endpoint.send_control(
            OpItem(h.Op.ENDPOINT_REQUEST, request_id, body, path, data_class=not control), peer, path.port
        )

    def forget(self, peer: Peer) -> None:
        """No QP leads there any more."""
        self._updates.pop(peer.address_bytes, None)
        for request_id in [i for i, request in self._requests.items() if request.peer is peer]:
            self._drop(request_id)

    def _new(self, peer: Peer, expired: Callable[[int, _Request, float], None]) -> tuple[int, _Request]:
        self._next_id = request_id = self._next_id + 1 & _ID_MASK
        # The timer finds the request by its id: a reference would be a cycle, and agents collect none while they send.
        timer = self._endpoint.timers.timer(lambda now: expired(request_id, self._requests[request_id], now))
        request = self._requests[request_id] = _Request(peer, timer)
        return request_id, request

    def _drop(self, request_id: int) -> None:
        request = self._requests.pop(request_id, None)
        if request is not None:
            request.timer.cancel()

    def _send_update(self, request_id: int, request: _Request, now: float) -> None:
        request.tries += 1
        ports = [number for number, plane in self._up_ports()]
        port = ports[request.tries % len(ports)] if ports else self._endpoint.config.ports[0].number

        def body(at: float) -> bytes:
            return h.EndpointRequest(h.EndpointOp.PORT_STATUS_UPDATE, self._endpoint.port_mask, h.timestamp(at)).pack()

        self._endpoint.send_control(OpItem(h.Op.ENDPOINT_REQUEST, request_id, body), request.peer, port)
        request.timer.arm(now + _UPDATE_RTTS * request.peer.template.base_rtt)

    def _up_ports(self) -> list[tuple[int, int]]:
        return [(p.number, p.plane) for p in self._endpoint.config.ports if self._endpoint.plane_up(p.plane)]

    def _repeat_update(self, request_id: int, request: _Request, now: float) -> None:
        if request.tries < _UPDATE_TRIES:
            self._send_update(request_id, request, now)
            return
        self._drop(request_id)
        self._updates.pop(request.peer.address_bytes, None)
        self._endpoint.log({"kind": "port.update.unanswered", "peer": request.peer.text})

    def _probe_failed(self, request_id: int, request: _Request, now: float) -> None:
        del now
        self._drop(request_id)
        if request.done is not None and request.result is not None:
            request.done(request.result)

    # --- packets in -------------------------------------------------------------------------------

    def on_packet(self, packet: Packet, now: float) -> None:
        """An endpoint request or response."""
        peer = self._endpoint.known_peer(packet.source)
        if packet.op == h.Op.ENDPOINT_REQUEST:
            self._on_request(packet, peer, now)
        elif packet.op == h.Op.ENDPOINT_RESPONSE and peer is not None:
            self._on_response(packet, now)

    def _on_request(self, packet: Packet, peer: Peer | None, now: float) -> None:
        request = h.EndpointRequest.unpack(packet.view, packet.body_at)
        if peer is None:
            return  # no template leads there
        if request.op == h.EndpointOp.PORT_STATUS_UPDATE:
            newer = peer.update_id < 0 or 0 < (packet.psn - peer.update_id & _ID_MASK) < 1 << 15
            if newer or packet.psn == peer.update_id:
                peer.update_id = packet.psn
                self._endpoint.peer_ports(peer, request.port_mask, now)
        entropy, stamp, op = packet.entropy, request.timestamp, request.op

        def body(at: float) -> bytes:
            held = int((at - now) * 1e9)
            return h.EndpointResponse(
                op, entropy, self._endpoint.port_mask, stamp, min(max(held, 0), 0xFFFFFFFF)
            ).pack()

        self._endpoint.send_control(OpItem(h.Op.ENDPOINT_RESPONSE, packet.psn & PSN_MASK, body), peer, packet.port)

    def _on_response(self, packet: Packet, now: float) -> None:
        request = self._requests.get(packet.psn)
        if request is None or request.peer.address_bytes != packet.source:
            return
        response = h.EndpointResponse.unpack(packet.view, packet.body_at)
        if request.result is None:
            self._updates.pop(request.peer.address_bytes, None)
        else:
            request.result.rtt = now - request.sent_at - response.service_time * 1e-9
            request.result.port = packet.port
            request.peer.use_reverse(response.entropy)
        self._drop(packet.psn)
        if request.done is not None and request.result is not None:
            request.done(request.result)
