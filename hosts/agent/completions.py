"""Completions of a queue that several clients poll, each for its own QP: grouped by QP, in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from heapq import merge
from itertools import count, islice

from mrclab.hosts.rdma.completion import WorkCompletion


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
