"""Indirect counters, by index, and direct counters, by table entry."""

from __future__ import annotations

from collections.abc import Iterator

from mrclab.softswitch.objects.runtime_api import CounterValue, RuntimeApiError, TableEntry
from mrclab.softswitch.p4runtime.entities.common import DELETE, INSERT, check_update_type, counter_to_proto, on_target
from mrclab.softswitch.p4runtime.entities.counters.cells import CellHandler, CellSelector
from mrclab.softswitch.p4runtime.entities.counters.direct import DirectHandler
from mrclab.softswitch.p4runtime.messages.status import invalid, target_error
from mrclab.softswitch.p4runtime.messages.stubs import p4r
from mrclab.softswitch.p4runtime.p4info import P4InfoCounter, P4InfoTable
from mrclab.softswitch.p4runtime.state import Apply

WRITE_FAILED = "Error when writing to counter"


def merged(info: P4InfoCounter, data: p4r.CounterData, current: CounterValue) -> CounterValue:
    """Return `data`, with the value that the counter's unit lacks from `current`."""
    return CounterValue(
        data.packet_count if info.packets else current.packets, data.byte_count if info.bytes else current.bytes
    )


class CounterHandler(CellHandler[P4InfoCounter, p4r.CounterEntry, CounterValue]):
    """`p4.v1.CounterEntry`: MODIFY sets the cell, DELETE clears it, as in PI."""

    kind = "counter"
    read_failure = "Error when reading counter from target"

    def arrays(self) -> dict[int, P4InfoCounter]:
        """Return the program's counters by id."""
        return self._state.index.counters

    def message_of(self, entity: p4r.Entity) -> p4r.CounterEntry:
        """Return the message within an entity."""
        return entity.counter_entry

    def selector(self, message: p4r.CounterEntry) -> CellSelector:
        """Return array id and index of a message."""
        return CellSelector(message.counter_id, message.index.index if message.HasField("index") else None)

    def cell(self, name: str, index: int) -> CounterValue:
        """Read one cell."""
        return self._switch.program().counter_read(name, index)

    def to_entity(self, array: P4InfoCounter, index: int, value: CounterValue) -> p4r.Entity:
        """Return the entity of one cell."""
        message = p4r.CounterEntry(counter_id=array.id, data=counter_to_proto(value))
        message.index.index = index
        return p4r.Entity(counter_entry=message)

    def update(self, update_type: int, array: P4InfoCounter, index: int, message: p4r.CounterEntry) -> Apply:
        """Check an update of one cell."""
        if update_type == INSERT:
            raise invalid("INSERT update type not supported for counters")

        def write() -> None:
            current = self._switch.program().counter_read(array.name, index)
            value = CounterValue(0, 0) if update_type == DELETE else merged(array, message.data, current)
            self._switch.program().counter_write(array.name, index, value)

        return on_target(WRITE_FAILED, write)


class DirectCounterHandler(DirectHandler):
    """`p4.v1.DirectCounterEntry`."""

    kind = "counter"
    message_name = "DirectCounterEntry"

    def parse(self, update_type: int, entity: p4r.Entity) -> Apply:
        """Check an update: MODIFY sets the entry's counter, DELETE clears it, as in PI."""
        message = entity.direct_counter_entry
        ref = self.entry_ref(message.HasField("table_entry"), message.table_entry)
        check_update_type(update_type)

        def apply() -> None:
            self.check_entry_exists(ref)
            self.check_table_has_it(ref.table)
            if update_type == INSERT:
                raise invalid("INSERT update type not supported for counters")
            self.refuse_default(ref, "Error when writing to direct counter")
            info = self._state.index.direct_counter_of_table[ref.table.id]
            try:
                entry = self._switch.table(ref.table.name).get(ref.match, ref.priority)
                current = entry.counter or CounterValue(0, 0)
                value = CounterValue(0, 0) if update_type == DELETE else merged(info, message.data, current)
                self._switch.table(ref.table.name).set_counter(ref.match, ref.priority, value)
            except RuntimeApiError as error:
                raise target_error("Error when writing to direct counter", error) from error

        return apply

    def has_it(self, table: P4InfoTable) -> bool:
        """Return whether the table has a direct counter."""
        return table.has_counter

    def read(self, entity: p4r.Entity) -> Iterator[p4r.Entity]:
        """Yield the counter of one entry, or of all entries of a table."""
        message = entity.direct_counter_entry
        return self.read_entries(message.HasField("table_entry"), message.table_entry)

    def to_entity(self, table_entry: p4r.TableEntry, entry: TableEntry) -> p4r.Entity:
        """Return the entity of one entry."""
        data = counter_to_proto(entry.counter or CounterValue(0, 0))
        return p4r.Entity(direct_counter_entry=p4r.DirectCounterEntry(table_entry=table_entry, data=data))
