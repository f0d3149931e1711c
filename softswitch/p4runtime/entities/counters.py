"""Counters and meters: indirect ones, by index, and direct ones, by table entry."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple

from finsy.proto import p4r

from mrclab.softswitch.objects.runtime_api import CounterValue, MatchKey, MeterConfig, RuntimeApiError, TableEntry
from mrclab.softswitch.p4runtime.entities.common import (
    DELETE,
    INSERT,
    check_default_key,
    check_update_type,
    counter_to_proto,
    meter_from_proto,
    meter_to_proto,
)
from mrclab.softswitch.p4runtime.messages.matches import key_from_proto, key_to_proto
from mrclab.softswitch.p4runtime.messages.status import Code, P4RuntimeError, invalid, invalid_id, on_target
from mrclab.softswitch.p4runtime.p4info import P4InfoArray, P4InfoTable
from mrclab.softswitch.p4runtime.state import Apply, PipelineState

READ_BATCH = 512  # cells fetched at once, between two packets
NEGATIVE_INDEX = "A negative number is not a valid index value"


class CellHandler:
    """Base of the two handlers. `kind` names the fields of messages and P4Info that they use."""

    kind: ClassVar[Literal["counter", "meter"]]
    read_failure: ClassVar[str] = ""

    def __init__(self, state: PipelineState) -> None:
        self._state = state
        self._switch = state.switch
        self._arrays: dict[int, P4InfoArray] = getattr(state.index, f"{self.kind}s")

    def to_entity(self, array: Any, index: int, value: Any) -> p4r.Entity:
        """Return the entity of one cell."""
        raise NotImplementedError

    def read_cell(self, name: str, index: int) -> Any:
        """Return the value of one cell. Called in the data-plane thread."""
        raise NotImplementedError

    def update(self, update_type: int, array: Any, index: int, message: Any) -> Apply:
        """Check an update of one cell."""
        raise NotImplementedError

    def _selected(self, entity: p4r.Entity) -> tuple[Any, int, int | None]:
        """Return the message in an entity, its array (0: all of them) and its cell (None: all of them)."""
        message = getattr(entity, f"{self.kind}_entry")
        return message, getattr(message, f"{self.kind}_id"), message.index.index if message.HasField("index") else None

    def parse(self, update_type: int, entity: p4r.Entity) -> Apply:
        """Check an update. It names one cell: PI has no wildcard writes."""
        message, number, cell = self._selected(entity)
        array = self._arrays.get(number)
        if array is None:
            raise invalid_id()
        if cell is None:
            raise P4RuntimeError(Code.UNIMPLEMENTED, f"Wildcard write is not supported for indirect {self.kind}s yet")
        if cell < 0:
            raise invalid(NEGATIVE_INDEX)
        check_update_type(update_type)
        return self.update(update_type, array, cell, message)

    def read(self, entity: p4r.Entity) -> Iterator[p4r.Entity]:
        """Yield one cell, all cells of an array (no index), or those of all arrays (id 0)."""
        _, number, cell = self._selected(entity)
        if number and number not in self._arrays:
            raise invalid_id()
        for array in self._arrays.values():
            if number in {0, array.id}:
                yield from self._read_array(array, cell)

    def _read_array(self, array: P4InfoArray, index: int | None) -> Iterator[p4r.Entity]:
        if index is not None and index < 0:
            raise invalid(NEGATIVE_INDEX)
        indexes = range(array.size) if index is None else range(index, index + 1)
        for start in range(0, len(indexes), READ_BATCH):
            batch = indexes[start : start + READ_BATCH]
            with on_target(self.read_failure):
                values = self._switch.run(partial(self._values, array.name, batch))
            for at, value in zip(batch, values, strict=True):
                yield self.to_entity(array, at, value)

    def _values(self, name: str, indexes: range) -> list[Any]:
        return [self.read_cell(name, index) for index in indexes]


class EntryRef(NamedTuple):
    """A table entry, by table, key and priority; or the default entry."""

    table: P4InfoTable
    match: MatchKey
    priority: int
    is_default: bool


class DirectHandler:
    """Base of the two handlers, which implement reads and writes."""

    kind: ClassVar[Literal["counter", "meter"]]

    def __init__(self, state: PipelineState) -> None:
        self._state = state
        self._switch = state.switch

    def to_entity(self, table_entry: p4r.TableEntry, entry: TableEntry) -> p4r.Entity:
        """Return the entity of one entry."""
        raise NotImplementedError

    def write(self, update_type: int, ref: EntryRef, message: Any) -> None:
        """Write the resource of an entry that exists. Called in the data-plane thread."""
        raise NotImplementedError

    def parse(self, update_type: int, entity: p4r.Entity) -> Apply:
        """Check an update; the function returned writes the resource."""
        message = getattr(entity, f"direct_{self.kind}_entry")
        ref = self._entry_ref(message)
        check_update_type(update_type)

        def apply() -> None:
            self._check_entry_exists(ref)
            self._check_table_has_it(ref.table)
            self.write(update_type, ref, message)

        return apply

    def _table(self, direct: p4r.DirectCounterEntry | p4r.DirectMeterEntry) -> P4InfoTable:
        if not direct.HasField("table_entry"):
            raise invalid(f"Missing table_entry field in Direct{self.kind.title()}Entry")
        return self._state.index.table(direct.table_entry.table_id)

    def _entry_ref(self, direct: p4r.DirectCounterEntry | p4r.DirectMeterEntry) -> EntryRef:
        """Return which entry a message names; refused where it names none."""
        table, message = self._table(direct), direct.table_entry
        if not message.is_default_action:
            return EntryRef(table, key_from_proto(message, table), message.priority, is_default=False)
        check_default_key(message)
        return EntryRef(table, (), 0, is_default=True)

    def _check_entry_exists(self, ref: EntryRef) -> None:
        """Refuse a reference to an entry that is not there. Called in the data-plane thread."""
        if ref.is_default or (ref.table.id, ref.match, ref.priority) in self._state.entries:
            return
        try:
            self._switch.table(ref.table.name).get(ref.match, ref.priority)
        except RuntimeApiError:
            raise invalid("Cannot map table entry to handle") from None

    def _check_table_has_it(self, table: P4InfoTable) -> None:
        """Refuse a table without this direct resource."""
        if not getattr(table, f"has_{self.kind}"):
            raise invalid(f"Table has no direct {self.kind}s")

    def refuse_default(self, ref: EntryRef, what: str) -> None:
        """Refuse the default entry, which has no direct resources in BMv2 either."""
        if ref.is_default:
            raise P4RuntimeError(Code.UNKNOWN, f"{what}: default entries have no direct {self.kind}s")

    def read(self, entity: p4r.Entity) -> Iterator[p4r.Entity]:
        """Yield the resource of one entry, or of all entries of a table."""
        direct = getattr(entity, f"direct_{self.kind}_entry")
        message: p4r.TableEntry = direct.table_entry
        if direct.HasField("table_entry") and message.table_id == 0:
            raise P4RuntimeError(
                Code.UNIMPLEMENTED, f"Reading all direct {self.kind}s for ALL tables is not supported yet"
            )
        table = self._table(direct)
        self._check_table_has_it(table)
        if message.match or message.is_default_action:
            ref = self._entry_ref(direct)
            yield self.to_entity(message, self._switch.run(lambda: self._get(ref)))
            return
        for entry in self._switch.run(lambda: self._switch.table(table.name).entries()):
            key = p4r.TableEntry(table_id=table.id, priority=entry.priority, match=key_to_proto(entry.match, table))
            yield self.to_entity(key, entry)

    def _get(self, ref: EntryRef) -> TableEntry:
        self.refuse_default(ref, f"Error when reading {self.kind} from target")
        self._check_entry_exists(ref)
        return self._switch.table(ref.table.name).get(ref.match, ref.priority)


def merged(info: P4InfoArray, data: p4r.CounterData, current: CounterValue) -> CounterValue:
    """Return `data`, with the value that the counter's unit lacks from `current`."""
    return CounterValue(
        data.packet_count if info.packets else current.packets, data.byte_count if info.bytes else current.bytes
    )


