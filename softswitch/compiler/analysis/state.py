"""Facts about a packet at one point of the generated code, and merging of the facts of two points.

A field is in one of three places: in the packet bytes, in a Python local (dirty if it differs from the bytes), or it
is a known constant. A header's validity and offset are known or in a local. `join` returns the state that two
branches can both be converted to, `conform` emits the assignments that do so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from mrclab.softswitch.compiler.block import Block
from mrclab.softswitch.p4 import program as p4
from mrclab.softswitch.p4.layout import UNCUT


@dataclass(frozen=True)
class Local:
    """The value is in the field's local; `dirty` if the packet bytes do not have it."""

    dirty: bool


@dataclass(frozen=True)
class Known:
    """The value is this constant, without a local; `dirty` if the packet bytes do not have it."""

    value: int | bytes
    dirty: bool = True


@dataclass(frozen=True)
class Unread:
    """The value is in the packet bytes."""


Place = Local | Known | Unread

UNREAD = Unread()
CLEAN = Local(dirty=False)
DIRTY = Local(dirty=True)


@dataclass
class HeaderState:
    """One header: validity, byte offset and varbit length (each known, or None: in a local), and its fields.

    `offset` is -1 where the header was never in the packet bytes. Fields of an invalid header keep their values, as in
    BMv2; those of one that never was valid are 0.
    """

    valid: bool | None = False
    offset: int | None = -1
    length: int | None = 0
    fields: dict[str, Place] = field(default_factory=dict)

    def place(self, name: str) -> Place:
        """Return the place of a field."""
        return self.fields.get(name, UNREAD)

    def copy(self) -> HeaderState:
        """Return an independent copy."""
        return HeaderState(self.valid, self.offset, self.length, dict(self.fields))


@dataclass
class SymbolicState:
    """The whole packet. `position` is the parser's cursor in bytes, `next` the first free element of each stack.

    Copies share their header states until `edit` of one.
    """

    headers: dict[str, HeaderState]
    next: dict[str, int | None]
    position: int | None = 0
    dead: bool = False
    own: set[str] = field(default_factory=set, compare=False, repr=False)  # headers whose state is no other copy's

    def copy(self) -> SymbolicState:
        """Return an independent copy."""
        self.own.clear()
        return SymbolicState(dict(self.headers), dict(self.next), self.position, self.dead)

    def edit(self, name: str) -> HeaderState:
        """Return a header's state for changing."""
        if name not in self.own:
            self.headers[name] = self.headers[name].copy()
            self.own.add(name)
        return self.headers[name]

    def replace(self, name: str, info: HeaderState) -> HeaderState:
        """Set a header's state and return it."""
        self.headers[name] = info
        self.own.add(name)
        return info


class Names:
    """Python names for everything of a program: fields, validities, offsets, lengths, stack positions.

    They are numbers in the order of first use; nothing of the program's own names is in them.
    """

    def __init__(self) -> None:
        self._given: dict[tuple[str, str, str], str] = {}

    def _name(self, kind: str, owner: str, name: str = "") -> str:
        return self._given.setdefault((kind, owner, name), f"{kind}_{len(self._given)}")

    def field(self, header: str, name: str) -> str:
        """Return the local of a field."""
        return self._name("f", header, name)

    def valid(self, header: str) -> str:
        """Return the local of a header's validity."""
        return self._name("valid", header)

    def offset(self, header: str) -> str:
        """Return the local of a header's byte offset."""
        return self._name("at", header)

    def length(self, header: str) -> str:
        """Return the local of a header's varbit length in bytes."""
        return self._name("len", header)

    def next(self, stack: str) -> str:
        """Return the local of a stack's first free index."""
        return self._name("next", stack)


def initial(program: p4.Program, extra: Iterable[str] = ()) -> SymbolicState:
    """Return the state of a packet that was not parsed: no header valid, all metadata zero."""
    headers: dict[str, HeaderState] = {}
    for header in program.headers.values():
        if header.metadata:
            zero: dict[str, Place] = {f.name: Known(0) for f in header.type.fields}
            headers[header.name] = HeaderState(True, -1, 0, zero)
        else:
            headers[header.name] = HeaderState()
    headers[FLAGS] = HeaderState(True, -1, 0, {name: Known(UNCUT if name == "truncate" else 0) for name in extra})
    return SymbolicState(headers, dict.fromkeys(program.stacks, 0))


