"""The progress bar of long commands, on standard error and gone when they are done."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn


class ProgressBar:
    """One progress bar that is renamed as stages pass; callable as `lab.session.Progress`."""

    def __init__(self, bar: Progress) -> None:
        self.bar = bar
        self._task = bar.add_task("starting", total=None)

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Show a stage and how far it is; `total` 0: nobody knows."""
        self.bar.update(self._task, description=stage, completed=done, total=total or None)


@contextmanager
def shown(console: Console) -> Iterator[ProgressBar]:
    """A bar while the block runs; nothing where the console is no terminal."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    hidden = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=hidden, refresh_per_second=4) as bar:
        yield ProgressBar(bar)


def teller(bar: ProgressBar) -> Callable[[str], None]:
    """Prints sentences above a bar."""
    return lambda text: bar.bar.console.print(f"  {escape(text)}", soft_wrap=True, highlight=False)
