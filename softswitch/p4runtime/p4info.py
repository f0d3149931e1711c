"""Index of a P4Info message: ids, names and widths, looked up in one step.

`P4Index` is immutable and built once per pipeline. It refuses (`P4InfoError`) a message that contradicts itself or the
compiled program, so that no later request can trip over it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from finsy.proto import p4i, p4t

from mrclab.softswitch.p4runtime.messages.status import Code, P4RuntimeError, invalid_id

if TYPE_CHECKING:
    from mrclab.softswitch.p4 import program as p4

KINDS = {
    p4i.MatchField.EXACT: "exact",
    p4i.MatchField.LPM: "lpm",
    p4i.MatchField.TERNARY: "ternary",
    p4i.MatchField.RANGE: "range",
    p4i.MatchField.OPTIONAL: "optional",
}
PRIORITY_KINDS = frozenset({"ternary", "range", "optional"})


class P4InfoError(Exception):
    """A P4Info message that cannot be used; the message says which object and why."""


class P4InfoField(NamedTuple):
    """A named value with an id: a match field (with its match kind), an action parameter, a packet metadata field.

    `as_ternary` marks an optional match field that the compiler turned into a ternary one.
    """

    id: int
    name: str
    width: int
    kind: str = "exact"
    as_ternary: bool = False


class P4InfoAction(NamedTuple):
    """An action and its parameters, in declaration order."""

    id: int
    name: str
    params: tuple[P4InfoField, ...]


class ActionScope(NamedTuple):
    """Place of an action in a table."""

    in_entries: bool
    as_default: bool


class P4InfoTable(NamedTuple):
    """A match-action table; `counter` and `meter` are its direct ones."""

    id: int
    name: str
    fields: tuple[P4InfoField, ...]
    actions: dict[int, ActionScope]
    profile_id: int
    counter: P4InfoArray | None
    meter: P4InfoArray | None
    supports_idle: bool
    is_const: bool
    const_default: bool
    has_priority: bool


class P4InfoActionProfile(NamedTuple):
    """An action profile, or action selector, and the ids of the actions its members may have."""

    id: int
    name: str
    max_group_size: int
    actions: frozenset[int]


class P4InfoArray(NamedTuple):
    """A counter or meter, direct ones of size 0; `packets` and `bytes` say which of the two a counter counts."""

    id: int
    name: str
    size: int
    packets: bool = True
    bytes: bool = True


class Digest(NamedTuple):
    """A digest and how its messages are written: "struct", "tuple" or "bitstring"."""

    id: int
    name: str
    shape: str


@dataclass(frozen=True)
class P4Index:
    """Everything a request can name, by id; `*_by_name` is for names from the data plane.

    `left_out`: tables without a key that p4c found to do nothing and that the device configuration therefore lacks.
    """

    tables: dict[int, P4InfoTable] = field(default_factory=dict)
    actions: dict[int, P4InfoAction] = field(default_factory=dict)
    profiles: dict[int, P4InfoActionProfile] = field(default_factory=dict)
    counters: dict[int, P4InfoArray] = field(default_factory=dict)
    meters: dict[int, P4InfoArray] = field(default_factory=dict)
    digests: dict[int, Digest] = field(default_factory=dict)
    packet_in: tuple[P4InfoField, ...] | None = None
    packet_out: tuple[P4InfoField, ...] | None = None
    tables_by_name: dict[str, P4InfoTable] = field(default_factory=dict)
    actions_by_name: dict[str, P4InfoAction] = field(default_factory=dict)
    digests_by_name: dict[str, Digest] = field(default_factory=dict)
    left_out: frozenset[int] = frozenset()

    def table(self, table_id: int) -> P4InfoTable:
        """Return a table that a request names. Raises P4RuntimeError."""
        found = self.tables.get(table_id)
        if found is not None:
            return found
        if table_id in self.left_out:
            why = "without a key and an effect p4c leaves it out"
            text = f"table {table_id:#x} is not in the device configuration: {why}"
            raise P4RuntimeError(Code.FAILED_PRECONDITION, text)
        raise invalid_id()

    @staticmethod
    def build(message: p4i.P4Info, program: p4.Program | None) -> P4Index:
        """Index `message` and check it against `program` (not, if None)."""
        index = _read(message, program)
        if program is not None:
            _check_program(index, program)
        return index


class _WithPreamble(Protocol):
    @property
    def preamble(self) -> p4i.Preamble: ...


def _read(message: p4i.P4Info, program: p4.Program | None) -> P4Index:
    _check_ids(message)
    compiled = program.tables if program is not None else {}
    called = {action.name: action.widths for table in compiled.values() for action in table.actions}
    actions = {a.preamble.id: _action(a, called.get(a.preamble.name, ())) for a in message.actions}
    left_out = {
        t.preamble.id
        for t in message.tables
        if program is not None and not t.match_fields and t.preamble.name not in compiled
    }
    tables = {
        t.preamble.id: _table(t, actions, message, compiled.get(t.preamble.name))
        for t in message.tables
        if t.preamble.id not in left_out
    }
    headers = {h.preamble.name: _metadata(h) for h in message.controller_packet_metadata}
    digests = {d.preamble.id: _digest(d, message.type_info) for d in message.digests}
    return P4Index(
        tables=tables,
        actions=actions,
        profiles={p.preamble.id: _profile(p, tables, left_out | tables.keys()) for p in message.action_profiles},
        counters={c.preamble.id: _counter(c.preamble, c.spec, c.size) for c in message.counters},
        meters={m.preamble.id: _meter(m.preamble, m.size) for m in message.meters},
        digests=digests,
        packet_in=headers.get("packet_in"),
        packet_out=headers.get("packet_out"),
        tables_by_name={t.name: t for t in tables.values()},
        actions_by_name={a.name: a for a in actions.values()},
        digests_by_name={d.name: d for d in digests.values()},
        left_out=frozenset(left_out),
    )


def _check_ids(message: p4i.P4Info) -> None:
    groups: tuple[Iterable[_WithPreamble], ...] = (
        message.tables, message.actions, message.action_profiles, message.counters, message.direct_counters,
        message.meters, message.direct_meters, message.digests, message.registers, message.value_sets,
        message.controller_packet_metadata,
    )  # fmt: skip
    seen: dict[int, str] = {}
    for item in (item for group in groups for item in group):
        preamble = item.preamble
        if preamble.id == 0:
            raise P4InfoError(f"object {preamble.name!r} has no id")
        if preamble.id in seen:
            raise P4InfoError(f"id {preamble.id:#x} is given to both {seen[preamble.id]!r} and {preamble.name!r}")
        seen[preamble.id] = preamble.name


def _fields(owner: str, fields: Iterable[P4InfoField]) -> tuple[P4InfoField, ...]:
    result = tuple(fields)
    if len({f.id for f in result}) != len(result) or any(f.id == 0 for f in result):
        raise P4InfoError(f"{owner}: field ids must be distinct and not 0")
    for item in result:
        if item.width < 0:
            raise P4InfoError(f"{owner}: field {item.name!r} has a negative bitwidth")
    return result


def _width(declared: int, compiled: int | None) -> int:
    """Return the width to hold values to: the data plane's, where translation (`sdn_bitwidth`) gives another one.

    Like PI, translated values are passed on as they are. A translated string (`sdn_string`) has no width at all, so
    that every value is refused.
    """
    return compiled if declared and compiled is not None else declared


def _action(message: p4i.Action, compiled: tuple[int, ...]) -> P4InfoAction:
    name = message.preamble.name
    widths = compiled if len(compiled) == len(message.params) else (None,) * len(message.params)
    params = (P4InfoField(p.id, p.name, _width(p.bitwidth, w)) for p, w in zip(message.params, widths, strict=True))
    return P4InfoAction(message.preamble.id, name, _fields(f"action {name!r}", params))


def _match_fields(message: p4i.Table, compiled: p4.Table | None) -> tuple[P4InfoField, ...]:
    name, match_fields = message.preamble.name, message.match_fields
    for match in match_fields:
        if match.match_type not in KINDS:
            raise P4InfoError(f"table {name!r}: field {match.name!r} has no match type that this target knows")
    if compiled is None:
        fields = [P4InfoField(m.id, m.name, m.bitwidth, KINDS[m.match_type]) for m in match_fields]
        return _fields(f"table {name!r}", fields)
    if len(compiled.key) != len(match_fields):
        raise P4InfoError(f"the key of table {name!r} has {len(compiled.key)} fields in the device configuration")
    return _fields(f"table {name!r}", map(_compiled_field, match_fields, compiled.key))


def _compiled_field(match: p4i.MatchField, key: p4.TableKey) -> P4InfoField:
    kind = KINDS[match.match_type]
    as_ternary = (kind, key.kind) == ("optional", "ternary")
    if kind != key.kind and not as_ternary:
        raise P4InfoError(f"match field {match.name!r} is {key.kind} in the device configuration, {kind} in P4Info")
    return P4InfoField(match.id, match.name, _width(match.bitwidth, key.width), kind, as_ternary)


def _action_scopes(message: p4i.Table, actions: dict[int, P4InfoAction]) -> dict[int, ActionScope]:
    name = message.preamble.name
    scopes: dict[int, ActionScope] = {}
    for ref in message.action_refs:
        if ref.id not in actions:
            raise P4InfoError(f"table {name!r} refers to action {ref.id:#x}, which is not defined")
        if ref.scope not in {p4i.ActionRef.TABLE_AND_DEFAULT, p4i.ActionRef.TABLE_ONLY, p4i.ActionRef.DEFAULT_ONLY}:
            raise P4InfoError(f"table {name!r}: action {ref.id:#x} has an unknown scope")
        scopes[ref.id] = ActionScope(ref.scope != p4i.ActionRef.DEFAULT_ONLY, ref.scope != p4i.ActionRef.TABLE_ONLY)
    return scopes


def _table(
    message: p4i.Table, actions: dict[int, P4InfoAction], info: p4i.P4Info, compiled: p4.Table | None
) -> P4InfoTable:
    name = message.preamble.name
    fields = _match_fields(message, compiled)
    if message.implementation_id and message.implementation_id not in {p.preamble.id for p in info.action_profiles}:
        raise P4InfoError(f"table {name!r} refers to action profile {message.implementation_id:#x}, not defined")
    resources = message.direct_resource_ids
    counters = [_counter(c.preamble, c.spec, 0) for c in info.direct_counters if c.preamble.id in resources]
    meters = [_meter(m.preamble, 0) for m in info.direct_meters if m.preamble.id in resources]
    return P4InfoTable(
        id=message.preamble.id,
        name=name,
        fields=fields,
        actions=_action_scopes(message, actions),
        profile_id=message.implementation_id,
        counter=next(iter(counters), None),
        meter=next(iter(meters), None),
        supports_idle=message.idle_timeout_behavior == p4i.Table.NOTIFY_CONTROL,
        is_const=message.is_const_table,
        const_default=bool(message.const_default_action_id),
        has_priority=any(f.kind in PRIORITY_KINDS for f in fields),
    )


def _profile(message: p4i.ActionProfile, tables: dict[int, P4InfoTable], known: set[int]) -> P4InfoActionProfile:
    name = message.preamble.name
    allowed: set[int] = set()
    for table_id in message.table_ids:
        if table_id not in known:
            raise P4InfoError(f"action profile {name!r} refers to table {table_id:#x}, which is not defined")
        if table_id in tables:
            allowed.update(tables[table_id].actions)
    return P4InfoActionProfile(message.preamble.id, name, message.max_group_size, frozenset(allowed))


def _counter(preamble: p4i.Preamble, spec: p4i.CounterSpec, size: int) -> P4InfoArray:
    unit = spec.unit
    if unit not in {p4i.CounterSpec.BYTES, p4i.CounterSpec.PACKETS, p4i.CounterSpec.BOTH}:
        raise P4InfoError(f"counter {preamble.name!r} has no valid unit")
    return P4InfoArray(
        preamble.id, preamble.name, size, packets=unit != p4i.CounterSpec.BYTES, bytes=unit != p4i.CounterSpec.PACKETS
    )


def _meter(preamble: p4i.Preamble, size: int) -> P4InfoArray:
    return P4InfoArray(preamble.id, preamble.name, size)


def _metadata(message: p4i.ControllerPacketMetadata) -> tuple[P4InfoField, ...]:
    owner = f"controller header {message.preamble.name!r}"
    return _fields(owner, (P4InfoField(m.id, m.name, m.bitwidth) for m in message.metadata))


def _digest(message: p4i.Digest, types: p4t.P4TypeInfo) -> Digest:
    name, spec = message.preamble.name, message.type_spec
    shape = spec.WhichOneof("type_spec")
    if shape not in {"struct", "tuple", "bitstring"}:
        raise P4InfoError(f"digest {name!r}: only structs, tuples and bit strings can be digested")
    if shape == "struct" and spec.struct.name not in types.structs:
        raise P4InfoError(f"digest {name!r}: struct {spec.struct.name!r} is not in the type information")
    return Digest(message.preamble.id, name, shape)


def _check_program(index: P4Index, program: p4.Program) -> None:
    compiled = program.tables
    for table in index.tables.values():
        if table.name not in compiled:
            raise P4InfoError(f"table {table.name!r} is not in the device configuration")
        _check_table(index, table, compiled[table.name])
    named: tuple[tuple[str, Iterable[P4InfoActionProfile | P4InfoArray | Digest], Iterable[str]], ...] = (
        ("action profile", index.profiles.values(), program.profiles),
        ("counter", index.counters.values(), _indirect(program.counters)),
        ("meter", index.meters.values(), _indirect(program.meters)),
        ("digest", index.digests.values(), {learn.name for learn in program.learn_lists.values()}),
    )
    for what, required, present in named:
        for item in required:
            if item.name not in present:
                raise P4InfoError(f"{what} {item.name!r} is not in the device configuration")


def _indirect(arrays: Mapping[str, p4.Counter | p4.Meter]) -> set[str]:
    return {name for name, array in arrays.items() if not array.direct}


def _check_table(index: P4Index, table: P4InfoTable, compiled: p4.Table) -> None:
    widths_of = {action.name: action.widths for action in compiled.actions}
    for action_id in table.actions:
        action = index.actions[action_id]
        widths = widths_of.get(action.name)
        if widths is None:
            raise P4InfoError(f"table {table.name!r} has no action {action.name!r} in the device configuration")
        if len(widths) != len(action.params):
            raise P4InfoError(f"action {action.name!r} has {len(widths)} parameters in the device configuration")
