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
from mrclab.lab.scenario import scenario
from mrclab.lab.ui import model
from mrclab.lab.ui.judging import Judge
from mrclab.lab.ui.model import PageModel, Reel
from mrclab.topo.model import Fabric
from mrclab.topo.spec import FabricSpec

_LOOK = 0.1  # seconds between two looks at growing files
_LAG = 0.05  # seconds that a process may take to write down what happened
_MOST = 20_000  # frames kept of a lab that goes on: half an hour
_SHORT, _SHORT_FRAMES = 100, 600  # a run of fewer sampling intervals gets that many frames


class Source(Protocol):
    """What the server asks for."""

    live: bool
    title: str

    def layout(self) -> dict[str, Any]:
        """The fabric, once."""

    def frames(self, since: int) -> tuple[int, list[dict[str, Any]]]:
        """The number of the first frame there is from `since` on, and all from there on."""

    def outcome(self) -> dict[str, Any] | None:
        """State and expectations once the run has ended; None before."""

    def stop(self) -> None:
        """Read no further."""


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
        page = PageModel(fabric)
        self._layout = page.layout()
        self._frames = model.frames(page, records, _step(fabric, records))
        _judge(fabric, records, self._frames)

    def layout(self) -> dict[str, Any]:
        """The fabric, once."""
        return self._layout

    def frames(self, since: int) -> tuple[int, list[dict[str, Any]]]:
        """The number of the first frame, and all from there on."""
        return since, self._frames[since:]

    def outcome(self) -> dict[str, Any] | None:
        """The run's result."""
        told = [
            {"state": "held" if each["ok"] else "failed", **{name: each[name] for name in ("wanted", "saw", "when")}}
            for each in self._outcome["verdicts"]
        ]
        return {"state": self._outcome["state"], "expectations": told}

    def stop(self) -> None:
        """There is nothing to read."""


class Blank:
    """The fabric of a scenario that has not been run. The default one where the text has mistakes."""

    live = False

    def __init__(self, text: str, title: str) -> None:
        self.title = title
        try:
            fabric = scenario.loads(text).fabric
        except LabError:
            fabric = Fabric(FabricSpec())
        page = PageModel(fabric)
        self._layout, self._frame = page.layout(), page.frame(0.0)

    def layout(self) -> dict[str, Any]:
        """The fabric, once."""
        return self._layout

    def frames(self, since: int) -> tuple[int, list[dict[str, Any]]]:
        """One frame in which nothing happens."""
        return since, [self._frame][since:]

    def outcome(self) -> dict[str, Any] | None:
        """Nothing has come out yet."""
        return {"state": "not run", "expectations": []}

    def stop(self) -> None:
        """There is nothing to read."""


class Live:
    """A running lab. A thread of its own reads the history; `stop` ends it."""

    live = True

    def __init__(self, place: Path, alive: Callable[[], bool], title: str = "the running lab") -> None:
        self.title = title
        self._place = place
        self._alive = alive
        fabric = load_fabric(place / "fabric.yaml")
        self._model = PageModel(fabric)
        self._reel = Reel(self._model, fabric.spec.sample_interval)
        self._judge = Judge(fabric)
        self._layout = self._model.layout()
        self._files: dict[Path, _Tail] = {}
        self._frames: list[dict[str, Any]] = []
        self._dropped = 0
        self._last = 0.0  # time of the last record
        self._virtual = False
        self._lock = threading.Lock()
        self._end = threading.Event()
        self._outcome: dict[str, Any] | None = None
        self._thread = threading.Thread(target=self._follow, name="history", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Read no further."""
        self._end.set()
        self._thread.join()

    def layout(self) -> dict[str, Any]:
        """The fabric, once."""
        return self._layout

    def frames(self, since: int) -> tuple[int, list[dict[str, Any]]]:
        """The number of the first frame, and all from there on; of a long run the oldest are forgotten."""
        with self._lock:
            first = max(since, self._dropped)
            return first, self._frames[first - self._dropped :]

    def outcome(self) -> dict[str, Any] | None:
        """What came out of it, or that the lab has gone, once it has."""
        return self._outcome

    def _follow(self) -> None:
        while not self._end.wait(_LOOK):
            over = not self._alive()
            self._read()
            if not over:
                self._model.expectations = self._judge.look() or self._model.expectations
                continue
            state, self._model.expectations = self._judge.outcome()
            self._add([self._model.frame(self._last)])
            self._outcome = {"state": state, "expectations": self._model.expectations}
            return

    def _add(self, frames: list[dict[str, Any]]) -> None:
        with self._lock:
            self._frames += frames
            if len(self._frames) > _MOST:
                del self._frames[: _MOST // 10]
                self._dropped += _MOST // 10

    def _read(self) -> None:
        now = time.monotonic()
        with contextlib.suppress(OSError):
            for path in sorted((self._place / "history").glob("*.jsonl")):
                if path not in self._files:
                    self._files[path] = _Tail(path)
        for record in heapq.merge(*(tail.new() for tail in self._files.values()), key=lambda record: record.t):
            self._virtual = self._virtual or record.kind == "world"
            self._judge.take(record)
            self._last = max(self._last, record.t)
            self._add(self._reel.take(record))
            if record.kind == "scenario":
                self._model.run = self._judge.title
        if not self._virtual:
            self._add(self._reel.until(now - _LAG))


class _Tail:
    """A growing file of JSON lines. It stays readable after the run has removed it."""

    def __init__(self, path: Path) -> None:
        self._file: TextIO = path.open(encoding="utf-8")
        self._half = ""

    def new(self) -> list[Record]:
        *lines, self._half = (self._half + self._file.read()).split("\n")
        return list(history.parse(lines))


def _step(fabric: Fabric, records: list[Record]) -> float:
    """Seconds of history per frame: as live, or enough of them where time is virtual and short."""
    interval = fabric.spec.sample_interval
    samples = [record.t for record in records if record.kind == "sample"]
    span = samples[-1] - samples[0] if samples else 0.0
    if not 0 < span < _SHORT * interval:
        return interval
    return max(min(interval, span / _SHORT_FRAMES), 1e-9)


def _judge(fabric: Fabric, records: list[Record], frames: list[dict[str, Any]]) -> None:
    """Put into every frame how the expectations stood then."""
    judge = Judge(fabric)
    for record in records:
        judge.take(record)
    looks = judge.over_time()
    for n, (t, standings) in enumerate(looks):
        since = t if n else float("-inf")  # nothing can be decided before the first
        until = looks[n + 1][0] if n + 1 < len(looks) else float("inf")
        for frame in frames:
            if since <= frame["t"] < until:
                frame["expect"] = standings
    if frames:
        frames[-1]["expect"] = judge.outcome()[1]
