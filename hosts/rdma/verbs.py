"""Verbs of one host for any transport: protection domains, memory, completion queues, QPs, work requests.

Names and meaning follow the OCP headers, which follow those of RDMA verbs; a refused call raises VerbsError with their
errno. Only RDMA_WRITE and RDMA_WRITE_WITH_IMM can be posted. A transport's endpoint makes the QPs.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from mrclab.hosts.rdma.completion import CompletionQueue, WorkCompletion
from mrclab.hosts.rdma.errors import VerbsError
from mrclab.hosts.rdma.memory import Access, MemoryRegion
from mrclab.hosts.rdma.packets.psn import PSN_MASK
from mrclab.hosts.rdma.qp import AnyQueuePair, QpInit
from mrclab.hosts.rdma.states import QpState, check_transition
from mrclab.topo import srv6
from mrclab.topo.config.nodeconfig import MPR_UNIT

if TYPE_CHECKING:
    from mrclab.hosts.rdma.endpoint import Endpoint

MAX_QP: Final = 1024
MAX_MESSAGE: Final = 1 << 31
MAX_SEND_WR: Final = 4096
MAX_RECV_WR: Final = 4096
MAX_CQE: Final = 1 << 20
FIRST_QPN: Final = 0x100
FULL_ACCESS: Final = Access.LOCAL_WRITE | Access.REMOTE_WRITE
_DEFAULT_CQE: Final = 8192
_OPCODES: Final = ("RDMA_WRITE", "RDMA_WRITE_WITH_IMM")
_LIMITS: Final = {"qpn": (0, PSN_MASK), "psn": (0, PSN_MASK), "mpr": (1, 255), "wimm": (1, 0xFFFF)}

Cq = TypeVar("Cq", bound=CompletionQueue)
Qp = TypeVar("Qp", bound=AnyQueuePair)


class Verbs(Generic[Qp]):
    """Objects and calls of one host."""

    def __init__(self, endpoint: Endpoint[Any, Qp]) -> None:
        self._endpoint = endpoint
        self._config = endpoint.config
        self._address = self._config.host.address
        self._number = srv6.from_text(self._address)  # the address as a number
        self.events = endpoint.events
        self.memory = endpoint.memory
        self._secrets = endpoint.secrets  # of QPNs and first PSNs: a host that guesses them can end a QP
        self.qps: dict[int, Qp] = {}
        self._next_qpn = FIRST_QPN
        self._drawn_qpns: dict[int, int] = {}  # of QPs that exist or may still be made: the ordinal of each
        self._cqs: dict[int, CompletionQueue] = {}
        self._next_cq = 1
        self.default_pd = self.memory.alloc_pd()
        self.default_cq = self.create_cq(_DEFAULT_CQE)

    @property
    def transport(self) -> str:
        """Name of the transport in messages."""
        return self._endpoint.transport_name

    def query_device(self) -> dict[str, Any]:
        """Limits and capabilities."""
        config = self._config
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
            "opcodes": list(_OPCODES),
        } | self._endpoint.query_device()

    # --- protection domains, memory ---------------------------------------------------------------

    def alloc_pd(self) -> int:
        """A new protection domain."""
        return self.memory.alloc_pd()

    def dealloc_pd(self, pd: int) -> None:
        """EBUSY while something uses it."""
        _check_not_default("protection domain", pd, self.default_pd)
        self.memory.dealloc_pd(pd)

    def reg_mr(self, buffer: Any, access: Access = FULL_ACCESS, pd: int | None = None) -> MemoryRegion:
        """Register a buffer (anything that memoryview takes); the region has lkey, rkey, va and length."""
        return self.memory.register(buffer, self.default_pd if pd is None else pd, access)

    def dereg_mr(self, lkey: int) -> None:
        """EBUSY while work requests use it."""
        self.memory.deregister(lkey)

    # --- completion queues ------------------------------------------------------------------------

    def create_cq(self, depth: int = _DEFAULT_CQE) -> int:
        """Make a completion queue."""
        if depth > MAX_CQE:
            raise VerbsError("EINVAL", f"a completion queue of depth {depth} is deeper than {MAX_CQE}")
        return self.add_cq(lambda number: CompletionQueue(number, depth)).number

    def add_cq(self, make: Callable[[int], Cq]) -> Cq:
        """Add a completion queue of the caller's class, made with its number."""
        cq = make(self._next_cq)
        self._cqs[cq.number] = cq
        self._next_cq += 1
        return cq

    def notify_cq(self, number: int, notify: Callable[[], None] | None) -> None:
        """Call `notify` whenever a completion was added; it must only set a flag and poll later."""
        self._cq(number).notify = notify

    def destroy_cq(self, number: int) -> None:
        """EBUSY while a QP uses it."""
        _check_not_default("completion queue", number, self.default_cq)
        cq = self._cq(number)
        if cq.users:
            raise VerbsError("EBUSY", f"completion queue {number} still serves {cq.users} QPs; destroy them first")
        del self._cqs[number]

    def poll_cq(self, number: int | None = None, most: int = 16) -> list[WorkCompletion]:
        """Take up to `most` completions; an overflowed queue raises EOVERFLOW once it is empty."""
        cq = self._cq(self.default_cq if number is None else number)
        found = cq.poll(most)
        if not found and cq.overflowed:
            raise VerbsError(
                "EOVERFLOW",
                f"completion queue {cq.number} overflowed and lost completions; make it deeper than {cq.depth}",
            )
        return found

    def _cq(self, number: int) -> CompletionQueue:
        try:
            return self._cqs[number]
        except KeyError:
            raise VerbsError("EINVAL", f"there is no completion queue {number}") from None

    # --- QPs --------------------------------------------------------------------------------------

    def create_qp(
        self,
        peer: str,
        now: float,
        pd: int | None = None,
        send_cq: int | None = None,
        recv_cq: int | None = None,
        qpn: int | None = None,
        **attributes: Any,
    ) -> int:
        """Make a QP to the host with this address, in RESET; return its number (`qpn` if that was reserved for it).

        `attributes` override the node config: see the transport's QpSettings and its `make_qp`.
        """
        if len(self.qps) >= MAX_QP:
            raise VerbsError("ENOMEM", f"a host has at most {MAX_QP} QPs; destroy one first")
        pd = self.default_pd if pd is None else pd
        self.memory.check_pd(pd)
        send = self._cq(self.default_cq if send_cq is None else send_cq)
        recv = self._cq(self.default_cq if recv_cq is None else recv_cq)
        number = self.reserve_qpn() if qpn is None else qpn
        qp = self._endpoint.make_qp(QpInit(number, pd, send, recv), peer, attributes, now)
        self.qps[qp.qpn] = qp
        self.memory.use_pd(pd, +1)
        send.users += 1
        recv.users += 1
        qp.set_state(QpState.RESET)
        return qp.qpn

    def reserve_qpn(self) -> int:
        """Return a number that no other QP will get.

        Random where keys are secret, so that a host that sees none of a QP's packets cannot forge one; else the next.
        """
        ordinal = self._next_qpn
        self._next_qpn += 1
        if not isinstance(self._secrets, random.SystemRandom):
            return ordinal
        drawn = 0
        while not FIRST_QPN <= drawn < PSN_MASK or drawn in self._drawn_qpns:  # the last one is the multicast QP
            drawn = self._secrets.getrandbits(24)
        self._drawn_qpns[drawn] = ordinal
        return drawn

    def ordinal(self, qpn: int) -> int:
        """Return the number that a QP would have if numbers were counted: deterministic per seed."""
        return self._drawn_qpns.get(qpn, qpn)

    def check_remote(self, peer: str, address: int) -> None:
        """EINVAL for a QP of this host to itself."""
        if address == self._number:
            raise VerbsError("EINVAL", f"{peer} is this host itself; a QP needs another one")

    def qp(self, number: int) -> Qp:
        """EINVAL if there is no such QP."""
        try:
            return self.qps[number]
        except KeyError:
            raise VerbsError("EINVAL", f"there is no QP {number}") from None

    def local_info(self, number: int) -> dict[str, Any]:
        """Return the data that the peer needs to connect: address, qpn, first PSN, MPR and WIMM of this side."""
        qp = self.qp(number)
        return {
            "address": self._address,
            "qpn": qp.qpn,
            "psn": self._first_psn(qp),
            **qp.receive_limits(),
        }

    def _first_psn(self, qp: Qp) -> int:
        """Return a QP's first PSN, drawn when it is first requested."""
        psn: int | None = qp.first_psn
        if psn is None:
            psn = qp.first_psn = self._secrets.getrandbits(24)
        return psn

    def modify_qp(self, number: int, state: QpState | str, now: float, **attributes: Any) -> None:
        """Take one step of the state machine (states.TRANSITIONS). RTR needs `remote_attributes`, RTS the own psn."""
        qp, endpoint = self.qp(number), self._endpoint
        try:
            target = state if isinstance(state, QpState) else QpState(state)
        except ValueError:
            raise VerbsError("EINVAL", f"there is no QP state {state!r}") from None
        check_transition(qp.state, target, attributes.keys(), endpoint.remote_attributes)
        _check_limits(endpoint.remote_attributes, attributes)
        if target is QpState.ERROR:
            qp.fail("WR_FLUSH_ERR", "set by the application", now)
            return
        if target is QpState.RESET:
            qp.reset(now)
            return
        if target is QpState.RTR:
            qp.ready_to_receive(attributes)
        elif target is QpState.RTS and qp.state is QpState.RTR:
            qp.ready_to_send(attributes["psn"])
        qp.set_state(target)
        if target is QpState.RTR:
            endpoint.qp_connected(qp, now)

    def connect(self, number: int, remote: dict[str, Any], now: float) -> None:
        """RESET → INIT → RTR → RTS with the peer's `local_info`: the steps of `modify_qp`, checked at once."""
        qp, endpoint = self.qp(number), self._endpoint
        needed = endpoint.remote_attributes
        missing = sorted([name for name in needed if name not in remote])
        if missing:
            raise VerbsError("EINVAL", f"the peer's side lacks {', '.join(missing)}; pass what its local_info returned")
        psn = self._first_psn(qp)
        if qp.state is not QpState.RESET:
            check_transition(qp.state, QpState.INIT, frozenset(), ())
        _check_limits(needed, remote)
        qp.set_state(QpState.INIT)
        qp.ready_to_receive(remote)
        qp.set_state(QpState.RTR)
        endpoint.qp_connected(qp, now)
        qp.ready_to_send(psn)
        qp.set_state(QpState.RTS)

    def query_qp(self, number: int) -> dict[str, Any]:
        """State, attributes and counters of a QP."""
        return {**self.local_info(number), **self.qp(number).query()}

    def release_qpn(self, number: int) -> None:
        """Allow another QP to get a number that was reserved."""
        self._drawn_qpns.pop(number, None)

    def destroy_qp(self, number: int, now: float, keep_qpn: bool = False) -> None:
        """End a QP; outstanding work is dropped without completion. With `keep_qpn` its number stays reserved."""
        qp = self.qp(number)
        qp.close(now)
        del self.qps[number]
        if not keep_qpn:
            self.release_qpn(number)
        self.memory.use_pd(qp.pd, -1)
        qp.send_cq.users -= 1
        qp.recv_cq.users -= 1
        self._endpoint.qp_destroyed(qp)

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
        imm: int | None,
        now: float,
    ) -> None:
        """Post RDMA_WRITE or RDMA_WRITE_WITH_IMM of `length` bytes at `offset` of the region `lkey`."""
        qp = self.qp(number)
        check_request(self.transport, opcode, length, remote_va, imm)
        if not 0 <= rkey <= 0xFFFFFFFF:
            raise VerbsError("EINVAL", f"rkey {rkey} does not fit 32 bits")
        region, view = self.memory.local(lkey, offset, length, qp.pd)
        self.post_checked(number, wr_id, opcode, (region,), view, remote_va, rkey, imm, now)

    def post_checked(
        self,
        number: int,
        wr_id: int,
        opcode: str,
        regions: tuple[MemoryRegion, ...],
        view: Any,
        remote_va: int,
        rkey: int,
        imm: int | None,
        now: float,
    ) -> None:
        """Post a checked request: `view` has its bytes, `regions` are in use until it is completed."""
        qp = self.qp(number)
        requestor = qp.requestor
        if qp.state is QpState.ERROR:
            flushed = requestor.message_class(wr_id, opcode, (), view, remote_va, rkey, None)
            qp.complete(flushed, "WR_FLUSH_ERR", now)
            return
        if qp.state is not QpState.RTS:
            raise VerbsError("EINVAL", f"QP {number} is in {qp.state.value}; bring it to RTS before posting")
        if len(requestor.incomplete) >= MAX_SEND_WR:
            raise VerbsError(
                "ENOMEM", f"QP {number} has {MAX_SEND_WR} work requests outstanding; poll completions first"
            )
        requestor.post(requestor.message_class(wr_id, opcode, regions, view, remote_va, rkey, imm), now)
        for region in regions:
            region.users += 1
        qp.wake()

    def post_recv(self, number: int, wr_id: int, now: float) -> None:
        """Post a receive for one immediate."""
        qp = self.qp(number)
        if qp.state is QpState.RESET:
            raise VerbsError("EINVAL", f"QP {number} is in RESET; bring it to INIT before posting receives")
        if qp.state is QpState.ERROR:
            qp.complete_receive(wr_id, 0, 0, now, "WR_FLUSH_ERR")
            return
        responder = qp.responder
        if len(responder.receives) >= MAX_RECV_WR:
            raise VerbsError("ENOMEM", f"QP {number} has {MAX_RECV_WR} receives posted")
        responder.post_receive(wr_id)


