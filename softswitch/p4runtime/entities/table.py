"""Table entries: INSERT, MODIFY and DELETE, default actions, reads with wildcards.

Follows PI's device_mgr.cpp: the order of checks decides which code a request with several faults gets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from finsy.proto import p4r

from mrclab.softswitch.objects.runtime_api import (
    ActionCall,
    CounterValue,
    EntryAction,
    GroupRef,
    MatchKey,
    MemberRef,
    MeterConfig,
    RuntimeApiError,
    TableEntry,
)
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
from mrclab.softswitch.p4runtime.entities.plaininsert import PlainInsert, already_exists
from mrclab.softswitch.p4runtime.entities.profiles import create_oneshot, delete_oneshot
from mrclab.softswitch.p4runtime.messages.matches import key_from_proto, key_to_proto
from mrclab.softswitch.p4runtime.messages.status import Code, P4RuntimeError, invalid, invalid_id, on_target
from mrclab.softswitch.p4runtime.messages.values import action_from_proto, action_to_proto
from mrclab.softswitch.p4runtime.p4info import P4InfoTable
from mrclab.softswitch.p4runtime.profile_state import ActionProfileState
from mrclab.softswitch.p4runtime.state import Apply, EntityHandler, EntryNotes, PipelineState

NS_PER_SECOND = 1_000_000_000
NS_PER_MS = 1_000_000
MODIFY_FAILED = "Error when modifying match entry in target"

ActionMaker = Callable[[], EntryAction]
"""Gives the entry's action in the data-plane thread, where members and groups are looked up or made."""


def no_entry() -> P4RuntimeError:
    """Return the error for a key that no entry has."""
    return P4RuntimeError(Code.NOT_FOUND, "Cannot find match entry")


