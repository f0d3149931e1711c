"""The agent's verbs: operations that follow those of the MRC headers, with JSON in place of pointers.

Handles (`pd`, `cq`, `qp`, `lkey`, `rkey`) are the transport's own. A call that the transport refuses returns the errno
name that the headers give for it and one sentence. Without a `pd` or `cq` the host's default is used.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Iterable
from heapq import merge
from itertools import count, islice
from typing import Any

from mrclab.hosts.agent.api import exact_fields
from mrclab.hosts.memory.memory import STEP_INTERVAL_S, Buffer, Memory
from mrclab.hosts.memory.memory import Access as FileAccess
from mrclab.hosts.nic.interface import Loop
from mrclab.hosts.rdma.completion import WorkCompletion
from mrclab.hosts.rdma.errors import VerbsError
from mrclab.hosts.rdma.memory import Access
from mrclab.hosts.rdma.verbs import FULL_ACCESS, Verbs
from mrclab.hosts.transports import Endpoint

Result = dict[str, Any]


class VerbOperations:
    """Methods without underscore are operations. `address` returns the address of a host, given by name or address."""

    def __init__(self, endpoint: Endpoint, loop: Loop, memory: Memory, address: Callable[[str], str]) -> None:
        self._verbs: Verbs[Any] = endpoint.verbs
        self._loop = loop
        self._memory = memory
        self._address = address
        self._buffers: dict[int, Buffer] = {}
        self._completions = UnreadCompletions()
        self._pds, self._cqs = {self._verbs.default_pd}, {self._verbs.default_cq}  # not those of programs

    # --- device, protection domains, completion queues ----------------------------------------------------------------

    def query_device(self) -> Result:
        """Return limits and capabilities."""
        return self._verbs.query_device()

    def poll_async(self) -> Result:
        """Return and remove asynchronous events, oldest first."""
        return {"events": self._verbs.events.poll()}

    def alloc_pd(self) -> Result:
        """Make a protection domain."""
        pd = self._verbs.alloc_pd()
        self._pds.add(pd)
        return {"pd": pd}

    def dealloc_pd(self, pd: int) -> None:
        """Remove a protection domain; EBUSY while something uses it."""
        _check_handle("protection domain", pd, self._pds)
        self._verbs.dealloc_pd(pd)
        self._pds.remove(pd)

    def create_cq(self, depth: int) -> Result:
        """Make a completion queue."""
        cq = self._verbs.create_cq(depth)
        self._cqs.add(cq)
        return {"cq": cq}

    def destroy_cq(self, cq: int) -> None:
        """Remove a completion queue; EBUSY while a QP uses it."""
        _check_handle("completion queue", cq, self._cqs)
        self._verbs.destroy_cq(cq)
        self._cqs.remove(cq)

    def poll_cq(self, qp: int | None = None, cq: int | None = None, limit: int = 1024) -> Result:
        """Return and remove completions, oldest first: of one queue, or of the default one, there of one QP or of all.

        A queue that overflowed returns EOVERFLOW once it has none of these.
        """
        if cq is not None:
            _check_handle("completion queue", cq, self._cqs)
            return _as_result(self._verbs.poll_cq(cq, limit))
        overflow = None
        try:
            while found := self._verbs.poll_cq():
                self._completions.add(found)
        except VerbsError as error:
            overflow = error
        taken = self._completions.take(qp, limit)
        if overflow is not None and not taken:
            raise overflow
        return _as_result(taken)

    # --- memory -------------------------------------------------------------------------------------------------------

    def reg_mr(
        self, path: str, length: int | None = None, access: FileAccess = "read", pd: int | None = None
    ) -> Result:
        """Register a file as memory region; with access "write" it is made, and the peer may write to it."""
        _check_handle("protection domain", pd, self._pds)
        buffer = self._memory.map(path, length, access)
        try:
            region = self._verbs.reg_mr(buffer, FULL_ACCESS if access == "write" else Access(0), pd)
        except VerbsError:
            self._memory.unmap(buffer)
            raise
        self._buffers[region.lkey] = buffer
        self._memory.watch(buffer, lambda: region.lose(path))
        step = self._memory.populate(buffer, access)
        if step is not None:
            self._loop.until_done(STEP_INTERVAL_S, step)
        return {"lkey": region.lkey, "rkey": region.rkey, "va": region.va, "length": region.length}

    def dereg_mr(self, lkey: int) -> None:
        """Deregister a region; EBUSY while a request uses it."""
        if lkey not in self._buffers:
            raise VerbsError("EINVAL", f"no file is registered with key {lkey:#x}")
        self._verbs.dereg_mr(lkey)
        self._memory.unmap(self._buffers.pop(lkey))

    # --- queue pairs --------------------------------------------------------------------------------------------------

    def create_qp(
        self,
        peer: str,
        profile: str | None = None,
        attributes: dict[str, Any] | None = None,
        pd: int | None = None,
        send_cq: int | None = None,
        recv_cq: int | None = None,
    ) -> Result:
        """Make a QP to a host, given by name or address; return the data that the peer needs for `connect_qp`.

        `profile` names an EV profile of the node config; `attributes` override its transport defaults.
        """
        _check_handle("protection domain", pd, self._pds)
        _check_handle("completion queue", send_cq, self._cqs)
        _check_handle("completion queue", recv_cq, self._cqs)
        chosen = dict(attributes or {}) | ({} if profile is None else {"ev_profile": profile})
        qp = self._verbs.create_qp(self._address(peer), self._loop.now, pd, send_cq, recv_cq, **chosen)
        return {"qp": qp, **self._verbs.local_info(qp)}

    def modify_qp(self, qp: int, state: str, attributes: dict[str, int] | None = None) -> None:
        """Take one step of the state machine; RTR needs the peer's qpn, psn, mpr and wimm, RTS the own psn."""
        self._verbs.modify_qp(qp, state, self._loop.now, **(attributes or {}))

    def connect_qp(self, qp: int, remote: dict[str, Any]) -> None:
        """Bring a QP to RTS with the result of the peer's `create_qp`."""
        self._verbs.connect(qp, remote, self._loop.now)

    def query_qp(self, qp: int) -> Result:
        """Return state, attributes and counters of a QP."""
        return self._verbs.query_qp(qp)

    def destroy_qp(self, qp: int) -> None:
        """Remove a QP; outstanding work is dropped without completion."""
        self._verbs.destroy_qp(qp, self._loop.now)

    # --- work ---------------------------------------------------------------------------------------------------------

    def post_send(
        self,
        qp: int,
        wr_id: int,
        opcode: str,
        local: dict[str, int],
        remote: dict[str, int],
        imm: int | None = None,
    ) -> None:
        """Post an RDMA_WRITE or RDMA_WRITE_WITH_IMM: `local` {lkey, offset, length}, `remote` {va, rkey}."""
        source = exact_fields("local", local, {"lkey": ..., "offset": 0, "length": ...})
        target = exact_fields("remote", remote, {"va": ..., "rkey": ...})
        self._verbs.post_send(
            qp, wr_id, opcode, **source, remote_va=target["va"], rkey=target["rkey"], imm=imm, now=self._loop.now
        )

    def post_recv(self, qp: int, wr_id: int) -> None:
        """Post a receive for one RDMA_WRITE_WITH_IMM."""
        self._verbs.post_recv(qp, wr_id, self._loop.now)


