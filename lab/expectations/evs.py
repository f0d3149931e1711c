"""Expectations of EVs: which states they take when, and that a fault touches those over its cables and no others."""

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

from pydantic import Field, model_validator

from mrclab.lab.expectations.base import EXPECTATIONS, BaseExpectation, Verdict, needs_one
from mrclab.lab.measure.fabric.faults import FaultSpan, links_of
from mrclab.lab.measure.fabric.paths import IN_USE, OUT, USABLE, EvChange, EvKey, path_name
from mrclab.lab.measure.traffic.flows import Selection
from mrclab.lab.measure.validity.evidence import NoEvidence, senders_sampled
from mrclab.lab.scenario.names import FaultName, KnownWindow
from mrclab.lab.scenario.units import Duration, show_seconds

if TYPE_CHECKING:
    from mrclab.lab.measure.measures import Measures

State = Literal["GOOD", "SKIP", "STANDBY", "ASSUMED_BAD", "PORT_DOWN", "DENIED"]


@EXPECTATIONS.register
class EvStateExpectation(BaseExpectation):
    """EVs over a fault's cables take a state while it lasts, and are usable again afterwards."""

    to_the_end = True
    by_cables = True
    kind: Literal["ev_state"]
    fault: FaultName
    state: State = "ASSUMED_BAD"
    by_rtts: float | None = Field(default=None, gt=0, description="the first of them, after the fault began")
    returns: bool = True
    returns_within: Duration | None = Field(default=None, gt=0, description="the last, after the fault was cleared")

    def judge(self, measures: "Measures") -> Verdict:
        """Changes of the EVs that cross the cables."""
        fault = measures.faults[self.fault]
        begin = fault.begin
        cleared = measures.times[f"{self.fault}.end"] if self.returns else measures.lasting(fault)[1]
        changes = measures.changes_over(fault, begin, math.inf)
        took = [c for c in changes if c.new == self.state and c.t <= cleared]
        expected = self._expected(fault.where)
        if not took:
            return self.verdict(False, expected, f"no EV went {self.state}")
        keys = {c.key for c in took}
        last_of = {c.key: c for c in changes}
        back = [c for key, c in last_of.items() if key in keys and c.new in USABLE]
        observed = f"{len(keys)} went {self.state}" + (f", {len(back)} came back" if self.returns else "")
        first = took[0].t - begin
        when = f"{show_seconds(first)} after the fault"
        ok = self.by_rtts is None or first <= self.by_rtts * measures.rtt
        if self.returns:
            ok = ok and len(back) == len(keys)
            if back:
                last = max(c.t for c in back) - cleared
                when += f"; back {show_seconds(last)} after it was cleared"
                ok = ok and (self.returns_within is None or last <= self.returns_within)
        return self.verdict(ok, expected, observed, when, first / measures.rtt, "RTT")

    @property
    def expected_outcome(self) -> str:
        """Expected outcome."""
        return self._expected(f"the cables of {self.fault}")

    def _expected(self, where: str) -> str:
        expected = f"EVs over {where} go {self.state}"
        expected += f" within {self.by_rtts:g} RTT" if self.by_rtts else ""
        expected += " and come back" if self.returns else ""
        return expected + (f" within {show_seconds(self.returns_within)}" if self.returns_within else "")


@EXPECTATIONS.register
class EvAffected(BaseExpectation):
    """The EVs taken out are exactly those over a fault's cables, or over an element in a window."""

    by_cables = True
    kind: Literal["ev_affected"]
    fault: FaultName | None = None
    element: str | None = Field(default=None, description="a switch, host or cable")
    window: KnownWindow | None = None
    exactly: bool = Field(default=True, description="false: EVs over it may also stay, as long as no other goes")

    @model_validator(mode="after")
    def _which(self) -> "EvAffected":
        if (self.fault is None) == (self.element is None):
            raise ValueError("an ev_affected expectation needs either fault or element")
        if self.element is not None and self.window is None:
            raise ValueError("an element needs a window in which its EVs go out, such as window: FAULT .. FAULT.end")
        return self

    def judge(self, measures: "Measures") -> Verdict:
        """EVs of sending QPs that went out, against those that were in use over the element and sent packets."""
        fault = self._target(measures)
        begin, end = measures.window(self.window) if self.window else measures.lasting(fault)
        over = _over(measures, fault, begin, end)
        out = {c.key for c in measures.paths.changes if c.new in OUT and begin <= c.t <= end}
        out &= set(measures.paths.sender_evs)
        others = out - over
        stayed = used_over(measures, fault, begin, end) - out if self.exactly else set()
        expected = f"{'exactly' if self.exactly else 'only'} the EVs over {fault.where} go out"
        observed = f"{len(out & over)} of {len(over)} over it went out, {len(others)} others"
        observed += f", {len(stayed)} stayed in use" if stayed else ""
        when = "; ".join([*_named(measures, others, "not over it"), *_named(measures, stayed, "stayed")])
        wrong = len(others) + len(stayed)
        return self.verdict(bool(out & over) and not wrong, expected, observed, when, wrong, "EVs")

    def _target(self, measures: "Measures") -> FaultSpan:
        if self.fault:
            return measures.faults[self.fault]
        assert self.element is not None
        links = links_of(self.element, measures.fabric)
        return FaultSpan(self.element, "", self.element, measures.start, None, links, self.element)


