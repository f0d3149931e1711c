"""Counters and meters: indirect ones, by index, and direct ones, by table entry."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from finsy.proto import p4r

from mrclab.softswitch.objects.runtime_api import CounterValue, MatchKey, RuntimeApiError, TableEntry
from mrclab.softswitch.p4runtime.entities.common import (
    DELETE,
    INSERT,
    check_default_key,
    check_update_type,
    counter_to_proto,
    merged,
    meter_from_proto,
    meter_to_proto,
)
from mrclab.softswitch.p4runtime.messages.matches import key_from_proto, key_to_proto
from mrclab.softswitch.p4runtime.messages.status import Code, P4RuntimeError, invalid, invalid_id, on_target
from mrclab.softswitch.p4runtime.p4info import P4InfoArray, P4InfoTable
from mrclab.softswitch.p4runtime.state import Apply, EntityHandler, PipelineState

READ_BATCH = 512  # cells fetched at once, between two packets
NEGATIVE_INDEX = "A negative number is not a valid index value"

Change = Callable[[Any], Any]
"""Gives the new value of a counter or meter for its present one."""


class Resource(NamedTuple):
    """Counters or meters. Fields of messages and of P4Info, and methods of the data plane, are called by `name`.

    `change` checks an update and returns its effect; `fill` puts a value into a message. `reading` and `writing` are
    PI's words for a failure.
    """

    name: str
    change: Callable[[int, P4InfoArray, Any], Change]
    fill: Callable[[Any, Any], None]
    reading: str
    writing: str


def _counter_change(update_type: int, info: P4InfoArray, message: Any) -> Change:
    """MODIFY sets the counter, DELETE clears it, as in PI."""
    if update_type == INSERT:
        raise invalid("INSERT update type not supported for counters")
    if update_type == DELETE:
        return lambda _: CounterValue(0, 0)
    return lambda current: merged(info, message.data, current or CounterValue(0, 0))


def _fill_counter(message: Any, value: CounterValue | None) -> None:
    message.data.CopyFrom(counter_to_proto(value or CounterValue(0, 0)))


def _meter_change(update_type: int, _info: P4InfoArray, message: Any) -> Change:
    """MODIFY sets the configuration, or makes the meter always green if none is given."""
    if update_type in {INSERT, DELETE}:
        name = "INSERT" if update_type == INSERT else "DELETE"
        raise invalid(f"{name} update type not supported for meters")
    config = meter_from_proto(message.config) if message.HasField("config") else None
    return lambda _: config


def _fill_meter(message: Any, value: Any) -> None:
    if value:
        message.config.CopyFrom(meter_to_proto(value))


COUNTER = Resource(
    "counter", _counter_change, _fill_counter,
    "Error when reading counter from target", "Error when writing to {}counter",
)  # fmt: skip
METER = Resource(
    "meter", _meter_change, _fill_meter,
    "Error when reading meter spec from target", "Error when writing {}meter spec",
)  # fmt: skip


class CellHandler(EntityHandler):
    """`p4.v1.CounterEntry` or `MeterEntry`."""

    def __init__(self, state: PipelineState, resource: Resource) -> None:
        super().__init__(state, resource.name)
        self._resource = resource
        self._arrays: dict[int, P4InfoArray] = getattr(state.index, f"{resource.name}s")

    def _selected(self, entity: p4r.Entity) -> tuple[Any, int, int | None]:
        """Return the message in an entity, its array (0: all of them) and its cell (None: all of them)."""
        message = getattr(entity, f"{self._kind}_entry")
        number = getattr(message, f"{self._kind}_id")
        return message, number, message.index.index if message.HasField("index") else None

    def parse(self, update_type: int, entity: p4r.Entity) -> Apply:
        """Check an update. It names one cell: PI has no wildcard writes."""
        message, number, cell = self._selected(entity)
        array = self._arrays.get(number)
        if array is None:
            raise invalid_id()
        if cell is None:
            raise P4RuntimeError(Code.UNIMPLEMENTED, f"Wildcard write is not supported for indirect {self._kind}s yet")
        if cell < 0:
            raise invalid(NEGATIVE_INDEX)
        check_update_type(update_type)
        change = self._resource.change(update_type, array, message)

        def write() -> None:
            with on_target(self._resource.writing.format("")):
                value = change(self._value(array.name, cell))
                getattr(self._switch.program(), f"{self._kind}_write")(array.name, cell, value)

        return write

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
            with on_target(self._resource.reading):
                values = self._switch.run(partial(self._values, array.name, batch))
            for at, value in zip(batch, values, strict=True):
                yield self._to_entity(array, at, value)

    def _values(self, name: str, indexes: range) -> list[Any]:
        return [self._value(name, index) for index in indexes]

    def _value(self, name: str, index: int) -> Any:
        return getattr(self._switch.program(), f"{self._kind}_read")(name, index)

    def _to_entity(self, array: P4InfoArray, index: int, value: Any) -> p4r.Entity:
        entity = p4r.Entity()
        message = getattr(entity, f"{self._kind}_entry")
        setattr(message, f"{self._kind}_id", array.id)
        message.index.index = index
        self._resource.fill(message, value)
        return entity


class EntryRef(NamedTuple):
    """A table entry, by table, key and priority; or the default entry."""

    table: P4InfoTable
    match: MatchKey
    priority: int
    is_default: bool


class DirectHandler(EntityHandler):
    """`p4.v1.DirectCounterEntry` or `DirectMeterEntry`."""

    def __init__(self, state: PipelineState, resource: Resource) -> None:
        super().__init__(state, resource.name)
        self._resource = resource

    def parse(self, update_type: int, entity: p4r.Entity) -> Apply:
        """Check an update; the function returned writes the resource."""
        message = getattr(entity, f"direct_{self._kind}_entry")
        ref = self._entry_ref(message)
        check_update_type(update_type)

        def apply() -> None:
            self._check_entry_exists(ref)
            change = self._resource.change(update_type, self._of_table(ref.table), message)
            writing = self._resource.writing.format("direct ")
            self._refuse_default(ref, writing)
            with on_target(writing):
                target = self._switch.table(ref.table.name)
                value = change(getattr(target.get(ref.match, ref.priority), self._kind))
                getattr(target, f"set_{self._kind}")(ref.match, ref.priority, value)

        return apply

    def _table(self, direct: p4r.DirectCounterEntry | p4r.DirectMeterEntry) -> P4InfoTable:
        if not direct.HasField("table_entry"):
            raise invalid(f"Missing table_entry field in Direct{self._kind.title()}Entry")
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
        try:
            if not ref.is_default:
                self._switch.table(ref.table.name).get(ref.match, ref.priority)
        except RuntimeApiError:
            raise invalid("Cannot map table entry to handle") from None

    def _of_table(self, table: P4InfoTable) -> P4InfoArray:
        """Return the direct resource of a table; refused where it has none."""
        found: P4InfoArray | None = getattr(table, self._kind)
        if found is None:
            raise invalid(f"Table has no direct {self._kind}s")
        return found

    def _refuse_default(self, ref: EntryRef, what: str) -> None:
        """Refuse the default entry, which has no direct resources in BMv2 either."""
        if ref.is_default:
            raise P4RuntimeError(Code.UNKNOWN, f"{what}: default entries have no direct {self._kind}s")

    def read(self, entity: p4r.Entity) -> Iterator[p4r.Entity]:
        """Yield the resource of one entry, or of all entries of a table."""
        direct = getattr(entity, f"direct_{self._kind}_entry")
        message: p4r.TableEntry = direct.table_entry
        if direct.HasField("table_entry") and message.table_id == 0:
            raise P4RuntimeError(
                Code.UNIMPLEMENTED, f"Reading all direct {self._kind}s for ALL tables is not supported yet"
            )
        table = self._table(direct)
        self._of_table(table)
        if message.match or message.is_default_action:
            ref = self._entry_ref(direct)
            yield self._to_entity(message, self._switch.run(lambda: self._get(ref)))
            return
        for entry in self._switch.run(lambda: self._switch.table(table.name).entries()):
            key = p4r.TableEntry(table_id=table.id, priority=entry.priority, match=key_to_proto(entry.match, table))
            yield self._to_entity(key, entry)

    def _get(self, ref: EntryRef) -> TableEntry:
        self._refuse_default(ref, f"Error when reading {self._kind} from target")
        self._check_entry_exists(ref)
        return self._switch.table(ref.table.name).get(ref.match, ref.priority)

    def _to_entity(self, table_entry: p4r.TableEntry, entry: TableEntry) -> p4r.Entity:
        entity = p4r.Entity()
        message = getattr(entity, f"direct_{self._kind}_entry")
        message.table_entry.CopyFrom(table_entry)
        self._resource.fill(message, getattr(entry, self._kind))
        return entity
