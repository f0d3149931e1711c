"""Counting the packets of chosen entropy values at every switch, while somebody wants to know.

An EV is counted by an entry in `ev_watch`, matched on the inner header, so that every switch on the way sees it.
"""

from typing import Any

from finsy import P4CounterData, P4TableEntry
from finsy.proto import p4r

from mrclab.controller.errors import ControllerError
from mrclab.controller.fleet import Fleet
from mrclab.controller.provisioning.intent import Act, IntendedEntry
from mrclab.controller.provisioning.program import PipelineConfig
from mrclab.controller.provisioning.reconcile import Change, UpdateKind
from mrclab.controller.worker import SwitchState, Worker
from mrclab.topo import srv6

TABLE = "ev_watch"
MOST = 1024  # entries that the table holds


class WatchError(ControllerError):
    """An EV that cannot be watched, or is not."""


def entry(ev: int) -> IntendedEntry:
    """The entry that counts `ev`."""
    port, label = srv6.ev_to_wire(ev)
    match = (("hdr.inner_ipv6.flow_label", label), ("hdr.udp.src_port", port))
    return IntendedEntry(TABLE, match, (Act("count_ev"),))


class EvWatch:
    """The EVs counted on all switches of a fleet; a switch that comes back empty counts them again, from zero."""

    def __init__(self, fleet: Fleet, program: PipelineConfig) -> None:
        self._fleet = fleet
        self._program = program
        self._evs: dict[int, IntendedEntry] = {}

    @property
    def evs(self) -> tuple[int, ...]:
        """What is watched."""
        return tuple(self._evs)

    async def watch(self, ev: int) -> bool:
        """Count `ev` from now on; False if it is counted already."""
        if not 0 <= ev <= 0xFFFF_FFFF:
            raise WatchError(f"EV {ev} does not fit 32 bits")
        if ev in self._evs:
            return False
        if len(self._evs) >= MOST:
            raise WatchError(f"{MOST} EVs are watched already; unwatch one first")
        self._evs[ev] = entry(ev)
        for worker in self._fleet.workers.values():
            worker.wanted = (*worker.wanted, self._evs[ev])
        await self._write(UpdateKind.INSERT, self._evs[ev])
        return True

    async def unwatch(self, ev: int) -> None:
        """Count `ev` no longer; WatchError where it is not counted."""
        if ev not in self._evs:
            raise WatchError(f"EV {ev:#010x} is not watched")
        gone = self._evs.pop(ev)
        for worker in self._fleet.workers.values():
            worker.wanted = tuple(wanted for wanted in worker.wanted if wanted != gone)
        await self._write(UpdateKind.DELETE, gone)

    async def counts(self) -> dict[int, dict[str, dict[str, int]]]:
        """Packets and bytes sent with each watched EV, by switch."""
        by_switch = await self._fleet.on_ready(self._read)
        return {
            ev: {switch: found[wanted.match] for switch, found in by_switch.items() if wanted.match in found}
            for ev, wanted in self._evs.items()
        }

    async def _write(self, op: UpdateKind, what: IntendedEntry) -> None:
        """Write to the switches that are ready; the others get it, or never see it, when they are provisioned."""

        async def write(worker: Worker) -> None:
            if worker.state is SwitchState.READY:
                await worker.write([Change(op, what)])

        await self._fleet.on_ready(write)

    async def _read(self, worker: Worker) -> dict[Any, dict[str, int]]:
        request: p4r.Entity = P4TableEntry(TABLE, counter_data=P4CounterData()).encode(self._program.schema)
        found: dict[Any, dict[str, int]] = {}
        for entity in await worker.require_session().read([request]):
            (held,) = self._program.decode([entity]) or (None,)
            if held is not None:
                data = entity.table_entry.counter_data
                found[held.match] = {"packets": int(data.packet_count), "bytes": int(data.byte_count)}
        return found