@EXPECTATIONS.register
class EvSwaps(BaseExpectation):
    """Number of EVs that took a state in a window; without a state, that were taken out of use."""

    by_cables = by_qps = True
    kind: Literal["ev_swaps"]
    window: KnownWindow
    fault: FaultName | None = Field(default=None, description="count EVs over its cables only")
    state: State | None = None
    at_least: int | None = Field(default=None, ge=0)
    at_most: int | None = Field(default=None, ge=0)

    _complete = model_validator(mode="after")(needs_one("at_least", "at_most", example="at_most: 2"))

    def judge(self, measures: "Measures") -> Verdict:
        """Transitions out of use, and how many a minute that makes."""
        begin, end = measures.window(self.window)
        fault = measures.faults[self.fault] if self.fault else None
        self._need_evs(measures, fault, begin, end)
        out = [c for c in measures.changes_over(fault, begin, end) if self._counts(c)]
        minutes = (end - begin) / 60
        observed = f"{len(out)} times" + (f" = {len(out) / minutes:.1f} a minute" if minutes > 0 else "")
        when = f"first at {measures.time_text(out[0].t)}" if out else ""
        what = f"EVs over {fault.where}" if fault else "EVs"
        expected = f"{what} go {self.state or 'out'} {self.limits.text()} times"
        return self.verdict(self.limits.contain(len(out)), expected, observed, when, len(out), "times")

    @staticmethod
    def _need_evs(measures: "Measures", fault: FaultSpan | None, begin: float, end: float) -> None:
        """NoEvidence where no sender had an EV there at the time that could have gone out."""
        first, last = measures.lasting(fault) if fault else (begin, end)
        senders_sampled(measures, Selection(), max(begin, first), min(end, last))
        evs = _over(measures, fault, begin, end) if fault else measures.paths.sender_evs
        if not evs:
            where = f" over {fault.where}" if fault else ""
            raise NoEvidence(f"no EV of a sender{where} is known", measures.span_text(begin, end))

    def _counts(self, change: EvChange) -> bool:
        return change.new == self.state if self.state else change.new in OUT and change.old not in OUT


def _over(measures: "Measures", fault: FaultSpan, begin: float, end: float) -> set[EvKey]:
    """EVs over a fault's cables, of QPs whose flows ran at some time between two."""
    senders = {key for flow in measures.flows if flow.ran(begin, end) for key in flow.senders}
    return {
        key
        for key, path in measures.paths.sender_evs.items()
        if measures.hits(fault, key[0], key[1], path) and (key[:2] in senders or not senders)
    }


def used_over(measures: "Measures", fault: FaultSpan, begin: float, end: float) -> set[EvKey]:
    """EVs over a fault's cables that were in use when it began, and by which packets were sent while it lasted."""
    states = measures.paths.state_at(begin)
    found = set()
    for key in _over(measures, fault, begin, end):
        series = measures.samples.paths.get(key)
        if series and states.get(key) in IN_USE and series.count("sent_packets").growth(begin, end) > 0:
            found.add(key)
    return found


def _named(measures: "Measures", keys: Iterable[EvKey], what: str) -> list[str]:
    evs = measures.paths.sender_evs
    return [f"{host} QP {qp} {path_name(*evs[host, qp, ev])} {what}" for host, qp, ev in sorted(keys)[:3]]
