"""Expectations of time: completion and slowdown, latency of a ping-pong, measured RTT."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator
from typing_extensions import override

from mrclab.lab.expectations.base import (
    AS_TEXT,
    EXPECTATIONS,
    BaseExpectation,
    FlowName,
    Selected,
    Verdict,
    known_reference,
    needs_one,
)
from mrclab.lab.measure.series import quantile
from mrclab.lab.measure.traffic import slowdown
from mrclab.lab.measure.traffic.flows import Selection
from mrclab.lab.measure.validity.evidence import NoEvidence, completed
from mrclab.lab.scenario.names import KnownWindow, TrafficName
from mrclab.lab.scenario.units import Percent, Size, rtts_of, share_of, show_bytes, show_seconds
from mrclab.topo.input.quantities import parse_duration

if TYPE_CHECKING:
    from mrclab.lab.measure.measures import Measures
    from mrclab.lab.traffic.base import TrafficBase

_SIDES = ("at_least", "at_most", "about")


@dataclass(frozen=True)
class Limit:
    """A duration: `amount` seconds, RTTs (`of` is "rtt"), or multiples of the figure of expectation `of`."""

    amount: float
    of: str = ""

    def seconds(self, measures: "Measures") -> float:
        """The duration in a run; KeyError when the other expectation measured none."""
        if not self.of:
            return self.amount
        if self.of == "rtt":
            return self.amount * measures.rtt
        return self.amount * _other(self.of, measures)

    def __str__(self) -> str:
        if not self.of:
            return show_seconds(self.amount)
        return f"{self.amount:g} RTT" if self.of == "rtt" else f"{self.amount * 100:g}% of {self.of}"


def parse_limit(value: object) -> object:
    """`20ms`, `3 rtt`, `110% of calm` → Limit."""
    if isinstance(value, Limit):
        return value
    if share := share_of(value):
        return Limit(*share)
    if (rtts := rtts_of(value)) is not None:
        return Limit(rtts, "rtt")
    try:
        return Limit(float(str(parse_duration(value if isinstance(value, str) else float(str(value))))))
    except ValueError:
        raise ValueError(
            f"{value!r} is not a duration; write, for example, 20ms, 3rtt, or 110% of EXPECTATION"
        ) from None


def _other(name: str, measures: "Measures") -> float:
    for entry in measures.scenario.figures:
        if entry.name == name and hasattr(entry, "measured_seconds"):
            return float(entry.measured_seconds(measures))
    raise KeyError(f"the duration {name}")


LimitField = Annotated[Limit, BeforeValidator(parse_limit), known_reference("expectation", "rtt"), AS_TEXT]


class DurationExpectation(BaseExpectation):
    """A duration and its limits."""

    at_least: LimitField | None = None
    at_most: LimitField | None = None
    about: LimitField | None = None
    within: Percent = 0.05

    _complete = model_validator(mode="after")(needs_one(*_SIDES, example="at_most: 20ms"))

    def duration_verdict(self, measures: "Measures", figure: str, seconds: float, of: str) -> Verdict:
        """Return the verdict on a duration; `of` says over how many."""
        observed = f"{show_seconds(seconds)} = {seconds / measures.rtt:.1f} RTT {of}".rstrip()
        passed = self.limits.resolved(lambda limit: limit.seconds(measures)).contain(seconds)
        return self.verdict(passed, f"{figure} {self.limits.text(str)}", observed, "", seconds, "s")


@EXPECTATIONS.register
class CompletionExpectation(DurationExpectation):
    """A percentile, or the mean, of the times that messages, iterations of a collective or whole flows took."""

    without_history = True
    kind: Literal["completion"]
    traffic: TrafficName
    flow: FlowName | None = None
    of: Literal["messages", "iterations", "flows"] = "messages"
    percentile: Annotated[float, Field(ge=0, le=100)] | Literal["mean"] = Field(default=99.0, description="or mean")
    window: KnownWindow | None = Field(
        default=None, description="in which they were done; iterations: from begin to end"
    )

    def measured_seconds(self, measures: "Measures") -> float:
        """The percentile or mean; KeyError where nothing was done."""
        times = self._times(measures)
        return fmean(times) if self.percentile == "mean" else quantile(times, self.percentile / 100)

    @override
    def mistakes(self, workloads: "Mapping[str, TrafficBase]") -> Iterator[tuple[str, str]]:
        named = workloads.get(self.traffic)
        if named is None:
            return
        if self.of == "iterations" and not named.iterates:
            yield "of", f"{self.traffic} has no iterations; write {'of: messages or ' * named.keeps_messages}of: flows"
        if self.of == "messages" and not named.keeps_messages:
            other = "of: iterations or of: flows" if named.iterates else "of: flows"
            other += ", or expect its latency" if named.kind_name == "pingpong" else ""
            yield "of", f"the history has no messages of {self.traffic}; write {other}"

    def _times(self, measures: "Measures") -> Sequence[float]:
        within = measures.window(self.window) if self.window else None
        until = within[1] if within else float("inf")
        completed(measures, Selection(self.traffic, self.flow or ""), until)
        times = measures.completions.seconds(self.of, self.traffic, self.flow or "", within)
        if not times:
            raise KeyError(f"completion of {self.of} of {self.flow or self.traffic}")
        return times

    def judge(self, measures: "Measures") -> Verdict:
        """The percentile or mean of the completion times."""
        count = len(self._times(measures))
        of_which = "mean" if self.percentile == "mean" else f"percentile {self.percentile:g}"
        figure = f"{of_which} of {self.of} of {self.flow or self.traffic}"
        return self.duration_verdict(measures, figure, self.measured_seconds(measures), f"over {count}")


@EXPECTATIONS.register
class Slowdown(BaseExpectation):
    """A percentile of flows' slowdown: completion time over that of the same flow on an idle fabric."""

    without_history = True
    kind: Literal["slowdown"]
    traffic: TrafficName
    percentile: Annotated[float, Field(ge=0, le=100)] = 99.0
    least: Annotated[Size, Field(ge=0)] = Field(default=0, description="flows of at least this size")
    below: Annotated[Size, Field(ge=1)] | None = Field(default=None, description="flows below this size")
    at_least: float | None = Field(default=None, ge=0)
    at_most: float | None = Field(default=None, ge=0)

    _complete = model_validator(mode="after")(needs_one("at_least", "at_most", example="at_most: 10"))

    def judge(self, measures: "Measures") -> Verdict:
        """The percentile over flows of these sizes that ended; KeyError where none did."""
        completed(measures, Selection(self.traffic))
        found = [
            slowdown.of(measures.fabric, flow)
            for flow in measures.completions.flows
            if flow.traffic == self.traffic and flow.size >= self.least and (not self.below or flow.size < self.below)
        ]
        if not found:
            raise KeyError(f"slowdown of flows of {self.traffic}")
        value = quantile(found, self.percentile / 100)
        sizes = [f"≥ {show_bytes(self.least)}"] if self.least else []
        sizes += [f"< {show_bytes(self.below)}"] if self.below else []
        flows = f" (flows {', '.join(sizes)})" if sizes else ""
        expected = f"percentile {self.percentile:g} of the slowdown of {self.traffic}{flows} {self.limits.text()}"
        return self.verdict(self.limits.contain(value), expected, f"{value:.2f} over {len(found)}", "", value, "times")


