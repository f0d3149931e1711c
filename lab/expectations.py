"""What a scenario expects of a run. Each kind is a model with one method, and says in one line what it wanted and saw.

An expectation whose moments never came (a fault that did not strike, a transfer that broke off) has failed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationInfo,
    model_validator,
)

from lab.names import FaultName, KnownWindow, NewName, TrafficName
from lab.units import Percent, show_rate, show_seconds
from lab.yamlfile import nearest

if TYPE_CHECKING:
    from lab.measure import EvChange, Measures

_USABLE = frozenset({"GOOD", "SKIP", "STANDBY"})
_LEVEL = re.compile(r"\s*(\d+(?:\.\d*)?)\s*%\s+of\s+([\w-]+)\s*")
MAX_LATE_RTTS = 1.0  # a NIC that woke up later than this was held up by the machine, not by the network
MAX_CPU = 0.97  # of one core, mean over the transfer: beyond it a process set the pace, not the network


@dataclass(frozen=True)
class Verdict:
    """How one expectation came out. `when` is said in seconds after the traffic began."""

    kind: str
    ok: bool
    wanted: str
    saw: str
    when: str = ""


@dataclass(frozen=True)
class Level:
    """A goodput: a share of the payload line rate (`line`) or of what a named expectation measured."""

    share: float
    of: str

    def __str__(self) -> str:
        return f"{self.share * 100:g}% of {self.of}"


def parse_level(value: object) -> object:
    """`90% of line`, `75% of before` → Level."""
    match = _LEVEL.fullmatch(str(value))
    if not match:
        raise ValueError(
            f"{value!r} is no level; write for example 90% of line, or 75% of NAME (an expectation's name)"
        )
    return Level(float(match[1]) / 100, match[2])


def _known_level(level: Level, info: ValidationInfo) -> Level:
    known = ["line", *(info.context or {}).get("goodput", [level.of])]
    if level.of not in known:
        raise ValueError(f"no goodput is named {level.of!r}; {nearest(level.of, known)}")
    return level


LevelField = Annotated[
    Level, BeforeValidator(parse_level), AfterValidator(_known_level), PlainSerializer(str, return_type=str)
]


class _Expectation(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    name: NewName | None = None

    def check(self, measures: Measures) -> Verdict:
        """Judge a run."""
        try:
            return self.judge(measures)
        except KeyError as error:
            return self.verdict(False, "", f"{error.args[0]} never came")

    def judge(self, measures: Measures) -> Verdict:
        """Judge a run in which every moment came; KeyError names one that did not."""
        raise NotImplementedError

    def verdict(self, ok: bool, wanted: str, saw: str, when: str = "") -> Verdict:
        """A verdict under this expectation's name, or its kind where it has none."""
        kind = str(getattr(self, "kind", ""))
        return Verdict(f"{kind} ({self.name})" if self.name else kind, ok, wanted, saw, when)


class Integrity(_Expectation):
    """The receiver holds what the sender sent, by SHA-256."""

    kind: Literal["integrity"]
    traffic: TrafficName

    def judge(self, measures: Measures) -> Verdict:
        """The digests that both ends took."""
        ends = [r for r in measures.history.of("traffic.end") if r["traffic"] == self.traffic]
        wanted = f"{self.traffic} arrives bit for bit"
        if not ends:
            return self.verdict(False, wanted, "the transfer did not end")
        sent, got = ends[-1].get("sent_sha256", ""), ends[-1].get("received_sha256", "")
        when = f"at {measures.since_start(ends[-1].t):.2f} s"
        if ends[-1].get("error"):
            return self.verdict(False, wanted, str(ends[-1]["error"]), when)
        same = bool(sent) and sent == got
        saw = f"sha256 {sent[:12]}… at both ends" if same else f"sha256 {sent[:12]}… was sent, {got[:12]}… arrived"
        return self.verdict(same, wanted, saw, when)


