"""Expectations of how a run ended: bytes intact, QPs alive, processes alive, faults cleared, programs failed."""

import re
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from mrclab.lab.expectations.base import EXPECTATIONS, BaseExpectation, Bounds, Verdict
from mrclab.lab.history import Record
from mrclab.lab.measure.fabric.paths import USABLE
from mrclab.lab.measure.traffic.flows import Selection
from mrclab.lab.measure.validity.evidence import NoEvidence, ran
from mrclab.lab.scenario.names import HostName, RegularExpression, TrafficName
from mrclab.topo.input.sentences import quantity

if TYPE_CHECKING:
    from mrclab.lab.measure.measures import Measures


@EXPECTATIONS.register
class Integrity(BaseExpectation):
    """Receivers hold the bytes sent, by SHA-256, of one workload or all; of jobs, as many bytes."""

    without_history = True
    kind: Literal["integrity"]
    traffic: TrafficName | None = None

    def judge(self, measures: "Measures") -> Verdict:
        """The digests that both ends took, flow by flow."""
        expected = f"{self.traffic or 'all traffic'} arrives bit for bit"
        names = [self.traffic] if self.traffic else [entry.name for entry in measures.scenario.traffic]
        ends = [end for name in names for end in _ends(measures, name)]
        missing = [name for name in names if not _ends(measures, name)]
        if missing or not ends:
            which = f" ({', '.join(missing[:3])})" if len(names) > 1 else ""
            return self.verdict(False, expected, f"the transfer did not end{which}", _until_end(measures))
        when = f"at {measures.time_text(max(end.t for end in ends))}"
        counted = {entry.name for entry in measures.scenario.traffic if entry.is_counted and entry.name in names}
        for end in sorted(ends, key=lambda end: not end.get("error")):  # what failed, before what then lacks bytes
            damage = _damage(end, end["traffic"] in counted)
            if damage:
                flow = f"{end.get('flow', end['traffic'])}: " if len(ends) > 1 else ""
                return self.verdict(False, expected, flow + damage, f"at {measures.time_text(end.t)}")
        if all("received" in end.data for end in ends if "flow" in end.data) and "flow" in ends[0].data:
            return self.verdict(True, expected, f"{len(ends)} flows, each with as many bytes as were sent", when)
        if counted.issuperset(names):
            return self.verdict(True, expected, "every flow ended, its bytes acknowledged and counted", when)
        flows = [end for end in ends if "flow" in end.data]
        digest = (flows or ends)[0].get("sent_sha256", "")
        count = sum(bool(end.get("sent_sha256")) for end in flows)
        observed = f"sha256 {digest[:12]}… at both ends" if len(flows) < 2 else f"{count} flows, each intact by sha256"
        if not flows and not any(end.get("bytes") for end in ends):
            observed = "nothing was sent"
        if counted and count < len(flows):
            observed = (
                f"of {len(flows)} flows {count} intact by sha256, of the others all bytes acknowledged and counted"
            )
        if all(end.get("exit_status") is not None for end in ends):
            observed = "every program ended with status 0"
        return self.verdict(True, expected, observed, when)


@EXPECTATIONS.register
class QpErrors(BaseExpectation):
    """QPs that go to ERROR: none, unless they are expected; then with the reason given."""

    without_history = True
    kind: Literal["qp_errors"]
    at_most: int | None = Field(default=None, ge=0, description="0 where at_least is not given")
    at_least: int | None = Field(default=None, ge=0)
    reason: str | None = Field(default=None, description="that each of them names, such as Retry Counter Exceeded")
    host: HostName | None = None

    def judge(self, measures: "Measures") -> Verdict:
        """Count the QPs that went to ERROR."""
        if measures.flows or not measures.completions.workloads:
            ran(measures, Selection(), measures.start, measures.end)
        errors = [e for e in measures.qp_errors if self.host in {None, e.node}]
        most = 0 if self.at_most is None and self.at_least is None else self.at_most
        bounds = Bounds(self.at_least, most)
        others = [e for e in errors if self.reason and self.reason.lower() not in str(e.get("reason", "")).lower()]
        where = f" on {self.host}" if self.host else ""
        expected = ("no QP" if bounds == Bounds(None, 0) else f"{bounds.text()} QPs") + f" in error{where}"
        expected += f" by {self.reason}" if self.reason else ""
        example = (others or errors)[:1]
        observed = f"{len(errors)}" + (f": {example[0].get('reason', '')}" if example else "")
        when = ", ".join(f"{e.node} at {measures.time_text(e.t)}" for e in errors[:3])
        ok = bounds.contain(len(errors)) and not others
        return self.verdict(ok, expected, observed, when, len(errors), "QPs")


@EXPECTATIONS.register
class Health(BaseExpectation):
    """No process died unexpectedly, and the machine kept up: the result is the network's."""

    without_history = True
    kind: Literal["health"]

    def judge(self, measures: "Measures") -> Verdict:
        """Unexpected exits of processes, and reasons for which the run is invalid."""
        problems = [f"{text} died" for text in measures.machine.died] + measures.invalid + measures.machine.unknown
        top = measures.machine.processes[0] if measures.machine.processes else None
        well = f"all well; busiest is {top.name} with {top.mean * 100:.0f}% of a core" if top else "all well"
        expected, observed = "every process alive and keeping up", "; ".join(problems[:3]) or well
        return self.verdict(not problems, expected, observed, "", len(problems), "problems")


