"""The page as a process of its own beside a lab of this process, which does not know it."""

import contextlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from mrclab.lab.errors import LabError

_GONE = 15.0  # seconds that it may take to end


class PageBeside:
    """Inside the block `show` starts the page of a lab; it ends with the block, which is after the lab."""

    def __init__(
        self, run_dir: Path, say: Callable[[str], None], *, browser: bool = False, results: Path = Path("results")
    ) -> None:
        self._results = results
        self._run_dir = run_dir
        self._say = say
        self._browser = browser
        self._process: subprocess.Popen[str] | None = None

    def show(self, place: Path) -> None:
        """Start the page of the lab at a place, and say its address. LabError with the page's own sentence."""
        command = [sys.executable, "-m", "mrclab.lab.command", "--run-dir", str(self._run_dir), "ui", str(place)]
        command += ["--results", str(self._results), "--attended", *(["--open"] if self._browser else [])]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        if not address:
            process.wait(_GONE)
            raise LabError("the page did not start; what it said stands above")
        self._process = process
        self._say(f"live page: {address}")

    def linger(self, text: str) -> None:
        """Leave the page up until Ctrl-C where somebody sits at a terminal."""
        if self._process is not None and sys.stdin.isatty():
            self._say(text)
            with contextlib.suppress(KeyboardInterrupt):
                self._process.wait()

    def __enter__(self) -> "PageBeside":
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _value: BaseException | None, _tb: TracebackType | None
    ) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(OSError):
            process.stdin.close()  # type: ignore[union-attr]
        try:
            process.wait(_GONE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
