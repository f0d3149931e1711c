"""Suites: finds scenarios, runs them in order, and summarizes repeated runs."""

import datetime
import difflib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mrclab import HOME
from mrclab.lab.errors import Interrupted, NoResult, RunError, ScenarioError
from mrclab.lab.expectations import Verdict
from mrclab.lab.measure.intervals import Figure, summary
from mrclab.lab.report import results
from mrclab.lab.run import runner, worlds
from mrclab.lab.run.world import Progress
from mrclab.lab.scenario import scenario
from mrclab.lab.scenario.scenario import Loaded
from mrclab.topo.errors import TopoError
from mrclab.topo.linux.paths import RUN_DIR

SCENARIOS = HOME / "scenarios"
EXCLUDED = ("scale", "paper-scale", "train")
"""Directories below `scenarios/` whose scenarios run when they are named: they need a whole machine, or PyTorch."""

_SUFFIXES = (".yaml", ".yml")
_MAX_FOLDERS = 10_000  # that are looked through for scenarios


@dataclass(frozen=True)
class SuiteEntry:
    """One run of a suite and its result."""

    name: str  # of the scenario, without its variant
    variant: str
    seed: int
    state: str  # passed, failed, invalid, aborted
    seconds: float
    directory: Path | None = None
    verdicts: tuple[Verdict, ...] = ()
    error: str = ""  # why it was aborted or is invalid
    title: str = ""
    rtt: float = 0.0  # base round trip, seconds

    @property
    def label(self) -> str:
        """Name and variant."""
        return f"{self.name} [{self.variant}]" if self.variant else self.name


@dataclass(frozen=True)
class Repeated:
    """Outcome of one expectation over all valid runs of one scenario and variant."""

    label: str
    expectation: str  # its kind, and its name where it has one
    expected: str
    passed: int  # runs
    runs: int
    unit: str = ""
    figure: Figure | None = None  # None: it gives no number


@dataclass
class SuiteResult:
    """All runs of a suite, in order."""

    directory: Path
    entries: list[SuiteEntry] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """True if every run passed; False where nothing ran."""
        return bool(self.entries) and all(entry.state == "passed" for entry in self.entries)

    @property
    def status(self) -> int:
        """Exit status: 0 all passed, 1 one failed or was aborted, or none ran, 3 none did but one was invalid."""
        states = {entry.state for entry in self.entries}
        return 1 if states & {"failed", "aborted"} or not states else 3 if "invalid" in states else 0

    def repeated(self) -> list[Repeated]:
        """Every expectation of every scenario and variant over its valid runs."""
        groups: dict[str, list[SuiteEntry]] = {}
        for entry in self.entries:
            if entry.state in {"passed", "failed"}:
                groups.setdefault(entry.label, []).append(entry)
        return [row for label, entries in groups.items() for row in _together(label, entries)]


def _together(label: str, entries: Sequence[SuiteEntry]) -> Iterator[Repeated]:
    for place, first in enumerate(entries[0].verdicts):
        verdicts = [entry.verdicts[place] for entry in entries if len(entry.verdicts) > place]
        values = [verdict.value for verdict in verdicts if verdict.value is not None]
        passed = sum(verdict.ok for verdict in verdicts)
        figure = summary(values) if values else None
        yield Repeated(label, first.kind, first.expected, passed, len(verdicts), first.unit, figure)


def find(words: Sequence[str], home: Path = SCENARIOS) -> list[Path]:
    """Return the scenario files that words name (file, directory, name below `scenarios/`); none: all but `EXCLUDED`.

    Raises ScenarioError for an unknown word. Files of a directory are sorted by name, its own first.
    """
    if not words:
        return [path for path in _below(home) if path.relative_to(home).parts[0] not in EXCLUDED]
    paths: list[Path] = []
    for word in words:
        found = list(_files(word, home)) or [path for path in _below(home) if path.stem == word]
        if not found:
            if (place := Path(word)).exists():
                what = "holds no scenario file" if place.is_dir() else "is not a regular file"
                raise ScenarioError([f"{word} {what}; name a scenario or a folder of them"])
            raise ScenarioError([f'no scenario "{word}" (no such file, and not in {home.name}/){_meant(word, home)}'])
        paths += [path for path in found if path not in paths]
    return paths


def _meant(word: str, home: Path) -> str:
    """Suggest the nearest scenario, or list some to begin with."""
    names = sorted({path.stem for path in _below(home)} | {place.name for place in home.iterdir() if place.is_dir()})
    if near := difflib.get_close_matches(Path(word).stem, names, 1):
        return f"; did you mean {near[0]}?"
    first = sorted(path.stem for path in home.iterdir() if path.suffix in _SUFFIXES)
    return f"; choose {', '.join(first)}, or one that `mrclab suite --dry-run` lists"


