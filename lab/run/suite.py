"""Suites: runs scenarios in order, and summarizes repeated runs."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mrclab.lab.errors import Interrupted, NoResult, RunError, ScenarioError, error_of
from mrclab.lab.expectations import Verdict
from mrclab.lab.expectations.base import verdict_row
from mrclab.lab.measure.intervals import Figure, summary
from mrclab.lab.report import results
from mrclab.lab.report.summary import VALID, state_of
from mrclab.lab.run import runner, worlds
from mrclab.lab.run.world import Progress
from mrclab.lab.scenario import scenario
from mrclab.lab.scenario.scenario import Loaded
from mrclab.topo.errors import TopoError
from mrclab.topo.linux.paths import RUN_DIR


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

    @property
    def is_valid(self) -> bool:
        """True if its figures are the network's: it passed or failed."""
        return self.state in VALID

    @property
    def outcome(self) -> str:
        """Its state, with the reason where it was aborted or is invalid."""
        return f"{self.state} – {self.error}" if self.error else self.state

    @property
    def reasons(self) -> list[str]:
        """Reasons for which it did not pass: its error, and each expectation that failed."""
        missed = [f"{verdict.expected}: {verdict.observed}" for verdict in self.verdicts if not verdict.ok]
        return [self.error, *missed] if self.error else missed


def entry_of(fields: Mapping[str, Any], directory: Path) -> SuiteEntry:
    """Return a run as its JSON has it, its directory relative to `directory`; an exception where it is none."""
    read = {
        "state": state_of(fields["state"]),
        "verdicts": tuple(Verdict(**verdict_row(verdict)) for verdict in fields["verdicts"]),
        "directory": directory / fields["directory"] if fields["directory"] else None,
        "error": error_of(fields),
    }
    return SuiteEntry(**{name: value for name, value in fields.items() if name != "trouble"} | read)


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
            if entry.is_valid:
                groups.setdefault(entry.label, []).append(entry)
        return [row for label, entries in groups.items() for row in _outcomes(label, entries)]


def _outcomes(label: str, entries: Sequence[SuiteEntry]) -> Iterator[Repeated]:
    for index, first in enumerate(entries[0].verdicts):
        verdicts = [entry.verdicts[index] for entry in entries if len(entry.verdicts) > index]
        values = [verdict.value for verdict in verdicts if verdict.value is not None]
        passed = sum(verdict.ok for verdict in verdicts)
        figure = summary(values) if values else None
        yield Repeated(label, first.kind, first.expected, passed, len(verdicts), first.unit, figure)


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
        """Run all; a failed run does not stop the others. Raises Interrupted, and LabError where no result can go."""
        results.check_parent(self.parent)
        result = self.result = SuiteResult(results.new_directory(self.parent, name))
        with worlds.owned_run_dir(planned, self.run_dir):
            self._run_all(planned, result)
        return result

    def _run_all(self, planned: Sequence[Loaded], result: SuiteResult) -> None:
        for number, loaded in enumerate(planned, 1):
            what = f"{loaded.scenario.name}, seed {loaded.scenario.seed}"
            self.notify(f"{number} of {len(planned)}: {what}")
            for attempt in range(self.again + 1):
                entry = self.run_one(loaded, result.directory / "runs")
                self.notify(f"{what}: {entry.outcome}")
                if attempt:
                    result.entries.pop()
                result.entries.append(entry)
                if entry.state != "invalid":
                    break

    def run_one(self, loaded: Loaded, parent: Path) -> SuiteEntry:
        """Run one scenario and return its result in any case; free its memory. Raises Interrupted."""
        entry = self._run(loaded, parent)
        results.free_runs()
        return entry

    def _run(self, loaded: Loaded, parent: Path) -> SuiteEntry:
        began = time.monotonic()
        entry = SuiteEntry(loaded.base_name, loaded.variant, loaded.scenario.seed, "aborted", 0.0)
        try:
            outcome = runner.run_scenario(
                loaded, parent, self.progress, self.notify, self.target, self.run_dir, self.report
            )
        except Interrupted:
            raise
        except (RunError, TopoError) as error:
            state = "invalid" if isinstance(error, NoResult) else "aborted"
            return replace(entry, state=state, seconds=time.monotonic() - began, error=str(error))
        return replace(
            entry, state=outcome.state, seconds=time.monotonic() - began, directory=outcome.directory,
            verdicts=tuple(outcome.verdicts), title=loaded.scenario.title, rtt=outcome.measures.rtt,
            error=outcome.error or ("; ".join(outcome.measures.invalid) if outcome.state == "invalid" else ""),
        )  # fmt: skip
