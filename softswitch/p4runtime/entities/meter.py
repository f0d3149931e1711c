"""Indirect meters, by index, and direct meters, by table entry."""

from __future__ import annotations

from collections.abc import Iterator

from softswitch.p4runtime.entities.common import (
    DELETE,
    INSERT,
    check_update_type,
    meter_from_proto,
    meter_to_proto,
    on_target,
)
from softswitch.p4runtime.entities.counter import NEGATIVE_INDEX, READ_BATCH
from softswitch.p4runtime.entities.direct import DirectHandler
from softswitch.p4runtime.p4info import Meter, Table
from softswitch.p4runtime.state import Apply, PipelineState
from softswitch.p4runtime.status import Code, P4RuntimeError, invalid, invalid_id, target_error
from softswitch.p4runtime.stubs import p4r
from softswitch.runtime_api import RuntimeApiError, TableEntry


def _check_modify(update_type: int) -> None:
    check_update_type(update_type)
    if update_type in {INSERT, DELETE}:
        name = "INSERT" if update_type == INSERT else "DELETE"
        raise invalid(f"{name} update type not supported for meters")


class MeterHandler:
    """`p4.v1.MeterEntry`."""

    def __init__(self, state: PipelineState) -> None:
        self._state = state
        self._switch = state.switch

    def parse(self, update_type: int, entity: p4r.Entity) -> Apply:
        """Check an update: MODIFY sets the configuration, or makes the meter always green if none is given."""
        message = entity.meter_entry
        meter = self._state.index.meters.get(message.meter_id)
        if meter is None:
            raise invalid_id()
        if not message.HasField("index"):
            raise P4RuntimeError(Code.UNIMPLEMENTED, "Wildcard write is not supported for indirect meters yet")
        if message.index.index < 0:
            raise invalid(NEGATIVE_INDEX)
        _check_modify(update_type)
        config = meter_from_proto(message.config) if message.HasField("config") else None
        index = message.index.index
        return on_target("Error when writing meter spec", lambda: self._switch.meter_write(meter.name, index, config))

    def read(self, entity: p4r.Entity) -> Iterator[p4r.Entity]:
        """Yield one cell, all cells of a meter (no index), or those of all meters (id 0)."""
        wanted = entity.meter_entry
        if wanted.meter_id and wanted.meter_id not in self._state.index.meters:
            raise invalid_id()
        for meter in self._state.index.meters.values():
            if wanted.meter_id in {0, meter.id}:
                yield from self._read_meter(wanted, meter)

    def _read_meter(self, wanted: p4r.MeterEntry, meter: Meter) -> Iterator[p4r.Entity]:
        indexes = range(meter.size)
        if wanted.HasField("index"):
            if wanted.index.index < 0:
                raise invalid(NEGATIVE_INDEX)
            indexes = range(wanted.index.index, wanted.index.index + 1)
        for start in range(0, len(indexes), READ_BATCH):
            batch = indexes[start : start + READ_BATCH]
            try:
                configs = self._switch.run(lambda b=batch: [self._switch.meter_read(meter.name, i) for i in b])  # type: ignore[misc]
            except RuntimeApiError as error:
                raise target_error("Error when reading meter spec from target", error) from error
            for index, config in zip(batch, configs, strict=True):
                message = p4r.MeterEntry(meter_id=meter.id, config=meter_to_proto(config) if config else None)
                message.index.index = index
                yield p4r.Entity(meter_entry=message)


class DirectMeterHandler(DirectHandler):
    """`p4.v1.DirectMeterEntry`."""

    kind = "meter"
    message_name = "DirectMeterEntry"

    def parse(self, update_type: int, entity: p4r.Entity) -> Apply:
        """Check an update: MODIFY sets the entry's configuration, or makes it always green if none is given."""
        message = entity.direct_meter_entry
        ref = self.entry_ref(message.HasField("table_entry"), message.table_entry)
        check_update_type(update_type)
        failure = "Error when writing direct meter spec"

        def apply() -> None:
            self.check_entry_exists(ref)
            self.check_table_has_it(ref.table)
            _check_modify(update_type)
            config = meter_from_proto(message.config) if message.HasField("config") else None
            self.refuse_default(ref, failure)
            on_target(failure, lambda: self._switch.table_set_meter(ref.table.name, ref.match, ref.priority, config))()

        return apply

    def has_it(self, table: Table) -> bool:
        """Return whether the table has a direct meter."""
        return table.has_meter

    def read(self, entity: p4r.Entity) -> Iterator[p4r.Entity]:
        """Yield the configuration for one entry, or for all entries of a table."""
        message = entity.direct_meter_entry
        return self.read_entries(message.HasField("table_entry"), message.table_entry)

    def to_entity(self, table_entry: p4r.TableEntry, entry: TableEntry) -> p4r.Entity:
        """Return what a read says of one entry."""
        config = meter_to_proto(entry.meter) if entry.meter else None
        return p4r.Entity(direct_meter_entry=p4r.DirectMeterEntry(table_entry=table_entry, config=config))
