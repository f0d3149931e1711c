"""All switches: one worker each, and operations on all at once."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from finsy import P4CounterData, P4CounterEntry, P4TableEntry
from finsy.proto import p4r

from mrclab.controller.driver import Audit, SwitchState, SwitchView
from mrclab.controller.errors import SwitchError
from mrclab.controller.history import ControllerHistory
from mrclab.controller.p4runtime.worker import Worker
from mrclab.controller.provisioning import counters, intent
from mrclab.controller.provisioning.counters import CLASSES, DROP_REASONS, Reading
from mrclab.controller.provisioning.program import PipelineConfig
from mrclab.controller.provisioning.provision import Provisioned
from mrclab.controller.provisioning.reconcile import Change, UpdateKind, changes, sentence
from mrclab.rpc.peers import STOPPED_S, is_stopped
from mrclab.topo.model import Fabric, Switch
from mrclab.topo.numbers import CPU_PORT

_READ_AT_ONCE = 2  # switches whose entries an audit reads at once: a table takes a CPU from frames for milliseconds
_LOOK_S = 0.5  # seconds between two checks whether an unresponsive switch is stopped
COUNTER_TIMEOUT = 1.5  # seconds; one frozen switch must not hold up the others' telemetry for long

T = TypeVar("T")


class Fleet:
    """The workers of all switches of `fabric`, by name."""

    def __init__(
        self,
        fabric: Fabric,
        run_dir: Path,
        program: PipelineConfig,
        history: ControllerHistory,
        election_id: int,
        on_packet: Callable[[str, int, bytes], None],
        on_change: Callable[[Worker], None],
    ) -> None:
        self._fabric = fabric
        self._program = program
        self.workers = {
            switch.name: Worker(
                switch,
                run_dir / f"{switch.name}.p4rt.sock",
                program,
                intent.entries(fabric, switch),
                election_id,
                history,
                on_packet,
                on_change,
            )
            for switch in fabric.switches
        }

    @property
    def ready(self) -> list[Worker]:
        """Switches with all intended entries."""
        return [worker for worker in self.workers.values() if worker.state is SwitchState.READY]

    def view(self, name: str) -> SwitchView:
        """State of one switch, and why it does not respond."""
        return self.workers[name].view

    def unready(self) -> dict[str, SwitchView]:
        """Switches that are not ready, or do not respond."""
        views = {name: worker.view for name, worker in self.workers.items()}
        return {name: view for name, view in views.items() if not view.is_ready or view.unresponsive}

    def is_ready(self, node: str) -> bool:
        """Return True if `node` is a ready switch, or no switch at all."""
        worker = self.workers.get(node)
        return worker is None or worker.state is SwitchState.READY

    async def on_ready(self, action: Callable[[Worker], Awaitable[T]]) -> dict[str, T]:
        """Do `action` on every ready switch in parallel; one that does not respond is left out."""
        answers, _ = await self._query(self.ready, action)
        return answers

    async def _query(
        self, workers: Sequence[Worker], action: Callable[[Worker], Awaitable[T]]
    ) -> tuple[dict[str, T], dict[str, str]]:
        """Do `action` on ready switches in parallel; return the results, and the reasons of failures, by switch."""
        results = await asyncio.gather(*(self._unless_stopped(worker, action) for worker in workers))
        good: dict[str, T] = {}
        why: dict[str, str] = {}
        for worker, result in zip(workers, results, strict=True):
            if isinstance(result, SwitchError):
                worker.failed_to_answer(result)
                why[worker.name] = worker.unresponsive or str(result).removeprefix(f"{worker.name}: ")
            elif isinstance(result, BaseException):
                raise result
            else:
                worker.answered()
                good[worker.name] = result
        return good, why

    @staticmethod
    async def _unless_stopped(worker: Worker, action: Callable[[Worker], Awaitable[T]]) -> T | BaseException:
        """Return the response of one switch, or its error; for a stopped one after a moment instead of the whole
        time-out."""
        work = asyncio.ensure_future(action(worker))
        since: float | None = None
        loop = asyncio.get_running_loop()
        try:
            while not (await asyncio.wait({work}, timeout=_LOOK_S))[0]:
                stopped = worker.pid is not None and is_stopped(worker.pid)
                since = (since or loop.time()) if stopped else None
                if since is not None and loop.time() - since >= STOPPED_S - 2 * _LOOK_S:
                    return SwitchError(worker.name, worker.unresponsive, "DEADLINE_EXCEEDED")
            return work.result()
        except Exception as error:  # raised for the caller, as gather would
            return error
        finally:
            work.cancel()

    async def counters(self) -> dict[str, dict[str, Any]]:
        """Counters by switch."""
        return await self.on_ready(self._counters_of)

    async def audit(self, only: str | None = None) -> Audit:
        """Compare the entries of all switches, or of `only` one, with the intended ones."""
        workers = list(self.workers.values()) if only is None else [self.workers[self._fabric.switch(only).name]]
        ready = [worker for worker in workers if worker.state is SwitchState.READY]
        reading = asyncio.Semaphore(_READ_AT_ONCE)

        async def in_turn(worker: Worker) -> list[str]:
            async with reading:
                return await self._audit(worker)

        results, unread = await self._query(ready, in_turn)
        unread |= {w.name: w.view.not_ready for w in workers if w not in ready}
        return Audit([sentence for sentences in results.values() for sentence in sentences], unread)

    async def repair(self, only: str | None = None) -> dict[str, Provisioned]:
        """Correct the entries that an audit finds wrong, on all switches or one; return their numbers by switch."""
        if only is not None:
            name = self._fabric.switch(only).name
            results = {name: await self.workers[name].reprovision()}
        else:
            results = await self.on_ready(lambda worker: worker.reprovision())
        return {name: done for name, done in results.items() if not done.untouched}

    async def misroute(self, name: str, port: int, to: int) -> None:
        """Inject a fault: route the traffic of `port` out of `to`, or drop it with 0.

        The intended entries stay as they are: an audit finds the fault, `repair` corrects it. UnknownName for a
        switch or port that does not exist.
        """
        switch = self._fabric.switch(name)
        route, worker = intent.usid_route(switch.port(port)), self.workers[name]
        wrong = [intent.misdirected(switch, port, to)] if to else []
        found = await worker.require_session().read_entries()
        await worker.write(changes(wrong, (entry for entry in found if entry.key == route.key)))

    async def watch(self, ev: int, on: bool) -> None:
        """Count an EV at every switch from now on, or no longer; one that comes back empty counts from zero."""
        entry = intent.ev_counter(ev)
        for worker in self.workers.values():
            others = (kept for kept in worker.intended if kept != entry)
            worker.intended = (*worker.intended, entry) if on else tuple(others)
        change = Change(UpdateKind.INSERT if on else UpdateKind.DELETE, entry)
        await self.on_ready(lambda worker: worker.write([change]))

    async def ev_counts(self, evs: Iterable[int]) -> dict[int, dict[str, dict[str, int]]]:
        """Packets and bytes sent with watched EVs, by switch."""
        by_switch = await self.on_ready(self._ev_counts_of)
        matches = {ev: intent.ev_counter(ev).match for ev in evs}
        return {
            ev: {switch: found[match] for switch, found in by_switch.items() if match in found}
            for ev, match in matches.items()
        }

    async def _ev_counts_of(self, worker: Worker) -> dict[Any, dict[str, int]]:
        request = P4TableEntry("ev_watch", counter_data=P4CounterData()).encode(self._program.schema)
        found: dict[Any, dict[str, int]] = {}
        session = worker.require_session()
        for entity in await session.read([request]):
            data = entity.table_entry.counter_data
            for entry in session.decode([entity]):
                found[entry.match] = {"packets": int(data.packet_count), "bytes": int(data.byte_count)}
        return found

    async def totals(self, timeout: float = COUNTER_TIMEOUT) -> dict[str, dict[str, Any]]:
        """Totals by switch; those that do not respond within `timeout` seconds are left out."""

        async def read(worker: Worker) -> dict[str, Any]:
            return counters.totals(worker.switch, await self._read_counters(worker, timeout))

        return await self.on_ready(read)

    async def traffic(self, name: str) -> int:
        """Packets of QPs that a switch has sent so far; SwitchError where it does not respond."""
        worker = self.workers[name]
        reading = await self._read_counters(worker)
        return counters.traffic(worker.switch, reading, self._fabric.spec.trimming)

    async def _counters_of(self, worker: Worker) -> dict[str, Any]:
        return counters.summary(worker.switch, await self._read_counters(worker))

    async def _read_counters(self, worker: Worker, timeout: float = COUNTER_TIMEOUT) -> Reading:
        request = counter_request(self._program, worker.switch)
        found = await worker.require_session().read(request, timeout)
        try:
            return decoded_counters(self._program, found)
        except LookupError as error:
            text = f"answered a read with a counter that the program does not have: {error}"
            raise SwitchError(worker.name, text, "DATA_LOSS") from None

    async def _audit(self, worker: Worker) -> list[str]:
        found = await worker.require_session().read_entries()
        return [sentence(self._fabric, worker.switch, change) for change in changes(worker.intended, found)]


@cache
def counter_request(program: PipelineConfig, switch: Switch) -> tuple[p4r.Entity, ...]:
    """A read of every counter cell that can move on `switch`: its ports, the CPU port, the drop reasons.

    `rx` comes first and `tx` last, so that packets counted in between cannot look like drops.
    """
    ports = [*(port.number for port in switch.ports), CPU_PORT]
    cells = [
        *(("rx", port) for port in ports),
        *(("drops", reason) for reason in DROP_REASONS),
        *(("trims", port) for port in ports),
        *(("ecn_marks", port) for port in ports),
        *(("tx", port * len(CLASSES) + kind) for port in ports for kind in range(len(CLASSES))),
    ]
    return tuple(P4CounterEntry(name, index=index).encode(program.schema) for name, index in cells)


def decoded_counters(program: PipelineConfig, entities: Iterable[p4r.Entity]) -> Reading:
    """Decode a switch's response."""
    names = {counter.id: counter.alias for counter in program.schema.counters}
    return {
        (names[cell.counter_id], cell.index.index): (cell.data.packet_count, cell.data.byte_count)
        for cell in (entity.counter_entry for entity in entities)
    }
