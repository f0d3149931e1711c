"""A result directory: inputs and records of one run, enough to make its report again on any machine.

scenario.yaml  fabric.yaml  run.json        inputs, seed, versions, machine
history.jsonl  log/  node/                  history on one clock, logs, node configs
result.json  series.json  junit.xml         verdicts, figures, numbers over time
report.html  *.png                          the same to read
"""

import contextlib
import datetime
import gc
import json
import mmap
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mrclab.lab import history, machine
from mrclab.lab.errors import LabError, NoRoom, RunError, error_of, naming, not_a_result, plain
from mrclab.lab.expectations import Verdict, judge_all
from mrclab.lab.run.world import World
from mrclab.lab.scenario.scenario import Loaded, loads, source_files, with_names
from mrclab.topo.economy import CompressedLog
from mrclab.topo.input import files
from mrclab.topo.spec import SpecError

if TYPE_CHECKING:
    from mrclab.lab.measure.measures import Measures
    from mrclab.lab.report import summary

_MIN_ROOM = 16 << 20  # bytes that results of a small run take, pictures included, and some more

_MANY = 500_000  # objects out of the collector's sight: more than modules are, so runs are among them
_PICTURES_BYTES = 160 << 20  # address space that loading NumPy and Matplotlib takes


@dataclass(eq=False)
class CollectedRun:
    """A run that ended, complete or aborted: read from its result directory, or from its history in memory."""

    directory: Path
    loaded: Loaded
    measures: "Measures"
    info: dict[str, Any]
    facts: "summary.Facts | None" = None  # what its report says, once that was written

    @property
    def error(self) -> str:
        """Why the run was aborted; empty where it was not."""
        return error_of(self.info)

    @cached_property
    def verdicts(self) -> list[Verdict]:
        """Verdicts of the scenario's expectations; a run that was aborted has failed one more."""
        verdicts = judge_all(self.measures)
        if self.error:
            verdicts.insert(0, Verdict("run", False, "the run completes", self.error))
        return verdicts

    @property
    def state(self) -> "summary.State":
        """`passed`, `failed`, `invalid` (the machine could not keep up), or `aborted` (it did not reach its end)."""
        from mrclab.lab.report import summary  # noqa: PLC0415 - once a run is over

        return summary.state(self.measures, self.verdicts, self.error)

    @property
    def ok(self) -> bool:
        """True if every expectation passed, the run reached its end, and the machine kept up."""
        return self.state == "passed"


def check_parent(parent: Path) -> None:
    """LabError where no result directory could be made in `parent`, or none would fit; leaves nothing."""
    there = next(path for path in (parent.absolute(), *parent.absolute().parents) if os.path.lexists(path))
    try:
        with tempfile.TemporaryDirectory(prefix=".mrclab-", dir=there):
            free = shutil.disk_usage(there).free
    except OSError:
        raise LabError(
            f"results cannot go to {parent}: {there} is not a directory that can be written to; see --results"
        ) from None
    if free < _MIN_ROOM:
        room = f"{there} has room for {free >> 10} KiB, of {_MIN_ROOM >> 20} MiB at least"
        raise NoRoom(f"results cannot go to {parent}: {room}; make room, or see --results")


def snapshot(world: World, loaded: Loaded, parent: Path) -> Path:
    """Write the results so far of a world that goes on; return the new directory. LabError where it does not fit."""
    try:
        return _collect(world, loaded, parent, "")
    except OSError as error:
        raise LabError(f"the report could not be written to {parent}: {error.strerror}") from None


def collect(world: World, loaded: Loaded, parent: Path, reason: str) -> Path:
    """Write the results of a world that was stopped; return the new directory.

    Where that does not fit into `parent` it goes where temporary files go. LabError where it fits nowhere.
    """
    try:
        return _collect(world, loaded, parent, reason)
    except (OSError, LabError) as error:
        place = None
        try:
            place = Path(tempfile.mkdtemp(prefix="mrclab-results-"))
            return _collect(world, loaded, place, reason)
        except (OSError, LabError) as again:
            if place is not None:
                shutil.rmtree(place, ignore_errors=True)
            raise RunError(f"nothing of the run could be kept: {plain(error)}; nor elsewhere: {plain(again)}") from None


