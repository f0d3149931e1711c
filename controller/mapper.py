"""Clustermapper's collector: takes the hosts' reports, keeps the map of link health, names and denies faults."""

import asyncio
import logging
import time
from typing import Any

from controller.denylist import DenyError
from controller.elements import Element
from controller.healthmap import HealthMap, ReportError
from controller.history import History
from controller.localise import Verdict
from controller.nodes import MAPPER_REPORT, Nodes
from controller.policy import Decider
from topo.model import Fabric

log = logging.getLogger(__name__)

SOURCE = "clustermapper"


class Clustermapper:
    """Collects for one controller. `interval` is the hosts' probe cycle in seconds; `run` judges once in each."""

    def __init__(self, fabric: Fabric, nodes: Nodes, history: History, interval: float) -> None:
        self.health = HealthMap(fabric)
        self.decider = Decider()
        self._fabric = fabric
        self._nodes = nodes
        self._history = history
        self._interval = interval
        self._unsettled: set[str] = set()
        self._known: dict[Element, Verdict] = {}
        self._reports = 0
        self._complaints = 0

    def event(self, host: str, event: dict[str, Any]) -> None:
        """Take an event of a host's agent; anything but a report is not for here."""
        if event.get("kind") != MAPPER_REPORT:
            return
        if host in self._unsettled:
            self._unsettled.discard(host)  # the cycle that was under way holds probes of before
            return
        try:
            self.health.report(host, event.get("probes"))
            self._reports += 1
        except ReportError as error:
            self._complaints += 1
            log.warning("%s", error)

    async def run(self) -> None:
        """Judge once per cycle, for ever."""
        while True:
            await asyncio.sleep(self._interval)
            if self._reports:
                self._tell(self.health.judge())
                await self._act()

    def begin(self) -> None:
        """Forget what was lost while the fabric was being set up."""
        self.health = HealthMap(self._fabric)
        self._unsettled = {host.name for host in self._fabric.hosts}

    def map(self) -> dict[str, Any]:
        """Links with their state, and the elements at fault."""
        return {
            "reports": self._reports,
            "rejected": self._complaints,
            "links": self.health.links(),
            "verdicts": [_as_json(verdict) for verdict in self.health.verdicts],
        }

    def _tell(self, verdicts: tuple[Verdict, ...]) -> None:
        """Record what is new and what is over."""
        now = {verdict.element: verdict for verdict in verdicts}
        for element, verdict in now.items():
            known = self._known.get(element)
            if known is None or known.state != verdict.state:
                self._history.record("verdict", **_as_json(verdict))
        for element in self._known:
            if element not in now:
                self._history.record("verdict.over", element=str(element))
        self._known = now

    async def _act(self) -> None:
        denied = [d.element for d in self._nodes.denylist.denials if d.source == SOURCE]
        decision = self.decider.decide(self.health.verdicts, denied, time.monotonic())
        for verdict in decision.deny:
            try:
                await self._nodes.deny(verdict.element, f"{verdict.rate:.0%} of probes lost", SOURCE)
            except DenyError as error:
                log.warning("%s", error)
        for element in decision.undeny:
            await self._nodes.undeny(element, SOURCE)


def _as_json(verdict: Verdict) -> dict[str, Any]:
    return {
        "element": str(verdict.element),
        "element_kind": verdict.element.kind,
        "state": verdict.state,
        "rate": verdict.rate,
        "evidence": round(verdict.evidence, 1),
        "rivals": [str(rival) for rival in verdict.rivals],
    }
