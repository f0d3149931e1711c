"""Match-action tables and action profiles at run time: written by the control plane, looked up by the generated code.

The value of an entry is described in `compiler.control`: (action id, cell, *arguments), or (resolve, cell) where an
action profile is between entry and action.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from mrclab.softswitch.objects.match import Value, check, matcher
from mrclab.softswitch.objects.meters import RuntimeMeter
from mrclab.softswitch.objects.runtime_api import (
    ActionCall,
    AlreadyExistsError,
    CounterValue,
    EntryAction,
    ExhaustedError,
    GroupRef,
    ImmutableError,
    InvalidRequestError,
    MatchKey,
    MemberRef,
    MeterConfig,
    NotFoundError,
    PreconditionError,
    TableEntry,
)
from mrclab.softswitch.p4 import program as p4

NO_ACTION: Value = (-1, None)
"""The default entry of a table that has none: no action, the next node as for no action."""

PACKETS, BYTES, LAST_HIT, METER = range(4)
"""Positions in an entry's cell."""


def build_call(actions: dict[str, p4.Action], call: ActionCall, where: str) -> Value:
    """Return the entry value of an action call, without cell. Raises InvalidRequestError."""
    action = actions.get(call.name)
    if action is None:
        raise InvalidRequestError(f"{where}: action {call.name} is not one of {', '.join(sorted(actions))}")
    if len(call.args) != len(action.params):
        raise InvalidRequestError(
            f"{where}: action {call.name} takes {len(action.params)} arguments, {len(call.args)} given"
        )
    for (name, width), value in zip(action.params, call.args, strict=True):
        if not 0 <= value < 1 << width:
            raise InvalidRequestError(
                f"{where}: argument {name} of {call.name}: {value} is not a value of {width} bits"
            )
    return (action.id, None, *call.args)


@dataclass(slots=True)
class _Entry:
    """A stored entry: as the control plane wrote it, and its cell."""

    match: MatchKey
    priority: int
    action: EntryAction
    idle_timeout: float
    cell: list[Any] | None
    is_const: bool = False
    notes: Any = None
    reported: float = -math.inf  # when it was last reported as idle


@dataclass
class _Member:
    """A member of a profile; `value` is the entry value, `users` counts entries and group places."""

    action: ActionCall
    value: Value
    users: int = 0

    def resolve(self, _hash: int) -> Value:
        """Return the action, independent of the hash."""
        return self.value


@dataclass
class _Group:
    """A group of a selector; `slots` are its members, ids ascending as in BMv2, one as often as it was given."""

    empty: Value
    slots: list[_Member]
    users: int = 0

    def resolve(self, hashed: int) -> Value:
        """Return the action of the member that the hash picks."""
        slots = self.slots
        return slots[hashed % len(slots)].value if slots else self.empty


