"""The progress bar of long commands, on standard error and gone when they are done.

rich takes long to load, and is not loaded where there is neither a terminal nor a text that it has to lay out.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

_SETTLING = 1.0  # seconds of a stage after which the remaining time can be estimated


class ProgressBar:
    """One progress bar that is renamed as stages pass; callable as `mrclab.lab.run.world.Progress`."""

    def __init__(self, bar: "Progress", clock: Callable[[], float] = time.monotonic) -> None:
        self.bar = bar
        self._clock = clock
        self._task = bar.add_task("starting", total=None, left="")
        self._stage = ""
        self._began, self._first = clock(), 0

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Show a stage, its progress and the remaining time; `total` 0: unknown."""
        if not self.bar.disable:
            self.bar.start()
        now = self._clock()
        if stage != self._stage:
            self._stage, self._began, self._first = stage, now, done
        self.bar.update(
            self._task, description=stage, completed=done, total=total or None, left=self._left(now, done, total)
        )

    def notify(self, text: str) -> None:
        """Print a sentence above the bar."""
        from mrclab.lab import console  # noqa: PLC0415

        console.plain(self.bar.console, text)

    def stop(self) -> None:
        """Remove the bar."""
        self.bar.stop()

    def _left(self, now: float, done: int, total: int) -> str:
        """Estimate the remaining time from the time and share done so far."""
        took, more = now - self._began, done - self._first
        if took < _SETTLING or more <= 0 or done >= total:
            return ""
        return left(took * (total - done) / more)


def left(seconds: float) -> str:
    """A remaining time, rounded to its precision."""
    if seconds < 100:
        return f"{seconds:.0f} s left"
    return f"{seconds / 60:.0f} min left" if seconds < 6000 else f"{seconds / 3600:.0f} h left"


class NoBar:
    """Takes the place of a progress bar where standard error is no terminal."""

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Show nothing."""

    def notify(self, text: str) -> None:
        """Print a sentence."""
        line(text)

    def stop(self) -> None:
        """Remove nothing."""


@contextmanager
def shown(console: "Console | None" = None, at_once: bool = True) -> Iterator[ProgressBar | NoBar]:
    """Show a bar while the block runs, from its first stage on; none where the console is not a terminal.

    Without a console it is standard error's.
    """
    if console is None and not _may_be_terminal():
        yield NoBar()
        return
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    from mrclab.lab import console as consoles  # noqa: PLC0415

    console = console or consoles.console(stderr=True)
    left = TextColumn("{task.fields[left]}")
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), left)
    hidden = not console.is_terminal
    bar = Progress(*columns, console=console, transient=True, disable=hidden, refresh_per_second=4)
    try:
        if at_once:
            bar.start()
        yield ProgressBar(bar)
    finally:
        bar.stop()


def _may_be_terminal() -> bool:
    """Return False where rich would not take standard error for a terminal."""
    forced = any(name in os.environ for name in ("FORCE_COLOR", "TTY_COMPATIBLE"))
    return forced or sys.stderr is None or sys.stderr.closed or sys.stderr.isatty()


def notifier(bar: ProgressBar | NoBar) -> Callable[[str], None]:
    """Prints sentences above a bar."""
    return lambda text: bar.notify(f"  {text}")


def line(text: str) -> None:
    """Print a line of text on standard error, as `mrclab.lab.console.plain` does."""
    if text.isprintable() and not _may_be_terminal():
        sys.stderr.write(f"{text}\n")
        return
    from mrclab.lab import console  # noqa: PLC0415

    console.plain(console.console(stderr=True), text)
