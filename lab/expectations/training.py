"""Expectations of jobs: how long a step takes, and how much time faults cost."""

from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, model_validator

from mrclab.lab.expectations.base import EXPECTATIONS, BaseExpectation, Verdict, needs_one
from mrclab.lab.expectations.durations import DurationExpectation
from mrclab.lab.measure.series import quantile
from mrclab.lab.measure.validity.evidence import NoEvidence
from mrclab.lab.scenario.names import KnownWindow, TrafficName
from mrclab.lab.scenario.units import Duration, show_seconds
from mrclab.topo.input.sentences import quantity

if TYPE_CHECKING:
    from mrclab.lab.measure.measures import Measures


@EXPECTATIONS.register
class StepTime(DurationExpectation):
    """A percentile, or the mean, of the time that a step of a job takes: from the end of the one before to its own."""

    without_history = True
    kind: Literal["step_time"]
    traffic: TrafficName
    percentile: Annotated[float, Field(ge=0, le=100)] | Literal["mean"] = Field(default=50.0, description="or mean")
    window: KnownWindow | None = Field(default=None, description="in which steps lie wholly; default: all of them")

    def measured_seconds(self, measures: "Measures") -> float:
        """The percentile or mean; NoEvidence where no step was done."""
        times = self._times(measures)
        return fmean(times) if self.percentile == "mean" else quantile(times, self.percentile / 100)

    def _times(self, measures: "Measures") -> list[float]:
        within = measures.window(self.window) if self.window else None
        times = measures.training.seconds(self.traffic, within)
        if not times:
            begin, end = within or (measures.start, measures.end)
            raise NoEvidence(f"no step of {self.traffic} was done then", measures.span_text(begin, end))
        return times

    def judge(self, measures: "Measures") -> Verdict:
        """The percentile or mean of the steps' times."""
        figure = "mean" if self.percentile == "mean" else f"percentile {self.percentile:g}"
        count = len(self._times(measures))
        of = f"over {quantity(count, 'step')}"
        return self.duration_verdict(
            measures, f"{figure} of a step of {self.traffic}", self.measured_seconds(measures), of
        )


@EXPECTATIONS.register
class TimeLostExpectation(BaseExpectation):
    """Training time that faults cost a job, against the same run without faults, which virtual time makes by itself.

    On the wire against the median of its steps before the first fault.
    """

    without_history = True
    kind: Literal["time_lost"]
    traffic: TrafficName
    at_most: Annotated[Duration, Field(ge=0)] | None = Field(default=None, description="e.g. 2ms")
    at_least: Annotated[Duration, Field(ge=0)] | None = None
    steps_at_most: Annotated[float, Field(ge=0)] | None = Field(default=None, description="the same in steps")

    _complete = model_validator(mode="after")(needs_one("at_most", "at_least", "steps_at_most", example="at_most: 2ms"))

    def judge(self, measures: "Measures") -> Verdict:
        """The time lost, in seconds and steps."""
        begins = [fault.begin for fault in measures.faults.values()]
        if not begins:
            raise NoEvidence("no fault began", measures.span_text(measures.start, measures.end))
        expected, done = self._expected(measures), len(measures.training.steps(self.traffic))
        lost = measures.training.time_lost(self.traffic, min(begins))
        if lost is None:
            raise NoEvidence(self._why_none(measures, min(begins)))
        planned = next(
            (getattr(entry, "steps", None) for entry in measures.scenario.traffic if entry.name == self.traffic), None
        )
        if planned is not None and done < planned:
            return self.verdict(False, expected, f"the job ended after {done} of {planned} steps")
        passed = self.limits.contain(lost.seconds)
        passed = passed and (self.steps_at_most is None or lost.steps <= self.steps_at_most)
        against = "the same run without faults" if lost.twin else "the median step before"
        observed = f"{lost}, against {against}"
        return self.verdict(passed, expected, observed, "", lost.seconds, "s")

    def _why_none(self, measures: "Measures", since: float) -> str:
        ended = [step.ended for step in measures.training.steps(self.traffic)]
        if not ended:
            return f"{self.traffic} ended no step"
        if min(ended) > since:
            return f"{self.traffic} ended no step before the first fault began, with which others could be compared"
        return f"{self.traffic} ended no step after the first fault began"

    def _expected(self, measures: "Measures") -> str:
        limits = [self.limits.text(show_seconds)]
        if self.steps_at_most is not None:
            limits.append(f"≤ {quantity(self.steps_at_most, 'step')}")
        return f"training time lost by {self.traffic} {', '.join(filter(None, limits))}"
