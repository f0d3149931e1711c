"""Clustermapper's collector: takes the hosts' reports, keeps the map of link health, localises faults, decides denials.

Pure: time is a parameter, and the caller of `poll` carries out its decisions.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from mrclab.controller.health.denylist import Denial, DenyError
from mrclab.controller.health.elements import Element
from mrclab.controller.health.healthmap import HealthMap, ReportError
from mrclab.controller.health.localise import LocalisedFault
from mrclab.controller.health.policy import Decision, Policy, PolicyEngine
from mrclab.events.event import Event
from mrclab.events.hosts import MapperReport
from mrclab.events.mapping import CableMap, DenyRefused, VerdictGiven, VerdictOver
from mrclab.topo.model import Fabric

MAPPER_REPORT = MapperReport.kind
"""Kind of the event with one cycle of a host's probes."""

SOURCE = "clustermapper"
MAP_INTERVAL = 1.0  # seconds between records of the map while there is a verdict


@dataclass(eq=False)
class Clustermapper:
    """Collects for one controller, which calls `poll` once in every `interval`: the hosts' probe cycle in seconds.

    `denials` returns those in force, from any source; `record` records an event at the current time.
    """

    fabric: Fabric
    denials: Callable[[], Iterable[Denial]]
    record: Callable[[Event], None]
    interval: float
    policy: Policy | None = None

    def __post_init__(self) -> None:
        self.health = HealthMap(self.fabric)
        self.decider = PolicyEngine(self.policy)
        self._unsettled: set[str] = set()
        self._known: dict[Element, LocalisedFault] = {}
        self._undeniable: set[Element] = set()  # at fault, but a denial would cut hosts off; reported once
        self._looks = 0
        self._reports = 0
        self._rejected = 0
        self._recorded: dict[str, str] = {}
        self._recorded_at = 0.0

    def event(self, host: str, event: dict[str, Any]) -> None:
        """Take an event of a host's agent; all but reports are ignored."""
        if event.get("kind") != MAPPER_REPORT:
            return
        if host in self._unsettled:
            self._unsettled.discard(host)  # the current cycle has probes from before
            return
        try:
            self.health.report(host, event.get("probes"))
            self._reports += 1
        except ReportError as error:
            self._rejected += 1
            _warn(error)

    def poll(self, now: float) -> Decision:
        """Judge the reports; return elements to deny, with `reason`, and denials to lift. Call `refused` where one is
        refused."""
        if not self._reports:
            return Decision()
        self._looks += 1
        self._record_changes(self.health.judge())
        self._record_map(now)
        denied = [denial.element for denial in self.denials() if denial.source == SOURCE]
        self._undeniable &= set(self._known)
        return self.decider.decide(self.health.verdicts, denied, now)

    def refused(self, verdict: LocalisedFault, error: DenyError) -> None:
        """Report, once, that an element could not be denied."""
        if verdict.element not in self._undeniable:
            self._undeniable.add(verdict.element)
            _warn(error)
            self.record(DenyRefused(element=str(verdict.element), reason=str(error)))

    def begin(self) -> None:
        """Forget all that was seen: while the fabric was being set up, or before a repair."""
        self.health = HealthMap(self.fabric)
        self._unsettled = {host.name for host in self.fabric.hosts}
        self._record_changes(())

    def map(self) -> dict[str, Any]:
        """Links with their state, and the elements at fault. `looks` counts the cycles that were judged."""
        return {
            "looks": self._looks,
            "cycle": self.interval,
            "reports": self._reports,
            "rejected": self._rejected,
            "links": self.health.links(),
            "verdicts": [_verdict_event(verdict).fields() for verdict in self.health.verdicts],
        }

    def _record_changes(self, verdicts: tuple[LocalisedFault, ...]) -> None:
        """Record new verdicts, and those that ended."""
        now = {verdict.element: verdict for verdict in verdicts}
        for element, verdict in now.items():
            known = self._known.get(element)
            if known is None or known.state != verdict.state:
                self.record(_verdict_event(verdict))
        for element in self._known:
            if element not in now:
                self.record(VerdictOver(element=str(element)))
        self._known = now

    def _record_map(self, now: float) -> None:
        """Record all links when a verdict begins or ends, and once a second while there is one."""
        at_fault: dict[str, str] = {str(verdict.element): verdict.state for verdict in self.health.verdicts}
        if at_fault != self._recorded or (at_fault and now - self._recorded_at >= MAP_INTERVAL):
            self._recorded, self._recorded_at = at_fault, now
            links = self.health.links().items()
            self.record(CableMap(links={n: (link["state"], link["loss"], link["rtt"]) for n, link in links}))


def reason(verdict: LocalisedFault) -> str:
    """Why an element is denied, in words."""
    return f"{verdict.rate:.0%} of probes lost"


def _verdict_event(verdict: LocalisedFault) -> VerdictGiven:
    return VerdictGiven(
        element=str(verdict.element),
        element_kind=verdict.element.kind,
        state=verdict.state,
        rate=verdict.rate,
        evidence=round(verdict.evidence, 1),
        alternatives=[str(each) for each in verdict.alternatives],
    )


def _warn(error: Exception) -> None:
    import logging  # noqa: PLC0415 - it takes a moment, and this is rare

    logging.getLogger(__name__).warning("%s", error)