def _check_handle(title: str, handle: int | None, known: Container[int]) -> None:
    """EINVAL for a handle that these operations did not give out."""
    if handle is not None and handle not in known:
        raise VerbsError("EINVAL", f"there is no {title} {handle}")


def _as_result(completions: list[WorkCompletion]) -> Result:
    return {"completions": [done._asdict() for done in completions]}


class UnreadCompletions:
    """Completions polled and not yet read. The cost of a read is proportional to its result alone."""

    def __init__(self) -> None:
        self._serial = count()
        self._by_qp: dict[int, deque[tuple[int, WorkCompletion]]] = {}

    def add(self, found: Iterable[WorkCompletion]) -> None:
        """Add later completions."""
        for done in found:
            self._by_qp.setdefault(done.qp, deque()).append((next(self._serial), done))

    def take(self, qp: int | None, limit: int) -> list[WorkCompletion]:
        """Remove and return up to `limit` of one QP, or (None) of all, oldest first."""
        queues = self._by_qp.values() if qp is None else [self._by_qp.get(qp, deque())]
        taken = [done for _, done in islice(merge(*queues), max(0, limit))]
        for done in taken:
            queue = self._by_qp[done.qp]
            queue.popleft()
            if not queue:
                del self._by_qp[done.qp]
        return taken

    def __bool__(self) -> bool:
        return bool(self._by_qp)
