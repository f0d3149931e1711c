"""The controller: all switches, all cables, all hosts. What the API offers is what this class does."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Coroutine, Iterable
from pathlib import Path
from typing import Any

from mrclab.controller import metrics, nodefiles, pulse
from mrclab.controller.fleet import Audit, Fleet
from mrclab.controller.health.denylist import DenyError
from mrclab.controller.health.maintenance import Maintenance
from mrclab.controller.health.mapper import SOURCE, Clustermapper, reason
from mrclab.controller.health.policy import Policy
from mrclab.controller.history import ControllerHistory
from mrclab.controller.nodes import NodeConfigKeeper
from mrclab.controller.provisioning.evwatch import EvWatch
from mrclab.controller.provisioning.prober import CableProber
from mrclab.controller.provisioning.program import PipelineConfig
from mrclab.controller.worker import SwitchState, Worker
from mrclab.events.switches import EntriesRight, EntriesWrong, FabricVerified, SwitchTotals
from mrclab.topo.model import Fabric
from mrclab.topo.transport import DEFAULT_TRANSPORT, TransportSpec

log = logging.getLogger(__name__)


class Controller:
    """Runs one controller over `fabric` in the run directory `run_dir`. `run` never returns; cancel it to stop."""

    def __init__(
        self,
        fabric: Fabric,
        run_dir: Path,
        program: PipelineConfig,
        history: ControllerHistory,
        election_id: int,
        mapper_cycle: float = 0.0,
        telemetry: float = 0.0,
        audit: float = 0.0,
        policy: Policy | None = None,
        transport: TransportSpec = DEFAULT_TRANSPORT,
    ) -> None:
        self.fabric = fabric
        self.history = history
        self.fleet = Fleet(fabric, run_dir, program, history, election_id, self._packet_in, self._worker_changed)
        self.ev_watch = EvWatch(self.fleet, program)
        self.cables = CableProber(fabric, self.fleet, history, self._notify)
        mapper = nodefiles.mapper(fabric, mapper_cycle)
        self.nodes = NodeConfigKeeper(fabric, run_dir, history, self._agent_event, mapper, transport)
        self.mapper: Clustermapper | None = None
        if mapper_cycle:
            denials = self.nodes.denylist
            self.mapper = Clustermapper(fabric, lambda: denials.denials, history, mapper_cycle, policy)
        self.maintenance = Maintenance(fabric, self.fleet, self.cables, self.nodes, history)
        self._telemetry = telemetry
        self._audit_interval = audit
        self._audited = Audit([], {})
        self._started = time.monotonic()
        self._verified_at: float | None = None
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Write the hosts' files, then keep switches, cables and hosts as they should be."""
        self.nodes.refresh()
        jobs = {
            **{name: worker.run() for name, worker in self.fleet.workers.items()},
            **{name: agent.run() for name, agent in self.nodes.agents.items()},
            "cables": self.cables.run(),
        }
        if self.mapper is not None:
            jobs["mapper"] = self._map_for_ever(self.mapper)
        if self._telemetry:
            jobs["telemetry"] = self._sample()
            jobs["pulse"] = pulse.run(self.history)
        if self._audit_interval:
            jobs["audit"] = self._audit_for_ever()
        tasks = [asyncio.create_task(job, name=name) for name, job in jobs.items()]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def changed(self) -> Coroutine[Any, Any, Any]:
        """Return an awaitable for the next change of a switch's state, or of what is known of a cable."""
        return self._changed.wait()

    def status(self) -> dict[str, Any]:
        """Return state, counts, and the problems there are.

        `entries_unread` are switches whose entries the last audit could not read, and those that are silent now.
        """
        silences = self.fleet.silences
        return {
            "state": self._state(),
            "switches_ready": len(self.fleet.ready) - len(silences),
            "switches": len(self.fleet.workers),
            "links_verified": self.cables.book.verified,
            "links": len(self.fabric.links),
            "message": self._message(),
            "wrong_entries": len(self._audited.wrong),
            "entries_unread": {**self._audited.unread, **silences},
            "seconds": None if self._verified_at is None else round(self._verified_at - self._started, 3),
            "by_switch": {
                name: {
                    "state": worker.state.value,
                    "silent": name in silences,
                    "error": worker.error or silences.get(name, ""),
                }
                for name, worker in self.fleet.workers.items()
            },
        }

    async def metrics(self) -> str:
        """The page that Prometheus reads."""
        page = metrics.MetricsPage()
        metrics.add_states(page, {**self.status(), **self.nodes.status()})
        metrics.add_switches(page, await self.fleet.counters())
        metrics.add_evs(page, await self.ev_watch.counts())
        metrics.add_agents(page, await self.nodes.stats())
        return page.text()

    async def wait_verified(self, timeout: float) -> dict[str, Any]:
        """Wait up to `timeout` seconds until every switch is ready and every cable verified; say which are not."""
        deadline = time.monotonic() + timeout
        while not self._all_right() and (left := deadline - time.monotonic()) > 0:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._changed.wait(), left)
        return self._outcome()

    async def look(self, seconds: float) -> None:
        """Ask every switch and agent for a sign of life, at most so long; who gives none is silent from now on."""
        await asyncio.gather(self.fleet.totals(seconds), self.nodes.look(seconds))

    async def audit(self, only: str | None = None) -> Audit:
        """Compare entries of all switches, or of `only` one, with what they should be; the history hears of what is
        new.
        """
        found = await self.fleet.audit(only)
        if only is not None:
            return found
        if found.wrong != self._audited.wrong:
            self.history.record((EntriesWrong if found.wrong else EntriesRight)(entries=found.wrong))
        self._audited = found
        return found

    async def verify(self, timeout: float, links: Iterable[str] | None = None) -> dict[str, Any]:
        """Probe all cables (or `links`) again, and compare every switch's entries with what it should hold."""
        chosen = self.fabric.links if links is None else [self.fabric.link(text) for text in links]
        audited = await self.audit()
        self.cables.forget({link.name for link in chosen})
        self.cables.wake()
        outcome = await self.wait_verified(timeout)
        right = not (audited.wrong or audited.unread)
        return {**outcome, "verified": outcome["verified"] and right, **audited.as_json}

    # --- what happens -----------------------------------------------------------------------------------------------

    def _packet_in(self, switch: str, port: int, frame: bytes) -> None:
        self.cables.packet_in(switch, port, frame)

    def _worker_changed(self, worker: Worker) -> None:
        if worker.state is SwitchState.READY:
            self.cables.wake()
        elif worker.state is SwitchState.CONNECTING:
            self.cables.forget({worker.name})
        self._notify()

    def _agent_event(self, host: str, event: dict[str, Any]) -> None:
        if self.mapper is not None:
            self.mapper.event(host, event)

    def _notify(self) -> None:
        """Note whether all is verified now, and wake whoever waits for it."""
        if self._verified_at is None and self._all_right():
            self._verified_at = time.monotonic()
            seconds = round(self._verified_at - self._started, 3)
            self.history.record(FabricVerified(seconds=seconds, links=len(self.fabric.links)))
            if self.mapper is not None:
                self.mapper.begin()
        self._changed.set()
        self._changed = asyncio.Event()

    async def _audit_for_ever(self) -> None:
        """Find entries that somebody else has changed, without mending them: that is the operator's decision."""
        while True:
            await asyncio.sleep(self._audit_interval)
            await self.audit()

    async def _map_for_ever(self, mapper: Clustermapper) -> None:
        """Have Clustermapper judge once per cycle, and do what it decides."""
        while True:
            await asyncio.sleep(mapper.interval)
            decision = mapper.look(time.monotonic())
            for verdict in decision.deny:
                try:
                    await self.nodes.deny(verdict.element, reason(verdict), SOURCE)
                except DenyError as error:
                    mapper.refused(verdict, error)
            for element in decision.undeny:
                await self.nodes.undeny(element, SOURCE)

    async def _sample(self) -> None:
        """Put the counters of all switches into the history at a steady pace; a beat that was missed is left out.

        One switch that stands still must not stop the others' records, so each has half a beat to answer.
        """
        due = time.monotonic()
        while True:
            due = max(due + self._telemetry, time.monotonic())
            await asyncio.sleep(due - time.monotonic())
            if totals := await self.fleet.totals(self._telemetry / 2):
                self.history.record(SwitchTotals(switches=totals))

    # --- state ------------------------------------------------------------------------------------------------------

    def _all_right(self) -> bool:
        return self.fleet.all_ready and self.cables.all_verified

    def _state(self) -> str:
        states = {worker.state for worker in self.fleet.workers.values()}
        if SwitchState.FAILED in states:
            return "failed"
        if states == {SwitchState.BACKUP}:
            return "backup"
        if not self.fleet.all_ready:
            return "connecting" if SwitchState.CONNECTING in states else "provisioning"
        return "verified" if self.cables.all_verified else "verifying"

    def _message(self) -> str:
        workers = self.fleet.workers.values()
        errors = [worker.error for worker in workers if worker.error and worker.state is not SwitchState.READY]
        wrong = [text for link in self.cables.book.links("wrong") for text in self.cables.book.complaints(link)]
        return "; ".join([*errors, *wrong][:3])

    def _outcome(self) -> dict[str, Any]:
        book = self.cables.book
        return {
            "verified": self._all_right(),
            "links": len(self.fabric.links),
            "seconds": round((self._verified_at or time.monotonic()) - self._started, 3),
            "failed": [*book.links("wrong"), *book.links("silent")],
            "problems": self.cables.problems(),
            "not_ready": self.fleet.not_ready,
        }