@EXPECTATIONS.register
class Clean(BaseExpectation):
    """Nothing is left of the faults: all began and were cleared, the fabric is verified, every EV is usable again."""

    to_the_end = True
    kind: Literal["clean"]

    def judge(self, measures: "Measures") -> Verdict:
        """The end of the history."""
        missing = [fault.name for fault in measures.scenario.faults if fault.name not in measures.faults]
        problems = [f"{name} never began" for name in missing]
        problems += [f"{fault.name} was not cleared" for fault in measures.faults.values() if fault.end is None]
        last = measures.history.records[-1].t if measures.history.records else measures.end
        broken = {(error.node, error["qp"]) for error in measures.qp_errors}
        out_of_use = [
            key
            for key, state in measures.paths.state_at(last + 1).items()
            if state not in USABLE and key[:2] not in broken
        ]
        if out_of_use:
            still = "one EV is" if len(out_of_use) == 1 else f"{len(out_of_use)} EVs are"
            problems.append(f"{still} still out of use, such as one of {out_of_use[0][0]} QP {out_of_use[0][1]}")
        for r in measures.history.of("faults.cleared"):  # cables probed and entries audited after the last fault
            if not r.get("verified", True):
                problems.append(f"the fabric was not verified again: {str(r.get('problems', ''))[:80]}")
            if r.get("entries"):
                problems.append(f"entries differ from what they should be: {str(r['entries'])[:80]}")
        cleared = quantity(len(measures.faults), "fault")
        observed = "; ".join(problems[:3]) or f"{cleared} cleared, every EV usable"
        expected = "no state is left of the faults"
        return self.verdict(not problems, expected, observed, "", len(problems), "problems")


@EXPECTATIONS.register
class ProgramFails(BaseExpectation):
    """Programs that end by themselves with an error that gives the reason: loudly, and without hanging."""

    kind: Literal["program_fails"]
    traffic: TrafficName
    at_least: Annotated[int, Field(ge=1)] = Field(default=1, description="programs, each on a host of its own")
    says: RegularExpression = Field(
        default="", description="regular expression that each one's error matches, e.g. rank 3 .* is gone"
    )

    def judge(self, measures: "Measures") -> Verdict:
        """Exit status and error of each program."""
        ends = [end for end in measures.history.of("program.end") if end["traffic"] == self.traffic]
        if not ends:
            raise NoEvidence(f"no program of {self.traffic} ended", measures.span_text(measures.start, measures.end))
        failed = [end for end in ends if end["exit_status"] > 0]
        matching = [end for end in failed if re.search(self.says, end["error"])]
        about = f" and say '{self.says}'" if self.says else ""
        expected = f"at least {self.at_least} programs of {self.traffic} fail by themselves{about}"
        hosts = ", ".join(end["host"] for end in matching)
        others = [end for end in ends if end not in matching]
        observed = f"{len(matching)}: {hosts}" if matching else "none"
        if others:
            host, status, error = (others[0][key] for key in ("host", "exit_status", "error"))
            observed += f"; {host} {error}" if status < 0 else f"; {host} ended with status {status}"
            observed += f": {error or 'no message'}" if status > 0 else ""
        last = max(end.t for end in ends)
        passed, when = len(matching) >= self.at_least, f"at {measures.time_text(last)}"
        return self.verdict(passed, expected, observed, when, len(matching), "programs")


def _ends(measures: "Measures", traffic: str) -> list[Record]:
    """The ends of a workload's flows; where records name no flows, its own."""
    flows = [r for r in measures.history.of("flow.end") if r["traffic"] == traffic]
    whole = [r for r in measures.history.of("traffic.end") if r["traffic"] == traffic]
    expected = {flow.name for flow in measures.flows if flow.traffic == traffic}
    if not flows:
        return whole[-1:]
    complete = expected <= {r["flow"] for r in flows}
    summed = [r for r in whole[-1:] if r.get("sent_sha256") or r.get("error")]  # the result of a collective, too
    return [*flows, *summed] if complete else []


def _until_end(measures: "Measures") -> str:
    return f"until {measures.time_text(measures.end)}"


def _damage(end: Record, counted: bool) -> str:
    if end.get("error"):
        return str(end["error"])
    if "received" in end.data:
        arrived = int(end["received"])
        return "" if arrived == end["bytes"] else f"{end['bytes']} bytes were sent, {arrived} arrived"
    sent, got = end.get("sent_sha256") or "", end.get("received_sha256") or ""
    if end.get("exit_status") is not None:
        return ""  # a program of the user's: its exit status says what it found
    if not sent:
        return "" if counted else "no digest was taken"
    return "" if sent == got else f"sha256 {sent[:12]}… was sent, {got[:12]}… arrived"