class QpErrors(_Expectation):
    """How many QPs may go to ERROR."""

    kind: Literal["qp_errors"]
    at_most: int = Field(default=0, ge=0)

    def judge(self, measures: Measures) -> Verdict:
        """Transitions to ERROR."""
        errors = measures.qp_errors
        when = ", ".join(f"{e.node} at {measures.since_start(e.t):.2f} s" for e in errors[:3])
        saw = f"{len(errors)}" + (f": {errors[0].get('reason', '')}" if errors else "")
        return self.verdict(len(errors) <= self.at_most, f"at most {self.at_most} QP in error", saw, when)


class Retransmitted(_Expectation):
    """Every packet that was declared lost was sent again."""

    kind: Literal["retransmitted"]

    def judge(self, measures: Measures) -> Verdict:
        """Losses without a retransmission."""
        open_losses, count = measures.not_retransmitted, len(measures.losses)
        saw = f"{count - len(open_losses)} of {count}"
        when = ", ".join(f"PSN {x.psn} lost at {measures.since_start(x.t):.2f} s" for x in open_losses[:3])
        return self.verdict(not open_losses, "every lost packet is sent again", saw, when)


class EvState(_Expectation):
    """EVs over a fault's cable take a state while it lasts, and are GOOD again afterwards."""

    kind: Literal["ev_state"]
    fault: FaultName
    state: Literal["ASSUMED_BAD", "PORT_DOWN"] = "ASSUMED_BAD"
    returns: bool = True

    def judge(self, measures: Measures) -> Verdict:
        """Changes of the EVs of the scenario's traffics that cross the cable."""
        begin, healed = measures.times[self.fault], measures.times[f"{self.fault}.end"]
        link = next(fault.link for fault in measures.scenario.faults if fault.name == self.fault)
        wanted = f"EVs over {link} go {self.state}" + (" and come back" if self.returns else "")
        changes = [c for c in measures.ev_changes if c.t >= begin and measures.crosses(c.path, link)]
        bad = [c for c in changes if c.new == self.state and c.t <= healed]
        if not bad:
            return self.verdict(False, wanted, f"no EV went {self.state}")
        hosts = {(c.host, c.qp, c.ev) for c in bad}
        back = [
            c for c in last_changes(changes) if (c.host, c.qp, c.ev) in hosts and c.new in {"GOOD", "SKIP", "STANDBY"}
        ]
        saw = f"{len(hosts)} went {self.state}" + (f", {len(back)} came back" if self.returns else "")
        when = f"{show_seconds(bad[0].t - begin)} after the fault"
        if self.returns and back:
            when += f"; back {show_seconds(max(c.t for c in back) - healed)} after it was healed"
        return self.verdict(not self.returns or len(back) == len(hosts), wanted, saw, when)


class Goodput(_Expectation):
    """Mean goodput over a window: a floor, or a level and how far from it."""

    kind: Literal["goodput"]
    window: KnownWindow
    at_least: LevelField | None = None
    about: LevelField | None = None
    within: Percent = 0.05

    @model_validator(mode="after")
    def _one_of_two(self) -> Goodput:
        if (self.at_least is None) == (self.about is None):
            raise ValueError("a goodput expectation needs either at_least or about, such as at_least: 90% of line")
        return self

    def judge(self, measures: Measures) -> Verdict:
        """Bytes that arrived in the window, over its length."""
        begin, end = self.window.at(measures.times, measures.rtt)
        when = f"{measures.since_start(begin):.2f} to {measures.since_start(end):.2f} s"
        got = measures.goodput(begin, end)
        level = self.at_least or self.about
        assert level is not None
        base = reference(level.of, measures)
        saw = f"{show_rate(got)} = {got / base * 100 if base else 0:.1f}% of {level.of}"
        if self.at_least:
            wanted, ok = f"goodput ≥ {level}", got >= level.share * base
        else:
            wanted, ok = (
                f"goodput {level} ± {self.within * 100:g}%",
                abs(got - level.share * base) <= self.within * level.share * base,
            )
        return self.verdict(ok and end > begin, wanted, saw, when)


