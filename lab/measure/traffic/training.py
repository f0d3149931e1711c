"""Steps of jobs: duration, time spent waiting, and time lost to faults.

From records `training.step` {traffic, rank, step, began, ended, compute?, loss?} of every rank, and
`training.reference` {traffic, began, ends} of the same job without faults. A step of a job ends when its last rank has
ended it, and begins when the one before ended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cached_property
from statistics import fmean, median
from typing import NamedTuple

from mrclab.lab.history import History
from mrclab.lab.scenario.units import show_seconds


class JobStep(NamedTuple):
    """One step of a whole job; `compute` is the mean of its ranks in seconds, `slowest` the rank that ended last."""

    number: int
    began: float
    ended: float
    compute: float | None
    slowest: int
    loss: float | None = None

    @property
    def seconds(self) -> float:
        """Duration, seconds."""
        return self.ended - self.began


class TimeLost(NamedTuple):
    """Seconds that faults cost a job, and those of a step without them; `twin`: measured against a run without."""

    seconds: float
    step: float
    twin: bool

    @property
    def steps(self) -> float:
        """Time lost in steps."""
        return self.seconds / self.step if self.step else 0.0

    def __str__(self) -> str:
        return f"{show_seconds(self.seconds)} = {round(self.steps, 2) + 0.0:.2f} steps"  # + 0.0: no -0.00


class RankStep(NamedTuple):
    """One step of one rank; `compute` and `loss` are None where it does not report them."""

    rank: int
    began: float
    ended: float
    compute: float | None
    loss: float | None


class RankSteps(NamedTuple):
    """One rank of a job: how long it computed and waited in a step on average, and how often it was the last."""

    rank: int
    compute: float | None
    exposed: float | None
    last: int


class TrainingSteps:
    """The jobs of one run."""

    def __init__(self, history: History) -> None:
        self._history = history

    @cached_property
    def _rows(self) -> dict[str, dict[int, list[RankStep]]]:
        """By job and number of the step."""
        found: dict[str, dict[int, list[RankStep]]] = {}
        for r in self._history.of("training.step"):
            row = RankStep(r["rank"], r["began"], r["ended"], r.get("compute"), r.get("loss"))
            found.setdefault(r["traffic"], {}).setdefault(r["step"], []).append(row)
        return found

    @property
    def jobs(self) -> list[str]:
        """Names of all jobs, in the order in which they first ended a step."""
        return list(self._rows)

    def ranks(self, job: str) -> int:
        """Return the number of ranks that reported a step."""
        return len({row.rank for rows in self._rows.get(job, {}).values() for row in rows})

    def steps(self, job: str) -> list[JobStep]:
        """All steps that every rank ended, in order."""
        return self._steps.get(job, [])

    @cached_property
    def _steps(self) -> dict[str, list[JobStep]]:
        return {job: self._of_job(job) for job in self._rows}

    def _of_job(self, job: str) -> list[JobStep]:
        ranks, found = self.ranks(job), list[JobStep]()
        for number, rows in sorted(self._rows[job].items()):
            if len(rows) < ranks:
                break
            last = max(rows, key=lambda row: row.ended)
            began = found[-1].ended if found else min(row.began for row in rows)
            compute, loss = _mean(row.compute for row in rows), _mean(row.loss for row in rows)
            found.append(JobStep(number, began, last.ended, compute, last.rank, loss))
        return found

    def seconds(self, job: str, within: tuple[float, float] | None = None) -> list[float]:
        """Return the durations of steps, of those that lie wholly within a window where one is given."""
        return [
            step.seconds
            for step in self.steps(job)
            if within is None or (within[0] <= step.began and step.ended <= within[1])
        ]

    def exposed(self, job: str) -> float | None:
        """Mean seconds of a step in which a rank computed nothing; None where ranks do not report it."""
        return _mean(None if step.compute is None else step.seconds - step.compute for step in self.steps(job))

    def stragglers(self, job: str) -> list[RankSteps]:
        """All ranks, those first that were most often the last to end a step."""
        by_rank: dict[int, list[RankStep]] = {}
        for rows in self._rows.get(job, {}).values():
            for row in rows:
                by_rank.setdefault(row.rank, []).append(row)
        last = Counter(step.slowest for step in self.steps(job))
        found = []
        for rank, rows in by_rank.items():
            exposed = _mean(None if row.compute is None else row.ended - row.began - row.compute for row in rows)
            found.append(RankSteps(rank, _mean(row.compute for row in rows), exposed, last[rank]))
        return sorted(found, key=lambda row: (-row.last, -(row.compute or 0.0), row.rank))

    def time_lost(self, job: str, since: float) -> TimeLost | None:
        """Return the time that faults since a time cost; None where there are too few steps.

        Against the run without faults where the history has one: by how much later the last common step ended, counted
        from the begin of each. Else against the median of the steps that had ended by then.
        """
        steps = self.steps(job)
        reference = self._references.get(job)
        if reference is not None and steps:
            began, ends = reference
            common = min(len(steps), len(ends))
            took = steps[common - 1].ended - steps[0].began
            usual = median(b - a for a, b in zip([began, *ends], ends, strict=False))
            return TimeLost(took - (ends[common - 1] - began), usual, twin=True)
        before = [step.seconds for step in steps if step.ended <= since]
        after = [step.seconds for step in steps if step.ended > since]
        if not before or not after:
            return None
        usual = median(before)
        return TimeLost(sum(after) - usual * len(after), usual, twin=False)

    @cached_property
    def _references(self) -> dict[str, tuple[float, list[float]]]:
        """By job: begin and ends of steps of the same run without faults."""
        return {r["traffic"]: (r["began"], r["ends"]) for r in self._history.of("training.reference")}


def _mean(values: Iterable[float | None]) -> float | None:
    """Return the mean of the known values; None where there is none."""
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
