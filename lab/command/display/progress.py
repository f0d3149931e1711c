"""The progress bar of long commands, on standard error and gone when they are done."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from mrclab.lab.console import plain

_SETTLING = 1.0  # seconds of a stage after which the remaining time can be estimated


class ProgressBar:
    """One progress bar that is renamed as stages pass; callable as `mrclab.lab.run.world.Progress`."""

    def __init__(self, bar: Progress, clock: Callable[[], float] = time.monotonic) -> None:
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


@contextmanager
def shown(console: Console, at_once: bool = True) -> Iterator[ProgressBar]:
    """Show a bar while the block runs, from its first stage on; no bar where the console is not a terminal."""
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


def notifier(bar: ProgressBar) -> Callable[[str], None]:
    """Prints sentences above a bar."""
    return lambda text: plain(bar.bar.console, f"  {text}")
