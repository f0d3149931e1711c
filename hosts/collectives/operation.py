"""Groups of ranks, and their operations: generators of `algorithms` that the mesh's thread resumes.

A `MeshOperation` is over when its generator has ended and the NIC has all it sent.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from mrclab.hosts.collectives.algorithms import Collective
from mrclab.hosts.collectives.lane import HEADER, Outgoing

if TYPE_CHECKING:
    from mrclab.hosts.collectives.mesh import Mesh

ORDERED, MESSAGE, NOTICE, GOODBYE = 1, 2, 3, 4  # kinds of segments; ORDERED: of collectives, in the group's order
ANY: Final = -1
"""In place of a rank: receive from the first that sends."""


class CollectiveError(RuntimeError):
    """A collective that failed on this `rank`, with the `peer` to blame, if there is one, and the `reason`."""

    def __init__(self, text: str, rank: int, peer: int | None, reason: str) -> None:
        super().__init__(text)
        self.rank, self.peer, self.reason = rank, peer, reason


class CollectiveTimeoutError(CollectiveError):
    """A collective that exceeded its time-out."""


class Group:
    """Ranks that work together: `ranks` are the job's, in the group's order. Made by `Mesh.group`."""

    def __init__(self, name: str, ranks: Sequence[int], own: int) -> None:
        self.name = name
        self.ranks = list(ranks)
        self.number = zlib.crc32(name.encode())
        self.rank = self.ranks.index(own)
        self.broken: CollectiveError | None = None
        self._ordered = itertools.count()
        self._sent: dict[tuple[int, int], int] = defaultdict(int)  # messages by peer and tag
        self.received: dict[tuple[int, int], int] = defaultdict(int)

    def next_ordered(self) -> int:
        """The number of the next collective."""
        return next(self._ordered)

    def next_sent(self, rank: int, tag: int) -> int:
        """The number of the next message to a rank with a tag."""
        self._sent[rank, tag] += 1
        return self._sent[rank, tag] - 1

    def next_received(self, rank: int, tag: int) -> int:
        """The number of the next message from a rank with a tag."""
        self.received[rank, tag] += 1
        return self.received[rank, tag] - 1


class MeshOperation:
    """One collective, or one message, of this rank.

    `run(operation)` gives the generator, whose ranks are the group's. `code` identifies the collective, so that ranks
    that call different ones learn of it. `total` is the length of a message. The mesh's thread calls `on_end`.
    """

    def __init__(
        self,
        mesh: Mesh,
        group: Group,
        name: str,
        run: Callable[[MeshOperation], Collective],
        timeout: float,
        *,
        code: int = 0,
        kind: int = ORDERED,
        tag: int = 0,
        total: int = 0,
        source: int | None = None,
        sends_to: int | None = None,
        on_end: Callable[[MeshOperation], None] | None = None,
    ) -> None:
        self.group, self.name = group, name
        self.error: CollectiveError | None = None
        self.code, self.kind, self.tag, self.total = code, kind, tag, total
        self.timeout, self.deadline = timeout, time.monotonic() + timeout
        self.source = source  # rank of the group that a message comes from, or ANY
        self._mesh, self._run, self._on_end = mesh, run, on_end
        self._generator: Collective | None = None
        self._ended = False
        self._unsent = 0
        self._over = threading.Event()
        self._indexes: dict[int, int] = defaultdict(int)  # next segment to each rank
        self.expected: dict[int, int] = defaultdict(int)  # next segment from each rank
        self.awaited: tuple[int, int] | None = None  # rank of the group, bytes
        self.waiting_since = 0.0
        if kind == ORDERED:
            self.number = group.next_ordered()
        elif sends_to is not None:
            self.number = group.next_sent(sends_to, tag)
        else:
            self.number = -1  # of a receive: given when the mesh takes it

    @property
    def key(self) -> tuple[int, int, int, int, int]:
        """The stream of segments that it receives."""
        source = -1 if self.kind == ORDERED or self.source is None else self.group.ranks[self.source]
        return self.group.number, self.kind, self.tag, self.number, source

    # --- for waiting threads ----------------------------------------------------------------------------------------

    @property
    def over(self) -> bool:
        """True once it has ended, well or not."""
        return self._over.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is over; False where the time was not enough."""
        return self._over.wait(timeout)

    # --- for the generator ------------------------------------------------------------------------------------------

    def send(self, rank: int, view: memoryview) -> None:
        """Send a segment to a rank of the group."""
        index, self._indexes[rank] = self._indexes[rank], self._indexes[rank] + 1
        header = HEADER.pack(
            self.kind, self.code, 0, self.group.number, self.tag, self.number, index, len(view), self.total
        )
        self._unsent += 1
        self._mesh.post(self.group.ranks[rank], index, Outgoing(self, header, view))

    # --- for the mesh -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Run up to the first segment that is needed."""
        self._generator = self._run(self)
        self._resume(None)

    def take(self, payload: memoryview) -> None:
        """Continue with the segment that it waits for."""
        assert self.awaited is not None
        rank, length = self.awaited
        if len(payload) != length:
            self._mesh.fail(
                self, rank, f"rank {self.group.ranks[rank]} sent {len(payload)} bytes where {length} are expected here:"
                " the ranks' tensors differ in size or dtype",
            )  # fmt: skip
            return
        self.expected[rank] += 1
        self._resume(payload)

    def _resume(self, payload: memoryview | None) -> None:
        assert self._generator is not None
        try:
            self.awaited = next(self._generator) if payload is None else self._generator.send(payload)
            self.waiting_since = time.monotonic()
        except StopIteration:
            self._ended, self.awaited = True, None
            self._check_over()
        except Exception as error:  # of a reduction: it belongs to the waiting thread
            self._mesh.fail(self, None, f"{type(error).__name__}: {error}")

    def copied(self) -> None:
        """The NIC has one more of its segments."""
        self._unsent -= 1
        self._check_over()

    def _check_over(self) -> None:
        if self._ended and not self._unsent and not self._over.is_set():
            self._mesh.forget(self)
            self.finish()

    def finish(self, error: CollectiveError | None = None) -> None:
        """Wake all waiting threads."""
        if self._over.is_set():
            return
        self.error, self.awaited = error, None
        if self._on_end is not None:
            try:
                self._on_end(self)
            except Exception as failure:
                self.error = self.error or CollectiveError(str(failure), self._mesh.rank, None, str(failure))
        if error is not None and self._generator is not None:
            with contextlib.suppress(Exception):  # the error that ended it is the one to report
                self._generator.close()
        self._over.set()
