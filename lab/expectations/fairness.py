"""Expectations of fairness: between flows, between planes, between paths."""

from typing import TYPE_CHECKING, Literal

from pydantic import Field, model_validator

from mrclab.lab.expectations.base import EXPECTATIONS, BaseExpectation, Selected, Verdict, needs_one, show_share
from mrclab.lab.measure.fabric.paths import path_name
from mrclab.lab.measure.series import jain
from mrclab.lab.measure.traffic.flows import MeasuredFlow, Selection
from mrclab.lab.measure.validity.evidence import NoEvidence
from mrclab.lab.scenario.names import KnownWindow, TrafficName
from mrclab.lab.scenario.units import Percent, show_rate

if TYPE_CHECKING:
    from mrclab.lab.measure.measures import Measures


class _BetweenFlows(BaseExpectation):
    by_qps = True
    window: KnownWindow
    traffic: TrafficName | list[TrafficName] | None = None
    at_least: float | None = Field(default=None, ge=0, le=1)
    at_most: float | None = Field(default=None, ge=0, le=1)

    _complete = model_validator(mode="after")(needs_one("at_least", "at_most", example="at_least: 0.95"))

    @property
    def workloads(self) -> list[str]:
        """Names of the workloads concerned; none where all are."""
        return [self.traffic] if isinstance(self.traffic, str) else self.traffic or []

    def rates(self, measures: "Measures") -> list[tuple[float, str]]:
        """(goodput, flow) of the flows concerned, lowest first; KeyError where a workload never ran.

        NoEvidence where there is nothing to compare: one flow, or no byte.
        """
        flows: list[MeasuredFlow] = [
            flow for name in self.workloads or [""] for flow in measures.flows.select(Selection(traffic=name))
        ]
        begin, end = measures.window(self.window)
        rates = sorted((measures.goodput(begin, end, Selection(flow=flow.name)), flow.name) for flow in flows)
        if len(rates) < 2:
            raise NoEvidence(f"there is but one flow, {rates[0][1]}; fairness is between several")
        if not rates[-1][0]:
            raise NoEvidence("nothing arrived", measures.span_text(begin, end))
        return rates

    def on_ratio(self, measures: "Measures", figure: str, ratio: float, observed: str) -> Verdict:
        """The verdict on a ratio of the flows."""
        flows = f"flows of {', '.join(self.workloads)}" if self.workloads else "flows"
        expected = f"{figure} of {flows} {self.limits.text()}"
        when = measures.span_text(*measures.window(self.window))
        return self.verdict(self.limits.contain(ratio), expected, observed, when, ratio, "")


@EXPECTATIONS.register
class Jain(_BetweenFlows):
    """Jain's fairness index over the goodput of flows."""

    kind: Literal["jain"]

    def judge(self, measures: "Measures") -> Verdict:
        """The index, and the slowest and fastest flow."""
        rates = self.rates(measures)
        index = jain([rate for rate, _ in rates])
        observed = f"{index:.4f} over {len(rates)} flows, {show_rate(rates[0][0])} to {show_rate(rates[-1][0])}"
        return self.on_ratio(measures, "Jain index", index, observed)


@EXPECTATIONS.register
class Spread(_BetweenFlows):
    """The slowest flow's goodput over the fastest one's."""

    kind: Literal["spread"]

    def judge(self, measures: "Measures") -> Verdict:
        """The ratio, and which flows they are."""
        rates = self.rates(measures)
        (low, slow), (high, fast) = rates[0], rates[-1]
        ratio = low / high
        observed = f"{ratio:.3f}: {slow} {show_rate(low)}, {fast} {show_rate(high)}"
        return self.on_ratio(measures, "slowest to fastest", ratio, observed)


@EXPECTATIONS.register
class PlaneBalance(Selected):
    """Planes carry equal shares of the goodput."""

    kind: Literal["plane_balance"]
    window: KnownWindow
    within: Percent = Field(default=0.03, description="of the mean of the planes")
    planes: list[int] | None = Field(default=None, min_length=2, description="which; without it all")

    def judge(self, measures: "Measures") -> Verdict:
        """Judge the greatest distance of a plane from the mean."""
        begin, end = measures.window(self.window)
        planes = self.planes or list(range(1, measures.fabric.planes + 1))
        rates = {plane: measures.goodput(begin, end, self.selection(plane)) for plane in planes}
        mean = sum(rates.values()) / len(rates)
        which = "all planes" if not self.planes else f"planes {', '.join(map(str, planes))}"
        expected = f"{which} carry the same{self.subject} ± {self.within * 100:g}%"
        when = measures.span_text(begin, end)
        if not mean:
            return self.verdict(False, expected, "nothing arrived", when)
        distance = {plane: rate / mean - 1 for plane, rate in rates.items()}
        worst = max(distance, key=lambda plane: abs(distance[plane]))
        observed = f"plane {worst} is {distance[worst] * 100:+.1f}% off the mean of {show_rate(mean)}"
        value = abs(distance[worst])
        return self.verdict(value <= self.within, expected, observed, when, value, "of mean")


@EXPECTATIONS.register
class PathShare(Selected):
    """The share of a workload's packets that one path carries in a window."""

    kind: Literal["path_share"]
    window: KnownWindow
    plane: int = Field(ge=1)
    uplink: int = Field(ge=0, description="number of the T1 in the plane; 0 within a T0 group")
    at_least: Percent | None = None
    at_most: Percent | None = None

    _complete = model_validator(mode="after")(needs_one("at_least", "at_most", example="at_least: 95%"))

    def judge(self, measures: "Measures") -> Verdict:
        """Packets sent over the path, over all that were sent."""
        begin, end = measures.window(self.window)
        flows = {flow.name for flow in measures.flows.select(self.selection())}
        packets: dict[tuple[int, int], float] = {}
        for (host, qp, _), series in measures.samples.paths.items():
            flow = measures.flows.of_sender(host, qp)
            if flow and flow.name in flows:
                sent = series.count("sent_packets").growth(begin, end)
                packets[series.path] = packets.get(series.path, 0.0) + sent
        total = sum(packets.values())
        share = packets.get((self.plane, self.uplink), 0.0) / total if total else 0.0
        path = path_name(self.plane, self.uplink)
        expected = f"{path} carries {self.limits.text(show_share)} of the packets{self.subject}"
        observed = f"{share * 100:.1f}% of {total:.0f} packets"
        ok, when = total > 0 and self.limits.contain(share), measures.span_text(begin, end)
        return self.verdict(ok, expected, observed, when, share, "of packets")