class RuntimeProfile:
    """An action profile, with groups where it is a selector."""

    def __init__(self, program: p4.Program, profile: p4.ActionProfile) -> None:
        self.program = program
        self.name = profile.name
        self.size = profile.max_size
        self.is_selector = profile.algorithm is not None
        self.actions: dict[str, p4.Action] = {}
        self._members: dict[int, _Member] = {}
        self._groups: dict[int, _Group] = {}
        self.empty: Value = NO_ACTION

    def use_by(self, table: p4.Table) -> None:
        """Note that `table` uses this profile: its actions are the profile's."""
        self.actions.update({action.name: action for action in table.actions})

    def _member(self, member_id: int) -> _Member:
        member = self._members.get(member_id)
        if member is None:
            raise NotFoundError(f"action profile {self.name} has no member {member_id}")
        return member

    def _group(self, group_id: int) -> _Group:
        group = self._groups.get(group_id)
        if group is None:
            raise NotFoundError(f"action profile {self.name} has no group {group_id}")
        return group

    def _value(self, action: ActionCall) -> Value:
        return build_call(self.actions, action, f"action profile {self.name}")

    def insert_member(self, member_id: int, action: ActionCall) -> None:
        """Add a member."""
        if member_id in self._members:
            raise AlreadyExistsError(f"action profile {self.name} has a member {member_id} already")
        if self.size and len(self._members) >= self.size:
            raise ExhaustedError(f"action profile {self.name} is full: {self.size} members")
        self._members[member_id] = _Member(action, self._value(action))

    def modify_member(self, member_id: int, action: ActionCall) -> None:
        """Replace a member's action, in all groups and entries that use it."""
        stored = self._member(member_id)
        stored.value = self._value(action)
        stored.action = action

    def delete_member(self, member_id: int) -> None:
        """Remove a member that nothing uses."""
        if self._member(member_id).users:
            raise PreconditionError(f"action profile {self.name}: member {member_id} is in use")
        del self._members[member_id]

    def calls(self, action: EntryAction) -> list[ActionCall]:
        """Return the action of a member, or those of a group in the order of its members."""
        target = self.target(action)
        return [member.action for member in (target.slots if isinstance(target, _Group) else [target])]

    def insert_group(self, group_id: int, members: Iterable[int]) -> None:
        """Add a group; a member that is given twice is picked twice as often."""
        self._need_selector()
        if group_id in self._groups:
            raise AlreadyExistsError(f"action profile {self.name} has a group {group_id} already")
        self._groups[group_id] = _Group(self.empty, self._slots(members))

    def modify_group(self, group_id: int, members: Iterable[int]) -> None:
        """Replace a group's members."""
        stored = self._group(group_id)
        slots = self._slots(members)
        for member in stored.slots:
            member.users -= 1
        stored.slots = slots

    def _slots(self, members: Iterable[int]) -> list[_Member]:
        """Return the members of a group, each with one user more."""
        slots = [self._member(member_id) for member_id in sorted(members)]
        for member in slots:
            member.users += 1
        return slots

    def delete_group(self, group_id: int) -> None:
        """Remove a group that no entry uses."""
        stored = self._group(group_id)
        if stored.users:
            raise PreconditionError(f"action profile {self.name}: group {group_id} is in use")
        for member in stored.slots:
            member.users -= 1
        del self._groups[group_id]

    def _need_selector(self) -> None:
        if not self.is_selector:
            raise InvalidRequestError(f"action profile {self.name} has no selector: it has no groups")

    def target(self, action: EntryAction) -> _Member | _Group:
        """Resolve an entry's reference. Raises NotFoundError."""
        if isinstance(action, MemberRef):
            return self._member(action.member_id)
        if isinstance(action, GroupRef):
            self._need_selector()
            return self._group(action.group_id)
        raise InvalidRequestError(f"action profile {self.name}: an entry must name a member or a group")


