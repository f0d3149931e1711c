"""Signal handling: Ctrl-C, SIGTERM and SIGHUP end a lab once and in order, whenever they come.

The first signal raises KeyboardInterrupt in the main thread; later ones are ignored, so that the clean-up it starts
is never interrupted itself. After `shield` nothing is raised any more; the caller reads `pending` afterwards.
Python swallows an exception that is raised in a destructor or a callback of a weak reference: a signal that came there
comes again a moment later, and nothing is printed.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_REPEAT_S = 0.01  # seconds until a signal comes again
_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


class Interrupts:
    """State of the guard: the signal seen, and whether one may still raise."""

    def __init__(self, *, each_raises: bool = False) -> None:
        self.seen: int | None = None
        self._each_raises = each_raises  # and not only the first
        self._shielded = False
        self._deferred = 0  # signals to come that do not raise
        self._raised = False
        self.on_deferred: Callable[[], None] = lambda: None  # called when one of them comes

    def defer(self) -> None:
        """From now on, record the first signal in `seen` only; the second one raises."""
        self._deferred = 1

    def shield(self) -> None:
        """From now on, record signals only."""
        self._shielded = True

    @property
    def pending(self) -> bool:
        """True if a signal came after `shield` and has not been raised."""
        return self.seen is not None and not self._raised

    def handle(self, number: int, _frame: FrameType | None) -> None:
        """Signal handler."""
        self.seen = self.seen or number
        if self._deferred:
            self._deferred -= 1
            self.on_deferred()
        elif not (self._shielded or self._raised):
            self._raised = not self._each_raises
            raise KeyboardInterrupt

    def stop_raising(self) -> None:
        """Raise nothing from now on: a signal ended an inner block, and the process ends with it."""
        self._raised = True

    def swallowed(self, unraisable: "sys.UnraisableHookArgs") -> bool:
        """Deliver a signal again whose exception Python swallowed; return False for any other exception."""
        if not issubclass(unraisable.exc_type, KeyboardInterrupt):
            return False
        if not self._shielded and self.seen is not None:
            self._raised = False
            threading.Timer(_REPEAT_S, os.kill, (os.getpid(), self.seen)).start()
        return True


@contextmanager
def guarded(*, outermost: bool = False) -> Iterator[Interrupts]:
    """Handle the signals while the block runs; the handlers from before come back after it.

    `outermost`: only Ctrl-C, each time that it comes, as Python does by itself.
    """
    guard = Interrupts(each_raises=outermost)
    hook = sys.unraisablehook
    before = {number: signal.signal(number, guard.handle) for number in (_SIGNALS[:1] if outermost else _SIGNALS)}
    sys.unraisablehook = lambda args: None if guard.swallowed(args) else hook(args)
    try:
        yield guard
    finally:
        guard.shield()
        sys.unraisablehook = hook
        for number, handler in before.items():
            outer = getattr(handler, "__self__", None)
            if guard.seen is not None and isinstance(outer, Interrupts):
                outer.stop_raising()
            signal.signal(number, handler)


@contextmanager
def redirected(act: Callable[[], bool]) -> Iterator[None]:
    """Have Ctrl-C call `act` while the block runs; where that returns False, it does what it does outside."""

    def handle(number: int, frame: FrameType | None) -> None:
        if not act() and callable(before):
            before(number, frame)

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def ignore_signals() -> None:
    """Ignore signals from now on: this process exits in a moment, with the status that is already decided."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
