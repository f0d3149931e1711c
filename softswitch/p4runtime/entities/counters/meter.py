"""Indirect meters, by index, and direct meters, by table entry."""

from __future__ import annotations

from collections.abc import Iterator

from mrclab.softswitch.objects.runtime_api import MeterConfig, TableEntry
from mrclab.softswitch.p4runtime.entities.common import (
    DELETE,
    INSERT,
    check_update_type,
    meter_from_proto,
    meter_to_proto,
    on_target,
)
from mrclab.softswitch.p4runtime.entities.counters.cells import CellHandler, CellSelector
from mrclab.softswitch.p4runtime.entities.counters.direct import DirectHandler
from mrclab.softswitch.p4runtime.messages.status import invalid
from mrclab.softswitch.p4runtime.messages.stubs import p4r
from mrclab.softswitch.p4runtime.p4info import P4InfoMeter, P4InfoTable
from mrclab.softswitch.p4runtime.state import Apply


def _check_modify(update_type: int) -> None:
    check_update_type(update_type)
    if update_type in {INSERT, DELETE}:
        name = "INSERT" if update_type == INSERT else "DELETE"
        raise invalid(f"{name} update type not supported for meters")


class MeterHandler(CellHandler[P4InfoMeter, p4r.MeterEntry, MeterConfig | None]):
    """`p4.v1.MeterEntry`: MODIFY sets the configuration, or makes the meter always green if none is given."""

    kind = "meter"
    read_failure = "Error when reading meter spec from target"

    def arrays(self) -> dict[int, P4InfoMeter]:
        """Return the program's meters by id."""
        return self._state.index.meters

    def message_of(self, entity: p4r.Entity) -> p4r.MeterEntry:
        """Return the message within an entity."""
        return entity.meter_entry

    def selector(self, message: p4r.MeterEntry) -> CellSelector:
        """Return array id and index of a message."""
        return CellSelector(message.meter_id, message.index.index if message.HasField("index") else None)

    def cell(self, name: str, index: int) -> MeterConfig | None:
        """Read one cell."""
        return self._switch.program().meter_read(name, index)

    def to_entity(self, array: P4InfoMeter, index: int, value: MeterConfig | None) -> p4r.Entity:
        """Return the entity of one cell."""
        message = p4r.MeterEntry(meter_id=array.id, config=meter_to_proto(value) if value else None)
        message.index.index = index
        return p4r.Entity(meter_entry=message)

    def update(self, update_type: int, array: P4InfoMeter, index: int, message: p4r.MeterEntry) -> Apply:
        """Check an update of one cell."""
        _check_modify(update_type)
        config = meter_from_proto(message.config) if message.HasField("config") else None
        return on_target(
            "Error when writing meter spec", lambda: self._switch.program().meter_write(array.name, index, config)
        )


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
            on_target(failure, lambda: self._switch.table(ref.table.name).set_meter(ref.match, ref.priority, config))()

        return apply

    def has_it(self, table: P4InfoTable) -> bool:
        """Return whether the table has a direct meter."""
        return table.has_meter

    def read(self, entity: p4r.Entity) -> Iterator[p4r.Entity]:
        """Yield the configuration for one entry, or for all entries of a table."""
        message = entity.direct_meter_entry
        return self.read_entries(message.HasField("table_entry"), message.table_entry)

    def to_entity(self, table_entry: p4r.TableEntry, entry: TableEntry) -> p4r.Entity:
        """Return the entity of one entry."""
        config = meter_to_proto(entry.meter) if entry.meter else None
        return p4r.Entity(direct_meter_entry=p4r.DirectMeterEntry(table_entry=table_entry, config=config))