class RuntimeTable:
    """One table. The generated code uses `find` and `default`."""

    def __init__(
        self,
        program: p4.Program,
        table: p4.Table,
        profile: RuntimeProfile | None,
        clock: Callable[[], int],
        monotonic: Callable[[], float],
    ) -> None:
        self.program = program
        self.table = table
        self.profile = profile
        self._clock = clock
        self._monotonic = monotonic
        self.actions = {action.name: action for action in table.actions}
        self._has_cell = table.with_counters or table.support_timeout or table.direct_meter is not None
        self._entries: dict[tuple[MatchKey, int], _Entry] = {}
        self._matcher = matcher(table.key)
        self.find = self._matcher.find
        self.default: list[Value] = [NO_ACTION]
        self._default_action: EntryAction | None = None
        self.reset_default()
        self._add_const_entries()

    def _add_const_entries(self) -> None:
        """Add the program's const entries. In the JSON a smaller priority wins; outside it is the other way round."""
        for const in self.table.entries or ():
            action = self.program.actions[const.action_id]
            priority = 0x7FFFFFFF - const.priority if self.table.has_priority else 0
            match = tuple(self._const_field(k, m) for k, m in zip(self.table.key, const.match, strict=True))
            entry = TableEntry(match, ActionCall(action.name, const.data), priority)
            self._store(entry, is_const=True, number=const.action_id)

    @staticmethod
    def _const_field(key: p4.TableKey, match: int | tuple[int, int] | None) -> int | tuple[int, int] | None:
        """Return a match without bits that the program wrote outside its mask or behind its prefix."""
        if isinstance(match, tuple) and key.kind == "ternary":
            return match[0] & match[1], match[1]
        if isinstance(match, tuple) and key.kind == "lpm":
            behind = key.width - match[1]
            return match[0] >> behind << behind, match[1]
        return match

    # -- entries ------------------------------------------------------------------------------------------------------

    def _writable(self) -> None:
        if self.table.entries is not None:
            raise ImmutableError(f"table {self.table.name} has const entries: they cannot be changed")

    def _find(self, match: MatchKey, priority: int) -> _Entry:
        entry = self._entries.get((match, priority))
        if entry is None:
            raise NotFoundError(f"table {self.table.name} has no such entry")
        return entry

    def insert(self, entry: TableEntry) -> None:
        """Add an entry."""
        self._writable()
        check(self.table.name, self.table.key, entry.match)
        if not entry.match:
            raise InvalidRequestError(f"table {self.table.name} has no key: only its default action can be set")
        if (entry.match, entry.priority) in self._entries:
            raise AlreadyExistsError(f"table {self.table.name} has this entry already")
        if len(self._entries) >= self.table.size:
            raise ExhaustedError(f"table {self.table.name} is full: {self.table.size} entries")
        self._store(entry)

    def insert_plain(self, match: MatchKey, action: ActionCall, notes: Any) -> None:
        """Add an entry of exact fields that fit the key, with an action whose arguments fit it, and nothing else."""
        self._writable()
        place = (match, 0)
        if self.profile is not None or not match or place in self._entries or len(self._entries) >= self.table.size:
            self.insert(TableEntry(match, action, notes=notes))  # says what is wrong
            return
        cell = [0, 0, self._monotonic(), None, None] if self._has_cell else None
        if self.table.direct_meter is not None:
            cell = self._new_cell(TableEntry(match, action))
        number = self.actions[action.name].id
        self._matcher.put(match, 0, (number, cell, *action.args))
        self._entries[place] = _Entry(match, 0, action, 0.0, cell, notes=notes)

    def _store(self, entry: TableEntry, is_const: bool = False, number: int | None = None) -> None:
        cell = self._new_cell(entry) if self._has_cell else None
        stored = _Entry(entry.match, entry.priority, entry.action, entry.idle_timeout, cell, is_const, entry.notes)
        self._matcher.put(entry.match, entry.priority, self._value(entry.action, cell, number))
        self._use(entry.action, 1)
        self._entries[entry.match, entry.priority] = stored

    def _new_cell(self, entry: TableEntry) -> list[Any]:
        count = entry.counter or CounterValue(0, 0)
        meter = None
        if self.table.direct_meter is not None:
            meter = RuntimeMeter(self.program.meters[self.table.direct_meter].packets, self._clock)
            meter.configure(entry.meter)
        return [count.packets, count.bytes, self._monotonic(), meter.execute if meter else None, meter]

    def _value(self, action: EntryAction, cell: list[Any] | None, number: int | None = None) -> Value:
        if self.profile is not None:
            return self.profile.target(action).resolve, cell
        if not isinstance(action, ActionCall):
            raise InvalidRequestError(f"table {self.table.name} has no action profile: an entry must name an action")
        value = build_call(self.actions, action, f"table {self.table.name}")
        return (value[0] if number is None else number, cell, *value[2:])

    def _use(self, action: EntryAction, change: int) -> None:
        if self.profile is not None and not isinstance(action, ActionCall):
            self.profile.target(action).users += change

    def modify(self, entry: TableEntry) -> None:
        """Replace action, idle timeout, meter and notes of an entry, and its counter if one is given."""
        self._writable()
        check(self.table.name, self.table.key, entry.match)
        stored = self._find(entry.match, entry.priority)
        value = self._value(entry.action, stored.cell)
        if stored.cell is not None and stored.cell[METER + 1] is not None:
            stored.cell[METER + 1].configure(entry.meter)  # before all else: it may refuse
        self._use(entry.action, 1)
        self._use(stored.action, -1)
        stored.action, stored.idle_timeout, stored.notes = entry.action, entry.idle_timeout, entry.notes
        if stored.cell is not None:
            stored.cell[LAST_HIT] = self._monotonic()
            if entry.counter is not None:
                stored.cell[PACKETS], stored.cell[BYTES] = entry.counter
        self._matcher.put(entry.match, entry.priority, value)

    def delete(self, match: MatchKey, priority: int) -> None:
        """Remove an entry."""
        self._writable()
        check(self.table.name, self.table.key, match)
        stored = self._find(match, priority)
        self._matcher.remove(match, priority)
        self._use(stored.action, -1)
        del self._entries[match, priority]

    def notes(self, match: MatchKey, priority: int) -> Any:
        """Return the control plane's notes on an entry, None where it wrote no such entry."""
        stored = self._entries.get((match, priority))
        return None if stored is None else stored.notes

    def get(self, match: MatchKey, priority: int) -> TableEntry:
        """Return one entry."""
        return self._as_entry(self._find(match, priority))

    def entries(self) -> list[TableEntry]:
        """Return all entries, oldest first."""
        return [self._as_entry(stored) for stored in self._entries.values()]

    def _as_entry(self, stored: _Entry) -> TableEntry:
        shown = TableEntry(
            stored.match, stored.action, stored.priority, stored.idle_timeout, is_const=stored.is_const,
            notes=stored.notes,
        )  # fmt: skip
        if stored.cell is not None:
            if self.table.with_counters:
                shown.counter = CounterValue(stored.cell[PACKETS], stored.cell[BYTES])
            if stored.cell[METER + 1] is not None:
                shown.meter = stored.cell[METER + 1].config
            if self.table.support_timeout:
                shown.idle_for = self._monotonic() - stored.cell[LAST_HIT]
        return shown

    def idle(self) -> list[TableEntry]:
        """Return the entries whose idle timeout has run out since their last hit, or since they were last reported."""
        if not self.table.support_timeout:
            return []
        now, found = self._monotonic(), []
        for stored in self._entries.values():
            if not stored.idle_timeout or not stored.cell:
                continue
            if now - max(stored.cell[LAST_HIT], stored.reported) >= stored.idle_timeout:
                found.append(self._as_entry(stored))
                stored.reported = now
        return found

    # -- default entry ------------------------------------------------------------------------------------------------

    def reset_default(self) -> None:
        """Restore the program's default action."""
        table = self.table
        if table.default_action is None:
            self.default[0], self._default_action = NO_ACTION, None
            return
        action = self.program.actions[table.default_action]
        self._default_action = ActionCall(action.name, table.default_data)
        self.default[0] = (action.id, None, *table.default_data)

    def set_default(self, action: EntryAction | None) -> None:
        """Set the default action; None restores the program's own."""
        if action is None:
            self.reset_default()
            return
        if self.table.const_default_entry or self.table.const_default_action:
            if action == self._default_action:
                return
            raise ImmutableError(f"table {self.table.name} has a const default action")
        if isinstance(action, ActionCall):
            value = build_call(self.actions, action, f"table {self.table.name}")
            self.default[0] = value
        elif self.profile is not None:
            self.default[0] = self.profile.target(action).resolve(0)
        else:
            raise InvalidRequestError(f"table {self.table.name} has no action profile")
        self._default_action = action

    def default_entry(self) -> TableEntry | None:
        """Return the default entry."""
        return None if self._default_action is None else TableEntry((), self._default_action)

    # -- direct resources ---------------------------------------------------------------------------------------------

    def set_counter(self, match: MatchKey, priority: int, value: CounterValue) -> None:
        """Write an entry's direct counter."""
        stored = self._find(match, priority)
        if not self.table.with_counters or stored.cell is None:
            raise InvalidRequestError(f"table {self.table.name} has no direct counter")
        stored.cell[PACKETS], stored.cell[BYTES] = value

    def set_meter(self, match: MatchKey, priority: int, config: MeterConfig | None) -> None:
        """Write an entry's direct meter."""
        stored = self._find(match, priority)
        if self.table.direct_meter is None or stored.cell is None:
            raise InvalidRequestError(f"table {self.table.name} has no direct meter")
        stored.cell[METER + 1].configure(config)
