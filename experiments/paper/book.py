"""The comparison itself: the runs of a suite, experiment by experiment, held against what the paper measured."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mrclab.experiments.paper.figures import Experiment, FigureRow, load
from mrclab.lab.errors import LabError
from mrclab.lab.measure.intervals import Figure, summary
from mrclab.lab.report.summary import state_of

SECONDS = "-seconds"
"""What the name of an expectation that tells round trips ends with where they are seconds."""

_NAMED = re.compile(r"[\w-]+ \(([\w-]+)\)")


@dataclass(frozen=True)
class SuiteRun:
    """One run of a suite, as its JSON tells."""

    scenario: str
    variant: str
    seed: int
    state: str  # passed, failed, invalid, aborted
    directory: Path | None
    values: dict[str, float]  # named expectation → its figure
    missed: tuple[str, ...] = ()  # what it wanted and did not get

    @property
    def counts(self) -> bool:
        """True if its figures are the network's."""
        return self.state in {"passed", "failed"}


@dataclass(frozen=True)
class Line:
    """A row of an experiment with our figure over all seeds. `verdicts` has one entry per seed that gave a value."""

    row: FigureRow
    figure: Figure | None
    verdicts: tuple[bool, ...]
    ratio: float | None  # ours over the paper's

    @property
    def state(self) -> str:
        """`pass`, `fail`, `shown` where no rule judges, `missing` where there is no value."""
        if self.figure is None:
            return "missing"
        if self.row.accept is None:
            return "shown"
        return "pass" if all(self.verdicts) else "fail"

    @property
    def unexplained(self) -> bool:
        """True if it is not the paper's figure and nobody says why."""
        return self.state == "fail" and not self.row.because


@dataclass(frozen=True)
class Chapter:
    """One experiment with its runs and lines."""

    experiment: Experiment
    runs: tuple[SuiteRun, ...]
    lines: tuple[Line, ...]

    @property
    def state(self) -> str:
        """`pass` where every judged line passed and every run is a result; else `fail`, or `missing` without runs."""
        judged = [line.state for line in self.lines if line.row.accept is not None]
        if not self.runs or all(state == "missing" for state in judged):
            return "missing"
        return "pass" if all(state == "pass" for state in judged) else "fail"

    @property
    def seeds(self) -> list[int]:
        """Seeds of the runs that count."""
        return sorted({run.seed for run in self.runs if run.counts})


_REMEDY = "make one with `mrclab suite paper`"


def read_runs(directory: Path) -> tuple[list[SuiteRun], dict[str, Any]]:
    """The runs of a suite's directory, and versions and machine; LabError where it is none."""
    try:
        told = json.loads((directory / "suite.json").read_text(encoding="utf-8"))
        runs = [_run(directory, entry) for entry in told["runs"]]
        about = {"versions": dict(told["versions"]), "machine": dict(told["machine"])}
    except OSError as error:
        raise LabError(f"{directory} is no directory of a suite: {error.strerror}; {_REMEDY}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise LabError(f"{directory / 'suite.json'} is not what a suite writes; {_REMEDY}") from None
    return runs, about


def _run(directory: Path, entry: dict[str, Any]) -> SuiteRun:
    named = [(_NAMED.fullmatch(verdict["kind"]), verdict) for verdict in entry["verdicts"]]
    values = {match[1]: float(verdict["value"]) for match, verdict in named if match and verdict["value"] is not None}
    rtt = entry.get("rtt", 0.0)
    rtts = [match[1] for match, verdict in named if match and match[1] in values and verdict["unit"] == "RTT"]
    values.update({f"{name}{SECONDS}": rtt * values[name] for name in rtts if rtt})
    missed = tuple(f"{v['wanted']}: {v['saw']}" for _, v in named if not v["ok"])
    place = directory / entry["directory"] if entry["directory"] else None
    trouble = (entry["trouble"],) if entry["trouble"] else ()
    return SuiteRun(
        entry["name"], entry["variant"], entry["seed"], state_of(entry["state"]), place, values, (*trouble, *missed)
    )


def hold(runs: Sequence[SuiteRun], experiments: Sequence[Experiment] | None = None) -> list[Chapter]:
    """Every experiment with its runs; those that were not run have none."""
    chapters = []
    for experiment in experiments if experiments is not None else load():
        mine = tuple(run for run in runs if run.scenario == experiment.scenario)
        chapters.append(Chapter(experiment, mine, tuple(_line(row, mine) for row in experiment.rows)))
    return chapters


def _line(row: FigureRow, runs: Sequence[SuiteRun]) -> Line:
    by_seed: dict[int, dict[tuple[str, str], float]] = {}
    for run in runs:
        if run.counts:
            values = by_seed.setdefault(run.seed, {})
            values.update({(run.variant, name): value for name, value in run.values.items()})
    found = [value for values in by_seed.values() if (value := row.value(values)) is not None]
    if not found:
        return Line(row, None, (), None)
    figure = summary(found)
    verdicts = tuple(bool(row.accepts(value)) for value in found) if row.accept else ()
    return Line(row, figure, verdicts, figure.median / row.paper if row.paper else None)


def number(value: float | None) -> str:
    """Three digits that matter; a dash for none."""
    if value is None:
        return "–"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"
