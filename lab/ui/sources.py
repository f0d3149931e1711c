"""Sources of the page's frames: a lab that runs, whose history files are read as they grow, or a finished run."""

import contextlib
import heapq
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from typing_extensions import override

from mrclab.lab import history
from mrclab.lab.errors import LabError, not_a_result
from mrclab.lab.expectations import Verdict
from mrclab.lab.expectations.base import verdict_row
from mrclab.lab.history import Record
from mrclab.lab.report import results
from mrclab.lab.report.summary import state_of
from mrclab.lab.scenario import scenario
from mrclab.lab.ui.framestream import MAX_FRAMES, Frame, FrameLog, FrameStream, frame_interval, frames
from mrclab.lab.ui.judging import Judge, row_of
from mrclab.lab.ui.model import PageModel
from mrclab.topo import fabricfile
from mrclab.topo.model import Fabric
from mrclab.topo.spec import FabricSpec, SpecError

_LOOK = 0.1  # seconds between two looks at growing files
_LONGEST_FRAME_S = 0.3  # seconds until the next frame while virtual time goes on
_LAG = 0.05  # seconds that a process may take to write a record
_SHORT, _SHORT_FRAMES = 100, 600  # a run of fewer sampling intervals gets that many frames
_NEEDED = ("history.jsonl", "fabric.yaml")
_MAX_RUNS = 200  # runs listed, the newest


class Source:
    """Frames of a lab or a run, for the server."""

    live = False

    def __init__(self, title: str, fabric: Fabric, most: int = MAX_FRAMES) -> None:
        self.title = title
        self.frame_log = FrameLog(most)
        self._model = PageModel(fabric)
        self.layout: dict[str, Any] = self._model.layout()
        self.outcome: dict[str, Any] | None = None
        """State and expectations once the run has ended; None before."""

    def stop(self) -> None:
        """Read no further."""


class Growing(Source):
    """Source whose records come one after another, and are judged as they come."""

    live = True

    def __init__(self, title: str, fabric: Fabric) -> None:
        super().__init__(title, fabric)
        self._stream = FrameStream(self._model, frame_interval(fabric))
        self._judge = Judge(fabric)

    def _take(self, record: Record) -> None:
        self._judge.take(record)
        self._add(self._stream.take(record))
        if record.kind == "scenario":
            self._model.run = self._judge.title

    def _add(self, made: list[Frame]) -> None:
        for frame in made:
            self.frame_log.add(frame)


class Replay(Source):
    """A finished run's result directory. LabError where it is not one."""

    def __init__(self, directory: Path) -> None:
        try:
            fabric = fabricfile.load(directory / "fabric.yaml", follow=False)
            records = history.load(directory / "history.jsonl").records
            result = results.read_file(directory, "result.json")
        except SpecError as error:
            raise LabError(not_a_result(directory, ValueError(results.unreadable("fabric.yaml", error)))) from None
        except (OSError, ValueError, RecursionError) as error:
            raise LabError(not_a_result(directory, error)) from None
        with results.foreign(directory):
            super().__init__(directory.name, fabric, len(records) + _SHORT_FRAMES)
            judged = [row_of(Verdict(**{"kind": "", **verdict_row(each)})) for each in result["verdicts"]]
            self.outcome = {"state": state_of(result["state"]), "expectations": judged}
            for frame in _judged(fabric, records, self._model):
                self.frame_log.add(frame)


class Blank(Source):
    """Empty page of a scenario that has not been run: its fabric, or the default one if the text has mistakes."""

    def __init__(self, text: str, title: str, folder: Path = Path()) -> None:
        try:
            fabric = scenario.loads(text, within=folder).fabric
        except LabError:
            fabric = Fabric(FabricSpec())
        super().__init__(title, fabric)
        self.outcome = {"state": "not run", "expectations": []}
        self.frame_log.add(self._model.frame(0.0))


