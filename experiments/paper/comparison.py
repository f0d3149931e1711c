"""The comparison itself: the runs of a suite, experiment by experiment, compared with the paper's measurements."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mrclab.experiments.paper.figures import Experiment, FigureRow, load
from mrclab.lab.errors import LabError
from mrclab.lab.measure.intervals import Figure, summary, with_range
from mrclab.lab.run.suite import SuiteEntry, entry_of
from mrclab.lab.scenario.units import show_number
from mrclab.topo.input import files

SECONDS = "-seconds"
"""Suffix of the name of an expectation in round trips, for its value in seconds."""

_NAMED = re.compile(r"[\w-]+ \(([\w-]+)\)")


ENOUGH = 5
"""Seeds without which figures that differ from seed to seed are not judged by their interval."""

_SAME = 0.001  # of a figure: seeds that differ by less count as equal


@dataclass(frozen=True)
class Line:
    """A row of an experiment with our figure over all seeds. `verdicts` has one entry per seed that gave a value."""

    row: FigureRow
    figure: Figure | None
    verdicts: tuple[bool, ...]
    by_interval: bool = False  # judged by the interval of the seeds, not by each of them

    @property
    def state(self) -> str:
        """`pass`, `fail`, `open` where the interval says neither, `shown` without a rule, `missing` without a value."""
        band, interval = self.row.band, self.interval
        if self.figure is None:
            return "missing"
        if band is None:
            return "shown"
        if not self.by_interval:
            return "pass" if all(self.verdicts) else "fail"
        if interval is None:
            return "open"
        if band[0] <= interval[0] and interval[1] <= band[1]:
            return "pass"
        return "fail" if interval[1] < band[0] or interval[0] > band[1] else "open"

    @property
    def ours(self) -> float | None:
        """Our figure: the mean of the seeds where their interval is judged, else the median; None without one."""
        if self.figure is None:
            return None
        return self.figure.mean if self.by_interval else self.figure.median

    @property
    def ratio(self) -> float | None:
        """Ours over the paper's; None without one of them."""
        return None if self.ours is None or not self.row.paper else self.ours / self.row.paper

    @property
    def range(self) -> tuple[float, float] | None:
        """Range of our figure: the interval of the mean where it is judged, else of all seeds; None of one seed."""
        if self.figure is None or self.by_interval:
            return self.interval
        return (self.figure.least, self.figure.most) if self.figure.count > 1 else None

    @property
    def same_for_all_seeds(self) -> bool:
        """True if seeds, two at least, give the same figure."""
        figure = self.figure
        return figure is not None and figure.count > 1 and figure.most - figure.least <= _SAME * abs(figure.median)

    @property
    def interval(self) -> tuple[float, float] | None:
        """Range of the mean: 95 % confidence of enough seeds, or the value of all; None without either."""
        figure = self.figure
        if figure is None or (figure.count < ENOUGH and not self.same_for_all_seeds):
            return None
        if self.same_for_all_seeds or figure.low is None or figure.high is None:
            return figure.least, figure.most
        return figure.low if figure.least < 0 else max(0.0, figure.low), figure.high

    @property
    def unexplained(self) -> bool:
        """True if it differs from the paper's figure without a reason given."""
        return self.state == "fail" and not self.row.because


@dataclass(frozen=True)
class Chapter:
    """One experiment with its runs and lines."""

    experiment: Experiment
    runs: tuple[SuiteEntry, ...]
    lines: tuple[Line, ...]

    @property
    def state(self) -> str:
        """`pass` where every judged line and every run passed; else `fail`, or `missing` without runs."""
        judged = [line.state for line in self.lines if line.row.accept is not None]
        if not self.runs or all(state == "missing" for state in judged):
            return "missing"
        failed = any(run.state in {"failed", "aborted"} for run in self.runs)
        return "pass" if all(state == "pass" for state in judged) and not failed else "fail"

    def count(self, state: str, any_sender: bool) -> int:
        """Number of lines in a state among those that test the transport, or that any sender meets."""
        return sum(line.state == state and line.row.any_sender is any_sender for line in self.lines)

    @property
    def seeds(self) -> list[int]:
        """Seeds of the runs that count."""
        return sorted({run.seed for run in self.runs if run.is_valid})


_REMEDY = "make one with `mrclab suite paper`"


def read_runs(directory: Path) -> tuple[list[SuiteEntry], dict[str, Any]]:
    """The runs of a suite's directory, and versions and machine; LabError where it is not one."""
    try:
        suite = json.loads(files.read_bytes(directory / "suite.json", follow=False))
        runs = [entry_of(entry, directory) for entry in suite["runs"]]
        about = {"versions": dict(suite["versions"]), "machine": dict(suite["machine"])}
    except OSError as error:
        if (directory / "run.json").is_file():
            raise LabError(
                f"{directory} is a run's directory, not a suite's; `mrclab compare` puts runs on one page"
            ) from None
        raise LabError(f"{directory} is not the directory of a suite: {error.strerror}; {_REMEDY}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise LabError(f"{directory / 'suite.json'} is not what a suite writes; {_REMEDY}") from None
    return runs, about


def values(run: SuiteEntry) -> dict[str, float]:
    """Return the figures of a run's named expectations, by name; those in round trips also in seconds."""
    found: dict[str, float] = {}
    for verdict in run.verdicts:
        name = _NAMED.fullmatch(verdict.kind)
        if name and verdict.value is not None:
            found[name[1]] = float(verdict.value)
            if verdict.unit == "RTT" and run.rtt:
                found[f"{name[1]}{SECONDS}"] = run.rtt * verdict.value
    return found


def compare(
    runs: Sequence[SuiteEntry], experiments: Sequence[Experiment] | None = None, by_interval: bool = False
) -> list[Chapter]:
    """Return every experiment with its runs, perhaps none. A line is judged seed by seed, or `by_interval` of all."""
    chapters = []
    for experiment in experiments if experiments is not None else load():
        mine = tuple(run for run in runs if run.name == experiment.scenario)
        chapters.append(Chapter(experiment, mine, tuple(_line(row, mine, by_interval) for row in experiment.rows)))
    return chapters


def _line(row: FigureRow, runs: Sequence[SuiteEntry], by_interval: bool) -> Line:
    by_seed: dict[int, dict[tuple[str, str], float]] = {}
    for run in runs:
        if run.is_valid:
            figures = by_seed.setdefault(run.seed, {})
            figures.update({(run.variant, name): value for name, value in values(run).items()})
    found = [value for figures in by_seed.values() if (value := row.value(figures)) is not None]
    if not found:
        return Line(row, None, (), by_interval)
    figure = summary(found)
    verdicts = tuple(bool(row.accepts(value)) for value in found) if row.accept else ()
    return Line(row, figure, verdicts, by_interval)


def number(value: float | None) -> str:
    """Return a number with three significant digits; a dash for None."""
    return "–" if value is None else show_number(value, 3)


def cell(figure: Figure | None) -> str:
    """Return the median of seeds, with least and greatest where they differ; a dash for None."""
    if figure is None:
        return "–"
    return with_range(figure.median, (figure.least, figure.most) if figure.most > figure.least else None, number)
