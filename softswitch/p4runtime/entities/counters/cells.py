"""Base of indirect counters and indirect meters: arrays of cells, named by id and index."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import ClassVar, Generic, NamedTuple, TypeVar

from mrclab.softswitch.objects.runtime_api import RuntimeApiError
from mrclab.softswitch.p4runtime.entities.common import check_update_type
from mrclab.softswitch.p4runtime.messages.status import Code, P4RuntimeError, invalid, invalid_id, target_error
from mrclab.softswitch.p4runtime.messages.stubs import p4r
from mrclab.softswitch.p4runtime.p4info import P4InfoCounter, P4InfoMeter
from mrclab.softswitch.p4runtime.state import Apply, PipelineState

READ_BATCH = 512  # cells fetched at once, between two packets
NEGATIVE_INDEX = "A negative number is not a valid index value"

Array = TypeVar("Array", P4InfoCounter, P4InfoMeter)
Message = TypeVar("Message", p4r.CounterEntry, p4r.MeterEntry)
Value = TypeVar("Value")


class CellSelector(NamedTuple):
    """Address of a read or write: an array (0: all of them) and a cell (None: all of them)."""

    array: int
    cell: int | None


class CellHandler(Generic[Array, Message, Value]):
    """Base of the two handlers, which implement reads and writes."""

    kind: ClassVar[str] = ""
    read_failure: ClassVar[str] = ""

    def __init__(self, state: PipelineState) -> None:
        self._state = state
        self._switch = state.switch

    def arrays(self) -> dict[int, Array]:
        """Return the program's arrays by id."""
        raise NotImplementedError

    def message_of(self, entity: p4r.Entity) -> Message:
        """Return the message within an entity."""
        raise NotImplementedError

    def selector(self, message: Message) -> CellSelector:
        """Return array id and index of a message."""
        raise NotImplementedError

    def cell(self, name: str, index: int) -> Value:
        """Read one cell from the data plane. Called in its thread."""
        raise NotImplementedError

    def to_entity(self, array: Array, index: int, value: Value) -> p4r.Entity:
        """Return the entity of one cell."""
        raise NotImplementedError

    def update(self, update_type: int, array: Array, index: int, message: Message) -> Apply:
        """Check an update of one cell."""
        raise NotImplementedError

    def parse(self, update_type: int, entity: p4r.Entity) -> Apply:
        """Check an update. It names one cell: PI has no wildcard writes."""
        message = self.message_of(entity)
        selected = self.selector(message)
        array = self.arrays().get(selected.array)
        if array is None:
            raise invalid_id()
        if selected.cell is None:
            raise P4RuntimeError(Code.UNIMPLEMENTED, f"Wildcard write is not supported for indirect {self.kind}s yet")
        if selected.cell < 0:
            raise invalid(NEGATIVE_INDEX)
        check_update_type(update_type)
        return self.update(update_type, array, selected.cell, message)

    def read(self, entity: p4r.Entity) -> Iterator[p4r.Entity]:
        """Yield one cell, all cells of an array (no index), or those of all arrays (id 0)."""
        selected = self.selector(self.message_of(entity))
        if selected.array and selected.array not in self.arrays():
            raise invalid_id()
        for array in self.arrays().values():
            if selected.array in {0, array.id}:
                yield from self._read_array(array, selected.cell)

    def _read_array(self, array: Array, index: int | None) -> Iterator[p4r.Entity]:
        if index is not None and index < 0:
            raise invalid(NEGATIVE_INDEX)
        indexes = range(array.size) if index is None else range(index, index + 1)
        for start in range(0, len(indexes), READ_BATCH):
            batch = indexes[start : start + READ_BATCH]
            try:
                values = self._switch.run(partial(self._values, array.name, batch))
            except RuntimeApiError as error:
                raise target_error(self.read_failure, error) from error
            for at, value in zip(batch, values, strict=True):
                yield self.to_entity(array, at, value)

    def _values(self, name: str, indexes: range) -> list[Value]:
        return [self.cell(name, index) for index in indexes]
