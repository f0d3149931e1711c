"""Expectations of the fabric: packets dropped, trimmed and marked by its switches, and elements blamed by
Clustermapper."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from mrclab.controller.provisioning.counters import DROP_REASONS
from mrclab.lab.expectations.base import EXPECTATIONS, BaseExpectation, Bounds, Verdict, needs_one, show_share
from mrclab.lab.measure.fabric.faults import elements, links_of
from mrclab.lab.measure.fabric.switches import Port, growth, ports_of
from mrclab.lab.measure.series import CountSeries
from mrclab.lab.measure.validity.evidence import NoEvidence
from mrclab.lab.scenario.names import FaultName, KnownWindow
from mrclab.lab.scenario.units import Duration, Percent, show_seconds
from mrclab.topo.input.sentences import nearest

if TYPE_CHECKING:
    from mrclab.lab.measure.measures import Measures

_LIMITS = ("at_least", "at_most")
_REASONS = (*DROP_REASONS.values(), "queue")


def _known_reasons(given: str | list[str]) -> str | list[str]:
    for reason in [given] if isinstance(given, str) else given:
        if reason not in _REASONS:
            raise ValueError(f"switches do not drop for {reason!r}; {nearest(reason, _REASONS)}")
    return given


_KNOWN = AfterValidator(_known_reasons)


@EXPECTATIONS.register
class Drops(BaseExpectation):
    """Packets that switches dropped, by reason; with `only`, nothing for any other reason."""

    to_the_end = True
    kind: Literal["drops"]
    reason: Annotated[str | list[str], _KNOWN] | None = Field(
        default=None, description="such as queue, usid_miss; without it all"
    )
    switch: str | None = None
    only: Annotated[list[str], _KNOWN] | None = Field(
        default=None, description="reasons for which packets may be dropped"
    )
    at_least: int | None = Field(default=None, ge=0)
    at_most: int | None = Field(default=None, ge=0)

    _complete = model_validator(mode="after")(needs_one(*_LIMITS, "only", example="at_most: 0"))

    def judge(self, measures: "Measures") -> Verdict:
        """The difference of the counters between the run's ends."""
        drops = {
            reason: sum(count for switch, count in by_switch.items() if self.switch in {None, switch})
            for reason, by_switch in measures.switches.drops.items()
        }
        _read_twice(measures, {self.switch} if self.switch else None)
        reasons = [self.reason] if isinstance(self.reason, str) else self.reason
        count = sum(n for reason, n in drops.items() if not reasons or reason in reasons)
        where = self.switch or "switches"
        why = f" for {', '.join(reasons)}" if reasons else ""
        parts = [f"{where} drop {self.limits.text()} packets{why}"] if self.limits.text() else []
        unexpected = {
            reason: n for reason, n in drops.items() if n and self.only is not None and reason not in self.only
        }
        if self.only is not None:
            parts.append(f"{where} drop nothing" + (f" except for {', '.join(self.only)}" if self.only else ""))
        seen = ", ".join(f"{reason} {n}" for reason, n in drops.items() if n) or "none"
        ok = self.limits.contain(count) and not unexpected
        return self.verdict(ok, "; ".join(parts), seen, "", count, "packets")


@EXPECTATIONS.register
class InjectedExpectation(BaseExpectation):
    """Packets dropped or damaged by a fault, as counted at the cable: the losses are the injected ones."""

    kind: Literal["injected"]
    fault: FaultName
    at_least: int | None = Field(default=None, ge=0)
    at_most: int | None = Field(default=None, ge=0)
    share_about: Percent | None = Field(default=None, description="of the packets that it matched")
    within: Percent = Field(default=0.2, description="of share_about")

    _complete = model_validator(mode="after")(needs_one(*_LIMITS, "share_about", example="at_least: 1"))

    def judge(self, measures: "Measures") -> Verdict:
        """The fault's own counters, read when it was cleared."""
        counted = measures.injected(self.fault)
        if counted is None:
            raise KeyError(f"a count of {self.fault}")
        seen, hit = counted
        if not hit and not seen:
            raise NoEvidence(f"{self.fault} matched no packet")
        share = hit / seen if seen else 0.0
        shares = Bounds(about=self.share_about, within=self.within)
        limits = [f"{self.limits.text()} packets"] if self.limits.text() else []
        limits += [f"{shares.text(show_share)} of the packets"] if shares.text() else []
        observed = f"{hit} of {seen} packets = {share * 100:.3g}%"
        ok = self.limits.contain(hit) and shares.contain(share)
        return self.verdict(ok, f"{self.fault} takes {' and '.join(limits)}", observed, "", hit, "packets")


