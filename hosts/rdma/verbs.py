"""The verbs of one host, whatever its transport: QPs and work requests.

Names and meaning follow the OCP headers; a call that they refuse raises VerbsError with their errno. Only RDMA_WRITE
and RDMA_WRITE_WITH_IMM can be posted. A transport says in `_make_qp` what its QPs are.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, ClassVar, Final, Generic, TypeVar

from mrclab.hosts.rdma.completion import CompletionQueue
from mrclab.hosts.rdma.errors import VerbsError
from mrclab.hosts.rdma.keys import Secrets
from mrclab.hosts.rdma.memory import Held
from mrclab.hosts.rdma.packets.psn import PSN_MASK
from mrclab.hosts.rdma.qp import AnyQueuePair
from mrclab.hosts.rdma.resources import (
    FIRST_QPN,
    MAX_CQE,
    MAX_MESSAGE,
    MAX_QP,
    MAX_RECV_WR,
    MAX_SEND_WR,
    Resources,
    check_request,
)
from mrclab.hosts.rdma.states import QpState, check_transition
from mrclab.topo import srv6
from mrclab.topo.nodeconfig import MPR_UNIT, NodeConfig

Qp = TypeVar("Qp", bound=AnyQueuePair)

_LIMITS: Final = {"qpn": (0, PSN_MASK), "psn": (0, PSN_MASK), "mpr": (1, 255), "wimm": (1, 0xFFFF)}


class Verbs(Resources, Generic[Qp]):
    """Tables of a host and the calls on them. The packet side is in the transport's Endpoint."""

    transport: ClassVar[str]  # as messages name it
    of_peer: ClassVar[tuple[str, ...]] = ("qpn", "psn")  # what a QP must know of its peer's `local_info`

    def __init__(
        self,
        config: NodeConfig,
        rng: random.Random,
        log: Callable[[dict[str, Any]], None],
        secrets: Secrets | None = None,
    ) -> None:
        super().__init__(config, rng, log, secrets)
        self.qps: dict[int, Qp] = {}
        self._next_qpn = FIRST_QPN
        self._drawn_qpns: dict[int, int] = {}  # of QPs that are, or may still be made: the number in turn of each

    # --- hooks that the packet side fills in ------------------------------------------------------

    def wake(self, qp: Qp) -> None:
        """The QP may have something to send."""
        raise NotImplementedError

    def plane_up(self, plane: int) -> bool:
        """Return True if the local port of a plane is up."""
        raise NotImplementedError

    def connected(self, qp: Qp) -> None:
        """A QP reached RTR: its peer is known now."""

    # --- device -----------------------------------------------------------------------------------

    def query_device(self) -> dict[str, Any]:
        """Limits; transports add their capabilities."""
        config = self.config
        return {
            "address": config.host.address,
            "ports": len(config.ports),
            "path_mtu": config.path_mtu,
            "max_qp": MAX_QP,
            "max_cqe": MAX_CQE,
            "max_send_wr": MAX_SEND_WR,
            "max_recv_wr": MAX_RECV_WR,
            "max_message": MAX_MESSAGE,
            "mpr_unit": MPR_UNIT,
            "max_mpr": 255,
            "max_wimm": 0xFFFF,
            "opcodes": ["RDMA_WRITE", "RDMA_WRITE_WITH_IMM"],
        }

    # --- QPs --------------------------------------------------------------------------------------

    def create_qp(
        self,
        peer: str,
        pd: int | None = None,
        send_cq: int | None = None,
        recv_cq: int | None = None,
        qpn: int | None = None,
        **attributes: Any,
    ) -> int:
        """A QP towards the host with this address, in RESET; returns its number, `qpn` where that was reserved for it.

        `attributes` override the node config: see the transport's QpSettings and its `_make_qp`.
        """
        if len(self.qps) >= MAX_QP:
            raise VerbsError("ENOMEM", f"a host has at most {MAX_QP} QPs; destroy one first")
        pd = self.default_pd if pd is None else pd
        self.memory.check_pd(pd)
        send = self._cq(self.default_cq if send_cq is None else send_cq)
        recv = self._cq(self.default_cq if recv_cq is None else recv_cq)
        qp = self._make_qp(self.reserve_qpn() if qpn is None else qpn, peer, pd, send, recv, attributes)
        self.qps[qp.qpn] = qp
        self.memory.use_pd(pd, +1)
        send.users += 1
        recv.users += 1
        qp.set_state(QpState.RESET)
        return qp.qpn

    def reserve_qpn(self) -> int:
        """Return a number that no QP gets but the one that is made with it.

        Drawn where keys are secret, so that a host that sees none of a QP's packets cannot forge one; else the next.
        """
        turn = self._next_qpn
        self._next_qpn += 1
        if not isinstance(self.secrets, random.SystemRandom):
            return turn
        drawn = 0
        while not FIRST_QPN <= drawn < PSN_MASK or drawn in self._drawn_qpns:  # the last one is the multicast QP
            drawn = self.secrets.getrandbits(24)
        self._drawn_qpns[drawn] = turn
        return drawn

    def turn(self, qpn: int) -> int:
        """Return the number that a QP would have if numbers were counted: the same for a seed, whatever was drawn."""
        return self._drawn_qpns.get(qpn, qpn)

    def _make_qp(
        self, qpn: int, peer: str, pd: int, send: CompletionQueue, recv: CompletionQueue, attributes: dict[str, Any]
    ) -> Qp:
        """A QP of this transport; VerbsError for a peer or attributes that cannot be, and then nothing is changed."""
        raise NotImplementedError

    def _not_self(self, peer: str, address: int) -> None:
        """EINVAL for a QP of this host to itself."""
        if address == srv6.from_text(self.config.host.address):
            raise VerbsError("EINVAL", f"{peer} is this host itself; a QP needs another one")

    def qp(self, number: int) -> Qp:
        """EINVAL if there is no such QP."""
        try:
            return self.qps[number]
        except KeyError:
            raise VerbsError("EINVAL", f"there is no QP {number}") from None

    def local_info(self, number: int) -> dict[str, Any]:
        """Return what the peer needs to connect: address, qpn, first PSN, MPR and WIMM of this side."""
        qp = self.qp(number)
        if qp.first_psn is None:
            qp.first_psn = self.secrets.getrandbits(24)
        return {
            "address": self.config.host.address,
            "qpn": qp.qpn,
            "psn": qp.first_psn,
            "mpr": qp.settings.mpr,
            "wimm": qp.settings.wimm,
        }

    def modify_qp(self, number: int, state: QpState | str, **attributes: Any) -> None:
        """One step of the state machine, see states.TRANSITIONS. RTR needs `of_peer`, RTS psn (one's own first)."""
        qp = self.qp(number)
        try:
            target = state if isinstance(state, QpState) else QpState(state)
        except ValueError:
            raise VerbsError("EINVAL", f"there is no QP state {state!r}") from None
        check_transition(qp.state, target, attributes.keys(), self.of_peer)
        for name in self.of_peer:
            low, high = _LIMITS[name]
            if name in attributes and not low <= attributes[name] <= high:
                raise VerbsError("EINVAL", f"{name} {attributes[name]} is outside {low}…{high}")
        if target is QpState.ERROR:
            qp.fail("WR_FLUSH_ERR", "set by the application")
            return
        if target is QpState.RESET:
            qp.reset()
            return
        if target is QpState.RTR:
            qp.ready_to_receive(attributes)
        elif target is QpState.RTS and qp.state is QpState.RTR:
            qp.ready_to_send(attributes["psn"])
        qp.set_state(target)
        if target is QpState.RTR:
            self.connected(qp)

    def connect(self, number: int, remote: dict[str, Any]) -> None:
        """RESET → INIT → RTR → RTS with the peer's `local_info`."""
        qp = self.qp(number)
        missing = sorted(set(self.of_peer) - set(remote))
        if missing:
            raise VerbsError("EINVAL", f"the peer's side lacks {', '.join(missing)}; pass what its local_info returned")
        own = self.local_info(number)
        self.modify_qp(qp.qpn, QpState.INIT)
        self.modify_qp(qp.qpn, QpState.RTR, **{name: remote[name] for name in self.of_peer})
        self.modify_qp(qp.qpn, QpState.RTS, psn=own["psn"])

    def query_qp(self, number: int) -> dict[str, Any]:
        """State, attributes and counters of a QP."""
        qp = self.qp(number)
        return {
            **self.local_info(number),
            **qp.snapshot(),
            "remote_qpn": qp.remote_qpn,
            "pd": qp.pd,
            "cc_profile": qp.settings.cc_profile,
        }

    def destroy_qp(self, number: int) -> None:
        """End a QP; what is outstanding is dropped without completion."""
        qp = self.qp(number)
        qp.close()
        del self.qps[number]
        self._drawn_qpns.pop(number, None)
        self.memory.use_pd(qp.pd, -1)
        qp.send_cq.users -= 1
        qp.recv_cq.users -= 1

    # --- work requests ----------------------------------------------------------------------------

    def post_send(
        self,
        number: int,
        wr_id: int,
        opcode: str,
        lkey: int,
        offset: int,
        length: int,
        remote_va: int,
        rkey: int,
        imm: int | None = None,
    ) -> None:
        """Post RDMA_WRITE or RDMA_WRITE_WITH_IMM of `length` bytes at `offset` of the region `lkey`."""
        qp = self.qp(number)
        check_request(self.transport, opcode, length, remote_va, imm)
        region, view = self.memory.local(lkey, offset, length, qp.pd)
        self.post_from(number, wr_id, opcode, region, view, remote_va, rkey, imm)

    def post_from(
        self,
        number: int,
        wr_id: int,
        opcode: str,
        region: Held | None,
        view: Any,
        remote_va: int,
        rkey: int,
        imm: int | None,
    ) -> None:
        """Post a request that was checked: `view` has its bytes, `region` is in use until it is over."""
        qp = self.qp(number)
        requestor = qp.requestor
        if qp.state is QpState.ERROR:
            qp.complete(requestor.message_class(wr_id, opcode, None, view, remote_va, rkey, None), "WR_FLUSH_ERR")
            return
        if qp.state is not QpState.RTS:
            raise VerbsError("EINVAL", f"QP {number} is in {qp.state.value}; bring it to RTS before posting")
        if len(requestor.incomplete) >= MAX_SEND_WR:
            raise VerbsError(
                "ENOMEM", f"QP {number} has {MAX_SEND_WR} work requests outstanding; poll completions first"
            )
        requestor.post(requestor.message_class(wr_id, opcode, region, view, remote_va, rkey, imm))
        if region is not None:
            region.use(1)
        self.wake(qp)

    def post_recv(self, number: int, wr_id: int) -> None:
        """Post a receive for one immediate."""
        qp = self.qp(number)
        if qp.state is QpState.RESET:
            raise VerbsError("EINVAL", f"QP {number} is in RESET; bring it to INIT before posting receives")
        if qp.state is QpState.ERROR:
            qp.complete_receive(wr_id, 0, 0, "WR_FLUSH_ERR")
            return
        if len(qp.responder.receives) >= MAX_RECV_WR:
            raise VerbsError("ENOMEM", f"QP {number} has {MAX_RECV_WR} receives posted")
        qp.responder.post_receive(wr_id)
