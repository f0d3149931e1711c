"""Result of a collective: torch.distributed's Work over operations of the mesh."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final

import torch
import torch.distributed as dist
from torch import Tensor

from mrclab.hosts.collectives.operation import CollectiveError, MeshOperation


class MrcError(dist.DistBackendError):  # type: ignore[misc]
    """A failed collective: its `rank`, the `peer` to blame, if there is one, and the `reason`."""

    rank: int
    peer: int | None
    reason: str


def as_torch(error: CollectiveError) -> MrcError:
    """Return an error as users of torch.distributed expect it."""
    made = MrcError(str(error))
    made.rank, made.peer, made.reason = error.rank, error.peer, error.reason
    return made


class _Completers:
    """Threads that complete futures: their callbacks may wait for other collectives, so never the mesh's own thread.

    There are as many as callbacks have ever waited at the same time.
    """

    def __init__(self) -> None:
        self._todo: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._idle = 0
        self._lock = threading.Lock()

    def submit(self, work: Callable[[], None]) -> None:
        """Run a function in a thread."""
        with self._lock:
            if self._idle:
                self._idle -= 1
            else:
                threading.Thread(target=self._serve, name="mrc-futures", daemon=True).start()
        self._todo.put(work)

    def _serve(self) -> None:
        while True:
            self._todo.get()()
            with self._lock:
                self._idle += 1


_COMPLETERS: Final = _Completers()


class MrcWork(dist.Work):  # type: ignore[misc]
    """A collective, made of one or more operations; `results` are its tensors, `finish` runs on success."""

    def __init__(self, results: Sequence[Any], finish: Callable[[], None] | None = None) -> None:
        super().__init__()
        self._results = list(results)
        self._finish = finish
        self._left = 0
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._error: MrcError | None = None
        self._trigger: torch.futures.Future | None = None  # completed at the end; `_future` follows it
        self._future: torch.futures.Future | None = None
        self._abort: Callable[[], None] | None = None

    def expect(self, count: int, abort: Callable[[], None]) -> None:
        """Set the number of its operations; without any it is done at once."""
        self._left, self._abort = count, abort
        if not count:
            self._end()

    def operation_ended(self, operation: MeshOperation) -> None:
        """Note that one of its operations has ended."""
        with self._lock:
            self._left -= 1
            first = operation.error is not None and self._error is None
            if first:
                assert operation.error is not None
                self._error = as_torch(operation.error)
            last = not self._left
        if last:
            self._end()

    def _end(self) -> None:
        if self._error is None and self._finish is not None:
            try:
                self._finish()
            except Exception as error:  # of copying results back
                self._error = MrcError(f"{type(error).__name__}: {error}")
        with self._lock:
            self._over.set()
            trigger = self._trigger
        if trigger is not None:
            _COMPLETERS.submit(lambda: trigger.set_result(None))

    def _outcome(self, _: Any) -> list[Any]:
        if self._error is not None:
            raise self._error
        return self._results

    # --- torch.distributed.Work -------------------------------------------------------------------------------------

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait until it has ended; MrcError if it failed, or did not end in time."""
        seconds = None if timeout is None or timeout <= timedelta(0) else timeout.total_seconds()
        began = time.monotonic()
        if not self._over.wait(seconds):
            raise MrcError(f"a collective did not end within {time.monotonic() - began:g} s; it continues")
        if self._error is not None:
            raise self._error
        return True

    def is_completed(self) -> bool:
        """Return True once it has ended, with or without success."""
        return self._over.is_set()

    def is_success(self) -> bool:
        """Return True once it has succeeded."""
        return self._over.is_set() and self._error is None

    def exception(self) -> MrcError | None:
        """Return its error, if it has failed."""
        return self._error

    def result(self) -> list[Tensor]:
        """Return its tensors, once it has ended."""
        self.wait()
        return self._results

    def synchronize(self) -> None:
        """Wait."""
        self.wait()

    def abort(self) -> None:
        """End it, and its group, on all ranks."""
        if self._abort is not None and not self._over.is_set():
            self._abort()

    def get_future(self) -> torch.futures.Future:
        """Return a future with its tensors.

        It follows another one, since an error that a callback raises is one in C++ too, where DDP waits; one that
        `set_exception` is given is known to Python alone.
        """
        with self._lock:
            if self._future is not None:
                return self._future
            self._trigger = trigger = torch.futures.Future()
            future = self._future = trigger.then(self._outcome)
            over = self._over.is_set()
        if over:
            trigger.set_result(None)
        return future


class MrcReceive(MrcWork):
    """A message from another rank."""

    receive: MeshOperation | None = None

    def source_rank(self) -> int:
        """Return the rank of the group that sent it."""
        assert self.receive is not None
        return -1 if self.receive.source is None else self.receive.source

    _source_rank = source_rank


class MrcWorks(MrcWork):
    """Several Works as one."""

    def __init__(self, works: Sequence[MrcWork]) -> None:
        super().__init__([])
        self._works = list(works)

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait for all; raise the first error."""
        return all(work.wait(timeout) for work in self._works)

    def is_completed(self) -> bool:
        """Return True once all have ended."""
        return all(work.is_completed() for work in self._works)

    def is_success(self) -> bool:
        """Return True once all have succeeded."""
        return all(work.is_success() for work in self._works)

    def exception(self) -> MrcError | None:
        """Return the first error."""
        return next((error for work in self._works if (error := work.exception()) is not None), None)

    def get_future(self) -> torch.futures.Future:
        """Return a future of all."""
        return torch.futures.collect_all([work.get_future() for work in self._works])