class _PortCount(BaseExpectation):
    to_the_end = True
    element: str | None = Field(default=None, description="a switch, or a cable: the ports at its ends")
    at_least: int | None = Field(default=None, ge=0)
    at_most: int | None = Field(default=None, ge=0)

    _complete = model_validator(mode="after")(needs_one(*_LIMITS, example="at_least: 1"))

    def count(self, measures: "Measures", counters: Mapping[Port, CountSeries], what: str) -> Verdict:
        """Judge the packets that the ports of the element counted during the run."""
        ports = ports_of(self.element, measures.fabric)
        _read_twice(measures, {switch for switch, _ in ports})
        chosen = {port: counter for port, counter in counters.items() if port in ports}
        total = growth(chosen.values())
        worst = max(chosen, key=lambda port: growth([chosen[port]]), default=None)
        where = f" at {self.element}" if self.element else ""
        observed = f"{total}"
        observed += f", most at {worst[0]} port {worst[1]}: {growth([chosen[worst]])}" if total and worst else ""
        expected = f"{self.limits.text()} packets {what}{where}"
        return self.verdict(self.limits.contain(total), expected, observed, "", total, "packets")


@EXPECTATIONS.register
class Trims(_PortCount):
    """Packets that switches trimmed to their headers."""

    kind: Literal["trims"]

    def judge(self, measures: "Measures") -> Verdict:
        """Compare the switches' counters with the limits."""
        return self.count(measures, measures.switches.trims, "trimmed")


@EXPECTATIONS.register
class Marks(_PortCount):
    """Packets that switches gave an ECN mark."""

    kind: Literal["marks"]

    def judge(self, measures: "Measures") -> Verdict:
        """Compare the switches' counters with the limits."""
        return self.count(measures, measures.switches.marks, "marked")


@EXPECTATIONS.register
class Pauses(_PortCount):
    """Pauses (XOFF) that switches sent to their peers, where the fabric has priority flow control
    (fabric.queue.pfc)."""

    kind: Literal["pauses"]

    def judge(self, measures: "Measures") -> Verdict:
        """The switches' counters, and the longest time that a port was paused."""
        made = self.count(measures, measures.switches.xoffs, "of pause sent")
        paused = {port: growth([counter]) for port, counter in measures.switches.paused.items()}
        worst = max(paused, key=lambda port: paused[port], default=None)
        if worst is None or not paused[worst]:
            return made
        observed = f"{made.observed}; {worst[0]} port {worst[1]} paused for {1e-3 * paused[worst]:.0f} µs"
        return replace(made, observed=observed)


