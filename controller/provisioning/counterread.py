"""Counters of one switch as P4Runtime reads them."""

from collections.abc import Iterable
from functools import cache

from finsy import P4CounterEntry
from finsy.proto import p4r

from mrclab.controller.provisioning.counters import CLASSES, DROP_REASONS, Reading
from mrclab.controller.provisioning.program import PipelineConfig
from mrclab.topo.model import Switch
from mrclab.topo.numbers import CPU_PORT


@cache
def request(program: PipelineConfig, switch: Switch) -> tuple[p4r.Entity, ...]:
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


def decode(program: PipelineConfig, entities: Iterable[p4r.Entity]) -> Reading:
    """Decode a switch's response."""
    names = {counter.id: counter.alias for counter in program.schema.counters}
    return {
        (names[cell.counter_id], cell.index.index): (cell.data.packet_count, cell.data.byte_count)
        for cell in (entity.counter_entry for entity in entities)
    }