@EXPECTATIONS.register
class Latency(DurationExpectation):
    """A percentile of a ping-pong's latency, half the time there and back; or its distance from another's."""

    without_history = True
    kind: Literal["latency"]
    traffic: TrafficName
    minus: TrafficName | None = Field(default=None, description="judge the difference from this ping-pong")
    percentile: float = Field(default=50, ge=0, le=100)

    @override
    def mistakes(self, workloads: "Mapping[str, TrafficBase]") -> Iterator[tuple[str, str]]:
        for field, name in (("traffic", self.traffic), ("minus", self.minus)):
            if name is not None and (name not in workloads or workloads[name].kind_name != "pingpong"):
                text = f"{name} is not a ping-pong, so its round trips are not timed; name traffic of kind pingpong"
                yield field, text

    def measured_seconds(self, measures: "Measures") -> float:
        """The percentile or difference; KeyError where no round trip was made."""
        names = [self.traffic, *([self.minus] if self.minus else [])]
        found = []
        for name in names:
            completed(measures, Selection(name))
            times = measures.completions.round_trips(name)
            if not times:
                raise KeyError(f"a round trip of {name}")
            found.append(quantile(times, self.percentile / 100) / 2)
        return found[0] - sum(found[1:])

    def judge(self, measures: "Measures") -> Verdict:
        """Half the round-trip times of the messages."""
        seconds = self.measured_seconds(measures)
        figure = f"percentile {self.percentile:g} of the latency of {self.traffic}"
        figure += f" minus that of {self.minus}" if self.minus else ""
        return self.duration_verdict(
            measures, figure, seconds, f"over {len(measures.completions.round_trips(self.traffic))}"
        )


@EXPECTATIONS.register
class Rtt(Selected, DurationExpectation):
    """A percentile of the smoothed RTT of senders, which shows queueing delay."""

    kind: Literal["rtt"]
    window: KnownWindow
    percentile: float = Field(default=50, ge=0, le=100)

    def measured_seconds(self, measures: "Measures") -> float:
        """The percentile over the samples of all sending QPs; KeyError if there is none."""
        begin, end = measures.window(self.window)
        values: list[float] = []
        for flow in measures.flows.select(self.selection()):
            for key in flow.senders:
                gauge = measures.samples.qps[key].gauges.get("rtt")
                values += [value for _, value in gauge.between(begin, end)] if gauge else []
        if not values:
            raise NoEvidence("no RTT was measured then", measures.span_text(begin, end))
        return quantile(values, self.percentile / 100)

    def judge(self, measures: "Measures") -> Verdict:
        """The percentile over the samples of all sending QPs."""
        figure = f"percentile {self.percentile:g} of the RTT{self.subject}"
        return self.duration_verdict(measures, figure, self.measured_seconds(measures), "")