def elsewhere(directory: Path, why: str) -> Path:
    """Copy a result directory to where temporary files go, since its file system is full; return the copy.

    RunError with the remedy where it does not fit there either; `why` is what the file system of `directory` said.
    """
    place = None
    try:
        place = Path(tempfile.mkdtemp(prefix="mrclab-results-"))
        return Path(shutil.copytree(directory, place / directory.name))
    except OSError:
        if place is not None:
            shutil.rmtree(place, ignore_errors=True)
        raise RunError(
            f"the report could not be written to {directory}: {why}; nor does it fit into {tempfile.gettempdir()}; make"
            f" room, then run `mrclab report {directory}`"
        ) from None


def _collect(world: World, loaded: Loaded, parent: Path, reason: str) -> Path:
    directory = new_directory(parent, loaded.scenario.name)
    try:
        with naming(directory):
            _fill(directory, world, loaded, reason)
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise
    return directory


def _fill(directory: Path, world: World, loaded: Loaded, reason: str) -> None:
    _write_scenario(directory, loaded)
    world.collect(directory)
    info = {
        "scenario": loaded.scenario.name,
        "base": loaded.base_name,
        "variant": loaded.variant,
        "named": loaded.named,
        "transport": loaded.scenario.transport.kind,
        "source": loaded.source,
        "seed": loaded.scenario.seed,
        **world.facts(),
        "finished": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "error": reason,
        "versions": machine.versions(),
        "machine": machine.about(),
    }
    (directory / "run.json").write_text(json.dumps(info, indent=1) + "\n", encoding="utf-8")


def _write_scenario(directory: Path, loaded: Loaded) -> None:
    """Write the scenario and the files that it uses: matrices and traces, by the names of their workloads."""
    files = source_files(loaded)
    kept = {name: f"{name}{file.suffix}" for name, file in files.items()}
    for name, file in files.items():
        (directory / kept[name]).write_text(file.text, encoding="utf-8")
    text = with_names(loaded, kept)
    (directory / "scenario.yaml").write_text(text, encoding="utf-8")


def measured(lines: CompressedLog, loaded: Loaded, reason: str = "", directory: Path | None = None) -> CollectedRun:
    """Return a run whose history is in memory only; `directory` has its other files, where there are any."""
    with _without_collection():
        measures = _measures(history.of_lines(lines), loaded)
    if directory is None:
        return CollectedRun(Path(), loaded, measures, {"error": reason})
    return CollectedRun(directory, loaded, measures, json.loads((directory / "run.json").read_bytes()))


def read_file(directory: Path, name: str) -> dict[str, Any]:
    """Return a run's `run.json` or `result.json`; LabError where it is missing or not what a run writes."""
    try:
        found = json.loads(files.read_bytes(directory / name, follow=False))
    except (OSError, ValueError, RecursionError) as error:
        raise LabError(not_a_result(directory, error)) from None
    if not isinstance(found, dict):
        raise LabError(not_a_result(directory, ValueError(f"{name} is not what a run writes")))
    return found


def load(directory: Path, known: Loaded | None = None) -> CollectedRun:
    """Read a result directory; LabError when it is not one. `known` is its scenario, which is not parsed again then."""
    with _without_collection():
        return _load(directory, known)


def freeze_loaded() -> None:
    """Exclude loaded objects from garbage collection, which would take longer than a small run."""
    if not gc.get_freeze_count():
        gc.freeze()


def free_runs() -> None:
    """Free runs without a reference: their parts refer to each other, and `load` took them from the collector's sight.

    Pages that are free in the midst of the heap go back to the kernel where the C library can do that.
    """
    if gc.get_freeze_count() > _MANY:
        gc.unfreeze()
    gc.collect()
    if (trim := _malloc_trim()) is not None:
        trim(0)


@cache
def _malloc_trim() -> Callable[[int], object] | None:
    """Return the C library's function that gives free pages back, if it has one."""
    import ctypes  # noqa: PLC0415 - once a run is over

    return getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None


_HOSTILE = (LookupError, TypeError, AttributeError, ValueError, ArithmeticError, RecursionError)
"""Exceptions of records whose fields are missing, of another type, or out of all bounds."""


@contextmanager
def foreign(directory: Path) -> Iterator[None]:
    """Context in which a directory that others may have written is read: LabError where its records make no sense."""
    try:
        yield
    except LabError:
        raise
    except _HOSTILE as error:
        what = ValueError(f"its history makes no sense ({type(error).__name__}: {' '.join(str(error).split())[:100]})")
        raise LabError(not_a_result(directory, what)) from error


