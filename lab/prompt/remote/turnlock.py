"""Concurrent commands of several terminals: a fair lock, and the caller of a thread's command."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

_HAND_OVER = 0.001  # seconds for which a sliced task leaves the lock to waiting ones


class TurnLock:
    """A re-entrant lock that knows whether a thread waits: Python's own may starve the others."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._count = threading.Lock()
        self._waiting = 0

    def __enter__(self) -> None:
        if self._lock.acquire(blocking=False):
            return
        with self._count:
            self._waiting += 1
        try:
            self._lock.acquire()
        finally:
            with self._count:
                self._waiting -= 1

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def hand_over(self) -> None:
        """Yield to the threads that wait for the lock; called without holding it."""
        if self._waiting:
            time.sleep(_HAND_OVER)


@dataclass
class Caller:
    """Caller of a command: its progress display, and whether it is still connected."""

    progress: Callable[[str, int, int], None] = lambda *_: None  # stage, done, total
    gone: threading.Event = field(default_factory=threading.Event)

    def leave(self) -> bool:
        """Have its command end as soon as it can; return False where this was requested before."""
        if self.gone.is_set():
            return False
        self.gone.set()
        return True


_CALLER: ContextVar[Caller | None] = ContextVar("caller", default=None)


def caller() -> Caller:
    """Return the caller of the command that this thread carries out."""
    return _CALLER.get() or Caller()


@contextmanager
def called_by(requester: Caller) -> Iterator[None]:
    """Run the block on behalf of `requester`."""
    token = _CALLER.set(requester)
    try:
        yield
    finally:
        _CALLER.reset(token)
