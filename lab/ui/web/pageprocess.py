"""The live page of a lab of this process, in a process of its own."""

import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from mrclab.lab.errors import LabError
from mrclab.rpc.peers import STOPPED_S, is_stopped

_LOOK = 0.25  # seconds between two looks at a page that has not begun
_GONE = 15.0  # seconds that it may take to end


class PageProcess:
    """Context in which `show` starts the page of a lab; the page ends with it, after the lab."""

    def __init__(
        self, run_dir: Path, notify: Callable[[str], None], *, browser: bool = False, results: Path = Path("results")
    ) -> None:
        self._results = results
        self._run_dir = run_dir
        self._notify = notify
        self._browser = browser
        self._process: subprocess.Popen[str] | None = None

    def show(self, place: Path) -> None:
        """Start the page of the lab at a place, and say its address. LabError with the page's own sentence.

        Where a signal ends or stops the page meanwhile, the lab goes on without it.
        """
        command = [sys.executable, "-m", "mrclab.lab.command", "--run-dir", str(self._run_dir), "ui", str(place)]
        command += ["--results", str(self._results), "--attended", *(["--open"] if self._browser else [])]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        address = self._address(process)
        if not address:
            status = process.wait(_GONE)
            if status < 0:
                self._notify("the page's process was killed or stopped by a signal; the lab goes on without the page")
                return
            raise LabError("the page did not start; its output is above")
        self._process = process
        self._notify(f"live page: {address}")

    @staticmethod
    def _address(process: "subprocess.Popen[str]") -> str:
        """The line that it begins with; empty where it ended before, or is stopped, which ends it."""
        found: list[str] = []
        assert process.stdout is not None
        reader = threading.Thread(target=lambda out=process.stdout: found.append(out.readline().strip()), daemon=True)
        reader.start()
        since: float | None = None
        while reader.is_alive():
            reader.join(_LOOK)
            since = (since or time.monotonic()) if is_stopped(process.pid) else None
            if since is not None and time.monotonic() - since >= STOPPED_S:
                process.kill()
                since = None
        return found[0] if found else ""

    def keep_open(self, text: str) -> None:
        """Leave the page up until Ctrl-C at a terminal."""
        if self._process is not None and sys.stdin.isatty():
            self._notify(text)
            with contextlib.suppress(KeyboardInterrupt):
                self._process.wait()

    def __enter__(self) -> "PageProcess":
        return self

    def __exit__(self, *_: object) -> None:
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