class Live(Growing):
    """A running lab. A thread of its own reads the history; `stop` ends it."""

    def __init__(self, place: Path, alive: Callable[[], bool], title: str = "the running lab") -> None:
        super().__init__(title, fabricfile.load(place / "fabric.yaml"))
        self._place = place
        self._alive = alive
        self._files: dict[Path, history.Tail] = {}
        self._last = 0.0  # time of the last record
        self._due = 0.0  # on the machine's clock: a frame however little time has passed in the lab
        self._virtual = False
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="history", daemon=True)
        self._thread.start()

    @override
    def stop(self) -> None:
        self._end.set()
        self._thread.join()

    def _follow(self) -> None:
        while not self._end.wait(_LOOK):
            over = not self._alive()
            self._read()
            if not over:
                self._model.expectations = self._judge.poll() or self._model.expectations
                continue
            state, self._model.expectations = self._judge.outcome()
            self._add([self._model.frame(self._last)])
            self.outcome = {"state": state, "expectations": self._model.expectations}
            return

    @override
    def _add(self, made: list[Frame]) -> None:
        super()._add(made)
        if made:
            self._due = time.monotonic() + _LONGEST_FRAME_S

    def _read(self) -> None:
        now = time.monotonic()
        with contextlib.suppress(OSError):
            for path in sorted((self._place / "history").glob("*.jsonl")):
                if path not in self._files:
                    self._files[path] = history.Tail(path)
        came = False
        for record in heapq.merge(*(tail.records() for tail in self._files.values()), key=lambda record: record.t):
            came = True
            self._virtual = self._virtual or record.kind == "world"
            self._last = max(self._last, record.t)
            self._take(record)
        if not self._virtual:
            self._add(self._stream.until(now - _LAG))
        elif came and now > self._due and self._last > self.frame_log.last.get("t", self._last):
            self._add([self._model.frame(self._last)])  # virtual time is so slow that no frame was due


def _step(fabric: Fabric, records: list[Record]) -> float:
    """Seconds of history per frame: as live, or shorter where the run is so short that it would have few frames."""
    interval = frame_interval(fabric)
    samples = [record.t for record in records if record.kind == "sample"]
    span = samples[-1] - samples[0] if samples else 0.0
    if not 0 < span < _SHORT * interval:
        return interval
    return max(min(interval, span / _SHORT_FRAMES), 1e-9)


def _judged(fabric: Fabric, records: list[Record], page: PageModel) -> Iterator[Frame]:
    """All frames, each with the expectations' state at its time; the last with the verdicts."""
    judge = Judge(fabric)
    for record in records:
        judge.take(record)
    looks = judge.over_time()
    times = [float("-inf"), *(t for t, _ in looks[1:])]  # nothing can be decided before the first
    before: Frame | None = None
    for frame in frames(page, records, _step(fabric, records)):
        if before is not None:
            yield before
        before = frame
        if looks:
            frame["expect"] = looks[bisect_right(times, frame["t"]) - 1][1]
    if before is not None:
        yield {**before, "expect": judge.outcome()[1]}


_WHERE = ("*", "*/*", "*/runs/*")  # runs, and those of suites, of earlier versions too


class RunIndex:
    """Result directories in a folder, and those of suites' runs; others are skipped."""

    def __init__(self, results: Path) -> None:
        self.results = results

    def runs(self) -> list[dict[str, Any]]:
        """`name` below the folder, `state` of its report, `ended` (seconds since 1970); the newest first."""
        return [
            {"name": name, "state": _state(self.results / name), "ended": ended}
            for name, ended in self._newest().items()
        ]

    def take(self, name: str) -> Replay:
        """One of them. LabError if there is none of that name, or it cannot be read."""
        if name not in self._newest():
            raise LabError(f"there is no finished run {name} in {self.results}; choose one from the list")
        return Replay(self.results / name)

    def _newest(self) -> dict[str, float]:
        """Return when runs ended by name, the newest first."""
        found = []
        for file in (file for where in _WHERE for file in self.results.glob(f"{where}/result.json")):
            directory = file.parent
            try:
                if all((directory / name).is_file() for name in _NEEDED):
                    found.append((file.stat().st_mtime, directory.relative_to(self.results).as_posix()))
            except OSError:  # it is being removed
                continue
        return {name: ended for ended, name in sorted(found, reverse=True)[:_MAX_RUNS]}


def _state(directory: Path) -> str:
    try:
        return state_of(results.read_file(directory, "result.json")["state"])
    except (LabError, ValueError, KeyError, TypeError):
        return "unreadable"
