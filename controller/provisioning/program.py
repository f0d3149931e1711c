"""The compiled P4 program as the controller sees it: names to P4Runtime ids, entries to messages and back.

Encoding is finsy's; this module adds the step from and to the plain `IntendedEntry` of `intent`.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import cast

from finsy import P4IndirectAction, P4Schema, P4TableAction, P4TableEntry, P4TableMatch
from finsy.p4entity import decode_entity
from finsy.proto import p4r
from google.protobuf.text_format import ParseError

from mrclab.controller.errors import ProgramError
from mrclab.controller.provisioning.intent import EntryAction, IntendedEntry, Key
from mrclab.controller.provisioning.reconcile import MANAGED_TABLES, SHARED_TABLES, Change

TABLES = (*MANAGED_TABLES, *SHARED_TABLES)


class PipelineConfig:
    """P4Info and device config of one program. Raises ProgramError when a file cannot be read or a table is missing."""

    def __init__(self, p4info: Path, device_config: Path) -> None:
        try:
            self.schema = P4Schema(p4info, device_config.read_bytes())
        except OSError as error:
            remedy = "run `make p4`, or give --p4info and --p4json"
            raise ProgramError(f"{error.filename}: {error.strerror}; {remedy}") from None
        except (ParseError, ValueError) as error:
            raise ProgramError(f"{p4info} is not P4Info text: {error}; run `make p4`") from None
        missing = [table for table in TABLES if self.schema.tables.get(table) is None]
        if missing:
            raise ProgramError(f"{p4info} has no table {', '.join(missing)}: it is not the program of this lab")

    @property
    def cookie(self) -> int:
        """64-bit digest of P4Info and device config: a switch that returns it runs this program."""
        return self.schema.p4cookie

    def pipeline_config(self) -> p4r.ForwardingPipelineConfig:
        """Return the content of SetForwardingPipelineConfig."""
        return self.schema.get_pipeline_config()

    def encode(self, entry: IntendedEntry) -> p4r.Entity:
        """Return an entry as a P4Runtime message.

        ProgramError where the program lacks a name, a value does not fit, or the table is not one that is read back.
        """
        actions = [P4TableAction(act.name, **dict(act.params)) for act in entry.actions]
        action = P4IndirectAction([(1, act) for act in actions]) if entry.one_shot else actions[0]
        match = P4TableMatch(entry.match)
        try:
            entity = P4TableEntry(entry.table, match=match, action=action).encode(self.schema)
        except (ValueError, LookupError) as error:
            raise ProgramError(f"the program cannot hold {entry}: {error}") from None
        if entry.table not in TABLES:
            place = "MANAGED_TABLES of controller/provisioning/reconcile.py"
            raise ProgramError(f"{entry.table} is not in {place}; add it")
        return entity

    def update(self, change: Change) -> p4r.Update:
        """A change as a P4Runtime update."""
        return p4r.Update(type=p4r.Update.Type.Value(change.op.name), entity=self.encode(change.entry))

    def decode(self, entities: Iterable[p4r.Entity]) -> tuple[IntendedEntry, ...]:
        """Entries read from a switch; const entries, default actions and tables of others are left out."""
        result = []
        for entity in entities:
            table = self.schema.tables.get(entity.table_entry.table_id)
            if table is None or table.is_const or entity.table_entry.is_default_action:
                continue
            if table.alias in TABLES:
                result.append(self._decode_one(entity))
        return tuple(result)

    def _decode_one(self, entity: p4r.Entity) -> IntendedEntry:
        found = cast(P4TableEntry, decode_entity(entity, self.schema))
        table = self.schema.tables[found.table_id]
        fields = table.match_fields  # finsy shortens field names to their last part; entries bear the program's
        match = tuple((fields[name].name, _from_finsy(value)) for name, value in (found.match or {}).items())
        if isinstance(found.action, P4IndirectAction):
            members = found.action.action_set or []
            # Intended weights are 1: a member of any other, shown twice, differs.
            actions = tuple(_act(action) for weight, action in members for _ in range(1 if weight == 1 else 2))
            return IntendedEntry(table.alias, match, actions, one_shot=True)
        actions = (_act(found.action),) if found.action is not None else ()
        return IntendedEntry(table.alias, match, actions)

    def managed_tables(self) -> list[p4r.Entity]:
        """A read request for everything that the controller writes, one wildcard per table."""
        return [P4TableEntry(table).encode(self.schema) for table in TABLES]


def _act(action: P4TableAction) -> EntryAction:
    return EntryAction(action.name, tuple((name, int(value)) for name, value in action.args.items()))


def _from_finsy(value: object) -> Key:
    if isinstance(value, tuple):
        return int(value[0]), int(value[1])
    return int(cast(int, value))
