"""Code for operations on whole headers, stacks and unions (behavioral-model: headers.cpp, stacks.cpp, primitives)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from mrclab.softswitch.compiler.analysis.state import DIRTY, HeaderState, Known, Local, is_dirty
from mrclab.softswitch.compiler.block import IntExpr, constant
from mrclab.softswitch.compiler.expressions.operators import arithmetic, unary
from mrclab.softswitch.compiler.flow import BranchScope
from mrclab.softswitch.p4 import program as p4

T = TypeVar("T")


class HeaderOps:
    """Adds, removes, copies and shifts headers where `at` is.

    `track_length`: the program looks at the packet length in egress; adding and removing headers must then adjust it.
    """

    def __init__(self, at: BranchScope, track_length: bool = False) -> None:
        self.at = at
        self.program = at.program
        self.track_length = track_length

    # -- one header ---------------------------------------------------------------------------------------------------

    def for_element(self, index: IntExpr, elements: list[T], body: Callable[[T], None]) -> None:
        """Emit `body` for the header or field that `index` picks; nothing for an index out of range."""
        if index.value is not None:
            if 0 <= index.value < len(elements):
                body(elements[index.value])
            return
        self.at.chain([(f"{index.code} == {number}", partial(body, one)) for number, one in enumerate(elements)])

    def set_valid(self, header: str) -> None:
        """Emit setValid: a header that was not valid becomes valid with all fields zero."""
        valid = self.at.valid(header)

        def add() -> None:
            kind = self.program.headers[header].type
            zero: dict[str, Local | Known] = {f.name: Known(b"" if f.varbit else 0) for f in kind.fields}
            self._leave_union(header)
            self.at.state.replace(header, HeaderState(True, -1, 0, dict(zero)))
            if self.track_length:
                self.add_length(constant(kind.bits // 8))

        self.at.branch(unary("not", valid), add)
        self.at.state.edit(header).valid = True

    def set_invalid(self, header: str) -> None:
        """Emit setInvalid; the fields keep their values, as in BMv2."""
        if self.track_length:
            self.at.branch(self.at.valid(header), lambda: self.add_length(self.at.length_bytes(header), sign="-"))
        self.at.state.edit(header).valid = False

    def mark_valid(self, header: str) -> None:
        """Note that a header was made valid; in a union its members become invalid."""
        self._leave_union(header)
        self.at.state.edit(header).valid = True

    def _leave_union(self, header: str) -> None:
        union = self.program.headers[header].union
        if union is not None:
            for member in self.program.unions[union].members.values():
                if member != header:
                    self.at.state.edit(member).valid = False

    def add_length(self, size: IntExpr, sign: str = "+") -> None:
        """Emit a change of the packet length that egress sees."""
        self.at.set_flag("length", arithmetic(sign, self.at.flag("length"), size))

    # -- copies -------------------------------------------------------------------------------------------------------

    def assign_header(self, target: str, source: str) -> None:
        """Emit a copy of a header with its validity."""
        if target == source:
            return

        def copy() -> None:
            kind = self.program.headers[target].type
            loaded = {f.name: self._copy_of(source, f) for f in kind.fields}
            self.mark_valid(target)
            info = self.at.state.replace(target, HeaderState(True, -1, self.at.state.headers[source].length))
            if info.length is None:
                self.at.line(f"{self.at.names.length(target)} = {self.at.names.length(source)}")
            for name, value in loaded.items():
                if isinstance(value, Known):
                    info.fields[name] = value
                else:
                    self.at.line(f"{self.at.names.field(target, name)} = {value}")
                    info.fields[name] = DIRTY

        def clear() -> None:
            self.at.state.edit(target).valid = False

        self.at.branch(self.at.valid(source), copy, clear)

    def _copy_of(self, source: str, field: p4.Field) -> Known | str:
        ref = p4.FieldRef(source, field.name)
        if field.varbit:
            return self.at.read_varbit(ref)
        expr = self.at.read(ref)
        return expr.code if expr.value is None else Known(expr.value)

    def swap_in(self, target: str, source: str | None) -> None:
        """Copy `source` to `target` (for stack shifts): places are renamed, locals copied."""
        if source is None:
            self.at.state.replace(target, HeaderState(valid=False))
            return
        origin = self.at.state.headers[source]
        info = origin.copy()
        self.at.state.replace(target, info)
        names = self.at.names
        if info.valid is None:
            self.at.line(f"{names.valid(target)} = {names.valid(source)}")
        if info.offset is None:
            self.at.line(f"{names.offset(target)} = {names.offset(source)}")
        if info.length is None:
            self.at.line(f"{names.length(target)} = {names.length(source)}")
        for name, place in origin.fields.items():
            if isinstance(place, Local):
                self.at.line(f"{names.field(target, name)} = {names.field(source, name)}")

    # -- stacks -------------------------------------------------------------------------------------------------------

    def _members(self, element: str, union: bool) -> list[str]:
        return list(self.program.unions[element].members.values()) if union else [element]

    def assign_stack(self, target: str, source: str) -> None:
        """Emit a copy of a whole stack."""
        ours, theirs = self.program.stacks[target], self.program.stacks[source]
        known = self.at.state.next[source]
        self.at.state.next[target] = known
        if known is None:
            self.at.line(f"{self.at.names.next(target)} = {self.at.names.next(source)}")
        for mine, other in zip(ours.elements, theirs.elements, strict=True):
            self.assign_members(self._members(mine, ours.union), self._members(other, theirs.union))

    def assign_members(self, targets: list[str], sources: list[str]) -> None:
        """Emit copies of headers pairwise."""
        for target, source in zip(targets, sources, strict=True):
            self.assign_header(target, source)

    def shift(self, name: str, count: int) -> None:
        """Emit push_front or, with a negative count, pop_front: elements move; those without a source are invalid."""
        stack = self.program.stacks[name]
        size = len(stack.elements)
        order = range(size) if count < 0 else reversed(range(size))
        for index in order:
            source = stack.elements[index - count] if 0 <= index - count < size else None
            self._move(stack, stack.elements[index], source)
        known = self.at.state.next[name]
        if known is not None:
            self.at.state.next[name] = min(max(known + count, 0), size)
        else:
            local = self.at.names.next(name)
            self.at.line(f"{local} = min(max({local} + {count}, 0), {size})")

    def _move(self, stack: p4.Stack, target: str, source: str | None) -> None:
        targets = self._members(target, stack.union)
        sources = self._members(source, stack.union) if source is not None else [None] * len(targets)
        for one, other in zip(targets, sources, strict=True):
            if one != other:
                self.swap_in(one, other)

    def dirty_fields(self, header: str) -> list[p4.Field]:
        """Return the fields of a header whose values the packet bytes do not have."""
        info = self.at.state.headers[header]
        return [f for f in self.program.headers[header].type.fields if is_dirty(info.place(f.name))]