class Stall(_Expectation):
    """The longest time without new data at the receiver."""

    kind: Literal["stall"]
    window: KnownWindow
    max_rtts: float = Field(gt=0)

    def judge(self, measures: Measures) -> Verdict:
        """The longest pause that a receiver saw, in base round-trip times."""
        begin, end = self.window.at(measures.times, measures.rtt)
        found = measures.stalls(begin, end)
        wanted = f"no pause longer than {self.max_rtts:g} RTT"
        if not found:
            return self.verdict(False, wanted, "no receiver was sampled in the window")
        at, length = found[0]
        saw = f"{show_seconds(length)} = {length / measures.rtt:.1f} RTT"
        return self.verdict(length <= self.max_rtts * measures.rtt, wanted, saw, f"at {measures.since_start(at):.2f} s")


class Lost(_Expectation):
    """How many packets a fault may cost a QP, and for how long it may go on to cost some."""

    kind: Literal["lost"]
    fault: FaultName
    at_most: int = Field(ge=0)
    within_rtts: float | None = Field(default=None, gt=0)

    def judge(self, measures: Measures) -> Verdict:
        """Losses on paths over the fault's cable, the worst QP's count and the last one's time."""
        losses = measures.losses_of(self.fault)
        per_qp: dict[tuple[str, int], int] = {}
        for loss in losses:
            per_qp[loss.host, loss.qp] = per_qp.get((loss.host, loss.qp), 0) + 1
        worst = max(per_qp.values(), default=0)
        wanted = f"{self.fault} costs a QP at most {self.at_most} packets"
        ok, saw, when = worst <= self.at_most, f"{worst} packets", ""
        if self.within_rtts:
            wanted += f", the last within {self.within_rtts:g} RTT"
        if losses:
            rtts = (losses[-1].t - measures.times[self.fault]) / measures.rtt
            when = f"last one {rtts:.1f} RTT after the fault"
            ok = ok and (self.within_rtts is None or rtts <= self.within_rtts)
        return self.verdict(ok, wanted, saw, when)


class Health(_Expectation):
    """No process died, waited long for a CPU or used up one, no socket dropped frames: the result is the network's."""

    kind: Literal["health"]

    def judge(self, measures: Measures) -> Verdict:
        """Processes and sockets during the traffic."""
        busy = [f"{p.name} used {p.mean * 100:.0f}% of a core" for p in measures.processes if p.mean > MAX_CPU]
        dropped = [f"{port} lost {count} frames in its socket" for port, count in measures.socket_drops.items()]
        died = [f"{text} died" for text in measures.died]
        late, host, at = measures.worst_lateness
        slept = [f"the machine let {host} wait {show_seconds(late)} for a CPU at {measures.since_start(at):.2f} s"]
        trouble = [*died, *dropped, *busy, *(slept if late > MAX_LATE_RTTS * measures.rtt else [])]
        top = measures.processes[0] if measures.processes else None
        calm = f"all well; busiest is {top.name} with {top.mean * 100:.0f}% of a core" if top else "all well"
        return self.verdict(not trouble, "every process alive and keeping up", "; ".join(trouble[:3]) or calm)


Expectation = Annotated[
    Integrity | QpErrors | Retransmitted | EvState | Goodput | Stall | Lost | Health, Field(discriminator="kind")
]


def last_changes(changes: Iterable[EvChange]) -> list[EvChange]:
    """The last change of each EV."""
    last = {(change.host, change.qp, change.ev): change for change in changes}
    return list(last.values())


def reference(name: str, measures: Measures) -> float:
    """The goodput that a level speaks of, bytes per second; KeyError when it was not measured."""
    if name == "line":
        return measures.line_rate
    for entry in measures.scenario.expect:
        if isinstance(entry, Goodput) and entry.name == name:
            return measures.goodput_in(entry.window)
    raise KeyError(f"goodput {name}")


def judge_all(measures: Measures) -> list[Verdict]:
    """Every expectation of the scenario, in its order."""
    return [entry.check(measures) for entry in measures.scenario.expect]
