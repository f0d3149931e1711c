"""Clustermapper against seeded faults on a running fabric, one case after the other: which verdicts, after how long."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Any

from mrclab.experiments.survey.cases import NIC_LOSS, CaseFault, SurveyCase
from mrclab.lab.run.world import GONE, EventQueue
from mrclab.lab.session.lab import Lab

SETTLE = 4  # cycles after a fault was cleared in which nothing is judged
QUIET = 12  # healthy cycles before a fault: evidence of health that the map has to outweigh
MAX_CYCLES = 250  # cycles after which a fault counts as not found
AFTER = 4  # cycles that are still watched once everything is named: a late false positive counts


@dataclass(frozen=True)
class CaseRunner:
    """Runs cases one after the other on a lab with Clustermapper."""

    lab: Lab
    events: EventQueue  # verdicts of the controller
    cycle: float  # seconds

    def work(self, case: SurveyCase) -> dict[str, Any]:
        """Run a case: time without a fault, the fault, and its verdicts until all is named or the time is over."""
        self._reset_and_wait(SETTLE)
        self._reset_and_wait(QUIET)
        alarms = [_verdict_row(event, 0.0, self.cycle) for _node, event in self.events.wait(self.lab.now)]
        truth = {fault.element for fault in case.faults}
        with ExitStack() as faults:
            for fault in case.faults:
                faults.enter_context(_fault(self.lab, fault))
            begun = self.lab.now
            verdicts = list(self._until_named(truth, begun))
        named = {verdict["element"]: verdict["cycles"] for verdict in reversed(verdicts) if verdict["element"] in truth}
        return {
            **case.as_json(),
            "alarms": alarms,
            "verdicts": verdicts,
            "named": named,
            "complete": set(named) == truth,
        }

    def _reset_and_wait(self, cycles: int) -> None:
        """Reset Clustermapper, and wait until it has judged `cycles` more."""
        self.lab.world.call("controller", "forget")
        target = self.lab.world.call("controller", "map")["looks"] + cycles
        while (missing := target - self.lab.world.call("controller", "map")["looks"]) > 0:
            self.lab.advance(missing * self.cycle)

    def _until_named(self, truth: set[str], begun: float) -> Iterator[dict[str, Any]]:
        """Verdicts as they come, until all of `truth` was named and a little longer."""
        left = set(truth)
        deadline = begun + MAX_CYCLES * self.cycle
        while self.lab.now < deadline:
            for _node, event in self.events.wait(deadline):
                if event["kind"] == GONE:
                    return
                yield _verdict_row(event, begun, self.cycle)
                if left and not (left := left - {event["element"]}):
                    deadline = self.lab.now + AFTER * self.cycle


def _verdict_row(event: Mapping[str, Any], begun: float, cycle: float) -> dict[str, Any]:
    blamed = {name: event[name] for name in ("element", "state", "rate", "alternatives")}
    return {**blamed, "cycles": round((event["t"] - begun) / cycle, 2)}


def _fault(lab: Lab, fault: CaseFault) -> AbstractContextManager[None]:
    """Return a fault that is in force inside its block."""
    if fault.kind == "t1":
        return lab.switch(fault.element).freeze()
    cable = lab.link(fault.element)
    if fault.kind == "cable":
        return cable.silent_drop(direction=fault.direction)
    return cable.loss(f"{NIC_LOSS:%}", direction=fault.direction, seeded=False)
