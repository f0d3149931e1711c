"""The controller on the wire: drives its core over P4Runtime and the agents' sockets."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Collection, Coroutine
from pathlib import Path
from typing import Any

from mrclab.controller import nodefiles
from mrclab.controller.core import ControllerCore
from mrclab.controller.driver import Audit, Driver, SwitchState
from mrclab.controller.health.mapper import Clustermapper
from mrclab.controller.health.policy import Policy
from mrclab.controller.history import ControllerHistory
from mrclab.controller.metrics import page as metrics
from mrclab.controller.p4runtime.fleet import Fleet
from mrclab.controller.p4runtime.worker import Worker
from mrclab.controller.provisioning.prober import CableProber
from mrclab.controller.provisioning.program import PipelineConfig
from mrclab.controller.wire.nodes import NodeConfigKeeper
from mrclab.events.controller import ControllerHeartbeat
from mrclab.events.event import Event
from mrclab.events.switches import EntriesRight, EntriesWrong, SwitchTotals
from mrclab.topo.config.transport import DEFAULT_TRANSPORT, TransportSpec
from mrclab.topo.model import Fabric
from mrclab.topo.process.beat import Beat

_LOOK_S = 0.25  # seconds between two checks whether a process is stopped


class Controller(Driver):
    """Runs one controller over `fabric` in the run directory `run_dir`. `run` never returns; cancel it to stop."""

    decimals = 3
    fleet: Fleet
    nodes: NodeConfigKeeper

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
        self.cables = CableProber(fabric, self.fleet, history, self._notify)
        self.cable_states = self.cables.states
        mapper = nodefiles.mapper(fabric, mapper_cycle)
        self.nodes = NodeConfigKeeper(fabric, run_dir, history, self._agent_event, mapper, transport)
        if mapper_cycle:
            denials = self.nodes.denylist
            self.mapper = Clustermapper(fabric, lambda: denials.denials, history.record, mapper_cycle, policy)
        self.core = ControllerCore(self, self.nodes.denylist, self.mapper, sender_chooses=transport.kind == "mrc")
        self._telemetry = telemetry
        self._audit_interval = audit
        self._last_audit = Audit([], {})
        self.began = time.monotonic()
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Write the hosts' files, then keep switches, cables and hosts in their intended state."""
        self.nodes.refresh()
        jobs = {
            **{name: worker.run() for name, worker in self.fleet.workers.items()},
            **{name: agent.run() for name, agent in self.nodes.agents.items()},
            "cables": self.cables.run(),
        }
        if self.mapper is not None:
            jobs["mapper"] = self._map_loop(self.mapper)
        if self._telemetry:
            jobs["telemetry"] = self._sample()
            jobs["heartbeat"] = record_lateness(self.history)
        if self._audit_interval:
            jobs["audit"] = self._audit_loop()
        tasks = [asyncio.create_task(job, name=name) for name, job in jobs.items()]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def changed(self) -> Coroutine[Any, Any, Any]:
        """Return an awaitable for the next change of a switch's or a cable's state."""
        return self._changed.wait()

    async def metrics(self) -> str:
        """The page that Prometheus reads."""
        status, counters = await self.core.status(), await self.fleet.counters()
        evs = await self.core.ev_counters()
        return metrics.page(status, counters, evs["evs"], await self.nodes.stats())

    # --- as a driver --------------------------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        """Seconds of the machine's clock that never goes back."""
        return time.monotonic()

    def record(self, event: Event) -> None:
        """Record an event at the current time."""
        self.history.record(event)

    async def sleep(self, seconds: float) -> None:
        """Let time pass."""
        await asyncio.sleep(seconds)

    async def until(self, ready: Callable[[], bool], seconds: float) -> None:
        """Wait until `ready()`, at most `seconds`; checked at each change, and where processes stop or go on."""
        deadline = time.monotonic() + seconds
        while not ready() and (left := deadline - time.monotonic()) > 0:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._changed.wait(), min(left, _LOOK_S))

    async def poll(self, seconds: float) -> None:
        """Ping every switch and agent; one that does not respond within `seconds` is silent from now on."""
        await asyncio.gather(self.fleet.totals(seconds), self.nodes.poll(seconds))

    def forget(self, links: Collection[str] | None) -> None:
        """Mark these cables, or all, as unverified; they are probed again."""
        states = self.cable_states
        self.cables.forget(states.ends if links is None else [e for link in links for e in states.ends_of_link(link)])
        self.cables.wake()

    async def audit(self, only: str | None = None) -> Audit:
        """Compare entries of all switches, or of `only` one, with the intended ones; new differences are logged."""
        found = await self.fleet.audit(only)
        if only is not None:
            return found
        if found.wrong != self._last_audit.wrong:
            self.history.record((EntriesWrong if found.wrong else EntriesRight)(entries=found.wrong))
        self._last_audit = found
        return found

    def last_audit(self) -> Audit:
        """Return the findings of the last audit of all switches."""
        return self._last_audit

    async def repair(self, only: str | None) -> dict[str, dict[str, int]]:
        """Correct the entries that an audit finds wrong, on all ready switches or one; numbers of entries by switch."""
        done = await self.fleet.repair(only)
        if only is None:
            await self.audit()
        return {n: {"inserted": d.inserted, "modified": d.modified, "deleted": d.deleted} for n, d in done.items()}

    # --- callbacks -----------------------------------------------------------------------------------------------

    def _packet_in(self, switch: str, port: int, frame: bytes) -> None:
        self.cables.packet_in(switch, port, frame)

    def _worker_changed(self, worker: Worker) -> None:
        if worker.state is SwitchState.READY:
            self.cables.wake()
        elif worker.state is SwitchState.CONNECTING:
            self.cables.forget(self.cable_states.ends_of(worker.name))
        self._notify()

    def _agent_event(self, host: str, event: dict[str, Any]) -> None:
        if self.mapper is not None:
            self.mapper.event(host, event)

    def _notify(self) -> None:
        """Update the state of verification, and wake waiting calls."""
        self.check_verified()
        self._changed.set()
        self._changed = asyncio.Event()

    async def _audit_loop(self) -> None:
        """Find entries that another client has changed, without repairing them: that is the operator's decision."""
        while True:
            await asyncio.sleep(self._audit_interval)
            await self.audit()

    async def _map_loop(self, mapper: Clustermapper) -> None:
        """Run Clustermapper once per cycle, and apply its decisions."""
        while True:
            await asyncio.sleep(mapper.interval)
            self.core.denials.apply_decisions(mapper, time.monotonic())
            await self.nodes.notified()

    async def _sample(self) -> None:
        """Put the counters of all switches into the history at a fixed interval; a missed one is skipped.

        One switch that is stopped must not hold up the others' records, so each has half an interval to answer.
        """
        due = time.monotonic()
        while True:
            due = max(due + self._telemetry, time.monotonic())
            await asyncio.sleep(due - time.monotonic())
            if totals := await self.fleet.totals(self._telemetry / 2):
                self.history.record(SwitchTotals(switches=totals))
            self.check_verified()  # a switch that resumes after a stop does not change state


BEAT_S = 0.02  # seconds between two wake-ups of the loop
REPORT_S = 0.25  # seconds between two records


async def record_lateness(history: ControllerHistory) -> None:
    """Write `heartbeat` records until cancelled.

    `late`: the longest delay of a wake-up since the last record, `at`: when that ended, `cpu`: CPU time so far.
    """
    now = time.monotonic()
    beat, reported = Beat(now, BEAT_S), now
    while True:
        await asyncio.sleep(beat.wait(None, now))
        now = time.monotonic()
        beat.woken(now)
        if now - reported >= REPORT_S:
            reported = now
            history.record(ControllerHeartbeat(**beat.take(), cpu=round(time.process_time(), 3)))
