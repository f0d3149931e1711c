"""Indirect counters, by index, and direct counters, by table entry."""

from __future__ import annotations

from collections.abc import Iterator

from softswitch.p4runtime.entities.common import DELETE, INSERT, check_update_type, counter_to_proto
from softswitch.p4runtime.entities.direct import DirectHandler
from softswitch.p4runtime.p4info import Counter, Table
from softswitch.p4runtime.state import Apply, PipelineState
from softswitch.p4runtime.status import Code, P4RuntimeError, invalid, invalid_id, target_error
from softswitch.p4runtime.stubs import p4r
from softswitch.runtime_api import CounterValue, RuntimeApiError, TableEntry

READ_BATCH = 512  # cells fetched at once, between two packets
NEGATIVE_INDEX = "A negative number is not a valid index value"
WRITE_FAILED = "Error when writing to counter"


def merged(info: Counter, data: p4r.CounterData, current: CounterValue) -> CounterValue:
    """Return `data` with what the counter's unit leaves out taken from `current`."""
    return CounterValue(
        data.packet_count if info.packets else current.packets, data.byte_count if info.bytes else current.bytes
    )


class CounterHandler:
    """`p4.v1.CounterEntry`."""

    def __init__(self, state: PipelineState) -> None:
        self._state = state
        self._switch = state.switch

    def parse(self, update_type: int, entity: p4r.Entity) -> Apply:
        """Check an update: MODIFY sets the cell, DELETE clears it, as in PI."""
        message = entity.counter_entry
        counter = self._state.index.counters.get(message.counter_id)
        if counter is None:
            raise invalid_id()
        if not message.HasField("index"):
            raise P4RuntimeError(Code.UNIMPLEMENTED, "Wildcard write is not supported for indirect counters yet")
        index = message.index.index
        if index < 0:
            raise invalid(NEGATIVE_INDEX)
        check_update_type(update_type)
        if update_type == INSERT:
            raise invalid("INSERT update type not supported for counters")

        def apply() -> None:
            try:
                current = self._switch.counter_read(counter.name, index)
                value = CounterValue(0, 0) if update_type == DELETE else merged(counter, message.data, current)
                self._switch.counter_write(counter.name, index, value)
            except RuntimeApiError as error:
                raise target_error(WRITE_FAILED, error) from error

        return apply

    def read(self, entity: p4r.Entity) -> Iterator[p4r.Entity]:
        """Yield one cell, all cells of a counter (no index), or those of all counters (id 0)."""
        wanted = entity.counter_entry
        if wanted.counter_id and wanted.counter_id not in self._state.index.counters:
            raise invalid_id()
        for counter in self._state.index.counters.values():
            if wanted.counter_id in {0, counter.id}:
                yield from self._read_counter(wanted, counter)

    def _read_counter(self, wanted: p4r.CounterEntry, counter: Counter) -> Iterator[p4r.Entity]:
        indexes = range(counter.size)
        if wanted.HasField("index"):
            if wanted.index.index < 0:
                raise invalid(NEGATIVE_INDEX)
            indexes = range(wanted.index.index, wanted.index.index + 1)
        for start in range(0, len(indexes), READ_BATCH):
            batch = indexes[start : start + READ_BATCH]
            try:
                values = self._switch.run(lambda b=batch: [self._switch.counter_read(counter.name, i) for i in b])  # type: ignore[misc]
            except RuntimeApiError as error:
                raise target_error("Error when reading counter from target", error) from error
            for index, value in zip(batch, values, strict=True):
                message = p4r.CounterEntry(counter_id=counter.id, data=counter_to_proto(value))
                message.index.index = index
                yield p4r.Entity(counter_entry=message)


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
                entry = self._switch.table_get(ref.table.name, ref.match, ref.priority)
                current = entry.counter or CounterValue(0, 0)
                value = CounterValue(0, 0) if update_type == DELETE else merged(info, message.data, current)
                self._switch.table_set_counter(ref.table.name, ref.match, ref.priority, value)
            except RuntimeApiError as error:
                raise target_error("Error when writing to direct counter", error) from error

        return apply

    def has_it(self, table: Table) -> bool:
        """Return whether the table has a direct counter."""
        return table.has_counter

    def read(self, entity: p4r.Entity) -> Iterator[p4r.Entity]:
        """Yield the counter of one entry, or of all entries of a table."""
        message = entity.direct_counter_entry
        return self.read_entries(message.HasField("table_entry"), message.table_entry)

    def to_entity(self, table_entry: p4r.TableEntry, entry: TableEntry) -> p4r.Entity:
        """Return what a read says of one entry."""
        data = counter_to_proto(entry.counter or CounterValue(0, 0))
        return p4r.Entity(direct_counter_entry=p4r.DirectCounterEntry(table_entry=table_entry, data=data))
