"""Expectations of goodput: its mean and its floor in a window, pauses, isolation of a victim."""

from typing import TYPE_CHECKING, Literal

from pydantic import Field, model_validator

from mrclab.lab.expectations.base import (
    EXPECTATIONS,
    LINE,
    MEAN,
    BaseExpectation,
    Bounds,
    Level,
    LevelField,
    Selected,
    Verdict,
    needs_one,
    show_share,
)
from mrclab.lab.measure.series import binned_total, edges, quantile
from mrclab.lab.measure.traffic.flows import Selection
from mrclab.lab.measure.validity.evidence import NoEvidence, ran, receivers_sampled
from mrclab.lab.scenario.names import KnownWindow, TrafficName
from mrclab.lab.scenario.units import Duration, Percent, show_rate, show_seconds

if TYPE_CHECKING:
    from mrclab.lab.measure.measures import Measures

_ONE_LEVEL = ("at_least", "at_most", "about")


class _InWindow(Selected):
    """Base of expectations in a window; the expected outcome is known without a run."""

    window: KnownWindow

    @property
    def expected_outcome(self) -> str:
        """Expected outcome, and when."""
        return f"{self._expected}, {self.window}"

    @property
    def _expected(self) -> str:
        raise NotImplementedError


@EXPECTATIONS.register
class Goodput(_InWindow):
    """Mean goodput over a window, of everything, a workload, a flow or a plane: a floor, a ceiling, or a level."""

    kind: Literal["goodput"]
    plane: int | None = Field(default=None, ge=1)
    at_least: LevelField | None = None
    at_most: LevelField | None = None
    about: LevelField | None = None
    within: Percent = 0.05
    unit: Literal["line", "B/s"] | None = Field(
        default=None, description="unit of the figure in results; default: the limit's, without one a share of `line`"
    )

    _complete = model_validator(mode="after")(needs_one(*_ONE_LEVEL, example="at_least: 90% of line"))

    @model_validator(mode="after")
    def _no_mean(self) -> "Goodput":
        if any(level and level.of == MEAN for level in (self.at_least, self.at_most, self.about)):
            raise ValueError("goodput is the mean itself; compare it with line, or with another goodput's name")
        return self

    def measured(self, measures: "Measures") -> float:
        """Bytes per second that arrived in the window; KeyError when the window never came."""
        begin, end = measures.window(self.window)
        receivers_sampled(measures, self.selection(self.plane), begin, end)
        return measures.goodput(begin, end, self.selection(self.plane))

    def judge(self, measures: "Measures") -> Verdict:
        """Bytes that arrived in the window, over its length."""
        begin, end = measures.window(self.window)
        chosen, got = self.selection(self.plane), self.measured(measures)
        levels = [level for level in (self.at_least, self.at_most, self.about) if level]
        of = levels[0].of if levels and not self.unit else "" if self.unit == "B/s" else LINE
        bounds = self.limits.resolved(lambda level: rate_of(level, measures, chosen, (begin, end)))
        share = _ratio(got, reference(of, measures, chosen, (begin, end))) if of else got
        observed = show_rate(got) + (f" = {share * 100:.1f}% of {of}" if of else "")
        when, unit = measures.span_text(begin, end), f"of {of}" if of else "B/s"
        return self.verdict(bounds.contain(got), self._expected, observed, when, share, unit)

    @property
    def _expected(self) -> str:
        chosen = str(self.selection(self.plane))
        return f"goodput{f' of {chosen}' if chosen else ''} {self.limits.text(str)}"


@EXPECTATIONS.register
class GoodputFloor(_InWindow):
    """The lowest goodput of any sample of a window; `allow` samples may be lower."""

    kind: Literal["goodput_floor"]
    plane: int | None = Field(default=None, ge=1)
    sample: Duration | None = Field(default=None, gt=0, description="seconds per sample; default: fabric.sample_every")
    at_least: LevelField | None = None
    allow: int = Field(default=0, ge=0, description="samples that may lie below")

    _complete = model_validator(mode="after")(needs_one("at_least", example="at_least: 95% of mean"))

    def judge(self, measures: "Measures") -> Verdict:
        """Goodput of every sample of the window."""
        begin, end = measures.window(self.window)
        chosen, expected = self.selection(self.plane), self._expected
        sample = self.sample or measures.fabric.spec.sample_interval
        if end < begin + sample:
            return self.verdict(False, expected, "the window is shorter than a sample", measures.span_text(begin, end))
        receivers_sampled(measures, chosen, begin, end)
        at = [t for t in edges(begin, end, sample) if t <= end + 1e-9]
        rates = binned_total(measures.rates.counters(chosen), at)
        mean = measures.goodput(begin, end, chosen)
        level = self.at_least or Level(0.0, "")
        if not mean and level.of == MEAN:
            raise NoEvidence("nothing arrived, so that its mean says nothing", measures.span_text(begin, end))
        floor = mean * level.share if level.of == MEAN else rate_of(level, measures, chosen, (begin, end))
        below = sum(rate < floor * (1 - 1e-9) for rate in rates)
        lowest = min(rates)
        base = mean if level.of == MEAN else floor / level.share if level.share else 0.0
        observed = f"lowest {show_rate(lowest)}" + (f" = {_ratio(lowest, base) * 100:.1f}%" if level.of else "")
        observed += f"; {below} of {len(rates)} below" if self.at_least else ""
        when = f"at {measures.time_text(at[rates.index(lowest)])}"
        value, unit = (_ratio(lowest, base), f"of {level.of}") if level.of else (lowest, "B/s")
        return self.verdict(below <= self.allow, expected, observed, when, value, unit)

    @property
    def _expected(self) -> str:
        chosen = str(self.selection(self.plane))
        what = f" of {chosen}" if chosen else ""
        length = f"{show_seconds(self.sample)} " if self.sample else ""
        expected = f"every {length}sample of goodput{what}"
        expected += f" ≥ {self.at_least}" if self.at_least else ""
        return expected + (f", except for {self.allow}" if self.allow else "")