def find_one(word: Path) -> Path:
    """Return the one scenario file that a word names; a missing file is left for the reader to report."""
    found = [] if word.suffix in _SUFFIXES and word.exists() else find([str(word)])
    if len(found) > 1:
        raise ScenarioError([f"{word} holds {len(found)} scenarios; name one, or run them with `mrclab suite`"])
    return found[0] if found else word


def _files(word: str, home: Path) -> Iterable[Path]:
    for candidate in (Path(word), home / word, home.parent / word, *(home / f"{word}{suffix}" for suffix in _SUFFIXES)):
        if candidate.is_dir():
            return _below(candidate)
        if candidate.is_file():
            return [candidate]
    return []


def _below(directory: Path) -> list[Path]:
    files = []
    walk = os.walk(directory)  # files that disappear meanwhile or are not readable are skipped
    for count, (place, _folders, names) in enumerate(walk):
        if count == _MAX_FOLDERS:
            raise ScenarioError([f"{directory} has more than {_MAX_FOLDERS:,} folders; name one that holds scenarios"])
        files += [path for name in names if (path := Path(place, name)).suffix in _SUFFIXES and path.is_file()]
    return sorted(files, key=lambda path: (len(path.parts), str(path)))


def load_all(paths: Iterable[Path]) -> list[Loaded]:
    """Read all files; raise one ScenarioError with the mistakes of all of them."""
    loaded, mistakes = [], []
    for path in paths:
        try:
            loaded.append(scenario.load(path))
        except ScenarioError as error:
            mistakes += error.mistakes
    if mistakes:
        raise ScenarioError(mistakes)
    return loaded


def runs(loaded: Iterable[Loaded], seeds: Sequence[int] = (), repeat: int = 1, variant: str = "") -> list[Loaded]:
    """Return every single run: all variants or the one named, with each seed; without seeds, `repeat` from the file's.

    All variants of a scenario are run with one seed before the next seed's, so that a drift of the machine hits all.
    """
    found = []
    for one in loaded:
        chosen = seeds or range(one.scenario.seed, one.scenario.seed + repeat)
        for seed in chosen:
            seeded = scenario.with_seed(one, seed) if seed != one.scenario.seed else one
            found += [seeded.pick(variant)] if variant else list(seeded.runs)
    return found


@dataclass
class Suite:
    """Runs scenarios one after the other; `notify` gets a line per run as it ends."""

    parent: Path  # parent of the suite's directory
    progress: Progress
    notify: Callable[[str], None]
    target: str | None = None
    run_dir: Path = RUN_DIR
    again: int = 0  # times that an invalid run is repeated
    report: bool = True  # write a report page for every run
    result: SuiteResult | None = None  # runs so far, also after an interrupt

    def run(self, planned: Sequence[Loaded], name: str = "suite") -> SuiteResult:
        """Run all; a failed run does not stop the others. Raises Interrupted."""
        stamp = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%d-%H%M%S")
        result = self.result = SuiteResult(self.parent / f"{name}-{stamp}")
        with worlds.owned_run_dir(planned, self.run_dir):
            self._run_all(planned, result)
        return result

    def _run_all(self, planned: Sequence[Loaded], result: SuiteResult) -> None:
        for number, loaded in enumerate(planned, 1):
            what = f"{loaded.scenario.name}, seed {loaded.scenario.seed}"
            self.notify(f"{number} of {len(planned)}: {what}")
            for attempt in range(self.again + 1):
                entry = self.one(loaded, result.directory / "runs")
                self.notify(f"{what}: {entry.state}" + (f" – {entry.error}" if entry.error else ""))
                result.entries.append(entry)
                if entry.state != "invalid" or attempt == self.again:
                    break
                result.entries.pop()

    def one(self, loaded: Loaded, parent: Path) -> SuiteEntry:
        """Run one scenario and return its result in any case; free its memory. Raises Interrupted."""
        entry = self._ran(loaded, parent)
        results.forget()
        return entry

    def _ran(self, loaded: Loaded, parent: Path) -> SuiteEntry:
        began = time.monotonic()
        spec = loaded.scenario
        try:
            outcome = runner.run_scenario(
                loaded, parent, self.progress, self.notify, self.target, self.run_dir, self.report
            )
        except Interrupted:
            raise
        except (RunError, TopoError) as error:
            seconds = time.monotonic() - began
            state = "invalid" if isinstance(error, NoResult) else "aborted"
            return SuiteEntry(loaded.base_name, loaded.variant, spec.seed, state, seconds, None, (), str(error))
        invalid = "; ".join(outcome.measures.invalid) if outcome.state == "invalid" else ""
        return SuiteEntry(
            loaded.base_name,
            loaded.variant,
            spec.seed,
            outcome.state,
            time.monotonic() - began,
            outcome.directory,
            tuple(outcome.verdicts),
            outcome.error or invalid,
            spec.title,
            outcome.measures.rtt,
        )
