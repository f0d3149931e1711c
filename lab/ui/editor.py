"""Scenario editor: the checks of the command line on its text, and a run of it beside the page."""

import contextlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mrclab.lab.errors import LabError
from mrclab.lab.ui.checking import NAME
from mrclab.lab.ui.sources import Live
from mrclab.topo.linux import paths
from mrclab.topo.linux.paths import RUN_DIR

_POLL = 0.05  # seconds between two looks whether a lab has come up
_ENDING = 60.0  # seconds that a lab may take to go down
EXAMPLE = """\
name: mine
world: sim
traffic:
  - {name: file, kind: write, from: h1, to: h3, size: 16 MiB}
faults:
  - {name: cut, kind: link_down, link: t0-p1-1/t1-p1-2, at: 30% of file, until: 60% of file}
expect:
  - {kind: integrity}
  - {kind: ev_state, fault: cut, state: ASSUMED_BAD}
"""


class Editor:
    """Runs scenarios, one at a time, each in a process of its own; results go to `results`.

    Files that a scenario names are read below `folder` only.
    """

    def __init__(
        self,
        text: str = EXAMPLE,
        results: Path = Path("results"),
        run_dir: Path = RUN_DIR,
        folder: Path = Path(),
    ) -> None:
        self.text = text
        self.folder = folder.absolute()
        self._results = results
        self._run_dir = run_dir
        self._process: subprocess.Popen[str] | None = None
        self._place: Path | None = None
        self._lock = threading.Lock()

    def run(self, text: str, checked: Mapping[str, Any], world: str = "") -> Live:
        """Start a scenario, in another `world` than its own if one is named; its frames once its lab is up.

        `checked` is the answer of `checking.checked`. LabError where it did not come up, or another run goes on.
        """
        with self._lock:
            if self._process is not None and self._process.poll() is None:
                raise LabError("a scenario runs already; wait until it has ended")
            self._tidy()
            self.text = text
            place = self._place = Path(tempfile.mkdtemp(prefix=paths.folder_prefix()))
            (place / NAME).write_text(text, encoding="utf-8")
            virtual = (world or checked["world"]) == "sim"
            where = place if virtual else self._run_dir
            if (where / "fabric.yaml").exists():
                raise LabError(
                    "a lab is up on the wire, and there can be one; run this in virtual time, or end that one"
                )
            process = self._process = self._started(place, ["--place", str(place)] if virtual else [], world)
            while process.poll() is None and not (where / "fabric.yaml").exists():
                time.sleep(_POLL)
            try:
                return Live(where, lambda: process.poll() is None, checked["name"])
            except OSError:
                raise LabError(self._last_output(place)) from None

    def _started(self, place: Path, options: Sequence[str], world: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "mrclab.lab.command", "--run-dir", str(self._run_dir), "run", NAME]
        command += [
            "--results",
            str(self._results.absolute()),
            "--within",
            str(self.folder),
            *options,
            *(["--world", world] if world else []),
        ]
        with (place / "said").open("w") as output:
            return subprocess.Popen(
                command, cwd=place, stdin=subprocess.DEVNULL, stdout=output, stderr=output, text=True,
                start_new_session=True,
            )  # fmt: skip

    @staticmethod
    def _last_output(place: Path) -> str:
        lines = (place / "said").read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return lines[-1].removeprefix("mrclab: ") if lines else "it ended without output"

    def close(self) -> None:
        """End the running scenario."""
        process = self._process
        if process is not None and process.poll() is None:
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_ENDING)
        self._tidy()

    def _tidy(self) -> None:
        if self._place is not None:
            shutil.rmtree(self._place, ignore_errors=True)
            self._place = None
