"""Where the page's frames come from: a lab that runs, whose history files are read as they grow, or a finished run."""

import contextlib
import heapq
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TextIO

from mrclab.lab import history
from mrclab.lab.errors import LabError
from mrclab.lab.history import Record
from mrclab.lab.run.wire.attach import load_fabric
from mrclab.lab.ui import model
from mrclab.lab.ui.model import FRAME_SECONDS, PageModel

_LOOK = 0.1  # seconds between two looks at growing files
_QUIET = 60.0  # seconds; a record further from the machine's clock is of another clock
_MOST = 20_000  # frames kept of a lab that goes on: half an hour
_REPLAY_FRAMES = 600  # of a run in virtual time, however short it was


class Source(Protocol):
    """What the server asks for."""

    live: bool
    title: str

    def layout(self) -> dict[str, Any]:
        """The fabric, once."""

    def frames(self, since: int) -> list[dict[str, Any]]:
        """All frames from that number on."""

    def outcome(self) -> dict[str, Any] | None:
        """Verdicts once the run has ended; None before."""


class Replay:
    """A finished run's result directory. LabError where it is none."""

    live = False

    def __init__(self, directory: Path) -> None:
        try:
            fabric = load_fabric(directory / "fabric.yaml")
            records = history.load(directory / "history.jsonl").records
            self._outcome = json.loads((directory / "result.json").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise LabError(f"{directory} is no result directory of a run that ended: {error}") from None
        self.title = directory.name
        self._layout = PageModel(fabric).layout()
        self._frames = model.frames(fabric, records, _step(records))

    def layout(self) -> dict[str, Any]:
        """The fabric, once."""
        return self._layout

    def frames(self, since: int) -> list[dict[str, Any]]:
        """All frames from that number on."""
        return self._frames[since:]

    def outcome(self) -> dict[str, Any] | None:
        """The run's result."""
        return {"state": self._outcome["state"], "expectations": self._outcome["verdicts"]}


class Live:
    """A running lab. A thread of its own reads the history; `stop` ends it."""

    live = True

    def __init__(self, run_dir: Path, alive: Callable[[], bool], title: str = "the running lab") -> None:
        self.title = title
        self.run_dir = run_dir
        self._alive = alive
        self._model = PageModel(load_fabric(run_dir / "fabric.yaml"))
        self._layout = self._model.layout()
        self._files: dict[Path, _Tail] = {}
        self._frames: list[dict[str, Any]] = []
        self._dropped = 0
        self._last: float | None = None  # time of the last record
        self._lock = threading.Lock()
        self._end = threading.Event()
        self._ended = False
        self._thread = threading.Thread(target=self._follow, name="history", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Read no further."""
        self._end.set()
        self._thread.join()

    def layout(self) -> dict[str, Any]:
        """The fabric, once."""
        return self._layout

    def frames(self, since: int) -> list[dict[str, Any]]:
        """All frames from that number on; of a long run the oldest are forgotten."""
        with self._lock:
            return self._frames[max(0, since - self._dropped) :]

    def outcome(self) -> dict[str, Any] | None:
        """That the lab has gone, once it has."""
        return {"state": "ended", "expectations": []} if self._ended else None

    def _follow(self) -> None:
        while not self._end.is_set():
            now = time.monotonic()
            self._read()
            self._add(self._model.frame(self._shown()))
            if not self._alive():
                self._read()
                self._add(self._model.frame(self._shown()))
                self._ended = True
                return
            self._end.wait(max(0.0, now + FRAME_SECONDS - time.monotonic()))

    def _shown(self) -> float:
        """The time of a frame: the machine's, or in virtual time that of the last record."""
        now = time.monotonic()
        return now if self._last is None or abs(now - self._last) < _QUIET else self._last

    def _add(self, frame: dict[str, Any]) -> None:
        with self._lock:
            self._frames.append(frame)
            if len(self._frames) > _MOST:
                del self._frames[: _MOST // 10]
                self._dropped += _MOST // 10

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            for path in sorted((self.run_dir / "history").glob("*.jsonl")):
                if path not in self._files:
                    self._files[path] = _Tail(path)
        for record in heapq.merge(*(tail.new() for tail in self._files.values()), key=lambda record: record.t):
            self._model.take(record)
            self._last = record.t


class _Tail:
    """A growing file of JSON lines. It stays readable after the run has removed it."""

    def __init__(self, path: Path) -> None:
        self._file: TextIO = path.open(encoding="utf-8")
        self._half = ""

    def new(self) -> list[Record]:
        *lines, self._half = (self._half + self._file.read()).split("\n")
        return list(history.parse(lines))


def _step(records: list[Record]) -> float:
    """Seconds of history per frame: ten frames a second, or enough of them where time is virtual and short."""
    if not records:
        return FRAME_SECONDS
    samples = [record.t for record in records if record.kind == "sample"]
    if not samples:
        return FRAME_SECONDS
    return min(FRAME_SECONDS, max((samples[-1] - samples[0]) / _REPLAY_FRAMES, 1e-9))