class CounterHandler(CellHandler):
    """`p4.v1.CounterEntry`: MODIFY sets the cell, DELETE clears it, as in PI."""

    kind = "counter"
    read_failure = "Error when reading counter from target"

    def to_entity(self, array: P4InfoArray, index: int, value: CounterValue) -> p4r.Entity:
        """Return the entity of one cell."""
        message = p4r.CounterEntry(counter_id=array.id, data=counter_to_proto(value))
        message.index.index = index
        return p4r.Entity(counter_entry=message)

    def read_cell(self, name: str, index: int) -> CounterValue:
        """Return the value of one cell."""
        return self._switch.program().counter_read(name, index)

    def update(self, update_type: int, array: P4InfoArray, index: int, message: p4r.CounterEntry) -> Apply:
        """Check an update of one cell."""
        if update_type == INSERT:
            raise invalid("INSERT update type not supported for counters")

        def write() -> None:
            with on_target("Error when writing to counter"):
                current = self._switch.program().counter_read(array.name, index)
                value = CounterValue(0, 0) if update_type == DELETE else merged(array, message.data, current)
                self._switch.program().counter_write(array.name, index, value)

        return write


class DirectCounterHandler(DirectHandler):
    """`p4.v1.DirectCounterEntry`."""

    kind = "counter"

    def write(self, update_type: int, ref: EntryRef, message: p4r.DirectCounterEntry) -> None:
        """Set the entry's counter (MODIFY), or clear it (DELETE), as in PI."""
        if update_type == INSERT:
            raise invalid("INSERT update type not supported for counters")
        self.refuse_default(ref, "Error when writing to direct counter")
        info = self._state.index.direct_counter_of_table[ref.table.id]
        with on_target("Error when writing to direct counter"):
            entry = self._switch.table(ref.table.name).get(ref.match, ref.priority)
            current = entry.counter or CounterValue(0, 0)
            value = CounterValue(0, 0) if update_type == DELETE else merged(info, message.data, current)
            self._switch.table(ref.table.name).set_counter(ref.match, ref.priority, value)

    def to_entity(self, table_entry: p4r.TableEntry, entry: TableEntry) -> p4r.Entity:
        """Return the entity of one entry."""
        data = counter_to_proto(entry.counter or CounterValue(0, 0))
        return p4r.Entity(direct_counter_entry=p4r.DirectCounterEntry(table_entry=table_entry, data=data))


