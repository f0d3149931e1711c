"""The loaded program: BMv2 JSON as typed values. `bmv2json` builds it, `compiler` turns it into Python.

Names are those of the JSON. Widths are in bits. `where` is the P4 source position, for messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

# -- expressions ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FieldRef:
    """A field of a header or metadata instance; `name` may be `$valid$`."""

    header: str
    name: str


@dataclass(frozen=True)
class Const:
    """An integer; true is 1."""

    value: int


@dataclass(frozen=True)
class HeaderRef:
    """A header instance."""

    name: str


@dataclass(frozen=True)
class StackRef:
    """A header stack, or with `union` a stack of header unions."""

    name: str
    union: bool = False


@dataclass(frozen=True)
class UnionRef:
    """A header union instance."""

    name: str


@dataclass(frozen=True)
class StackField:
    """A field of the last element of a stack; `member` is set for union stacks."""

    stack: str
    name: str
    member: str | None = None


@dataclass(frozen=True)
class Param:
    """An action parameter, by position."""

    index: int


@dataclass(frozen=True)
class Lookahead:
    """Bits ahead of the parser's cursor."""

    offset: int
    width: int


@dataclass(frozen=True)
class RegisterRef:
    """One register cell, by constant or computed index."""

    array: str
    index: Expr


@dataclass(frozen=True)
class Operation:
    """An operator with its operands; `left` is None for unary ones, `cond` only for `?`."""

    op: str
    left: Expr | None
    right: Expr | None
    cond: Expr | None = None
    number: int = 0  # field or member number of access_field and access_union_header


@dataclass(frozen=True)
class Named:
    """A reference to a counter, meter, register array, calculation or a plain string, by `kind`."""

    kind: str
    name: str


@dataclass(frozen=True)
class Vector:
    """A list of arguments: parameters_vector or field_list."""

    items: tuple[Expr, ...]


Expr = (
    FieldRef
    | Const
    | HeaderRef
    | StackRef
    | UnionRef
    | StackField
    | Param
    | Lookahead
    | RegisterRef
    | Operation
    | Named
    | Vector
)


def parts_of(node: object) -> Iterator[object]:
    """Yield the operands, items or index of an expression; nothing for one without such parts."""
    if isinstance(node, Operation):
        yield from (node.left, node.right, node.cond)
    elif isinstance(node, Vector):
        yield from node.items
    elif isinstance(node, RegisterRef):
        yield node.index


# -- headers ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Field:
    """A field: its width in bits (0 for varbit), signedness, and bit offset from the start of the header.

    Behind a varbit the offset counts the varbit as empty.
    """

    name: str
    width: int
    signed: bool
    saturating: bool
    offset: int
    varbit: bool = False


@dataclass(frozen=True)
class HeaderType:
    """A header type; `bits` is its width without varbit, `max_bytes` the longest form of one with varbit."""

    name: str
    fields: tuple[Field, ...]
    bits: int
    max_bytes: int = 0
    p4_14: bool = False  # the varbit's length is an expression over the header's own fields

    @property
    def varbit(self) -> Field | None:
        """The variable-length field, if any."""
        return next((f for f in self.fields if f.varbit), None)

    @cached_property
    def _by_name(self) -> dict[str, Field]:
        return {f.name: f for f in self.fields}

    def has(self, name: str) -> bool:
        """Return whether there is a field called `name`."""
        return name in self._by_name

    def field(self, name: str) -> Field:
        """Return the field called `name`."""
        return self._by_name[name]


@dataclass(frozen=True)
class Header:
    """A header or metadata instance."""

    name: str
    type: HeaderType
    metadata: bool
    union: str | None = None


@dataclass(frozen=True)
class Stack:
    """A header stack (elements are header names) or union stack (elements are union names)."""

    name: str
    elements: tuple[str, ...]
    union: bool = False


@dataclass(frozen=True)
class Union:
    """A header union: member name -> header instance name, in declaration order."""

    name: str
    members: dict[str, str]


