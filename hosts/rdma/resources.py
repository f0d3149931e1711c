"""Verbs of every transport: protection domains, memory regions, completion queues, asynchronous events.

Names and meaning follow the OCP headers, which follow those of RDMA verbs; a call that they refuse raises VerbsError
with their errno.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final, TypeVar

from mrclab.hosts.nic.seam import Transport
from mrclab.hosts.rdma.completion import CompletionQueue, WorkCompletion
from mrclab.hosts.rdma.errors import VerbsError
from mrclab.hosts.rdma.keys import Secrets
from mrclab.hosts.rdma.memory import Access, MemoryRegion, MemoryTable
from mrclab.hosts.rdma.timers import Timers
from mrclab.topo.nodeconfig import NodeConfig

MAX_QP: Final = 1024
MAX_MESSAGE: Final = 1 << 31
MAX_SEND_WR: Final = 4096
MAX_RECV_WR: Final = 4096
MAX_CQE: Final = 1 << 20
FIRST_QPN: Final = 0x100
_DEFAULT_CQE: Final = 8192
_MOST_EVENTS: Final = 1024  # that wait to be asked for; the oldest are forgotten

Cq = TypeVar("Cq", bound=CompletionQueue)

FULL_ACCESS: Final = Access.LOCAL_WRITE | Access.REMOTE_WRITE


def _nobody_asks() -> None:
    """A NIC that asks its transport in every pass needs no word."""


class Resources(Transport):
    """Tables of a host that hold no QPs, and the calls on them."""

    def __init__(
        self,
        config: NodeConfig,
        rng: random.Random,
        log: Callable[[dict[str, Any]], None],
        secrets: Secrets | None = None,
    ) -> None:
        self.config = config
        self.rng = rng
        self.log = log
        self.now = 0.0
        self.on_work = _nobody_asks
        self.timers = Timers()
        self.secrets = (
            secrets or rng
        )  # of keys, QPNs and first PSNs: to guess them is to write to memory, or to end a QP
        self.memory = MemoryTable(self.secrets)
        self._cqs: dict[int, CompletionQueue] = {}
        self._events: list[dict[str, Any]] = []
        self.on_async: Callable[[dict[str, Any]], None] | None = None  # told of each asynchronous event as it happens
        self._next_cq = 1
        self.default_pd = self.memory.alloc_pd()
        self.default_cq = self.create_cq(_DEFAULT_CQE)

    # --- events -----------------------------------------------------------------------------------

    def async_event(self, event: dict[str, Any]) -> None:
        """Keep an event for poll_async and log it."""
        if len(self._events) >= _MOST_EVENTS:
            del self._events[0]
        self._events.append(event)
        self.log({"kind": "async", **event})
        if self.on_async is not None:
            self.on_async(event)

    def poll_async(self) -> list[dict[str, Any]]:
        """Take all asynchronous events so far."""
        events, self._events = self._events, []
        return events

    # --- protection domains, memory ---------------------------------------------------------------

    def alloc_pd(self) -> int:
        """A new protection domain."""
        return self.memory.alloc_pd()

    def dealloc_pd(self, pd: int) -> None:
        """EBUSY while something uses it."""
        self.memory.dealloc_pd(pd)

    def reg_mr(
        self, buffer: Any, access: Access = FULL_ACCESS, pd: int | None = None, va: int | None = None
    ) -> MemoryRegion:
        """Register a buffer (anything that memoryview takes); the region has lkey, rkey, va and length."""
        return self.memory.register(buffer, self.default_pd if pd is None else pd, access, va)

    def dereg_mr(self, lkey: int) -> None:
        """EBUSY while work requests use it."""
        self.memory.deregister(lkey)

    # --- completion queues ------------------------------------------------------------------------

    def create_cq(self, depth: int = _DEFAULT_CQE) -> int:
        """A new completion queue."""
        if depth > MAX_CQE:
            raise VerbsError("EINVAL", f"a completion queue of depth {depth} is deeper than {MAX_CQE}")
        return self.add_cq(lambda number: CompletionQueue(number, depth)).number

    def add_cq(self, make: Callable[[int], Cq]) -> Cq:
        """A completion queue of the caller's kind, made with its number."""
        cq = make(self._next_cq)
        self._cqs[cq.number] = cq
        self._next_cq += 1
        return cq

    def notify_cq(self, number: int, notify: Callable[[], None] | None) -> None:
        """Have `notify` called whenever a completion was added; it must only take note, and poll later."""
        self._cq(number).notify = notify

    def destroy_cq(self, number: int) -> None:
        """EBUSY while a QP uses it."""
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


def check_request(transport: str, opcode: str, length: int, remote_va: int, imm: int | None) -> None:
    """Refuse what no QP of either transport can be asked for: RDMA_WRITE and RDMA_WRITE_WITH_IMM are all there is."""
    if opcode not in {"RDMA_WRITE", "RDMA_WRITE_WITH_IMM"}:
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
        raise VerbsError("EINVAL", f"remote address {remote_va:#x} is no 64-bit address")
