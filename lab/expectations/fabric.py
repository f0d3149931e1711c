"""Expectations of the fabric: what its switches dropped, trimmed and marked, and whom the Clustermapper blames."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from pydantic import Field, model_validator

from lab.expectations.base import BaseExpectation, Bounds, Verdict, needs_one
from lab.measure.faults import elements, links_of
from lab.measure.switches import Port, grew
from lab.names import FaultName
from lab.series import Counter
from lab.units import Duration, Percent, show_seconds

if TYPE_CHECKING:
    from lab.measure import Measures

_LIMITS = ("at_least", "at_most")


class Drops(BaseExpectation):
    """Packets that switches dropped, by reason; with `only`, nothing for any other reason."""

    kind: Literal["drops"]
    reason: str | list[str] | None = Field(default=None, description="such as queue, usid_miss; without it all")
    switch: str | None = None
    only: list[str] | None = Field(default=None, description="reasons for which packets may be dropped")
    at_least: int | None = Field(default=None, ge=0)
    at_most: int | None = Field(default=None, ge=0)

    _complete = model_validator(mode="after")(needs_one(*_LIMITS, "only", example="at_most: 0"))

    def judge(self, measures: "Measures") -> Verdict:
        """The difference of the counters between the run's ends."""
        drops = {
            reason: sum(count for switch, count in by_switch.items() if self.switch in {None, switch})
            for reason, by_switch in measures.switches.drops.items()
        }
        if not drops:
            raise KeyError("a reading of the switches' counters")
        wanted_reasons = [self.reason] if isinstance(self.reason, str) else self.reason
        count = sum(n for reason, n in drops.items() if not wanted_reasons or reason in wanted_reasons)
        held = Bounds(self.at_least, self.at_most)
        where = self.switch or "switches"
        why = f" for {', '.join(wanted_reasons)}" if wanted_reasons else ""
        parts = [f"{where} drop {held.say()} packets{why}"] if held.say() else []
        strangers = {
            reason: n for reason, n in drops.items() if n and self.only is not None and reason not in self.only
        }
        if self.only is not None:
            parts.append(f"{where} drop nothing" + (f" but for {', '.join(self.only)}" if self.only else ""))
        seen = ", ".join(f"{reason} {n}" for reason, n in drops.items() if n) or "none"
        ok = held.hold(count) and not strangers
        return self.verdict(ok, "; ".join(parts), seen, "", float(count), "packets")


class Injected(BaseExpectation):
    """Packets that a fault took or damaged, as the cable itself counted them: that the losses are the injected ones."""

    kind: Literal["injected"]
    fault: FaultName
    at_least: int | None = Field(default=None, ge=0)
    at_most: int | None = Field(default=None, ge=0)
    share_about: Percent | None = Field(default=None, description="of the packets that it saw")
    within: Percent = Field(default=0.2, description="of share_about")

    _complete = model_validator(mode="after")(needs_one(*_LIMITS, "share_about", example="at_least: 1"))

    def judge(self, measures: "Measures") -> Verdict:
        """The fault's own counters, read when it was healed."""
        told = [r for r in measures.history.of("fault.counters") if r["fault"] == self.fault]
        if not told:
            raise KeyError(f"a count of {self.fault}")
        hit = sum(int(r.get(name) or 0) for r in told for name in ("dropped", "damaged"))
        seen = sum(int(r.get("seen") or 0) for r in told)
        share = hit / seen if seen else 0.0
        held, shares = Bounds(self.at_least, self.at_most), Bounds(about=self.share_about, within=self.within)
        said = [f"{held.say()} packets"] if held.say() else []
        said += [f"{shares.say('{:.2%}'.format)} of the packets"] if shares.say() else []
        saw = f"{hit} of {seen} packets = {share * 100:.3g}%"
        ok = held.hold(hit) and shares.hold(share)
        return self.verdict(ok, f"{self.fault} takes {' and '.join(said)}", saw, "", float(hit), "packets")


class _PortCount(BaseExpectation):
    element: str | None = Field(default=None, description="a switch, or a cable: the ports at its ends")
    at_least: int | None = Field(default=None, ge=0)
    at_most: int | None = Field(default=None, ge=0)

    _complete = model_validator(mode="after")(needs_one(*_LIMITS, example="at_least: 1"))

    def count(self, measures: "Measures", counters: Mapping[Port, Counter], what: str) -> Verdict:
        """What the ports of the element counted during the run."""
        if not counters:
            raise KeyError("a reading of the switches' counters")
        chosen = dict(counters)
        if self.element:
            links = set(links_of(self.element, measures.fabric))
            ports = {
                (switch.name, port.number): port.link for switch in measures.fabric.switches for port in switch.ports
            }
            chosen = {port: counter for port, counter in counters.items() if ports.get(port) in links}
        total = grew(chosen.values())
        held = Bounds(self.at_least, self.at_most)
        worst = max(chosen, key=lambda port: grew([chosen[port]]), default=None)
        where = f" at {self.element}" if self.element else ""
        saw = f"{total}" + (f", most at {worst[0]} port {worst[1]}: {grew([chosen[worst]])}" if total and worst else "")
        return self.verdict(held.hold(total), f"{held.say()} packets {what}{where}", saw, "", float(total), "packets")


class Trims(_PortCount):
    """Packets that switches trimmed to their headers."""

    kind: Literal["trims"]

    def judge(self, measures: "Measures") -> Verdict:
        """The switches' counters."""
        return self.count(measures, measures.switches.trims, "trimmed")


class Marks(_PortCount):
    """Packets that switches gave an ECN mark."""

    kind: Literal["marks"]

    def judge(self, measures: "Measures") -> Verdict:
        """The switches' counters."""
        return self.count(measures, measures.switches.marks, "marked")


class MapperVerdict(BaseExpectation):
    """The Clustermapper blames the element at fault, in time, and nobody else."""

    kind: Literal["verdict"]
    fault: FaultName
    element: str | None = Field(default=None, description="a switch or cable; without it the one the fault struck")
    within: Duration = Field(gt=0, description="after the fault struck")
    state: Literal["down", "lossy"] | None = None
    only: bool = Field(default=True, description="no other element is blamed while the fault lasts")

    @property
    def wish(self) -> str:
        """What is wanted."""
        return f"Clustermapper blames {self.element or 'the element of ' + self.fault}"

    def judge(self, measures: "Measures") -> Verdict:
        """The controller's records `verdict`."""
        if self.fault not in measures.strikes:
            raise KeyError(self.fault)
        strike = measures.strikes[self.fault]
        begin, end = strike.during(measures.end)
        links = set(links_of(self.element, measures.fabric) if self.element else strike.links)
        named = elements(links, measures.fabric)
        told = [r for r in measures.history.of("verdict") if begin <= r.t <= end]
        right = [r for r in told if r["element"] in named]
        right = [r for r in right if self.state in {None, r.get("state")}]
        wrong = sorted({str(r["element"]) for r in told} - {str(r["element"]) for r in right})
        wanted = f"Clustermapper blames {self.element or strike.where} within {show_seconds(self.within)}"
        wanted += " and nobody else" if self.only else ""
        others = f"; also {', '.join(wrong[:3])}" if wrong else ""
        if not right:
            return self.verdict(False, wanted, "it never did" + others)
        seconds = right[0].t - begin
        saw = f"{right[0]['element']} {right[0].get('state', '')} after {show_seconds(seconds)}{others}"
        ok = seconds <= self.within and not (self.only and wrong)
        return self.verdict(ok, wanted, saw, f"at {measures.since_start(right[0].t):.2f} s", seconds, "s")
