"""Cable verification: sends the probes of `CableStates`, and records the outcome."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence

from mrclab.controller.errors import SwitchError
from mrclab.controller.history import ControllerHistory
from mrclab.controller.p4runtime.fleet import Fleet
from mrclab.controller.provisioning.cables import CableStates, End
from mrclab.events.switches import LinkFailed, LinkVerified
from mrclab.topo.model import Fabric

log = logging.getLogger(__name__)

PAUSE_FIRST = 0.1  # seconds between probes of a cable that has not been seen right
PAUSE_MAX = 1.0
SILENT_AFTER = 3.0  # seconds without a reply, both ends ready, after which the history has a cable as silent


class CableProber:
    """Probes every cable until it is seen right. `run` never returns; `on_change` follows each change of a cable."""

    def __init__(self, fabric: Fabric, fleet: Fleet, history: ControllerHistory, on_change: Callable[[], None]) -> None:
        self.states = CableStates(fabric)
        self._fabric = fabric
        self._fleet = fleet
        self._history = history
        self._on_change = on_change
        self._wake = asyncio.Event()
        self._reported: dict[str, str] = {}
        self._unanswered_since: dict[str, float] = {}

    def wake(self) -> None:
        """Probe pending cables now: a switch became ready."""
        self._wake.set()

    def forget(self, ends: Sequence[End]) -> None:
        """Mark these ends of cables as unverified again."""
        self.states.forget(ends)
        for link in {self._link_of(end) for end in ends}:
            self._reported.pop(link, None)
            self._unanswered_since.pop(link, None)

    async def run(self) -> None:
        """Probe unverified cables: soon after a change, then at growing intervals."""
        pause = PAUSE_FIRST
        while True:
            self._wake.clear()
            for end in self.states.pending():
                await self._probe(end)
            self._report_silent()
            try:
                await asyncio.wait_for(self._wake.wait(), None if self.states.settled else pause)
                pause = PAUSE_FIRST
            except asyncio.TimeoutError:
                pause = min(1.5 * pause, PAUSE_MAX)

    def packet_in(self, switch: str, port: int, frame: bytes) -> None:
        """Handle a packet-in."""
        arrival = self.states.arrived(switch, port, frame)
        if arrival is None:
            log.debug("%s port %d: packet-in that is not a reply to a probe", switch, port)
        elif not arrival.right:
            self._report(arrival.link, "wrong")
        elif self.states.state(arrival.link) == "verified":
            self._reported.pop(arrival.link, None)
            self._history.record(LinkVerified(link=arrival.link))
            self._on_change()

    async def _probe(self, end: End) -> None:
        worker = self._fleet.workers[end.node]
        session = worker.session
        if session is None or not session.is_open or worker.unresponsive:  # a write to it may wait for ever
            return
        try:
            await session.packet_out(end.port, self.states.probe(end))
        except SwitchError as error:
            log.info("%s", error)
            return
        link = self._link_of(end)
        if all(self._fleet.is_ready(ref.node) for ref in self._fabric.link(link).ends):
            self._unanswered_since.setdefault(link, time.monotonic())
        else:
            self._unanswered_since.pop(link, None)

    def _report_silent(self) -> None:
        """Report cables that stay silent although the switches at their ends are ready."""
        now = time.monotonic()
        for link in self.states.links("silent"):
            if now - self._unanswered_since.get(link, now) >= SILENT_AFTER:
                self._report(link, "silent")

    def _report(self, link: str, state: str) -> None:
        reason = "; ".join(self.states.problems_of(link))
        if self._reported.get(link) == reason:
            return
        self._reported[link] = reason
        self._history.record(LinkFailed(link=link, state=state, reason=reason))
        self._on_change()

    def _link_of(self, end: End) -> str:
        return self._fabric.switch(end.node).port(end.port).link