class TableHandler(EntityHandler):
    """`p4.v1.TableEntry`."""

    def __init__(self, state: PipelineState) -> None:
        super().__init__(state)
        self._plain: dict[int, PlainInsert] = {}

    # -- writing ------------------------------------------------------------------------------------------------------

    def parse(self, update_type: int, entity: p4r.Entity) -> Apply:
        """Check an update; the function returned inserts, modifies or deletes the entry."""
        entry = entity.table_entry
        table = self._state.index.table(entry.table_id)
        if update_type == INSERT:
            plain = self._plain.get(table.id)
            if plain is None:
                plain = self._plain[table.id] = PlainInsert(self._state, table)
            if (apply := plain.parse(entry)) is not None:
                return apply
        if entry.HasField("time_since_last_hit"):
            raise invalid("has_time_since_last_hit must not be set in WriteRequest")
        check_update_type(update_type)
        if entry.is_default_action:
            return self._parse_default(update_type, entry, table)
        if update_type == DELETE:
            key = key_from_proto(entry, table)
            return lambda: self._delete(table, key, entry.priority)
        return self._parse_entry(update_type, entry, table)

    def _parse_entry(self, update_type: int, entry: p4r.TableEntry, table: P4InfoTable) -> Apply:
        if update_type == INSERT and not entry.HasField("action"):
            raise invalid("'action' field must be set")
        match = key_from_proto(entry, table)
        self._check_action(entry, table)
        if not entry.HasField("action"):
            raise invalid("'action' field must be set for non-default entries")
        action = self._action_maker(entry.action, table)
        meter, counter = self._direct_resources(entry, table)
        timeout = _idle_timeout(entry, table)
        notes = EntryNotes(entry.controller_metadata, entry.metadata, entry.idle_timeout_ns)

        def apply() -> None:
            old = self._switch.table(table.name).notes(match, entry.priority)
            if update_type == INSERT and old is not None:
                raise already_exists()
            if update_type != INSERT and old is None:
                raise no_entry()
            # No call but the write may fail after this one, or a one-shot group would be left behind.
            written = TableEntry(match, action(), entry.priority, timeout, counter, meter, notes=notes)
            if isinstance(written.action, GroupRef) and entry.action.HasField("action_profile_action_set"):
                notes.oneshot_group = written.action.group_id
            self._write(update_type, table, written)
            self._drop_oneshot(old, table)

        return apply

    def _write(self, update_type: int, table: P4InfoTable, entry: TableEntry) -> None:
        inserting = update_type == INSERT
        try:
            with on_target("Error when adding match entry to target" if inserting else MODIFY_FAILED):
                target = self._switch.table(table.name)
                (target.insert if inserting else target.modify)(entry)
        except P4RuntimeError:
            if table.profile_id:
                delete_oneshot(self._state, table.profile_id, entry.action)
            raise

    def _drop_oneshot(self, notes: EntryNotes | None, table: P4InfoTable) -> None:
        """Remove the one-shot group of an entry that is gone or has another action now."""
        if notes is not None and notes.oneshot_group is not None:
            delete_oneshot(self._state, table.profile_id, GroupRef(notes.oneshot_group))

    def _delete(self, table: P4InfoTable, match: MatchKey, priority: int) -> None:
        target = self._switch.table(table.name)
        notes = target.notes(match, priority)
        if notes is None:
            raise no_entry()
        with on_target("Error when deleting match entry in target"):
            target.delete(match, priority)
        self._drop_oneshot(notes, table)

    def _parse_default(self, update_type: int, entry: p4r.TableEntry, table: P4InfoTable) -> Apply:
        if update_type in {INSERT, DELETE}:
            verb = "INSERT" if update_type == INSERT else "DELETE"
            raise invalid(f"Cannot use {verb} for default entry")
        check_default_key(entry)
        self._check_action(entry, table)
        action = self._action_maker(entry.action, table) if entry.HasField("action") else None
        meter, counter = self._direct_resources(entry, table)
        if meter is not None or counter is not None:
            raise P4RuntimeError(Code.UNKNOWN, f"{MODIFY_FAILED}: default entries have no direct resources")
        _idle_timeout(entry, table)

        def apply() -> None:
            with on_target(MODIFY_FAILED):
                self._switch.table(table.name).set_default(None if action is None else action())
            if action is None:
                self._state.defaults.pop(table.id, None)
            else:
                self._state.defaults[table.id] = EntryNotes(entry.controller_metadata, entry.metadata)

        return apply

    def _check_action(self, entry: p4r.TableEntry, table: P4InfoTable) -> None:
        if entry.is_default_action:
            self._check_default_may_change(table)
        if not entry.HasField("action"):
            return
        is_direct = entry.action.WhichOneof("type") == "action"
        if table.profile_id:
            if is_direct:
                raise invalid(f"Cannot provide direct action for indirect table {table.id}")
            return
        if not is_direct:
            raise invalid(f"Cannot provide indirect action for direct table {table.id}")
        action_id = entry.action.action.action_id
        if action_id not in self._state.index.actions:
            raise invalid_id()
        scope = table.actions.get(action_id)
        if scope is None:
            raise invalid("Invalid action for table")
        if entry.is_default_action and not scope.as_default:
            raise P4RuntimeError(Code.PERMISSION_DENIED, "Cannot use TABLE_ONLY action as default action")
        if not entry.is_default_action and not scope.in_entries:
            raise P4RuntimeError(Code.PERMISSION_DENIED, "Cannot use DEFAULT_ONLY action in table entry")

    @staticmethod
    def _check_default_may_change(table: P4InfoTable) -> None:
        if table.profile_id:
            raise invalid(f"Cannot set / reset default action for indirect table {table.id}")
        if table.const_default:
            raise P4RuntimeError(
                Code.PERMISSION_DENIED,
                f"Cannot set / reset default action for table {table.id} which has a const default action",
            )

    def _action_maker(self, message: p4r.TableAction, table: P4InfoTable) -> ActionMaker:
        kind = message.WhichOneof("type")
        if kind == "action":
            call = action_from_proto(message.action, self._state.index)
            return lambda: call
        if kind == "action_profile_action_set":
            return create_oneshot(self._state, table.profile_id, message.action_profile_action_set)
        if kind in {"action_profile_member_id", "action_profile_group_id"}:
            return lambda: self._reference(kind, message, self._state.profiles[table.profile_id].by_members())
        raise invalid("Invalid table action type")

    @staticmethod
    def _reference(kind: str, message: p4r.TableAction, profile: ActionProfileState) -> EntryAction:
        if kind == "action_profile_member_id":
            if member := profile.members.get(message.action_profile_member_id):
                return MemberRef(member.handles[0])
        elif group := profile.groups.get(message.action_profile_group_id):
            return GroupRef(group.handle)
        raise invalid("Invalid member / group id")

    @staticmethod
    def _direct_resources(entry: p4r.TableEntry, table: P4InfoTable) -> tuple[MeterConfig | None, CounterValue | None]:
        meter = counter = None
        if entry.HasField("meter_config"):
            if table.meter is None:
                raise invalid("Table has no direct meters")
            meter = meter_from_proto(entry.meter_config)
        if entry.HasField("counter_data"):
            if table.counter is None:
                raise invalid("Table has no direct counters")
            counter = merged(table.counter, entry.counter_data, CounterValue(0, 0))
        return meter, counter

    # -- reading ------------------------------------------------------------------------------------------------------

    def read(self, entity: p4r.Entity) -> Iterator[p4r.Entity]:
        """Yield one entry, those of one table, or those of all tables (table id 0)."""
        requested = entity.table_entry
        if requested.table_id:
            yield from self._read_table(requested, self._state.index.table(requested.table_id))
            return
        for table in self._state.index.tables.values():
            yield from self._read_table(requested, table)

    def _read_table(self, requested: p4r.TableEntry, table: P4InfoTable) -> Iterator[p4r.Entity]:
        if requested.is_default_action:
            yield self._read_default(requested, table)
            return
        if requested.HasField("time_since_last_hit") and not table.supports_idle:
            raise invalid(
                "Do not set time_since_last_hit for a ReadRequest if the table does not support idle timeout; "
                "yes, that includes wildcard reads"
            )
        if requested.match:
            found = self._fetch_one(table, key_from_proto(requested, table), requested.priority)
        else:
            found = self._switch.run(lambda: self._switch.table(table.name).entries())
        for entry in found:
            yield p4r.Entity(table_entry=self._entry_to_proto(entry, table, requested))

    def read_written(self, requested: p4r.TableEntry, table: P4InfoTable) -> Iterator[p4r.Entity]:
        """Yield the entries of one table that a controller wrote, with the resources that `requested` names."""
        for entry in self._switch.run(lambda: self._switch.table(table.name).entries()):
            if entry.notes is not None:
                yield p4r.Entity(table_entry=self._entry_to_proto(entry, table, requested))

    def _fetch_one(self, table: P4InfoTable, match: MatchKey, priority: int) -> list[TableEntry]:
        try:
            return [self._switch.run(lambda: self._switch.table(table.name).get(match, priority))]
        except RuntimeApiError:
            return []

    def _entry_to_proto(self, entry: TableEntry, table: P4InfoTable, requested: p4r.TableEntry) -> p4r.TableEntry:
        message = p4r.TableEntry(table_id=table.id, priority=entry.priority)
        message.match.extend(key_to_proto(entry.match, table))
        self._set_action(message, entry.action, table)
        if requested.HasField("counter_data") and table.counter and entry.counter is not None:
            message.counter_data.CopyFrom(counter_to_proto(entry.counter))
        if requested.HasField("meter_config") and table.meter and entry.meter is not None:
            message.meter_config.CopyFrom(meter_to_proto(entry.meter))
        notes: EntryNotes | None = entry.notes
        if notes is not None:
            message.controller_metadata = notes.controller_metadata
            message.metadata = notes.metadata
            message.idle_timeout_ns = notes.idle_timeout_ns
        if requested.HasField("time_since_last_hit"):
            idle_ns = int((entry.idle_for or 0.0) * NS_PER_SECOND)
            message.time_since_last_hit.elapsed_ns = min(idle_ns, notes.idle_timeout_ns if notes else 0)
        return message

    def _set_action(self, message: p4r.TableEntry, action: EntryAction, table: P4InfoTable) -> None:
        if isinstance(action, ActionCall):
            message.action.action.CopyFrom(action_to_proto(action, self._state.index))
            return
        profile = self._state.profiles[table.profile_id]
        if isinstance(action, MemberRef):
            message.action.action_profile_member_id = profile.member_ids.get(action.member_id, 0)
        elif action.group_id in profile.oneshots:
            message.action.action_profile_action_set.CopyFrom(profile.oneshots[action.group_id].message)
        else:
            message.action.action_profile_group_id = profile.group_ids.get(action.group_id, 0)

    def _read_default(self, requested: p4r.TableEntry, table: P4InfoTable) -> p4r.Entity:
        if requested.HasField("time_since_last_hit"):
            raise invalid(
                "Default table entries do not support entry ageing, do not set 'time_since_last_hit' "
                "in your ReadRequest"
            )
        entry = self._switch.run(lambda: self._switch.table(table.name).default_entry())
        message = p4r.TableEntry(table_id=table.id, is_default_action=True)
        if entry is not None:
            self._set_action(message, entry.action, table)
        notes = self._state.defaults.get(table.id)
        if notes is not None:
            message.controller_metadata, message.metadata = notes.controller_metadata, notes.metadata
        return p4r.Entity(table_entry=message)


def _idle_timeout(entry: p4r.TableEntry, table: P4InfoTable) -> float:
    """Return the idle timeout in seconds, in whole milliseconds as BMv2 keeps it; 0 means never."""
    if entry.idle_timeout_ns < 0:
        raise invalid("idle_timeout_ns must be a positive value")
    if entry.idle_timeout_ns and not table.supports_idle:
        raise invalid("idle_timeout_ns must be set to 0 for tables which do not support idle timeout")
    return entry.idle_timeout_ns // NS_PER_MS / 1000