@EXPECTATIONS.register
class MapperVerdict(BaseExpectation):
    """Clustermapper blames the faulty element, in time, and no other."""

    by_mapper = True
    kind: Literal["verdict"]
    fault: FaultName
    element: str | None = Field(default=None, description="a switch or cable; without it the one the fault began")
    within: Annotated[Duration, Field(gt=0)] | None = Field(default=None, description="after the fault began")
    within_cycles: Annotated[float, Field(gt=0)] | None = Field(
        default=None, description="the same in probe cycles, as mapper.cycle says"
    )
    state: Literal["down", "lossy"] | None = None
    only: bool = Field(default=True, description="no other element is blamed while the fault lasts")

    _complete = model_validator(mode="after")(needs_one("within", "within_cycles", example="within_cycles: 20"))

    @property
    def expected_outcome(self) -> str:
        """Return what is expected, as far as it is known without a run."""
        return f"Clustermapper blames {self.element or 'the element of ' + self.fault}"

    def judge(self, measures: "Measures") -> Verdict:
        """The controller's records `verdict`."""
        fault = measures.faults[self.fault]
        begin, end = measures.lasting(fault)
        links = set(links_of(self.element, measures.fabric) if self.element else fault.links)
        named = elements(links, measures.fabric)
        records = [r for r in measures.history.of("verdict") if begin <= r.t <= end]
        right = [r for r in records if r["element"] in named]
        right = [r for r in right if self.state in {None, r.get("state")}]
        wrong = sorted({str(r["element"]) for r in records} - {str(r["element"]) for r in right})
        cycle = self._cycle(measures)
        expected = f"Clustermapper blames {self.element or fault.where}{self._limits}"
        expected += " and no other" if self.only else ""
        others = f"; also {', '.join(wrong[:3])}" if wrong else ""
        if not right:
            return self.verdict(False, expected, "it never did" + others)
        seconds = right[0].t - begin
        cycles = seconds / cycle if cycle else 0.0
        limits = f" = {cycles:.1f} cycles" if cycle else ""
        observed = f"{right[0]['element']} {right[0].get('state', '')} after {show_seconds(seconds)}{limits}{others}"
        in_time = seconds <= (self.within or seconds) and cycles <= (self.within_cycles or cycles)
        when = f"at {measures.time_text(right[0].t)}"
        value, unit = (cycles, "cycles") if cycle and self.within is None else (seconds, "s")
        return self.verdict(in_time and not (self.only and wrong), expected, observed, when, value, unit)

    def _cycle(self, measures: "Measures") -> float:
        """Seconds of a probe cycle, 0 where a limit needs none; KeyError where the scenario has no Clustermapper."""
        if self.within_cycles is None and self.within is not None:
            return 0.0
        if measures.scenario.mapper is None:
            raise KeyError("a probe cycle, for want of mapper: in the scenario,")
        return measures.scenario.mapper.cycle

    @property
    def _limits(self) -> str:
        limits = [show_seconds(self.within)] if self.within is not None else []
        limits += [f"{self.within_cycles:g} cycles"] if self.within_cycles is not None else []
        return f" within {' and '.join(limits)}" if limits else ""


@EXPECTATIONS.register
class FalseAlarms(BaseExpectation):
    """False positives: elements that Clustermapper blamed although no fault had hit them."""

    to_the_end = True
    by_mapper = True
    kind: Literal["false_alarms"]
    window: KnownWindow | None = Field(default=None, description="in which they were blamed; default: the whole run")
    state: Literal["down", "lossy"] | None = Field(default=None, description="count these verdicts alone")
    at_most: int = Field(default=0, ge=0)

    def judge(self, measures: "Measures") -> Verdict:
        """Compare the controller's `verdict` records with the faults begun by then; cables of one fault count
        singly."""
        begin, end = measures.window(self.window) if self.window else (-math.inf, math.inf)
        records = [r for r in measures.history.of("verdict") if begin <= r.t <= end]
        records = [r for r in records if self.state in {None, r.get("state")}]
        faulty = [(s.begin, elements(set(s.links), measures.fabric) or set(s.links)) for s in measures.faults.values()]
        wrong = [r for r in records if not any(r.t >= since and r["element"] in named for since, named in faulty)]
        names = sorted({str(r["element"]) for r in wrong})
        expected = f"Clustermapper blames ≤ {self.at_most} healthy elements"
        expected += f" as {self.state}" if self.state else ""
        observed = f"{len(names)} of {len({str(r['element']) for r in records})} it blamed"
        observed += f": {', '.join(names[:3])}" if names else ""
        when = f"at {measures.time_text(wrong[0].t)}" if wrong else ""
        return self.verdict(len(names) <= self.at_most, expected, observed, when, len(names), "elements")


def _read_twice(measures: "Measures", switches: set[str] | None) -> None:
    """Raise NoEvidence unless the counters of a chosen switch (of any, without a choice) were read twice."""
    read: dict[str, int] = {}
    for record in measures.history.of("counters", "switches"):
        for switch in record["switches"]:
            read[switch] = read.get(switch, 0) + 1
    if not any(count > 1 for switch, count in read.items() if switches is None or switch in switches):
        whose = f"of {next(iter(switches))}" if switches and len(switches) == 1 else "of the switches"
        raise NoEvidence(f"there is no second reading of the counters {whose}")
