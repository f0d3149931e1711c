"""Credit between two hosts (RCCC): requests of senders, and the receiver's grants to all of them in turn.

Requests and grants are endpoint requests without a response: each carries a total in units of 256 bytes, so that the
next one makes up for a lost one. A sender without credit repeats its request every other round trip.

The receiver's pacer grants four packets at a time, at the rate of its ports; the sender served goes to the back.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from mrclab.hosts.mrc.cc.rccc import Rccc
from mrclab.hosts.mrc.endpoint_ops import OpItem
from mrclab.hosts.mrc.packets import headers as h
from mrclab.hosts.mrc.peers import HEADER_BYTES, Peer
from mrclab.hosts.rdma.packets.psn import unwrap_bits
from mrclab.hosts.rdma.timers import Timer

if TYPE_CHECKING:
    from mrclab.hosts.mrc.endpoint import MrcEndpoint

_PACKETS_A_GRANT: Final = 4
_RETRY_RTTS: Final = 2.0  # until a sender without credit repeats its request
_UNITS: Final = 0xFFFFFFFF


class _CreditItem(OpItem):
    """A request or grant, with the total at the time of sending."""

    __slots__ = ("_account", "_kind")

    def __init__(self, kind: int, account: Account) -> None:
        super().__init__(h.MrcOpcode.ENDPOINT_REQUEST, 0)
        self._kind = kind
        self._account = account

    def body(self, now: float) -> bytes:
        """ERTH with a total in place of the port mask."""
        account = self._account
        if self._kind == h.EndpointOp.CREDIT_GRANT:
            account.grant_waits = False
            total = account.granted
        else:
            account.request_waits = False
            total = account.requested
        return h.EndpointRequest(self._kind, total & _UNITS, h.timestamp(now)).pack()


class Account:
    """Credit between this host and a peer, in units: as sender and as receiver."""

    __slots__ = (
        "grant_waits",
        "granted",
        "in_turn",
        "peer",
        "request_waits",
        "requested",
        "retry",
        "seen",
        "target",
    )  # fmt: skip

    def __init__(self, peer: Peer, retry: Timer) -> None:
        self.peer = peer
        self.retry = retry
        self.requested = 0  # of the peer, in all
        self.seen = 0  # granted by the peer, in all
        self.target = 0  # that the peer requested
        self.granted = 0  # to the peer
        self.in_turn = False
        self.request_waits = self.grant_waits = False  # for a port


class Credits:
    """The credit of one host."""

    def __init__(self, endpoint: MrcEndpoint) -> None:
        self._endpoint = endpoint
        self._accounts: dict[bytes, Account] = {}
        self._waiting: deque[Account] = deque()  # with requests that are not fully granted
        self._pacer = endpoint.timers.timer(self._grant_next)
        config = endpoint.config
        packet = config.path_mtu + HEADER_BYTES
        self._quantum = -(-_PACKETS_A_GRANT * packet // h.RCVD_UNIT)  # units
        self._rate = config.link.rate_pps * packet / h.RCVD_UNIT  # units per second of a port

    def _account(self, peer: Peer) -> Account:
        found = self._accounts.get(peer.address_bytes)
        if found is None:
            retry = self._endpoint.timers.timer(partial(self._again, peer.address_bytes))
            found = self._accounts[peer.address_bytes] = Account(peer, retry)
        found.peer = peer
        return found

    # --- as a sender ------------------------------------------------------------------------------

    def request(self, peer: Peer, control: Rccc, now: float, again: bool = False) -> None:
        """Request the credit that a peer's controller needs, if that has changed."""
        target = control.request(again)
        account = self._account(peer)
        if target:
            account.requested = max(account.requested, -(-int(target) // h.RCVD_UNIT))
            if not account.request_waits:
                account.request_waits = True
                self._endpoint.control.send(_CreditItem(h.EndpointOp.CREDIT_REQUEST, account), peer)
        if control.starved:
            if not account.retry.armed:
                account.retry.arm(now + _RETRY_RTTS * control.base_rtt)
        else:
            account.retry.cancel()

    def _again(self, address: bytes, now: float) -> None:
        account = self._accounts.get(address)
        if account is not None and account.peer.credit is not None:
            account.request_waits = False
            self.request(account.peer, cast(Rccc, account.peer.credit.controller), now, again=True)

    def on_grant(self, peer: Peer, total: int, now: float) -> None:
        """Take in a peer's total grant."""
        window = peer.credit
        if window is None:
            return
        account = self._account(peer)
        account.seen = max(account.seen, unwrap_bits(total, account.seen, 32))
        control = cast(Rccc, window.controller)
        if control.grant(account.seen * h.RCVD_UNIT):
            account.retry.cancel()
            self._endpoint.scheduler.on_window_open(window)
            self.request(peer, control, now)

    # --- as a receiver ----------------------------------------------------------------------------

    def on_request(self, peer: Peer, total: int, now: float) -> None:
        """Take in a peer's total request."""
        account = self._account(peer)
        target = unwrap_bits(total, account.target, 32)
        if target > account.target:
            account.target = target
        elif account.granted and not account.in_turn:
            self._send_grant(account)  # the last grant was lost
        self._enter(account, now)

    def on_trimmed(self, peer: Peer, size: int, now: float) -> None:
        """A packet of a peer was trimmed: it will be sent again, and needs credit."""
        account = self._account(peer)
        account.target = max(account.target, account.granted) + -(-size // h.RCVD_UNIT)
        self._enter(account, now)

    def _enter(self, account: Account, now: float) -> None:
        if account.in_turn or account.target <= account.granted:
            return
        account.in_turn = True
        self._waiting.append(account)
        if not self._pacer.armed:
            self._grant_next(now)

    def _grant_next(self, now: float) -> None:
        """Grant the next sender its share, and come again when the ports have received as much."""
        if not self._waiting:
            return
        account = self._waiting.popleft()
        units = min(self._quantum, account.target - account.granted)
        account.granted += units
        account.in_turn = account.target > account.granted
        if account.in_turn:
            self._waiting.append(account)
        self._send_grant(account)
        config, mask = self._endpoint.config, self._endpoint.port_mask
        ports = sum([config.weight(port) for port in config.ports if mask >> port.plane - 1 & 1])
        self._pacer.arm(now + units / (self._rate * (ports or 1.0)))

    def _send_grant(self, account: Account) -> None:
        if not account.grant_waits:
            account.grant_waits = True
            self._endpoint.control.send(_CreditItem(h.EndpointOp.CREDIT_GRANT, account), account.peer)

    def forget(self, peer: Peer) -> None:
        """Forget a peer to which no QP leads any more."""
        account = self._accounts.pop(peer.address_bytes, None)
        if account is None:
            return
        account.retry.cancel()
        if account.in_turn:
            self._waiting.remove(account)
