"""Commands of several terminals side by side: the lock that they take in turns, and whose command a thread has."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

Progress = Callable[[str, int, int], None]  # stage, done, total

_HAND_OVER = 0.001  # seconds for which who works in slices leaves the lock to those that wait


def _no_progress(_stage: str, _done: int, _total: int) -> None:
    """Progress that nobody watches."""


class TurnLock:
    """A re-entrant lock that knows whether somebody waits: Python's own may be had again and again by one thread."""

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
        """Let those have the lock that wait for it; called without it."""
        if self._waiting:
            time.sleep(_HAND_OVER)


@dataclass
class Caller:
    """Caller of a command: where its progress is shown, and whether it still waits for the response."""

    progress: Progress = _no_progress
    gone: threading.Event = field(default_factory=threading.Event)


_CALLER: ContextVar[Caller | None] = ContextVar("caller", default=None)


def caller() -> Caller:
    """Return the caller of the command that this thread carries out."""
    return _CALLER.get() or Caller()


@contextmanager
def called_by(who: Caller) -> Iterator[None]:
    """Carry out what is in the block for `who`."""
    token = _CALLER.set(who)
    try:
        yield
    finally:
        _CALLER.reset(token)
