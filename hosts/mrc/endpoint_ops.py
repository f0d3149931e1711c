"""Endpoint operations, which need no QP: Port Status Update and EV probe.

Facts: docs/mrc-protocol.md §1.4.4, §1.9; choices on port status §2.8.

Requests carry an id in the PSN field and go to QP number 2; responses come in the control class. Updates are numbered
per peer, so that their order is known; probes by a counter of the host's own.

No closures: compiled, each would be part of a reference cycle, and agents collect none while they send.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from mrclab.hosts.mrc.evs.paths import EvRoute
from mrclab.hosts.mrc.packets import headers as h
from mrclab.hosts.mrc.packets.packet import MrcPacket
from mrclab.hosts.mrc.peers import Peer
from mrclab.hosts.rdma.errors import DiscardError
from mrclab.hosts.rdma.packets.path import Frame
from mrclab.hosts.rdma.packets.psn import PSN_MASK
from mrclab.hosts.rdma.timers import Timer

if TYPE_CHECKING:
    from mrclab.hosts.mrc.endpoint import MrcEndpoint

_ID_MASK: Final = 0xFFFF
_NO_MARK: Final = int(h.Mark.NONE)
_MAX_PROBES: Final = 1 << 15  # outstanding; beyond, the oldest ends without a response
_UPDATE_TRIES: Final = 10  # at the first interval; then it doubles each time, and it is logged
_UPDATE_RTTS: Final = 2.0  # between tries
_UPDATE_CAP_RTTS: Final = 64.0  # longest time between tries: they end with a response, or with the last QP to the peer
_LATE_RTTS: Final = 32.0  # an older id so soon after the last update was overtaken; later, its sender restarted
_QUERY_RTTS: Final = 4.0  # until a peer is queried about ports that it reported down; doubles up to the cap of updates
_QUERY_TIMEOUT_RTTS: Final = 8.0


class OpItem:
    """An endpoint packet to be sent; `path` None: the reverse path of the port that sends it."""

    __slots__ = ("data_class", "op", "path", "request_id")

    def __init__(self, op: int, request_id: int, path: EvRoute | None = None, data_class: bool = False) -> None:
        self.op = op
        self.request_id = request_id
        self.path = path
        self.data_class = data_class

    def content(self, now: float) -> h.Content:
        """Return the part behind the BTH at the time of sending."""
        raise NotImplementedError

    def frame(self, path: EvRoute, now: float) -> Frame:
        """Build the frame for a path."""
        traffic_class = h.TC_NO_TRIM if self.data_class else h.TC_CONTROL
        return path.packet(traffic_class, self.op, h.ENDPOINT_QPN, self.request_id, self.content(now))


class _ResponseItem(OpItem):
    """The response to a request."""

    __slots__ = ("_came_at", "_endpoint", "_entropy", "_kind", "_stamp")

    def __init__(self, endpoint: MrcEndpoint, packet: MrcPacket, request: h.EndpointRequest, now: float) -> None:
        super().__init__(h.MrcOpcode.ENDPOINT_RESPONSE, packet.psn & PSN_MASK)
        self._endpoint = endpoint
        self._entropy = packet.entropy
        self._kind = request.op
        self._stamp = request.timestamp
        self._came_at = now

    @override
    def content(self, now: float) -> h.Content:
        delay = int((now - self._came_at) * 1e9)
        return h.EndpointResponse(
            self._kind, self._entropy, self._endpoint.reported_mask, self._stamp, min(max(delay, 0), 0xFFFFFFFF)
        )


class ProbeResult:
    """Outcome of one EV probe; `rtt` in seconds, less the peer's service time, None where no response came in time."""

    __slots__ = ("ev", "mark", "port", "rtt")

    def __init__(self, ev: int) -> None:
        self.ev = ev
        self.rtt: float | None = None
        self.mark: int = _NO_MARK
        self.port: int | None = None  # that the response came in by


class _Update(OpItem):
    """A Port Status Update to a peer, with the mask of the moment when a port takes it; repeated until a response."""

    __slots__ = ("_endpoint", "peer", "queued", "requested_at", "timer", "tries")

    def __init__(self, endpoint: MrcEndpoint, peer: Peer, requested_at: float, timer: Timer) -> None:
        super().__init__(h.MrcOpcode.ENDPOINT_REQUEST, peer.updates_sent)
        self._endpoint = endpoint
        self.peer = peer
        self.requested_at = requested_at
        self.timer = timer
        self.tries = 0
        self.queued = False  # waits for a port

    @override
    def content(self, now: float) -> h.Content:
        self.queued = False
        return h.EndpointRequest(h.EndpointOp.PORT_STATUS_UPDATE, self._endpoint.port_mask, h.timestamp(now))