@EXPECTATIONS.register
class Stall(_InWindow):
    """The longest time without new data at a receiver."""

    kind: Literal["stall"]
    max_rtts: float | None = Field(default=None, gt=0)
    at_least_rtts: float | None = Field(default=None, gt=0)

    _complete = model_validator(mode="after")(needs_one("max_rtts", "at_least_rtts", example="max_rtts: 5"))

    def judge(self, measures: "Measures") -> Verdict:
        """The longest pause that a receiver observed, in base round-trip times."""
        begin, end = measures.window(self.window)
        receivers_sampled(measures, self.selection(), begin, end)
        found = measures.stalls.between(begin, end, self.selection())
        if not found:
            return self.verdict(False, self._expected, "no receiver was sampled in the window")
        at, length = found[0]
        rtts = length / measures.rtt
        observed = f"{show_seconds(length)} = {rtts:.1f} RTT"
        ok = Bounds(self.at_least_rtts, self.max_rtts).contain(rtts)
        return self.verdict(ok, self._expected, observed, f"at {measures.time_text(at)}", rtts, "RTT")

    @property
    def _expected(self) -> str:
        limits = [f"no pause longer than {self.max_rtts:g} RTT"] if self.max_rtts else []
        limits += [f"a pause of at least {self.at_least_rtts:g} RTT"] if self.at_least_rtts else []
        return " and ".join(limits) + (f" in {self.flow or self.traffic}" if self.subject else "")


@EXPECTATIONS.register
class Isolation(BaseExpectation):
    """Share of its rate alone that a victim keeps while others load the fabric."""

    by_qps = True
    kind: Literal["isolation"]
    victim: TrafficName
    window: KnownWindow
    alone: KnownWindow | None = Field(default=None, description="when it ran alone; without it the line rate counts")
    at_least: Percent | None = None
    at_most: Percent | None = None
    percentile: float | None = Field(
        default=None,
        ge=0,
        le=100,
        description="of its samples, as fabric.sample_every has them, such as 5; without it the mean",
    )

    _complete = model_validator(mode="after")(needs_one("at_least", "at_most", example="at_least: 95%"))

    def judge(self, measures: "Measures") -> Verdict:
        """The victim's goodput over that of its isolated rate."""
        chosen = Selection(traffic=self.victim)
        begin, end = measures.window(self.window)
        receivers_sampled(measures, chosen, begin, end)
        got = measures.goodput(begin, end, chosen)
        if self.percentile is not None:
            at = edges(begin, end, measures.fabric.spec.sample_interval)
            got = quantile(measures.rates.binned(at, chosen), self.percentile / 100)
        base = measures.rates.line(chosen, (begin, end))
        if self.alone:
            alone = measures.window(self.alone)
            receivers_sampled(measures, chosen, *alone)
            base = measures.goodput(*alone, chosen)
        if not base:
            raise NoEvidence(f"{self.victim} had no rate alone to compare with")
        share = _ratio(got, base)
        figure = (
            f"{self.victim} keeps" if self.percentile is None else f"percentile {self.percentile:g} of {self.victim}"
        )
        expected = f"{figure} {self.limits.text(show_share)} of its rate alone"
        observed = f"{share * 100:.1f}%: {show_rate(got)} of {show_rate(base)}"
        when = measures.span_text(begin, end)
        return self.verdict(self.limits.contain(share), expected, observed, when, share, "of alone")


def reference(name: str, measures: "Measures", chosen: Selection, within: tuple[float, float]) -> float:
    """The goodput that a level refers to, bytes per second; KeyError when it was not measured.

    NoEvidence where it is 0. The line rate is that of the flows chosen, of those that ran in the window.
    """
    if name == LINE:
        ran(measures, chosen, *within)
        return measures.rates.line(chosen, within)
    for entry in measures.scenario.figures:
        if isinstance(entry, Goodput) and entry.name == name:
            try:
                found = entry.measured(measures)
            except NoEvidence as error:
                raise NoEvidence(f"of {name}: {error}", error.when) from None
            if not found:
                raise NoEvidence(f"{name} measured no goodput that another could be compared with")
            return found
    raise KeyError(f"goodput {name}")


def rate_of(level: Level, measures: "Measures", chosen: Selection, within: tuple[float, float]) -> float:
    """Return the bytes per second of a level."""
    return level.share * (reference(level.of, measures, chosen, within) if level.of else 1.0)


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
