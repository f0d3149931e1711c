"""Expectations of the switches' data queues: how deep they were at the samples of a window."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from mrclab.lab.expectations.base import AS_TEXT, EXPECTATIONS, BaseExpectation, Verdict, needs_one
from mrclab.lab.measure.fabric.switches import ports_of
from mrclab.lab.measure.series import quantile
from mrclab.lab.scenario.names import KnownWindow
from mrclab.lab.scenario.units import show_number

if TYPE_CHECKING:
    from mrclab.lab.measure.measures import Measures

_DEPTH = re.compile(r"\s*(\d+(?:\.\d*)?)\s*(bdps?)?\s*")


@dataclass(frozen=True)
class Depth:
    """Packets, or bandwidth-delay products of the fabric."""

    amount: float
    in_bdps: bool = False

    def packets(self, measures: "Measures") -> float:
        """The depth in a run's fabric."""
        return self.amount * (measures.fabric.spec.bdp_packets if self.in_bdps else 1.0)

    def __str__(self) -> str:
        return f"{self.amount:g} BDP" if self.in_bdps else f"{self.amount:g}"


def parse_depth(value: object) -> object:
    """`40`, `1.5 bdp` → Depth."""
    if isinstance(value, Depth):
        return value
    match = _DEPTH.fullmatch(str(value).lower())
    if match is None:
        raise ValueError(
            f"{value!r} is not a queue depth; write a number of packets, such as 40, or of BDPs, such as 1.5 bdp"
        )
    return Depth(float(match[1]), bool(match[2]))


DepthField = Annotated[Depth, BeforeValidator(parse_depth), AS_TEXT]


@EXPECTATIONS.register
class QueueDepth(BaseExpectation):
    """Packets in the data queue of the deepest switch port, of those at an element or of all."""

    kind: Literal["queue_depth"]
    window: KnownWindow | None = Field(default=None, description="default: from the first traffic to the last")
    element: str | None = Field(default=None, description="a switch, or a cable: the ports at its ends")
    percentile: float = Field(default=100, ge=0, le=100, description="of a port's samples")
    at_least: DepthField | None = None
    at_most: DepthField | None = None

    _complete = model_validator(mode="after")(needs_one("at_least", "at_most", example="at_most: 1.5 bdp"))

    def judge(self, measures: "Measures") -> Verdict:
        """The samples of each port in the window; a switch that did not answer has none."""
        begin, end = measures.window(self.window)
        ports = ports_of(self.element, measures.fabric)
        if not measures.switches.has_depths({switch for switch, _ in ports}, begin, end):
            raise KeyError("a reading of the queues")
        samples = {port: gauge.between(begin, end) for port, gauge in measures.switches.depth.items() if port in ports}
        depths = {
            port: quantile([depth for _, depth in sampled], self.percentile / 100)
            for port, sampled in samples.items()
            if sampled
        }
        worst = max(depths, key=depths.__getitem__, default=None)
        value = depths[worst] if worst else 0.0
        bounds = self.limits.resolved(lambda limit: limit.packets(measures))
        observed = f"{show_number(value, 3)} packets = {value / measures.fabric.spec.bdp_packets:.2g} BDP"
        if worst and value:
            observed += f" at {worst[0]} port {worst[1]}, {len(samples[worst])} samples"
        when = measures.span_text(begin, end)
        return self.verdict(bounds.contain(value), self.expected_outcome, observed, when, value, "packets")

    @property
    def expected_outcome(self) -> str:
        """Expected outcome."""
        share = "" if self.percentile == 100 else f" in {self.percentile:g}% of the samples"
        where = f" at {self.element}" if self.element else ""
        return f"{self.limits.text(str)} packets wait in a queue{where}{share}"
