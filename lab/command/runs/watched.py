"""Live page of `mrclab run`."""

import tempfile
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from rich.console import Console

from mrclab.lab.console import plain
from mrclab.lab.run.virtual import VirtualWorld
from mrclab.lab.run.world import World
from mrclab.lab.ui.web.pageprocess import PageProcess
from mrclab.topo.linux import killed


class Watched:
    """Keeps a run's history where others read it: the run directory, or a place of its own in virtual time.

    `place` names that one; with `ui` or `browser` the page is shown as well, until the block ends.
    """

    def __init__(
        self, run_dir: Path, place: Path | None, err: Console, results: Path, *, ui: bool, browser: bool
    ) -> None:
        self._run_dir, self._place = run_dir, place
        self._err = err
        self._with_page = ui or browser
        self._stack = ExitStack()
        self._page = PageProcess(run_dir, self._print, browser=browser, results=results)

    def show(self, world: World) -> None:
        """The lab is up."""
        place = self._run_dir
        if isinstance(world, VirtualWorld):
            if self._place is None and not self._with_page:
                return
            place = self._place or Path(
                self._stack.enter_context(tempfile.TemporaryDirectory(prefix=killed.folder_prefix()))
            )
            world.mirror(place, keep=self._place is not None)
        if self._with_page:
            self._page.show(place)

    def linger(self) -> None:
        """The run is over and reported."""
        self._page.linger("the live page stays until Ctrl-C")

    def _print(self, text: str) -> None:
        plain(self._err, text)

    def __enter__(self) -> "Watched":
        self._stack.enter_context(self._page)
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _value: BaseException | None, _tb: TracebackType | None
    ) -> None:
        self._stack.close()
