"""Ctrl-C, SIGTERM and SIGHUP end a lab once, in order, whenever they come.

The first signal raises KeyboardInterrupt in the main thread; later ones are ignored, so that the clean-up it sets off
is never itself interrupted. Once `shield` is called nothing is raised any more; `unheard` tells who asks afterwards.
"""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


class Interrupts:
    """The state of the guard: whether a signal came, and whether one may still raise."""

    def __init__(self) -> None:
        self.seen: int | None = None
        self._shielded = False
        self._to_note = 0  # signals that do not raise yet
        self._raised = False
        self.noted: Callable[[], None] = lambda: None  # called by a signal that is only noted

    def defer(self) -> None:
        """From now on the first signal is only noted, for who looks at `seen`; the second raises."""
        self._to_note = 1

    def shield(self) -> None:
        """From now on signals are only noted."""
        self._shielded = True

    @property
    def unheard(self) -> bool:
        """Whether a signal came that nobody has learned of, because it came behind the shield."""
        return self.seen is not None and not self._raised

    def handle(self, number: int, _frame: FrameType | None) -> None:
        """Signal handler."""
        self.seen = self.seen or number
        if self._to_note:
            self._to_note -= 1
            self.noted()
        elif not (self._shielded or self._raised):
            self._raised = True
            raise KeyboardInterrupt


@contextmanager
def guarded() -> Iterator[Interrupts]:
    """Handle the signals while the block runs; the handlers from before come back after it."""
    guard = Interrupts()
    before = {number: signal.signal(number, guard.handle) for number in _SIGNALS}
    try:
        yield guard
    finally:
        guard.shield()
        for number, handler in before.items():
            signal.signal(number, handler)


def deafen() -> None:
    """Ignore the signals from now on: this process ends in a moment, with the status that it has by now."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
