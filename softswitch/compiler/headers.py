"""Code for operations on whole headers, stacks and unions (behavioral-model: headers.cpp, stacks.cpp, primitives)."""

from __future__ import annotations

from collections.abc import Callable

from mrclab.softswitch import program as p4
from mrclab.softswitch.compiler.block import Ex, constant
from mrclab.softswitch.compiler.flow import Body, Flow
from mrclab.softswitch.compiler.state import DIRTY, HeaderState, Known, Local, is_dirty
from mrclab.softswitch.runtime_api import PipelineError


class HeaderOps(Flow):
    """A flow that can add, remove, copy and shift headers."""

    track_length = False
    """Whether the program looks at the packet length in egress, so that adding and removing headers must adjust it."""

    # -- one header ---------------------------------------------------------------------------------------------------

    def for_element(self, index: Ex, headers: list[str], body: Callable[[str], None]) -> None:
        """Emit `body` for the header that `index` picks; nothing for an index out of range."""
        if index.value is not None:
            if 0 <= index.value < len(headers):
                body(headers[index.value])
            return

        def arm(header: str) -> Body:
            return lambda: body(header)

        self.chain([(f"{index.code} == {number}", arm(header)) for number, header in enumerate(headers)])

    def set_valid(self, header: str) -> None:
        """Emit setValid: a header that was not valid becomes valid with all fields zero."""
        valid = self.valid(header)

        def add() -> None:
            kind = self.program.headers[header].type
            zero: dict[str, Local | Known] = {f.name: Known(b"" if f.varbit else 0) for f in kind.fields}
            self._leave_union(header)
            self.state.replace(header, HeaderState(True, -1, 0, dict(zero)))
            if self.track_length:
                self.add_length(constant(kind.bits // 8))

        self.branch(Ex(f"not {valid.code}", 0, 1) if valid.value is None else constant(1 - valid.value), add)
        self.state.edit(header).valid = True

    def set_invalid(self, header: str) -> None:
        """Emit setInvalid; the fields keep their values, as in BMv2."""
        if self.track_length:
            self.branch(self.valid(header), lambda: self.add_length(self.length_bytes(header), sign="-"))
        self.state.edit(header).valid = False

    def mark_valid(self, header: str) -> None:
        """Note that a header was made valid; in a union its siblings become invalid."""
        self._leave_union(header)
        self.state.edit(header).valid = True

    def _leave_union(self, header: str) -> None:
        union = self.program.headers[header].union
        if union is not None:
            for sibling in self.program.unions[union].members.values():
                if sibling != header:
                    self.state.edit(sibling).valid = False

    def add_length(self, size: Ex, sign: str = "+") -> None:
        """Emit a change of the packet length that egress sees."""
        now = self.flag("length")
        code = f"{now.operand} {sign} {size.operand}"
        if now.value is not None and size.value is not None:
            self.set_flag("length", constant(now.value + (size.value if sign == "+" else -size.value)))
        else:
            self.set_flag("length", Ex(code, 0, 1 << 32))

    # -- copies -------------------------------------------------------------------------------------------------------

    def assign_header(self, target: str, source: str) -> None:
        """Emit a copy of a header with its validity."""
        if target == source:
            return

        def copy() -> None:
            kind = self.program.headers[target].type
            loaded = {f.name: self._copy_of(source, f) for f in kind.fields}
            self.mark_valid(target)
            info = self.state.replace(target, HeaderState(True, -1, self.state.headers[source].length))
            if info.length is None:
                self.line(f"{self.names.length(target)} = {self.names.length(source)}")
            for name, value in loaded.items():
                if isinstance(value, Known):
                    info.fields[name] = value
                else:
                    self.line(f"{self.names.field(target, name)} = {value}")
                    info.fields[name] = DIRTY

        def clear() -> None:
            self.state.edit(target).valid = False

        self.branch(self.valid(source), copy, clear)

    def _copy_of(self, source: str, field: p4.Field) -> Known | str:
        ref = p4.FieldRef(source, field.name)
        if field.varbit:
            return self.read_varbit(ref)
        ex = self.read(ref)
        return ex.code if ex.value is None else Known(ex.value)

    def swap_in(self, target: str, source: str | None) -> None:
        """Make `target` what `source` is now (for stack shifts): places are renamed, locals copied."""
        if source is None:
            self.state.replace(target, HeaderState(valid=False))
            return
        origin = self.state.headers[source]
        info = origin.copy()
        self.state.replace(target, info)
        names = self.names
        if info.valid is None:
            self.line(f"{names.valid(target)} = {names.valid(source)}")
        if info.offset is None:
            self.line(f"{names.offset(target)} = {names.offset(source)}")
        if info.length is None:
            self.line(f"{names.length(target)} = {names.length(source)}")
        for name, place in origin.fields.items():
            if isinstance(place, Local):
                self.line(f"{names.field(target, name)} = {names.field(source, name)}")

    # -- stacks -------------------------------------------------------------------------------------------------------

    def _members(self, element: str, union: bool) -> list[str]:
        return list(self.program.unions[element].members.values()) if union else [element]

    def assign_stack(self, target: str, source: str) -> None:
        """Emit a copy of a whole stack."""
        ours, theirs = self.program.stacks[target], self.program.stacks[source]
        known = self.state.next[source]
        self.state.next[target] = known
        if known is None:
            self.line(f"{self.names.next(target)} = {self.names.next(source)}")
        for mine, other in zip(ours.elements, theirs.elements, strict=True):
            self.assign_members(self._members(mine, ours.union), self._members(other, theirs.union))

    def assign_members(self, targets: list[str], sources: list[str]) -> None:
        """Emit copies of headers pairwise."""
        for target, source in zip(targets, sources, strict=True):
            self.assign_header(target, source)

    def push(self, name: str, count: int) -> None:
        """Emit push_front: elements move to the back, the new ones in front are invalid."""
        stack = self.program.stacks[name]
        size = len(stack.elements)
        for index in reversed(range(size)):
            source = stack.elements[index - count] if index >= count else None
            self._move(stack, stack.elements[index], source)
        self._set_next(name, lambda n: min(n + count, size), f"min({{}} + {count}, {size})")

    def pop(self, name: str, count: int) -> None:
        """Emit pop_front: elements move to the front, those at the back become invalid."""
        stack = self.program.stacks[name]
        size = len(stack.elements)
        for index in range(size):
            source = stack.elements[index + count] if index + count < size else None
            self._move(stack, stack.elements[index], source)
        self._set_next(name, lambda n: max(n - count, 0), f"max({{}} - {count}, 0)")

    def _move(self, stack: p4.Stack, target: str, source: str | None) -> None:
        targets = self._members(target, stack.union)
        sources = self._members(source, stack.union) if source is not None else [None] * len(targets)
        for one, other in zip(targets, sources, strict=True):
            if one != other:
                self.swap_in(one, other)

    def _set_next(self, name: str, compute: Callable[[int], int], code: str) -> None:
        known = self.state.next[name]
        if known is not None:
            self.state.next[name] = compute(known)
        else:
            local = self.names.next(name)
            self.line(f"{local} = {code.format(local)}")

    # -- comparison ---------------------------------------------------------------------------------------------------

    def _compare_headers(self, node: p4.Operation) -> Ex:
        if isinstance(node.left, p4.HeaderRef) and isinstance(node.right, p4.HeaderRef):
            pairs = [(node.left.name, node.right.name)]
        elif isinstance(node.left, p4.UnionRef) and isinstance(node.right, p4.UnionRef):
            unions = self.program.unions
            pairs = list(
                zip(unions[node.left.name].members.values(), unions[node.right.name].members.values(), strict=True)
            )
        else:
            raise PipelineError("comparison of a header with something else is not supported")
        code = " or ".join(f"({self._equal(a, b)})" for a, b in pairs)
        return Ex(code if node.op == "==" else f"not ({code})", 0, 1)

    def _equal(self, left: str, right: str) -> str:
        """Return code that is true where both are valid and all fields agree."""
        terms = [self.valid(left).code, self.valid(right).code]
        for field in self.program.headers[left].type.fields:
            a, b = p4.FieldRef(left, field.name), p4.FieldRef(right, field.name)
            if field.varbit:
                terms.append(f"{self.varbit_number(a)} == {self.varbit_number(b)}")
            else:
                terms.append(f"{self.read(a).code} == {self.read(b).code}")
        return " and ".join(terms)

    def dirty_fields(self, header: str) -> list[p4.Field]:
        """Return the fields of a header whose values the packet bytes do not have."""
        info = self.state.headers[header]
        return [f for f in self.program.headers[header].type.fields if is_dirty(info.place(f.name))]