def _check_modify(update_type: int) -> None:
    check_update_type(update_type)
    if update_type in {INSERT, DELETE}:
        name = "INSERT" if update_type == INSERT else "DELETE"
        raise invalid(f"{name} update type not supported for meters")


class MeterHandler(CellHandler):
    """`p4.v1.MeterEntry`: MODIFY sets the configuration, or makes the meter always green if none is given."""

    kind = "meter"
    read_failure = "Error when reading meter spec from target"

    def to_entity(self, array: P4InfoArray, index: int, value: MeterConfig | None) -> p4r.Entity:
        """Return the entity of one cell."""
        message = p4r.MeterEntry(meter_id=array.id, config=meter_to_proto(value) if value else None)
        message.index.index = index
        return p4r.Entity(meter_entry=message)

    def read_cell(self, name: str, index: int) -> MeterConfig | None:
        """Return the configuration of one cell; none: always green."""
        return self._switch.program().meter_read(name, index)

    def update(self, update_type: int, array: P4InfoArray, index: int, message: p4r.MeterEntry) -> Apply:
        """Check an update of one cell."""
        _check_modify(update_type)
        config = meter_from_proto(message.config) if message.HasField("config") else None

        def write() -> None:
            with on_target("Error when writing meter spec"):
                self._switch.program().meter_write(array.name, index, config)

        return write


class DirectMeterHandler(DirectHandler):
    """`p4.v1.DirectMeterEntry`."""

    kind = "meter"

    def write(self, update_type: int, ref: EntryRef, message: p4r.DirectMeterEntry) -> None:
        """Set the entry's configuration (MODIFY), or make it always green if none is given."""
        _check_modify(update_type)
        config = meter_from_proto(message.config) if message.HasField("config") else None
        self.refuse_default(ref, "Error when writing direct meter spec")
        with on_target("Error when writing direct meter spec"):
            self._switch.table(ref.table.name).set_meter(ref.match, ref.priority, config)

    def to_entity(self, table_entry: p4r.TableEntry, entry: TableEntry) -> p4r.Entity:
        """Return the entity of one entry."""
        config = meter_to_proto(entry.meter) if entry.meter else None
        return p4r.Entity(direct_meter_entry=p4r.DirectMeterEntry(table_entry=table_entry, config=config))