# -- behaviour --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Primitive:
    """One primitive call of an action or parser state."""

    op: str
    args: tuple[Expr, ...]
    where: str
    fragment: str = ""

    @property
    def message(self) -> str | None:
        """Return the message of the call when it runs: the text of log_msg, or the failed assert or assume."""
        if self.op == "log_msg" and isinstance(self.args[0], Named):
            return self.args[0].name
        return f"{self.op} failed{self.where}: {self.fragment}" if self.op in {"assert", "assume"} else None


@dataclass(frozen=True)
class Action:
    """An action: parameter (name, width) pairs and primitives; `id` is its position in the program."""

    id: int
    name: str
    params: tuple[tuple[str, int], ...]
    primitives: tuple[Primitive, ...]

    @property
    def widths(self) -> tuple[int, ...]:
        """Widths of the parameters in bits."""
        return tuple(width for _, width in self.params)


@dataclass(frozen=True)
class ParserOp:
    """One parser operation: extract, extract_VL, set, verify, shift, advance or primitive."""

    op: str
    args: tuple[Expr, ...]
    where: str
    call: Primitive | None = None


@dataclass(frozen=True)
class Transition:
    """A case of a select: value and mask over the byte-padded key, a value set's name, or neither (default)."""

    next_state: str | None
    value: int | None = None
    mask: int | None = None
    value_set: str | None = None


@dataclass(frozen=True)
class ParserState:
    """A parser state; `key` has each key expression with its width."""

    name: str
    ops: tuple[ParserOp, ...]
    key: tuple[tuple[Expr, int], ...]
    transitions: tuple[Transition, ...]
    where: str = ""


@dataclass(frozen=True)
class TableKey:
    """One key field of a table; `mask` is a static mask over the field. The validity of a header is matched exactly."""

    name: str
    width: int
    kind: str
    target: FieldRef
    mask: int | None = None


@dataclass(frozen=True)
class ConstEntry:
    """A const entry as in the JSON: match values in key order, smaller `priority` wins."""

    match: tuple[int | tuple[int, int] | None, ...]
    action_id: int
    data: tuple[int, ...]
    priority: int


@dataclass(frozen=True)
class Table:
    """A match-action table. `next` maps action ids, or "hit" and "miss", to node names."""

    name: str
    key: tuple[TableKey, ...]
    size: int
    actions: tuple[Action, ...]
    next: dict[int | str, str | None]
    base_default_next: str | None
    with_counters: bool
    support_timeout: bool
    direct_meter: str | None
    profile: str | None
    selector: bool
    default_action: int | None
    default_data: tuple[int, ...]
    const_default_action: bool
    const_default_entry: bool
    entries: tuple[ConstEntry, ...] | None

    @property
    def has_priority(self) -> bool:
        """True if entries are ordered by priority."""
        return any(key.kind in {"ternary", "range", "optional"} for key in self.key)


@dataclass(frozen=True)
class ActionProfile:
    """An action profile; with `algorithm` an action selector that hashes `inputs`."""

    name: str
    max_size: int
    algorithm: str | None
    inputs: tuple[Expr, ...]


@dataclass(frozen=True)
class Conditional:
    """A branch of the control flow."""

    name: str
    condition: Expr
    true_next: str | None
    false_next: str | None


@dataclass(frozen=True)
class ActionCallNode:
    """A direct call of an action without parameters."""

    name: str
    action_id: int
    next_node: str | None


Node = Table | Conditional | ActionCallNode


@dataclass(frozen=True)
class Pipeline:
    """ingress or egress: a directed graph of nodes."""

    name: str
    first: str | None
    nodes: dict[str, Node]


@dataclass(frozen=True)
class Calculation:
    """A hash or checksum over fields, constants and headers; `payload` appends the payload."""

    name: str
    algorithm: str
    inputs: tuple[tuple[Expr, int], ...]  # with width in bits
    payload: bool


