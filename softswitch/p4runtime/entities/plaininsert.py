"""INSERT of a plain table entry, the most frequent write: exact fields in order, an action, and nothing else.

Updates of another form, or with any mistake, are left to the table's handler, which names the mistake.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from finsy.proto import p4r

from mrclab.softswitch.objects.runtime_api import ActionCall, AlreadyExistsError, MatchKey, RuntimeApiError
from mrclab.softswitch.p4runtime.messages.status import Code, P4RuntimeError, target_error
from mrclab.softswitch.p4runtime.p4info import P4Index, P4InfoTable
from mrclab.softswitch.p4runtime.state import Apply, EntryNotes, PipelineState

if TYPE_CHECKING:
    from mrclab.softswitch.objects.tables import RuntimeTable

_PLAIN = 3  # fields of a message: table, match, action
Shape = tuple[tuple[int, int], ...]
"""Id and width of each field or parameter, in order."""


def already_exists() -> P4RuntimeError:
    """Return the error for a key that an entry has."""
    return P4RuntimeError(Code.ALREADY_EXISTS, "Match entry exists, use MODIFY if you wish to change action")


class PlainInsert:
    """Parser of plain inserts into one table; `key` and `actions` are the valid ones."""

    def __init__(self, state: PipelineState, table: P4InfoTable) -> None:
        self._switch = state.switch
        self._table = table.name
        self._key: Shape = tuple((field.id, field.width) for field in table.fields)
        self._actions = _actions(state.index, table, state.switch.table(table.name))

    def parse(self, entry: p4r.TableEntry) -> Apply | None:
        """Return the function that inserts the entry; None if it is not plain."""
        if len(entry.ListFields()) != _PLAIN or entry.action.WhichOneof("type") != "action":
            return None
        message = entry.action.action
        action = self._actions.get(message.action_id)
        if action is None:
            return None
        name, params = action
        given, match = message.params, entry.match
        if len(given) != len(params) or len(match) != len(self._key):
            return None
        values, key = [], []
        for param, (number, width) in zip(given, params):  # noqa: B905 - as long as each other
            value = int.from_bytes(param.value, "big")
            if param.param_id != number or value >> width:
                return None
            values.append(value)
        for field, (number, width) in zip(match, self._key):  # noqa: B905
            value = int.from_bytes(field.exact.value, "big")
            if field.field_id != number or value >> width or field.WhichOneof("field_match_type") != "exact":
                return None
            key.append(value)
        return partial(self._insert, tuple(key), ActionCall(name, tuple(values)))

    def _insert(self, match: MatchKey, action: ActionCall) -> None:
        try:
            self._switch.table(self._table).insert_plain(match, action, EntryNotes())
        except AlreadyExistsError as error:
            raise already_exists() from error
        except RuntimeApiError as error:
            raise target_error("Error when adding match entry to target", error) from error


def _actions(index: P4Index, table: P4InfoTable, target: RuntimeTable) -> dict[int, tuple[str, Shape]]:
    """Return name and parameters of the actions that plain entries may have: those that P4Info and program agree on.

    None where no entry of the table is plain.
    """
    widths = [field.width for field in table.fields]
    exact = all(field.kind == "exact" for field in table.fields) and not table.has_priority
    if table.profile_id or not exact or widths != [key.width for key in target.table.key]:
        return {}
    allowed = [index.actions[number] for number, scope in table.actions.items() if scope.in_entries]
    return {
        made.id: (made.name, tuple((param.id, param.width) for param in made.params))
        for made in allowed
        if made.name in target.actions and target.actions[made.name].widths == tuple(p.width for p in made.params)
    }
