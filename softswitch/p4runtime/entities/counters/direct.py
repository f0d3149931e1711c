"""Base of direct counters and direct meters: they are named by a table entry."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from mrclab.softswitch.objects.runtime_api import MatchKey, RuntimeApiError, TableEntry
from mrclab.softswitch.p4runtime.messages.matches import key_from_proto, key_to_proto
from mrclab.softswitch.p4runtime.messages.status import Code, P4RuntimeError, invalid
from mrclab.softswitch.p4runtime.messages.stubs import p4r
from mrclab.softswitch.p4runtime.p4info import P4InfoTable
from mrclab.softswitch.p4runtime.state import PipelineState


class EntryRef(NamedTuple):
    """A table entry, by table, key and priority; or the default entry."""

    table: P4InfoTable
    match: MatchKey
    priority: int
    is_default: bool


class DirectHandler:
    """Base of the two handlers, which implement reads and writes."""

    kind = ""
    message_name = ""

    def __init__(self, state: PipelineState) -> None:
        self._state = state
        self._switch = state.switch

    def has_it(self, table: P4InfoTable) -> bool:
        """Return whether the table has this resource."""
        raise NotImplementedError

    def to_entity(self, table_entry: p4r.TableEntry, entry: TableEntry) -> p4r.Entity:
        """Return the entity of one entry."""
        raise NotImplementedError

    def _table(self, is_given: bool, message: p4r.TableEntry) -> P4InfoTable:
        if not is_given:
            raise invalid(f"Missing table_entry field in {self.message_name}")
        return self._state.index.table(message.table_id)

    def entry_ref(self, is_given: bool, message: p4r.TableEntry) -> EntryRef:
        """Return which entry `message` names; refused where it names none."""
        table = self._table(is_given, message)
        if not message.is_default_action:
            return EntryRef(table, key_from_proto(message, table), message.priority, is_default=False)
        if message.match:
            raise invalid("Non-empty key for default entry")
        if message.priority:
            raise invalid("Non-zero priority for default entry")
        return EntryRef(table, (), 0, is_default=True)

    def check_entry_exists(self, ref: EntryRef) -> None:
        """Refuse a reference to an entry that is not there. Called in the data-plane thread."""
        if ref.is_default or (ref.table.id, ref.match, ref.priority) in self._state.entries:
            return
        try:
            self._switch.table(ref.table.name).get(ref.match, ref.priority)
        except RuntimeApiError:
            raise invalid("Cannot map table entry to handle") from None

    def check_table_has_it(self, table: P4InfoTable) -> None:
        """Refuse a table without this direct resource."""
        if not self.has_it(table):
            raise invalid(f"Table has no direct {self.kind}s")

    def refuse_default(self, ref: EntryRef, what: str) -> None:
        """Refuse the default entry, which has no direct resources in BMv2 either."""
        if ref.is_default:
            raise P4RuntimeError(Code.UNKNOWN, f"{what}: default entries have no direct {self.kind}s")

    def read_entries(self, is_given: bool, message: p4r.TableEntry) -> Iterator[p4r.Entity]:
        """Yield the resource of one entry, or of all entries of a table."""
        if is_given and message.table_id == 0:
            raise P4RuntimeError(
                Code.UNIMPLEMENTED, f"Reading all direct {self.kind}s for ALL tables is not supported yet"
            )
        table = self._table(is_given, message)
        self.check_table_has_it(table)
        if message.match or message.is_default_action:
            ref = self.entry_ref(is_given, message)
            yield self.to_entity(message, self._switch.run(lambda: self._get(ref)))
            return
        for entry in self._switch.run(lambda: self._switch.table(table.name).entries()):
            key = p4r.TableEntry(table_id=table.id, priority=entry.priority, match=key_to_proto(entry.match, table))
            yield self.to_entity(key, entry)

    def _get(self, ref: EntryRef) -> TableEntry:
        self.refuse_default(ref, f"Error when reading {self.kind} from target")
        self.check_entry_exists(ref)
        return self._switch.table(ref.table.name).get(ref.match, ref.priority)