@contextmanager
def _without_collection() -> Iterator[None]:
    """Context without garbage collection: it would take most of the time among millions of objects that stay."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if enabled:
            gc.enable()


def _load(directory: Path, known: Loaded | None) -> CollectedRun:
    file = directory / "history.jsonl"
    info = read_file(directory, "run.json")
    try:
        text = files.read_text(directory / "scenario.yaml", follow=False)
        if "scenario" not in info:
            raise ValueError("run.json is not what a run writes")
        if info.get("history") == "none":
            raise LabError(
                f"{directory} keeps no history (history: none), its figures are in result.json; to see more, run its"
                " scenario with --set history=full"
            )
        if info.get("history_sha256", "") not in {"", history.digest(file)}:
            raise ValueError(f"{file.name} is not the one that the run wrote")
        records = history.load(file)
        if known is None:
            _check_fabric(directory / "fabric.yaml")
    except (OSError, ValueError, RecursionError) as error:
        raise LabError(not_a_result(directory, error)) from None
    source = str(directory / "scenario.yaml")
    if known is not None and known.text == text:
        loaded = Loaded(known.scenario, known.fabric, known.content, source)
    else:
        loaded = loads(text, source, within=directory)
    return CollectedRun(directory, loaded, _measures(records, loaded), info)


def _check_fabric(path: Path) -> None:
    """Raise ValueError if a description, which replays and tables of packets read, is damaged."""
    from mrclab.topo import fabricfile  # noqa: PLC0415 - a new run is not checked

    if path.exists():
        try:
            fabricfile.load(path, follow=False)
        except SpecError as error:
            raise ValueError(unreadable(path.name, error)) from None


def unreadable(name: str, error: SpecError) -> str:
    """Return the sentence for a lab's description that cannot be read: it is damaged, or newer than this version."""
    return f"{name} was not written by a lab of this version ({str(error).splitlines()[0]})"


def _measures(records: history.History, loaded: Loaded) -> "Measures":
    from mrclab.lab.measure.measures import Measures  # noqa: PLC0415 - once a run is over

    return Measures(records, loaded.scenario, loaded.fabric)


def write_page(run: CollectedRun) -> None:
    """Write pictures and page of a run whose numbers were written."""
    assert run.facts is not None
    mmap.mmap(-1, _PICTURES_BYTES).close()  # OSError: NumPy's libraries would report the shortage in their own words
    from mrclab.lab.report import plots, template  # noqa: PLC0415 - Matplotlib takes a second to load and needs a home

    pictures = plots.draw(run.measures, run.directory)
    files.replace_file(run.directory / "report.html", template.report_page(run.facts, pictures))


def write_numbers(run: CollectedRun) -> None:
    """Write numbers and JUnit XML, no pictures and no page; the run has its facts afterwards."""
    from mrclab.lab.report import junit, summary  # noqa: PLC0415 - once a run is over

    directory, verdicts, facts = run.directory, run.verdicts, summary.summarize(run.measures, run.verdicts, run.info)
    result = {
        "state": facts.state,
        "ok": facts.ok,
        "invalid": facts.invalid,
        "verdicts": [asdict(verdict) for verdict in verdicts],
        "facts": asdict(facts),
    }
    files.replace_file(directory / "result.json", json.dumps(result, indent=1) + "\n")
    if run.loaded.scenario.history == "full":
        series = summary.series(run.measures)
        files.replace_file(directory / "series.json", json.dumps(series) + "\n")
    cases = junit.render(run.loaded.scenario.name, verdicts, facts.invalid)
    files.replace_file(directory / "junit.xml", cases)
    run.facts = facts


def page_of(directory: Path) -> Path:
    """Return the page of a run; its figures where the scenario has `report: false`."""
    page, figures = directory / "report.html", directory / "result.json"
    return figures if figures.exists() and not page.exists() else page


def new_directory(parent: Path, name: str) -> Path:
    """A directory that did not exist: two runs in one second get a number."""
    stamp = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%d-%H%M%S")
    directory = parent / f"{name}-{stamp}"
    try:
        parent.mkdir(parents=True, exist_ok=True)
        for attempt in range(2, 1001):
            with contextlib.suppress(FileExistsError):
                directory.mkdir()
                return directory
            directory = parent / f"{name}-{stamp}-{attempt}"
    except OSError as error:
        raise LabError(f"the result directory {directory} cannot be made: {error.strerror}") from None
    raise LabError(f"{parent} holds a thousand results of this second; name another with --results")
