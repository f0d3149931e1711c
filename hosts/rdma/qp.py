"""A queue pair of either transport: its life, its completions, and what is alike in its two halves."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from mrclab.hosts.rdma.completion import CompletionQueue, WorkCompletion
from mrclab.hosts.rdma.emptyqueue import EMPTY_QUEUE
from mrclab.hosts.rdma.memory import MemoryTable
from mrclab.hosts.rdma.packets.message import PostedWrite
from mrclab.hosts.rdma.settings import QpSettings
from mrclab.hosts.rdma.states import QpState
from mrclab.hosts.rdma.stats import QpStats
from mrclab.hosts.rdma.timers import Timers
from mrclab.topo.nodeconfig import NodeConfig

M = TypeVar("M", bound=PostedWrite)
Q = TypeVar("Q", bound="QueuePair[Any, Any, Any, Any, Any, Any]")
HostT = TypeVar("HostT", bound="QpServices")
SettingsT = TypeVar("SettingsT", bound=QpSettings)
StatsT = TypeVar("StatsT", bound=QpStats)
CcT = TypeVar("CcT", bound="Shown")
SendT = TypeVar("SendT", bound="SendHalf[Any, Any]")
ReceiveT = TypeVar("ReceiveT", bound="ReceiveHalf")


class QpServices(Protocol):
    """Services of the endpoint to its QPs; each transport adds its own."""

    config: NodeConfig
    rng: random.Random
    timers: Timers
    memory: MemoryTable
    now: float  # time of the call being handled

    def log(self, record: dict[str, Any]) -> None:
        """Append a history record."""

    def plane_up(self, plane: int) -> bool:
        """Return True if the local port of a plane is up."""

    def async_event(self, event: dict[str, Any]) -> None:
        """Tell the application of something that no call asked for."""


class Shown(Protocol):
    """A part of a QP that has numbers for samples."""

    def snapshot(self) -> dict[str, Any]:
        """Numbers by name."""


class SendHalf(Generic[M, Q]):
    """The send queue of a QP of type Q, with messages of type M."""

    message_class: ClassVar[type[PostedWrite]]
    qp: Q
    first_psn: int  # of the wire, set at RTS
    incomplete: deque[M]  # all that are posted and not completed, in order

    def restart(self, first_psn: int) -> None:
        """Set the first PSN on the wire (at RTS)."""
        self.first_psn = first_psn

    def post(self, message: M) -> None:
        """Queue a message."""
        raise NotImplementedError

    def region_gone(self, message: M) -> bool:
        """Return True if the bytes of a message are gone, as reading them showed; the QP has failed then."""
        region = message.region
        if region is None or not region.gone():
            return False
        self.qp.fail("LOC_PROT_ERR", region.gone())
        return True

    def flush(self, status: str, rest: str) -> None:
        """The QP failed: the oldest message completes with `status`, all others with `rest`."""
        for message in self._clear():
            self.qp.complete(message, status)
            status = rest

    def drop(self) -> None:
        """The QP goes: outstanding messages end without completion."""
        for message in self._clear():
            message.release()

    def _clear(self) -> Iterable[M]:
        """Forget all that is outstanding; return what was not completed."""
        raise NotImplementedError

    def snapshot(self) -> dict[str, Any]:
        """Numbers for samples."""
        raise NotImplementedError


class ReceiveHalf:
    """Receiving half of a QP."""

    __slots__ = ("first_psn", "last_placed", "max_gap", "msn", "receives")

    def __init__(self) -> None:
        self.first_psn = 0
        self.msn = 0  # messages received completely, in order
        self.receives: deque[int] = EMPTY_QUEUE  # wr_ids of posted receives
        self.last_placed = 0.0  # time of the last new payload
        self.max_gap = 0.0  # longest time between two, since somebody last set it to 0

    def post_receive(self, wr_id: int) -> None:
        """One more receive that a peer may use up."""
        if self.receives is EMPTY_QUEUE:
            self.receives = deque()
        self.receives.append(wr_id)

    def restart(self, first_psn: int) -> None:
        """Set the first PSN expected (at RTR)."""
        self.first_psn = first_psn

    def snapshot(self) -> dict[str, Any]:
        """Numbers for samples."""
        return {"last_placed": self.last_placed, "max_gap": self.max_gap}


class QueuePair(Generic[HostT, SettingsT, StatsT, CcT, SendT, ReceiveT]):
    """One QP. Made by the verbs, driven by the endpoint. A transport says by the parameters what its parts are."""

    host: HostT
    requestor: SendT
    responder: ReceiveT
    settings: SettingsT
    stats: StatsT
    read_stats: ClassVar[attrgetter[tuple[Any, ...]]]
    cc: CcT

    def __init__(
        self, host: HostT, qpn: int, peer_text: str, pd: int, send_cq: CompletionQueue, recv_cq: CompletionQueue
    ) -> None:
        self.host = host
        self.qpn = qpn
        self.peer_text = peer_text  # address of the peer
        self.pd = pd
        self.send_cq = send_cq
        self.recv_cq = recv_cq
        self.memory = host.memory
        self.timers = host.timers
        self.state = QpState.RESET
        self.orphaned = False  # its program died: the peer is told nothing more, as if there were no QP
        self.remote_qpn = 0
        self.first_psn: int | None = None  # drawn when the peer is told
        self._pulse: tuple[Any, ...] = ()

    # --- life -------------------------------------------------------------------------------------

    def ready_to_receive(self, peer: Mapping[str, int]) -> None:
        """RTR: what the peer's `local_info` says, its QP number and first PSN at least."""
        self.remote_qpn = peer["qpn"]
        self.responder.restart(peer["psn"])

    def ready_to_send(self, psn: int) -> None:
        """RTS: one's own first PSN."""
        self.requestor.restart(psn)

    def reset(self) -> None:
        """Back to the start: nothing outstanding, all counters of the protocol at zero."""
        self.close()
        self.first_psn = None
        self._begin()
        self.set_state(QpState.RESET)

    def close(self) -> None:
        """Drop everything outstanding without a completion."""
        self._halt()
        self.requestor.drop()

    def _begin(self) -> None:
        """Make the two halves, and what else starts anew with them."""
        raise NotImplementedError

    def _halt(self) -> None:
        """Stop what runs by itself; the send queue is seen to by the caller."""

    def set_state(self, state: QpState, reason: str = "") -> None:
        """Change the state and say so."""
        self.state = state
        self.log("qp.state", qpn=self.qpn, peer=self.peer_text, state=state.value, reason=reason)

    def fail(self, status: str, reason: str, at_fault: bool = True) -> None:
        """To ERROR: outstanding work is flushed, and the application is told."""
        if self.state is QpState.ERROR:
            return
        self.set_state(QpState.ERROR, reason)
        self.host.async_event({"event": "QP_FATAL", "qp": self.qpn, "reason": reason})
        self._halt()
        self.requestor.flush(status if at_fault else "WR_FLUSH_ERR", "WR_FLUSH_ERR")
        receives = self.responder.receives
        while receives:
            self.complete_receive(receives.popleft(), 0, 0, "WR_FLUSH_ERR")

    # --- services for the halves ------------------------------------------------------------------

    def log(self, kind: str, **fields: Any) -> None:
        """A history record of this QP."""
        self.host.log({"kind": kind, "qp": self.qpn, **fields})

    def complete(self, message: PostedWrite, status: str) -> None:
        """A posted write is over."""
        message.release()
        self.log("wr.done", wr_id=message.wr_id, opcode=message.opcode, status=status, bytes=message.length)
        done = WorkCompletion(message.wr_id, status, message.opcode, message.length, self.qpn, None, self.host.now)
        self._push(self.send_cq, done)

    def complete_receive(self, wr_id: int, imm: int, length: int, status: str = "SUCCESS") -> None:
        """A posted receive has got its immediate."""
        self._push(
            self.recv_cq, WorkCompletion(wr_id, status, "RECV_RDMA_WITH_IMM", length, self.qpn, imm, self.host.now)
        )

    def _push(self, cq: CompletionQueue, completion: WorkCompletion) -> None:
        """Add a completion; a full queue fails the QP, so a caller with more to complete looks at the state first."""
        known = cq.overflowed
        if cq.push(completion):
            return
        if not known:
            self.host.async_event({"event": "CQ_ERR", "cq": cq.number, "qp": self.qpn})
        self.fail("WR_FLUSH_ERR", f"completion queue {cq.number} overflowed")

    # --- views ------------------------------------------------------------------------------------

    def pulse(self) -> tuple[Any, ...]:
        """All that this QP's rows in a sample are made of: as long as it stays the same, so do they."""
        return (
            self.state,
            self.read_stats(self.stats),
            self.cc.snapshot(),
            self.requestor.snapshot(),
            self.responder.snapshot(),
        )

    def moved(self) -> bool:
        """Return True if its pulse is another than when this was asked last."""
        pulse = self.pulse()
        if pulse == self._pulse:
            return False
        self._pulse = pulse
        return True

    def snapshot(self) -> dict[str, Any]:
        """Counters and state for a sample."""
        return {
            "qp": self.qpn,
            "qpn": self.qpn,
            "peer": self.peer_text,
            "state": self.state.value,
            **self.stats.as_dict(),
            **self.cc.snapshot(),
            **self.requestor.snapshot(),
            **self.responder.snapshot(),
        }


AnyQueuePair = QueuePair[Any, Any, Any, Any, Any, Any]
