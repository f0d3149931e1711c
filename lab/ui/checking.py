"""Checks of scenario texts from the page, in a process of their own that a hostile text cannot keep.

`python -m mrclab.lab.ui.checking FOLDER` answers each line of JSON on its standard input, a text, with the result that
`checked` says of it. Files that a text names are read below FOLDER only.
"""

import contextlib
import json
import re
import select
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from mrclab.lab.errors import LabError
from mrclab.lab.scenario import scenario

NAME = "scenario.yaml"
_LINE = re.compile(rf"{re.escape(NAME)}:(\d+): ")
_SECONDS = 15.0  # that a check may take, the start of its process included
_MEMORY = 2 << 30  # bytes of address space of that process


def checked(text: str, folder: Path | None = None) -> dict[str, Any]:
    """Return the verdict of `mrclab run` on a text: `ok`, `name`, `world`, `programs`; `mistakes` by `line` and `text`.

    Files that it names are read below `folder` only (default: the working directory).
    """
    try:
        found = scenario.loads(text, NAME, within=folder or Path())
    except LabError as error:
        return {"ok": False, "mistakes": [_mistake(line) for line in str(error).splitlines()]}
    programs = any("sim" not in entry.worlds for run in found.runs for entry in run.scenario.traffic)
    found_in = {"name": found.scenario.name, "world": found.scenario.world, "programs": programs}
    return {"ok": True, **found_in, "mistakes": []}


def refused(text: str) -> dict[str, Any]:
    """Return the same for a text that could not be checked."""
    return {"ok": False, "mistakes": [{"line": 1, "text": text}]}


def _mistake(message: str) -> dict[str, Any]:
    found = _LINE.match(message)
    return {"line": int(found[1]), "text": message[found.end() :]} if found else {"line": 1, "text": message}


class Checker:
    """Asks such a process; one that takes too long, or too much memory, is ended and made again."""

    def __init__(self, folder: Path, seconds: float = _SECONDS) -> None:
        self._folder, self._seconds = folder.absolute(), seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def check(self, text: str) -> dict[str, Any]:
        """Return the result of `checked`; one mistake where the check did not come to its end."""
        with self._lock:
            process = self._process
            if process is None or process.poll() is not None:
                process = self._process = self._started()
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                process.stdin.write(json.dumps(text).encode() + b"\n")
                process.stdin.flush()
                if not select.select([process.stdout], (), (), self._seconds)[0]:
                    return self._given_up(f"the check took longer than {self._seconds:g} s; write a smaller scenario")
                answer: dict[str, Any] = json.loads(process.stdout.readline())
            except (OSError, ValueError):
                return self._given_up("the check ended before its time; write a smaller scenario")
            return answer

    def close(self) -> None:
        """End the process, even amid a check."""
        if self._process is not None:
            self._end(self._process)

    def _given_up(self, why: str) -> dict[str, Any]:
        self.close()
        return refused(why)

    def _started(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "mrclab.lab.ui.checking", str(self._folder)]
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
        )

    @staticmethod
    def _end(process: "subprocess.Popen[bytes]") -> None:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(OSError, ValueError):
                pipe.close()  # type: ignore[union-attr]


def main() -> None:
    """Answer until standard input ends; a check that takes too much CPU time or memory ends the process."""
    folder = Path(sys.argv[1])
    for line in sys.stdin.buffer:
        _limit()
        try:
            outcome = checked(json.loads(line), folder)
        except MemoryError:
            outcome = refused("the check took more memory than it may; write a smaller scenario")
        sys.stdout.write(json.dumps(outcome) + "\n")
        sys.stdout.flush()


def _limit() -> None:
    try:
        import resource  # noqa: PLC0415 - Unix alone has it
    except ImportError:
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime + _SECONDS) + 1, hard))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))


if __name__ == "__main__":
    main()
