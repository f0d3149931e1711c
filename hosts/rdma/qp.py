"""Queue pair of both transports: states, completions, and the common part of its two halves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final, Generic, TypeVar

from mrclab.hosts.rdma.completion import CompletionQueue, WorkCompletion
from mrclab.hosts.rdma.events import AsyncEvents
from mrclab.hosts.rdma.packets.message import PostedWrite
from mrclab.hosts.rdma.states import QpState

M = TypeVar("M", bound=PostedWrite)
Q = TypeVar("Q", bound="QueuePair[Any, Any]")
SendT = TypeVar("SendT", bound="SendHalf[Any, Any]")
ReceiveT = TypeVar("ReceiveT", bound="ReceiveHalf")


class SendHalf(Generic[M, Q]):
    """The send queue of a QP of type Q, with messages of type M. Made when something is first posted."""

    __slots__ = ("first_psn", "incomplete", "qp")

    message_class: ClassVar[type[PostedWrite]]
    qp: Q
    first_psn: int  # of the wire, set at RTS
    incomplete: list[M]  # all that are posted and not completed, in order

    def post(self, message: M, now: float) -> None:
        """Queue a message."""
        raise NotImplementedError

    def region_lost(self, message: M, now: float) -> bool:
        """Return True if reading a message showed that its memory is lost; the QP has then failed."""
        for region in message.regions:
            if region.fault:
                self.qp.fail("LOC_PROT_ERR", region.fault, now)
                return True
        return False

    def flush(self, status: str, rest: str, now: float) -> None:
        """Flush a failed QP: the oldest message completes with `status`, all others with `rest`."""
        for message in self._clear(now):
            self.qp.complete(message, status, now)
            status = rest

    def drop(self, now: float) -> None:
        """The QP is closed: outstanding messages end without completion."""
        for message in self._clear(now):
            message.release()

    def _clear(self, now: float) -> Iterable[M]:
        """Forget all outstanding messages; return those that were not completed."""
        raise NotImplementedError

    def snapshot(self) -> dict[str, Any]:
        """Numbers for samples."""
        raise NotImplementedError


class ReceiveHalf:
    """Receiving half of a QP. Made when something first arrives, or a receive is posted."""

    __slots__ = ("first_psn", "last_placed", "max_gap", "msn", "receives")

    def __init__(self, first_psn: int) -> None:
        self.first_psn = first_psn  # that is expected
        self.msn = 0  # completely received messages, in order
        self.receives: list[int] = []  # wr_ids of posted receives
        self.last_placed = 0.0  # time of the last new payload; 0: none so far
        self.max_gap = 0.0  # longest interval between two, since it was last reset

    def post_receive(self, wr_id: int) -> None:
        """Add a receive for the peer to consume."""
        self.receives.append(wr_id)

    def snapshot(self) -> dict[str, Any]:
        """Numbers for samples."""
        return {"last_placed": self.last_placed, "max_gap": self.max_gap}


class QpInit:
    """Number and objects of a new QP, as in `ibv_qp_init_attr`."""

    __slots__ = ("pd", "qpn", "recv_cq", "send_cq")

    def __init__(self, qpn: int, pd: int, send_cq: CompletionQueue, recv_cq: CompletionQueue) -> None:
        self.qpn = qpn
        self.pd = pd
        self.send_cq = send_cq
        self.recv_cq = recv_cq


NO_ARRIVALS: Final = {"last_placed": 0.0, "max_gap": 0.0}
"""Snapshot of a receiving half that is not made."""


class QueuePair(Generic[SendT, ReceiveT]):
    """One QP. Made by the verbs, driven by the endpoint. A transport's subclass has settings, counters and paths.

    Each half is made at its first use: most QPs only send or only receive, and a half is larger than all the rest.
    """

    __slots__ = (
        "_fingerprint", "events", "first_psn", "known_requestor", "known_responder", "owner_died", "pd", "peer_text",
        "qpn", "recv_cq", "remote_psn", "remote_qpn", "send_cq", "sent_psn", "state", "writable_pd",
    )  # fmt: skip

    requestor_class: ClassVar[type[Any]]
    responder_class: ClassVar[type[Any]]

    def __init__(self, events: AsyncEvents, init: QpInit, peer_text: str) -> None:
        self.events = events
        self.qpn, self.pd, self.send_cq, self.recv_cq = init.qpn, init.pd, init.send_cq, init.recv_cq
        self.writable_pd = init.pd  # of the regions that the peer may write to; 0: none
        self.peer_text = peer_text  # address of the peer
        self.state = QpState.RESET
        self.owner_died = False  # owner died: the peer gets no responses, as if there were no QP
        self.remote_qpn = 0
        self.first_psn: int | None = None  # drawn with `local_info`
        self.sent_psn = 0  # the first on the wire, set at RTS
        self.remote_psn = 0  # the first expected, set at RTR
        self.known_requestor: SendT | None = None
        self.known_responder: ReceiveT | None = None
        self._fingerprint: tuple[Any, ...] = ()

    # --- halves -----------------------------------------------------------------------------------

    @property
    def requestor(self) -> SendT:
        """The sending half."""
        found = self.known_requestor
        if found is None:
            found = self.known_requestor = self.requestor_class(self)
            found.first_psn = self.sent_psn
        return found

    @property
    def responder(self) -> ReceiveT:
        """The receiving half."""
        found = self.known_responder
        if found is None:
            found = self.known_responder = self.responder_class(self)
        return found

    @property
    def outstanding(self) -> int:
        """Number of work requests that are posted and not completed."""
        requestor = self.known_requestor
        return 0 if requestor is None else len(requestor.incomplete)

    # --- states -----------------------------------------------------------------------------------

    def ready_to_receive(self, peer: Mapping[str, int]) -> None:
        """RTR: use the peer's `local_info`, at least QP number and first PSN."""
        self.remote_qpn = peer["qpn"]
        self.remote_psn = peer["psn"]
        if self.known_responder is not None:  # receives were posted
            self.known_responder.first_psn = self.remote_psn

    def ready_to_send(self, psn: int) -> None:
        """RTS: use the own first PSN."""
        self.sent_psn = psn
        if self.known_requestor is not None:
            self.known_requestor.first_psn = psn

    def reset(self, now: float) -> None:
        """Reset: nothing outstanding, all protocol counters at zero."""
        self.close(now)
        self.first_psn = None
        self._begin(now)
        self.set_state(QpState.RESET)

    def close(self, now: float) -> None:
        """Drop everything outstanding without a completion."""
        self._halt()
        if self.known_requestor is not None:
            self.known_requestor.drop(now)

    def _begin(self, now: float) -> None:
        """Reset the state of a connection; a subclass has more than the halves."""
        self.known_requestor = None
        self.known_responder = None
        self.sent_psn = self.remote_psn = 0

    def _halt(self) -> None:
        """Stop timers; the caller clears the send queue."""

    def wake(self) -> None:
        """There may be data to send."""
        raise NotImplementedError

    def set_state(self, state: QpState, reason: str = "") -> None:
        """Change the state and log it."""
        self.state = state
        if self.events.logs_states or state is QpState.ERROR:
            self.log("qp.state", qpn=self.qpn, peer=self.peer_text, state=state.value, reason=reason)

    def fail(self, status: str, reason: str, now: float, at_fault: bool = True) -> None:
        """To ERROR: outstanding work is flushed, and the application is notified."""
        if self.state is QpState.ERROR:
            return
        self.set_state(QpState.ERROR, reason)
        self.events.report({"event": "QP_FATAL", "qp": self.qpn, "reason": reason})
        self._halt()
        if self.known_requestor is not None:
            self.known_requestor.flush(status if at_fault else "WR_FLUSH_ERR", "WR_FLUSH_ERR", now)
        receives = [] if self.known_responder is None else self.known_responder.receives
        while receives:
            self.complete_receive(receives.pop(0), 0, 0, now, "WR_FLUSH_ERR")

    # --- services for the halves ------------------------------------------------------------------

    def log(self, kind: str, **fields: Any) -> None:
        """Append a history record of this QP."""
        self.events.log({"kind": kind, "qp": self.qpn, **fields})

    def complete(self, message: PostedWrite, status: str, now: float) -> None:
        """Complete a posted write."""
        message.release()
        if self.events.logs_states:
            self.log("wr.done", wr_id=message.wr_id, opcode=message.opcode, status=status, bytes=message.length)
        self._push(
            self.send_cq, WorkCompletion(message.wr_id, status, message.opcode, message.length, self.qpn, None, now)
        )

    def complete_receive(self, wr_id: int, imm: int, length: int, now: float, status: str = "SUCCESS") -> None:
        """Complete a posted receive."""
        self._push(self.recv_cq, WorkCompletion(wr_id, status, "RECV_RDMA_WITH_IMM", length, self.qpn, imm, now))

    def _push(self, cq: CompletionQueue, completion: WorkCompletion) -> None:
        """Add a completion; a full queue fails the QP, so a caller with more to complete checks the state first."""
        known = cq.overflowed
        if cq.push(completion):
            return
        if not known:
            self.events.report({"event": "CQ_ERR", "cq": cq.number, "qp": self.qpn})
        self.fail("WR_FLUSH_ERR", f"completion queue {cq.number} overflowed", completion.t)

    # --- views ------------------------------------------------------------------------------------

    def receive_limits(self) -> dict[str, int]:
        """MPR and WIMM of this side, for `local_info`."""
        raise NotImplementedError

    def counters(self) -> tuple[Any, ...]:
        """Values of all counters, and the state of congestion control."""
        raise NotImplementedError

    def rows(self) -> dict[str, Any]:
        """Counters and congestion control by name, for samples."""
        raise NotImplementedError

    def path_snapshots(self) -> list[dict[str, Any]]:
        """One row for each path that the QP uses."""
        raise NotImplementedError

    def fingerprint(self) -> tuple[Any, ...]:
        """Return all state that this QP's sample rows depend on: equal fingerprints mean equal rows."""
        return (self.state, *self.counters(), self._sent(), self._received())

    def changed(self) -> bool:
        """Return True if the fingerprint differs from that of the last call."""
        fingerprint = self.fingerprint()
        if fingerprint == self._fingerprint:
            return False
        self._fingerprint = fingerprint
        return True

    def snapshot(self) -> dict[str, Any]:
        """Counters and state for a sample."""
        return {
            "qp": self.qpn,
            "qpn": self.qpn,
            "peer": self.peer_text,
            "state": self.state.value,
            **self.rows(),
            **self._sent(),
            **self._received(),
        }

    def _sent(self) -> dict[str, Any]:
        requestor = self.known_requestor
        return self._nothing_sent() if requestor is None else requestor.snapshot()

    def _nothing_sent(self) -> dict[str, Any]:
        """Snapshot of a sending half that is not made."""
        raise NotImplementedError

    def _received(self) -> dict[str, Any]:
        responder = self.known_responder
        return NO_ARRIVALS if responder is None else responder.snapshot()

    def query(self) -> dict[str, Any]:
        """State, attributes and counters for `query_qp`."""
        return {**self.snapshot(), "remote_qpn": self.remote_qpn, "pd": self.pd}


AnyQueuePair = QueuePair[Any, Any]
