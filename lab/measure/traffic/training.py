"""Steps of jobs: duration, time spent waiting, and time lost to faults.

From records `training.step` {traffic, rank, step, began, ended, compute?, loss?} of every rank, and
`training.reference` {traffic, began, ends} of the same job without faults. A step of a job ends when its last rank has
ended it, and begins when the one before ended.
"""

from __future__ import annotations

from collections.abc import Mapping
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
    def _rows(self) -> Mapping[str, Mapping[int, list[tuple[int, float, float, float | None, float | None]]]]:
        """By job and step: rank, began, ended, compute, loss."""
        found: dict[str, dict[int, list[tuple[int, float, float, float | None, float | None]]]] = {}
        for r in self._history.of("training.step"):
            compute, loss = r.get("compute"), r.get("loss")
            row = int(r["rank"]), float(r["began"]), float(r["ended"])
            numbers = None if compute is None else float(compute), None if loss is None else float(loss)
            found.setdefault(str(r["traffic"]), {}).setdefault(int(r["step"]), []).append((*row, *numbers))
        return found

    @property
    def jobs(self) -> list[str]:
        """Names of all jobs, in the order in which they first ended a step."""
        return list(self._rows)

    def ranks(self, job: str) -> int:
        """Return the number of ranks that reported a step."""
        return len({row[0] for rows in self._rows.get(job, {}).values() for row in rows})

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
            ended = max(row[2] for row in rows)
            began = found[-1].ended if found else min(row[1] for row in rows)
            computed = [row[3] for row in rows if row[3] is not None]
            losses = [row[4] for row in rows if row[4] is not None]
            slowest = next(row[0] for row in rows if row[2] == ended)
            compute, loss = fmean(computed) if computed else None, fmean(losses) if losses else None
            found.append(JobStep(number, began, ended, compute, slowest, loss))
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
        steps = [step for step in self.steps(job) if step.compute is not None]
        return fmean(step.seconds - (step.compute or 0.0) for step in steps) if steps else None

    def stragglers(self, job: str) -> list[RankSteps]:
        """All ranks, those first that were most often the last to end a step."""
        by_rank: dict[int, list[tuple[float, float | None]]] = {}
        for rows in self._rows.get(job, {}).values():
            for rank, began, ended, compute, _ in rows:
                by_rank.setdefault(rank, []).append((ended - began, compute))
        last: dict[int, int] = {}
        for step in self.steps(job):
            last[step.slowest] = last.get(step.slowest, 0) + 1
        found = []
        for rank, times in by_rank.items():
            known = [(seconds, compute) for seconds, compute in times if compute is not None]
            compute = fmean(c for _, c in known) if known else None
            exposed = fmean(s - c for s, c in known) if known else None
            found.append(RankSteps(rank, compute, exposed, last.get(rank, 0)))
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
        return {
            str(r["traffic"]): (float(r["began"]), [float(end) for end in r["ends"]])
            for r in self._history.of("training.reference")
        }