@dataclass(frozen=True)
class Checksum:
    """A checksum field and the calculation that fills or verifies it, under a condition."""

    name: str
    target: FieldRef
    calculation: str
    update: bool
    verify: bool
    condition: Expr | None


@dataclass(frozen=True)
class Meter:
    """A meter array; direct ones name the field the colour goes to."""

    name: str
    size: int
    packets: bool
    direct: bool
    target: FieldRef | None


@dataclass(frozen=True)
class Counter:
    """A counter array."""

    name: str
    size: int
    direct: bool


@dataclass(frozen=True)
class Register:
    """A register array."""

    name: str
    size: int
    width: int
    signed: bool = False


@dataclass(frozen=True)
class LearnList:
    """A digest: its number (from 1 on, by position), control-plane name and fields with their widths."""

    id: int
    name: str
    fields: tuple[tuple[Expr, int], ...]


@dataclass
class Program:
    """Contents of the JSON, indexed by name; actions by position, digests and field lists by position from 1 on.

    `texts`: messages of the running program, each with the number by which generated code calls it.
    """

    headers: dict[str, Header] = field(default_factory=dict)
    stacks: dict[str, Stack] = field(default_factory=dict)
    unions: dict[str, Union] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)
    parser_start: str | None = None
    states: dict[str, ParserState] = field(default_factory=dict)
    value_sets: dict[str, int] = field(default_factory=dict)
    deparser: tuple[str, ...] = ()
    deparser_calls: tuple[Primitive, ...] = ()
    actions: dict[int, Action] = field(default_factory=dict)
    pipelines: dict[str, Pipeline] = field(default_factory=dict)
    profiles: dict[str, ActionProfile] = field(default_factory=dict)
    calculations: dict[str, Calculation] = field(default_factory=dict)
    checksums: tuple[Checksum, ...] = ()
    meters: dict[str, Meter] = field(default_factory=dict)
    counters: dict[str, Counter] = field(default_factory=dict)
    registers: dict[str, Register] = field(default_factory=dict)
    learn_lists: dict[int, LearnList] = field(default_factory=dict)
    field_lists: dict[int, tuple[FieldRef, ...]] = field(default_factory=dict)
    aliases: dict[tuple[str, str], FieldRef] = field(default_factory=dict)
    texts: dict[str, int] = field(default_factory=dict)

    def add_text(self, text: str) -> None:
        """Give a text its number."""
        self.texts.setdefault(text, len(self.texts))

    @property
    def tables(self) -> dict[str, Table]:
        """All tables of all pipelines by name."""
        return {n.name: n for p in self.pipelines.values() for n in p.nodes.values() if isinstance(n, Table)}

    def primitives(self) -> Iterator[Primitive]:
        """Return every primitive call."""
        for action in self.actions.values():
            yield from action.primitives
        for state in self.states.values():
            for op in state.ops:
                if op.call is not None:
                    yield op.call
        yield from self.deparser_calls

    def mentioned(self, node: Expr | None) -> set[str]:
        """Return the header instances that an expression of a header, union or stack can mean."""
        if isinstance(node, HeaderRef):
            return {node.name}
        if isinstance(node, UnionRef):
            return set(self.unions[node.name].members.values())
        if isinstance(node, StackRef):
            stack = self.stacks[node.name]
            if not stack.union:
                return set(stack.elements)
            return {header for union in stack.elements for header in self.unions[union].members.values()}
        if isinstance(node, Operation):
            return self.mentioned(node.left)
        return set()

    def field(self, ref: FieldRef) -> Field:
        """Return the field that `ref` names."""
        return self.headers[ref.header].type.field(ref.name)

    def standard(self, header: str, name: str) -> FieldRef | None:
        """Return the location of a target field such as standard_metadata.egress_spec; None if the program lacks it."""
        alias = self.aliases.get((header, name))
        if alias is not None:
            return alias
        instance = self.headers.get(header)
        if instance is not None and instance.type.has(name):
            return FieldRef(header, name)
        return None
