"""Credit between two hosts (RCCC): requests of senders, and the receiver's grants to all of them in turn.

Requests and grants are endpoint requests without a response: each carries a total in units of 256 bytes, so that the
next one makes up for a lost one. A sender without credit repeats its request every other round trip. A total that no
window explains is that of another agent, or of a sender that had no QP meanwhile: the receiver counts on from there.

The receiver's pacer grants four packets at a time, at the rate of its ports; the sender served goes to the back.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from typing_extensions import override

from mrclab.hosts.mrc.cc import MAX_WINDOW_BDPS
from mrclab.hosts.mrc.cc.rccc import Rccc
from mrclab.hosts.mrc.endpoint_ops import OpItem
from mrclab.hosts.mrc.packets import headers as h
from mrclab.hosts.mrc.peers import NOMINAL_OVERHEAD, Peer
from mrclab.hosts.rdma.packets.psn import unwrap_bits
from mrclab.hosts.rdma.timers import Timer

if TYPE_CHECKING:
    from mrclab.hosts.mrc.endpoint import MrcEndpoint

_PACKETS_A_GRANT: Final = 4
_RETRY_RTTS: Final = 2.0  # until a sender without credit repeats its request
_UNITS: Final = 0xFFFFFFFF
_PLAUSIBLE_WINDOWS: Final = 8  # between two requests of one sender


class _CreditTotal(OpItem):
    """Credit requested of a peer, or granted to it, in all; as an item, a request or grant with the current total."""

    __slots__ = ("_kind", "queued", "units")

    def __init__(self, kind: int) -> None:
        super().__init__(h.MrcOpcode.ENDPOINT_REQUEST, 0)
        self._kind = kind
        self.units = 0
        self.queued = False  # for a port

    @override
    def content(self, now: float) -> h.Content:
        self.queued = False
        return h.EndpointRequest(self._kind, self.units & _UNITS, h.timestamp(now))  # in place of the port mask


class CreditState:
    """Credit between this host and a peer, in units: as sender and as receiver."""

    __slots__ = ("granted", "in_turn", "peer", "received", "requested", "retry", "target")

    def __init__(self, peer: Peer, retry: Timer) -> None:
        self.peer = peer
        self.retry = retry
        self.requested = _CreditTotal(h.EndpointOp.CREDIT_REQUEST)
        self.received = 0  # grants of the peer, in all
        self.target = 0  # that the peer requested
        self.granted = _CreditTotal(h.EndpointOp.CREDIT_GRANT)
        self.in_turn = False


class Credits:
    """The credit of one host."""

    def __init__(self, endpoint: MrcEndpoint) -> None:
        self._endpoint = endpoint
        self._states: dict[bytes, CreditState] = {}
        self._waiting: deque[CreditState] = deque()  # with requests that are not fully granted
        self._pacer = endpoint.timers.timer(self._grant_next)
        config = endpoint.config
        packet = config.path_mtu + NOMINAL_OVERHEAD
        self._quantum = -(-_PACKETS_A_GRANT * packet // h.RCVD_UNIT)  # units
        self._rate = config.link.rate_pps * packet / h.RCVD_UNIT  # units per second of a port

    def _state(self, peer: Peer) -> CreditState:
        found = self._states.get(peer.address_bytes)
        if found is None:
            retry = self._endpoint.timers.timer(partial(self._retry, peer.address_bytes))
            found = self._states[peer.address_bytes] = CreditState(peer, retry)
        found.peer = peer
        return found

    # --- as a sender ------------------------------------------------------------------------------

    def request(self, peer: Peer, control: Rccc, now: float, again: bool = False) -> None:
        """Request the credit that a peer's controller needs, if that has changed."""
        target = control.request(again)
        state = self._state(peer)
        if target:
            state.requested.units = max(state.requested.units, -(-int(target) // h.RCVD_UNIT))
            self._send(state.requested, peer)
        if control.starved:
            if not state.retry.armed:
                state.retry.arm(now + _RETRY_RTTS * control.base_rtt)
        else:
            state.retry.cancel()

    def _retry(self, address: bytes, now: float) -> None:
        state = self._states.get(address)
        if state is not None and state.peer.credit is not None:
            state.requested.queued = False
            self.request(state.peer, cast(Rccc, state.peer.credit.controller), now, again=True)

    def on_grant(self, peer: Peer, total: int, now: float) -> None:
        """Take in a peer's total grant."""
        window = peer.credit
        if window is None:
            return
        state = self._state(peer)
        state.received = max(state.received, unwrap_bits(total, state.received, 32))
        control = cast(Rccc, window.controller)
        if control.grant(state.received * h.RCVD_UNIT):
            state.retry.cancel()
            self._endpoint.scheduler.on_window_open(window)
            self.request(peer, control, now)

    # --- as a receiver ----------------------------------------------------------------------------

    def on_request(self, peer: Peer, total: int, now: float) -> None:
        """Take in a peer's total request."""
        state = self._state(peer)
        target = unwrap_bits(total, state.target, 32)
        window = self._window(peer)
        if abs(target - state.target) > _PLAUSIBLE_WINDOWS * window:
            state.target = total
            state.granted.units = max(0, total - window)
        elif target > state.target:
            state.target = target
        elif state.granted.units and not state.in_turn:
            self._send(state.granted, peer)  # the last grant was lost
        self._enter(state, now)

    def _window(self, peer: Peer) -> int:
        """Return the units that a sender requests at most before it gets any."""
        config = self._endpoint.config
        bdp = self._rate * config.all_ports * peer.template.base_rtt
        chosen = float(config.transport.cc_config.get("max_cwnd", 0.0)) / h.RCVD_UNIT
        return 1 + int(max(MAX_WINDOW_BDPS * bdp, chosen))

    def on_trimmed(self, peer: Peer, size: int, now: float) -> None:
        """A packet of a peer was trimmed: it will be retransmitted, and needs credit."""
        state = self._state(peer)
        state.target = max(state.target, state.granted.units) + -(-size // h.RCVD_UNIT)
        self._enter(state, now)

    def _enter(self, state: CreditState, now: float) -> None:
        if state.in_turn or state.target <= state.granted.units:
            return
        state.in_turn = True
        self._waiting.append(state)
        if not self._pacer.armed:
            self._grant_next(now)

    def _grant_next(self, now: float) -> None:
        """Grant the next sender its share, and come again when the ports have received as much."""
        if not self._waiting:
            return
        state = self._waiting.popleft()
        units = min(self._quantum, state.target - state.granted.units)
        state.granted.units += units
        state.in_turn = state.target > state.granted.units
        if state.in_turn:
            self._waiting.append(state)
        self._send(state.granted, state.peer)
        config, mask = self._endpoint.config, self._endpoint.port_mask
        ports = sum([config.weight(port) for port in config.ports if mask >> port.plane - 1 & 1])
        self._pacer.arm(now + units / (self._rate * (ports or 1.0)))

    def _send(self, total: _CreditTotal, peer: Peer) -> None:
        if not total.queued:
            total.queued = True
            self._endpoint.control.send(total, peer)

    def forget(self, peer: Peer) -> None:
        """Forget a peer to which no QP leads any more."""
        state = self._states.pop(peer.address_bytes, None)
        if state is None:
            return
        state.retry.cancel()
        if state.in_turn:
            self._waiting.remove(state)
