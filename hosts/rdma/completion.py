"""Completion queues: bounded, in order; an overflow is reported."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from mypy_extensions import mypyc_attr

from mrclab.hosts.rdma.errors import VerbsError
from mrclab.topo.economy import EMPTY_QUEUE


class WorkCompletion(NamedTuple):
    """One completed work request."""

    wr_id: int
    status: str  # SUCCESS, or what went wrong
    opcode: str  # RDMA_WRITE, RDMA_WRITE_WITH_IMM, RECV_RDMA_WITH_IMM
    byte_len: int
    qp: int
    imm: int | None = None
    t: float = 0.0  # when it completed


@mypyc_attr(allow_interpreted_subclasses=True)
class CompletionQueue:
    """A CQ of `depth` entries; a further one is lost, and the queue stays overflowed."""

    def __init__(self, number: int, depth: int) -> None:
        if depth < 1:
            raise VerbsError("EINVAL", f"a completion queue of depth {depth} holds nothing; give at least 1")
        self.number = number
        self.depth = depth
        self.users = 0
        self.overflowed = False
        self.notify: Callable[[], None] | None = None  # called whenever an entry was added
        self._entries: deque[WorkCompletion] = EMPTY_QUEUE

    def push(self, completion: WorkCompletion) -> bool:
        """Add an entry; return False if the queue is full and the entry was lost."""
        if len(self._entries) >= self.depth:
            self.overflowed = True
            return False
        if self._entries is EMPTY_QUEUE:
            self._entries = deque()
        self._entries.append(completion)
        if self.notify is not None:
            self.notify()
        return True

    def poll(self, most: int) -> list[WorkCompletion]:
        """Take up to `most` entries."""
        entries = self._entries
        found = [entries.popleft() for _ in range(min(most, len(entries)))]
        if not entries:
            self._entries = EMPTY_QUEUE
        return found

    def __len__(self) -> int:
        return len(self._entries)