def _check_not_default(title: str, number: int, default: int) -> None:
    """EBUSY for what calls use that name none."""
    if number == default:
        raise VerbsError("EBUSY", f"{title} {number} is this host's default, which stays; destroy one that you made")


def _check_limits(names: Collection[str], given: Mapping[str, Any]) -> None:
    """EINVAL for an attribute outside its range."""
    for name in names:
        low, high = _LIMITS[name]
        if name in given and not (isinstance(given[name], int) and low <= given[name] <= high):
            raise VerbsError("EINVAL", f"invalid {name} {given[name]!r}: expected a whole number of {low}…{high}")


def check_request(transport: str, opcode: str, length: int, remote_va: int, imm: int | None) -> None:
    """Refuse a request that no QP of either transport supports."""
    if opcode not in _OPCODES:
        raise VerbsError(
            "EOPNOTSUPP", f"{opcode} cannot be posted: {transport} has RDMA_WRITE and RDMA_WRITE_WITH_IMM only"
        )
    if (imm is not None) != (opcode == "RDMA_WRITE_WITH_IMM"):
        raise VerbsError("EINVAL", f"{opcode} {'needs' if imm is None else 'takes no'} imm")
    if imm is not None and not 0 <= imm <= 0xFFFFFFFF:
        raise VerbsError("EINVAL", f"imm {imm} does not fit 32 bits")
    if length > MAX_MESSAGE:
        raise VerbsError("EMSGSIZE", f"{length} bytes are more than the {MAX_MESSAGE} of one message; split it")
    if not 0 <= remote_va <= (1 << 64) - 1 - length:
        raise VerbsError("EINVAL", f"remote address {remote_va:#x} is not a 64-bit address")
