"""Count the packets of chosen entropy values at every switch, on request.

An EV is counted by an entry in `ev_watch`, matched on the inner header, so that every switch on the way sees it.
"""

from typing import Any

from finsy import P4CounterData, P4TableEntry
from finsy.proto import p4r

from mrclab.controller.driver import SwitchState
from mrclab.controller.p4runtime.fleet import Fleet
from mrclab.controller.p4runtime.worker import Worker
from mrclab.controller.provisioning.intent import EntryAction, IntendedEntry
from mrclab.controller.provisioning.program import PipelineConfig
from mrclab.controller.provisioning.reconcile import Change, UpdateKind
from mrclab.controller.provisioning.watchedevs import WatchedEvs
from mrclab.topo import srv6

TABLE = "ev_watch"


def entry(ev: int) -> IntendedEntry:
    """The entry that counts `ev`."""
    port, label = srv6.ev_to_wire(ev)
    match = (("hdr.inner_ipv6.flow_label", label), ("hdr.udp.src_port", port))
    return IntendedEntry(TABLE, match, (EntryAction("count_ev"),))


class EvWatch:
    """The EVs counted on all switches of a fleet; a switch that comes back empty counts them again, from zero."""

    def __init__(self, fleet: Fleet, program: PipelineConfig) -> None:
        self._fleet = fleet
        self._program = program
        self._evs = WatchedEvs()

    async def watch(self, ev: int) -> bool:
        """Count `ev` from now on; False if it is counted already."""
        if not self._evs.add(ev):
            return False
        new = entry(ev)
        for worker in self._fleet.workers.values():
            worker.intended = (*worker.intended, new)
        await self._write(UpdateKind.INSERT, new)
        return True

    async def unwatch(self, ev: int) -> None:
        """Count `ev` no longer; WatchError where it is not counted."""
        self._evs.remove(ev)
        gone = entry(ev)
        for worker in self._fleet.workers.values():
            worker.intended = tuple(kept for kept in worker.intended if kept != gone)
        await self._write(UpdateKind.DELETE, gone)

    async def counts(self) -> dict[int, dict[str, dict[str, int]]]:
        """Packets and bytes sent with each watched EV, by switch."""
        by_switch = await self._fleet.on_ready(self._read)
        return {
            ev: {switch: found[match] for switch, found in by_switch.items() if match in found}
            for ev, match in ((ev, entry(ev).match) for ev in self._evs)
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
            (entry,) = self._program.decode([entity]) or (None,)
            if entry is not None:
                data = entity.table_entry.counter_data
                found[entry.match] = {"packets": int(data.packet_count), "bytes": int(data.byte_count)}
        return found