FLAGS = "$"
"""Pseudo header for the effects of primitives at the end of the pipeline: truncation, clones, digests…"""


# -- where branches meet ----------------------------------------------------------------------------------------------


def join(states: Iterable[SymbolicState]) -> SymbolicState:
    """Return the state that all of `states` can be converted to; dead ones (ended branches) do not count."""
    living = [state for state in states if not state.dead]
    if not living:
        return SymbolicState({}, {}, None, dead=True)
    result = living[0].copy()
    for other in living[1:]:
        _join_into(result, other)
    return result


def _join_into(result: SymbolicState, other: SymbolicState) -> None:
    for name, mine in result.headers.items():
        theirs = other.headers[name]
        if mine is not theirs and mine != theirs:
            result.headers[name] = _join_header(mine, theirs)
            result.own.add(name)
    for stack, position in result.next.items():
        if other.next[stack] != position:
            result.next[stack] = None
    if result.position != other.position:
        result.position = None


def _join_header(a: HeaderState, b: HeaderState) -> HeaderState:
    names = a.fields.keys() | b.fields.keys()
    fields = {name: _join_place(a.place(name), b.place(name)) for name in sorted(names)}
    return HeaderState(
        a.valid if a.valid == b.valid else None,
        a.offset if a.offset == b.offset else None,
        a.length if a.length == b.length else None,
        {name: place for name, place in fields.items() if place != UNREAD},
    )


def _join_place(a: Place, b: Place) -> Place:
    if a == b:
        return a
    return DIRTY if is_dirty(a) or is_dirty(b) else UNREAD


def is_dirty(place: Place) -> bool:
    """Return True if the packet bytes lack the value."""
    return isinstance(place, Local | Known) and place.dirty


class Conformer:
    """Emits the conversion of a state to a joined one. `load` returns the code that reads a field from the bytes."""

    def __init__(self, program: p4.Program, names: Names, load: Callable[[SymbolicState, str, str], str]) -> None:
        self.program = program
        self.names = names
        self.load = load
        self.needed: Callable[[str, str, bool | None], bool] = lambda _header, _field, _valid: True

    def conform(self, block: Block, source: SymbolicState, target: SymbolicState) -> None:
        """Append to `block` the assignments that bring `source` to `target`."""
        if source.dead:
            return
        for name, expected in target.headers.items():
            have = source.headers[name]
            if have is not expected and have != expected:
                self._header(block, source, name, have, expected)
        for stack, position in target.next.items():
            if position is None and source.next[stack] is not None:
                block.line(f"{self.names.next(stack)} = {source.next[stack]}")
        if target.position is None and source.position is not None:
            block.line(f"pos = {source.position}")

    def _header(self, block: Block, source: SymbolicState, name: str, have: HeaderState, expected: HeaderState) -> None:
        if expected.offset is None and have.offset is not None:
            block.line(f"{self.names.offset(name)} = {have.offset}")
        if expected.length is None and have.length is not None:
            block.line(f"{self.names.length(name)} = {have.length}")
        for field_name, place in expected.fields.items():
            kept = not isinstance(place, Local) or isinstance(have.place(field_name), Local)
            if not kept and self.needed(name, field_name, expected.valid):
                local = self.names.field(name, field_name)
                block.line(f"{local} = {self._value(source, name, field_name, have)}")
        if expected.valid is None and have.valid is not None:
            block.line(f"{self.names.valid(name)} = {have.valid}")

    def _value(self, source: SymbolicState, header: str, field_name: str, have: HeaderState) -> str:
        place = have.place(field_name)
        if isinstance(place, Known):
            return repr(place.value)
        if have.offset == -1:
            return self._zero_literal(header, field_name)
        return self.load(source, header, field_name)

    def _zero_literal(self, header: str, field_name: str) -> str:
        return "b''" if self.program.headers[header].type.field(field_name).varbit else "0"