class _Probe(OpItem):
    """An EV probe to be sent, or without a response so far."""

    __slots__ = ("done", "peer", "result", "sent_at", "timer")

    def __init__(
        self,
        request_id: int,
        path: EvRoute,
        data_class: bool,
        peer: Peer,
        timer: Timer,
        done: Callable[[ProbeResult], None],
    ) -> None:
        super().__init__(h.MrcOpcode.ENDPOINT_REQUEST, request_id, path, data_class)
        self.peer = peer
        self.timer = timer
        self.result = ProbeResult(path.value)
        self.done = done
        self.sent_at = 0.0

    @override
    def content(self, now: float) -> h.Content:
        self.sent_at = now
        return h.EndpointRequest(h.EndpointOp.EV_PROBE, 0, h.timestamp(now))


class _PortQuery:
    """Repeated query to a peer that reported ports down."""

    __slots__ = ("due", "peer", "sent", "timer", "wait")

    def __init__(self, peer: Peer, timer: Timer, wait: float) -> None:
        self.peer = peer
        self.timer = timer
        self.wait = wait  # seconds until the next request
        self.sent = 0
        self.due = False  # the next request waits for data


def ignore_result(_result: ProbeResult) -> None:
    """Ignore a result: port mask and reverse path were applied already."""


class EndpointOps:
    """Requests and responses of one host."""

    def __init__(self, endpoint: MrcEndpoint) -> None:
        self._endpoint = endpoint
        self._updates: dict[bytes, _Update] = {}  # by address of the peer
        self._queries: dict[bytes, _PortQuery] = {}  # by address of the peer
        self._probes: dict[int, _Probe] = {}
        self._next_id = 0

    # --- requests ---------------------------------------------------------------------------------

    def announce_ports(self, peer: Peer, now: float) -> None:
        """Send a peer the port mask, repeatedly until it responds."""
        known = self._updates.get(peer.address_bytes)
        if known is not None and known.queued:
            known.requested_at = now  # it carries the mask of the moment when it is sent
            return
        self._drop_update(peer)
        peer.updates_sent = peer.updates_sent + 1 & _ID_MASK
        address = peer.address_bytes
        timer = self._endpoint.timers.timer(partial(self._repeat_update, address))
        update = self._updates[address] = _Update(self._endpoint, peer, now, timer)
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
        """Probe one path of a peer, in the data or control class; `done` is called with the result."""
        if len(self._probes) >= _MAX_PROBES:
            self._end_probe(next(iter(self._probes)))
        request_id = self._next_id + 1 & _ID_MASK
        while request_id in self._probes:
            request_id = request_id + 1 & _ID_MASK
        self._next_id = request_id
        timer = self._endpoint.timers.timer(partial(self._end_probe, request_id))
        probe = self._probes[request_id] = _Probe(request_id, path, not control, peer, timer, done)
        timer.arm(now + timeout)
        self._endpoint.control.send(probe, peer, path.port)

    def query_ports(self, peer: Peer, now: float, at_once: bool = False) -> None:
        """Query a peer about ports that it reported down, repeatedly while data waits for it.

        The report may be forged, or older than the peer's agent, and nothing else would correct it.
        """
        query = self._queries.get(peer.address_bytes)
        if query is None:
            timer = self._endpoint.timers.timer(partial(self._repeat_query, peer.address_bytes))
            wait = _QUERY_RTTS * peer.template.base_rtt
            query = self._queries[peer.address_bytes] = _PortQuery(peer, timer, wait)
        elif not (at_once or query.due):
            return
        if at_once or query.due:
            query.due = False
            self._send_query(query, now)
        query.timer.arm(now + query.wait)

    def stop_query(self, peer: Peer) -> None:
        """Stop: all ports of a peer are up, or no QP leads there."""
        query = self._queries.pop(peer.address_bytes, None)
        if query is not None:
            query.timer.cancel()

    def forget(self, peer: Peer) -> None:
        """Forget a peer to which no QP leads any more."""
        self._drop_update(peer)
        self.stop_query(peer)
        for request_id in [i for i, probe in self._probes.items() if probe.peer is peer]:
            self._end_probe(request_id)

    def _drop_update(self, peer: Peer) -> None:
        update = self._updates.pop(peer.address_bytes, None)
        if update is not None:
            update.timer.cancel()

    def _repeat_update(self, address: bytes, now: float) -> None:
        update = self._updates.get(address)
        if update is not None:
            self._send_update(update, now)

    def _send_update(self, update: _Update, now: float) -> None:
        endpoint = self._endpoint
        ports = [p.number for p in endpoint.config.ports if endpoint.ports.plane_up(p.plane)]
        if not ports:
            return  # a port that comes up announces itself
        update.tries += 1
        if not update.queued:
            update.queued = True
            port = ports[update.tries % len(ports)]
            endpoint.control.send(update, update.peer, port)
        if update.tries == _UPDATE_TRIES + 1:
            endpoint.log({"kind": "port.update.unanswered", "peer": update.peer.text})
        doublings = min(max(0, update.tries - _UPDATE_TRIES), 16)
        rtts = min(_UPDATE_RTTS * (1 << doublings), _UPDATE_CAP_RTTS)
        update.timer.arm(now + rtts * update.peer.template.base_rtt)

    def _repeat_query(self, address: bytes, now: float) -> None:
        query = self._queries.get(address)
        if query is None:
            return
        if not self._endpoint.has_data_for(query.peer):
            query.due = True  # with the next post: one that ends in less than the wait needs the response, too
            query.wait = _QUERY_RTTS * query.peer.template.base_rtt
            return
        self._send_query(query, now)
        query.wait = min(2 * query.wait, _UPDATE_CAP_RTTS * query.peer.template.base_rtt)
        query.timer.arm(now + query.wait)

    def _send_query(self, query: _PortQuery, now: float) -> None:
        """Send one EV probe by the next port that is up here, also where the peer reported its own down."""
        peer, endpoint = query.peer, self._endpoint
        planes = [
            p.plane for p in endpoint.config.ports if endpoint.ports.plane_up(p.plane) and peer.uplinks_to_use(p.plane)
        ]
        if not planes:
            return
        turn, place = divmod(query.sent, len(planes))
        query.sent += 1
        uplinks = peer.uplinks_to_use(planes[place])
        path = peer.control_path(planes[place], uplinks[turn % len(uplinks)])
        self.probe(peer, path, _QUERY_TIMEOUT_RTTS * peer.template.base_rtt, ignore_result, now, control=True)

    def _end_probe(self, request_id: int, _now: float = 0.0) -> None:
        """End a probe that got its response or timed out."""
        probe = self._probes.pop(request_id)
        probe.timer.cancel()
        probe.done(probe.result)

    # --- packets in -------------------------------------------------------------------------------

    def on_packet(self, packet: MrcPacket, now: float) -> None:
        """Handle an endpoint request or response."""
        peer = self._endpoint.peers.find(packet.source)
        if packet.op == h.MrcOpcode.ENDPOINT_REQUEST:
            self._on_request(packet, peer, now)
        elif packet.op == h.MrcOpcode.ENDPOINT_RESPONSE and peer is not None:
            self._on_response(packet, peer, now)

    def _on_request(self, packet: MrcPacket, peer: Peer | None, now: float) -> None:
        request: h.EndpointRequest = packet.content
        if peer is None:
            return  # no template leads there
        if request.op == h.EndpointOp.CREDIT_REQUEST:
            self._endpoint.credits.on_request(peer, request.port_mask, now)
            return
        if request.op == h.EndpointOp.CREDIT_GRANT:
            self._endpoint.credits.on_grant(peer, request.port_mask, now)
            return
        if request.op == h.EndpointOp.PORT_STATUS_UPDATE and not self._take_update(peer, packet, request, now):
            return  # no response: the sender will send the newer one, or this one again
        self._endpoint.control.send(_ResponseItem(self._endpoint, packet, request, now), peer, packet.port)

    def _take_update(self, peer: Peer, packet: MrcPacket, request: h.EndpointRequest, now: float) -> bool:
        """Take in a port update; False if a newer one overtook it; DiscardError for one that cannot be true."""
        if not request.port_mask >> self._endpoint.ports.by_number[packet.port].plane - 1 & 1:
            raise DiscardError("malformed")  # it came by a port that it calls down
        request_id = packet.psn
        behind = peer.update_id - request_id & _ID_MASK
        if 0 < behind < 1 << 15 and now - peer.update_at < _LATE_RTTS * peer.template.base_rtt:
            return False
        peer.update_id = request_id
        peer.update_at = now
        self._endpoint.peer_ports(peer, request.port_mask, now)
        return True

    def _on_response(self, packet: MrcPacket, peer: Peer, now: float) -> None:
        """Handle a response; its port mask counts if requested after the last report of that peer's ports."""
        response: h.EndpointResponse = packet.content
        if response.op == h.EndpointOp.PORT_STATUS_UPDATE:
            update = self._updates.get(packet.source)
            if update is None or update.request_id != packet.psn:
                return
            self._drop_update(peer)
            self._endpoint.peer_ports(peer, response.port_mask, now, update.requested_at)
            return
        probe = self._probes.get(packet.psn)
        if probe is None or probe.peer.address_bytes != packet.source:
            return
        probe.result.rtt = now - probe.sent_at - response.service_time * 1e-9
        probe.result.port = packet.port
        probe.peer.use_reverse(response.entropy)
        self._endpoint.peer_ports(peer, response.port_mask, now, probe.sent_at)
        self._end_probe(packet.psn)
