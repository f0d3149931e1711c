"""Code for reading and writing fields and for expressions."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TypeGuard

from mrclab.softswitch.compiler.analysis.state import (
    CLEAN,
    DIRTY,
    FLAGS,
    Conformer,
    Known,
    Local,
    Names,
    Place,
    SymbolicState,
)
from mrclab.softswitch.compiler.block import Block, IntExpr, bits, boolean, constant, saturate, wrap
from mrclab.softswitch.compiler.expressions.operators import arithmetic, comparison, unary
from mrclab.softswitch.objects.runtime_api import PipelineError
from mrclab.softswitch.p4 import program as p4

_COMPARE = {"==", "!=", ">", ">=", "<", "<="}


def padded(width: int) -> int:
    """Return the bits of a field in byte-padded keys."""
    return (width + 7) // 8 * 8


class Scope:
    """A place in the generated code: receives lines, knows facts, reads and writes fields.

    `params` are the expressions of the action's arguments while inside an action.
    """

    def __init__(self, program: p4.Program, names: Names, state: SymbolicState, block: Block) -> None:
        self.program = program
        self.names = names
        self.state = state
        self.block = block
        self.params: tuple[IntExpr, ...] = ()
        self.live: Callable[[str, str], bool] = lambda _header, _field: True
        self.is_read: Callable[[str, str], bool] = lambda _header, _field: True
        self.counter = itertools.count(1)
        self.conformer = Conformer(program, names, self._load_code)
        self.conformer.needed = self._needed

    # -- plumbing -----------------------------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        """Emit one line."""
        self.block.line(text)

    def temporary(self) -> str:
        """Return a new local's name."""
        return f"t{next(self.counter)}"

    def _needed(self, header: str, field: str, valid: bool | None) -> bool:
        """Return True if a field's value is needed later; that of an invalid header only where it is read."""
        return self.is_read(header, field) if valid is False else self.live(header, field)

    # -- headers' bookkeeping -----------------------------------------------------------------------------------------

    def valid(self, header: str) -> IntExpr:
        """Return the validity of a header."""
        known = self.state.headers[header].valid
        return boolean(self.names.valid(header), atom=True) if known is None else constant(int(known))

    def next_index(self, stack: str) -> IntExpr:
        """Return the first free index of a stack."""
        known = self.state.next[stack]
        if known is not None:
            return constant(known)
        return IntExpr(self.names.next(stack), 0, len(self.program.stacks[stack].elements), atom=True)

    def length_bytes(self, header: str) -> IntExpr:
        """Return a header's length on the wire in bytes."""
        kind = self.program.headers[header].type
        fixed = kind.bits // 8
        known = self.state.headers[header].length
        if known is not None:
            return constant(fixed + known)
        return IntExpr(f"{self.names.length(header)} + {fixed}", fixed, max(kind.max_bytes, fixed))

    def offset_code(self, header: str, byte: int, after_varbit: bool, state: SymbolicState | None = None) -> str:
        """Return the code for the position in `d` of a header's byte; behind the varbit its length is added."""
        info = (state or self.state).headers[header]
        parts = []
        if info.offset is None:
            parts.append(self.names.offset(header))
        else:
            byte += info.offset
        if after_varbit:
            if info.length is None:
                parts.append(self.names.length(header))
            else:
                byte += info.length
        if byte or not parts:
            parts.append(str(byte))
        return " + ".join(parts)

    # -- fields -------------------------------------------------------------------------------------------------------

    def read(self, ref: p4.FieldRef) -> IntExpr:
        """Return a field's value; load it from the packet bytes into its local first if needed."""
        if ref.name == "$valid$":
            return self.valid(ref.header)
        field = self.program.field(ref)
        place = self.state.headers[ref.header].place(ref.name)
        if isinstance(place, Known):
            assert isinstance(place.value, int)
            return constant(place.value)
        name = self._loaded(ref)
        return constant(0) if name is None else self.typed(name, field)

    def _loaded(self, ref: p4.FieldRef) -> str | None:
        """Return a field's local, loaded from the packet bytes if needed; None where the header never was in them."""
        info, name = self.state.headers[ref.header], self.names.field(ref.header, ref.name)
        if not isinstance(info.place(ref.name), Local):
            if info.offset == -1:
                return None
            self.line(f"{name} = {self._load_code(self.state, ref.header, ref.name)}")
            self.state.edit(ref.header).fields[ref.name] = CLEAN
        return name

    @staticmethod
    def typed(code: str, field: p4.Field) -> IntExpr:
        """Return the expression of a value of a field, whose code needs no parentheses."""
        if field.signed:
            half = 1 << (field.width - 1)
            return IntExpr(code, -half, half - 1, atom=True)
        return bits(code, field.width, atom=True)

    def unsigned(self, header: str, field: p4.Field) -> str:
        """Return the code of a field's bits as an unsigned number."""
        expr = self.read(p4.FieldRef(header, field.name))
        return f"({expr.code} & {(1 << field.width) - 1:#x})" if expr.low < 0 else expr.operand

    def read_varbit(self, ref: p4.FieldRef) -> str:
        """Return the code of a varbit field's bytes."""
        place = self.state.headers[ref.header].place(ref.name)
        return repr(place.value) if isinstance(place, Known) else self._loaded(ref) or "b''"

    def _load_code(self, state: SymbolicState, header: str, name: str) -> str:
        """Return the code that reads a field from the packet bytes."""
        kind = self.program.headers[header].type
        field = kind.field(name)
        info = state.headers[header]
        varbit = kind.varbit
        if field.varbit:
            start = self.offset_code(header, field.offset // 8, after_varbit=False, state=state)
            end = self.offset_code(header, field.offset // 8, after_varbit=True, state=state)
            code, zero = f"bytes(d[{start}:{end}])", "b''"
        else:
            after = varbit is not None and field.offset >= varbit.offset
            first, last = field.offset // 8, (field.offset + field.width - 1) // 8
            shift = (last + 1) * 8 - field.offset - field.width
            code = self.extract(
                lambda byte: self.offset_code(header, byte, after, state), first, last, shift, field.width
            )
            zero = "0"
            if field.signed:
                half = 1 << (field.width - 1)
                code = f"(({code}) ^ {half:#x}) - {half:#x}"
        return code if info.offset is not None else f"({code}) if {self.names.offset(header)} >= 0 else {zero}"

    @staticmethod
    def extract(at: Callable[[int], str], first: int, last: int, shift: int, width: int) -> str:
        """Return the code for `width` bits that end `shift` bits before the end of byte `last` of `d`."""
        if first == last:
            code = f"d[{at(first)}]"
        elif first + 1 == last:
            code = f"d[{at(first)}] << 8 | d[{at(last)}]"
            code = code if not shift and width == 16 else f"({code})"
        elif last + 1 - first in {4, 8}:
            code = f"take_{last + 1 - first}(d, {at(first)})[0]"
        elif last + 1 - first == 16:  # an address: a third cheaper than from a slice, which would be copied twice
            code = f"int_from(take_16(d, {at(first)})[0], 'big')"
        else:
            code = f"int_from(d[{at(first)}:{at(last + 1)}], 'big')"
        if shift:
            code = f"{code} >> {shift}"
        if width < (last - first + 1) * 8 - shift:
            code = f"({code}) & {(1 << width) - 1:#x}" if shift else f"{code} & {(1 << width) - 1:#x}"
        return code

    def write(self, ref: p4.FieldRef, expr: IntExpr) -> None:
        """Store a value in a field, cut to its width."""
        if ref.name == "$valid$":
            raise PipelineError(f"assignment to the validity of header {ref.header} is not supported")
        if not self.live(ref.header, ref.name):
            return
        field = self.program.field(ref)
        expr = saturate(expr, field.width, field.signed) if field.saturating else wrap(expr, field.width, field.signed)
        self._store(ref.header, ref.name, expr)

    def _store(self, header: str, name: str, expr: IntExpr) -> None:
        place: Place = DIRTY
        if expr.value is not None:
            place = Known(expr.value)
        else:
            local = self.names.field(header, name)
            if local != expr.code:
                self.line(f"{local} = {expr.code}")
        self.state.edit(header).fields[name] = place

    def flag(self, name: str) -> IntExpr:
        """Return a flag of the pseudo header that the end of a pipeline reads."""
        place = self.state.headers[FLAGS].place(name)
        if isinstance(place, Known):
            assert isinstance(place.value, int)
            return constant(place.value)
        return IntExpr(self.names.field(FLAGS, name), 0, 1 << 64, atom=True)

    def set_flag(self, name: str, expr: IntExpr) -> None:
        """Set such a flag."""
        self._store(FLAGS, name, expr)

    def hoisted(self, expr: IntExpr) -> IntExpr:
        """Return an expression that may be used twice: computed once unless it is just a name."""
        if expr.atom:
            return expr
        name = self.temporary()
        self.line(f"{name} = {expr.code}")
        return IntExpr(name, expr.low, expr.high, atom=True)

    # -- expressions --------------------------------------------------------------------------------------------------

    def expr(self, node: p4.Expr) -> IntExpr:  # noqa: PLR0911 - one case per kind
        """Return the code of an expression; emit the lines that it needs first."""
        if isinstance(node, p4.FieldRef):
            return self.read(node)
        if isinstance(node, p4.Const):
            return constant(node.value)
        if isinstance(node, p4.Param):
            return self.params[node.index]
        if isinstance(node, p4.Lookahead):
            return self.lookahead(node)
        if isinstance(node, p4.StackField):
            return self._stack_field(node)
        if isinstance(node, p4.RegisterRef):
            index = self.expr(node.index)
            return IntExpr(f"{self.register(node.array)}[{index.code}]", 0, 1 << 4096, atom=True)
        assert isinstance(node, p4.Operation)
        return self._operation(node)

    def register(self, name: str) -> str:
        """Return the Python name of a register array's cells."""
        return f"reg_{list(self.program.registers).index(name)}"

    def lookahead(self, node: p4.Lookahead) -> IntExpr:
        """Return bits ahead of the parser's cursor; the parser has checked that they exist."""
        first, last = node.offset // 8, (node.offset + node.width - 1) // 8
        shift = (last + 1) * 8 - node.offset - node.width
        known = self.state.position

        def at(byte: int) -> str:
            return str(known + byte) if known is not None else f"pos + {byte}"

        return bits(self.extract(at, first, last, shift, node.width), node.width)

    def choose(self, index: IntExpr, options: list[str], otherwise: str) -> str:
        """Return code that selects one of `options` by a run-time index."""
        if index.value is not None:
            return options[index.value] if 0 <= index.value < len(options) else otherwise
        index = self.hoisted(index)  # repeated per option it would double with each stack in an index
        code = otherwise
        for number in reversed(range(len(options))):
            code = f"{options[number]} if {index.code} == {number} else {code}"
        return f"({code})"

    def stack_headers(self, stack: str, member: str | None = None) -> list[str]:
        """Return the headers of a stack's elements, or of their `member` where they are unions."""
        elements = self.program.stacks[stack].elements
        return [e if member is None else self.program.unions[e].members[member] for e in elements]

    def last_element(self, node: p4.StackField) -> tuple[IntExpr, list[p4.FieldRef]]:
        """Return the index of the last element of a stack, -1 if there is none, and the field in each element."""
        refs = [p4.FieldRef(header, node.name) for header in self.stack_headers(node.stack, node.member)]
        return arithmetic("-", self.next_index(node.stack), constant(1)), refs

    def _stack_field(self, node: p4.StackField) -> IntExpr:
        """Return a field of the last element of a stack; 0 if the stack is empty."""
        index, refs = self.last_element(node)
        if index.value is not None:
            return self.read(refs[index.value]) if index.value >= 0 else constant(0)
        code = self.choose(index, [self.read(ref).code for ref in refs], "0")
        return self.typed(code, self.program.field(refs[0]))

    def element(self, node: p4.Expr) -> tuple[IntExpr, list[str]]:
        """Return index and header names of a header expression: one header, or an element selected at run time."""
        if isinstance(node, p4.HeaderRef):
            return constant(0), [node.name]
        assert isinstance(node, p4.Operation)
        if node.op == "access_union_header":
            assert node.left is not None
            index, unions = self.union_element(node.left)
            members = [list(self.program.unions[name].members.values())[node.number] for name in unions]
            return index, members
        return self._stack_element(node)

    def union_element(self, node: p4.Expr) -> tuple[IntExpr, list[str]]:
        """Return index and union names of a union expression."""
        if isinstance(node, p4.UnionRef):
            return constant(0), [node.name]
        return self._stack_element(node)

    def _stack_element(self, node: p4.Expr) -> tuple[IntExpr, list[str]]:
        assert isinstance(node, p4.Operation)
        assert isinstance(node.left, p4.StackRef)
        assert node.right is not None
        return self.hoisted(self.expr(node.right)), list(self.program.stacks[node.left.name].elements)

    def _operation(self, node: p4.Operation) -> IntExpr:  # noqa: PLR0911 - one case per operator
        op = node.op
        if op == "?":
            return self._ternary(node)
        if op == "valid":
            assert node.right is not None
            index, headers = self.element(node.right)
            return boolean(self.choose(index, [self.valid(h).code for h in headers], "False"), atom=True)
        if op == "valid_union":
            assert node.right is not None
            index, unions = self.union_element(node.right)
            return boolean(self.choose(index, [self._union_valid(u) for u in unions], "False"), atom=True)
        if op == "access_field":
            assert node.left is not None
            index, headers = self.element(node.left)
            fields = [self.program.headers[h].type.fields for h in headers]
            options = [self._member(h, f, node.number) for h, f in zip(headers, fields, strict=True)]
            if len(options) == 1 or index.value is not None:
                return options[index.value or 0]
            code = self.choose(index, [option.code for option in options], "0")
            return IntExpr(code, min(o.low for o in [*options, constant(0)]), max(o.high for o in options), atom=True)
        if op in {"last_stack_index", "size_stack"}:
            assert isinstance(node.right, p4.StackRef)
            index = self.next_index(node.right.name)
            return index if op == "size_stack" else arithmetic("-", index, constant(1))
        if op in {"==", "!="} and isinstance(node.left, p4.HeaderRef | p4.UnionRef):
            return self._compare_headers(node)
        if op in {"==", "!="} and self._is_varbit(node.left) and self._is_varbit(node.right):
            return boolean(f"{self.varbit_number(node.left)} {op} {self.varbit_number(node.right)}")
        right = self.expr(node.right) if node.right is not None else constant(0)
        left = self.expr(node.left) if node.left is not None else None
        if op in {"not", "~", "d2b", "b2d"} or left is None:
            return unary(op, right)
        if op in _COMPARE:
            return comparison(op, left, right)
        return arithmetic(op, left, right)

    def _is_varbit(self, node: p4.Expr | None) -> TypeGuard[p4.FieldRef]:
        return isinstance(node, p4.FieldRef) and node.name != "$valid$" and self.program.field(node).varbit

    def varbit_number(self, ref: p4.FieldRef) -> str:
        """Return the code of a varbit's value as BMv2 compares it: a number, regardless of its length."""
        return f"int_from({self.read_varbit(ref)}, 'big')"

    def _member(self, header: str, fields: tuple[p4.Field, ...], number: int) -> IntExpr:
        if number == len(fields):
            return self.valid(header)
        return self.read(p4.FieldRef(header, fields[number].name))

    def _union_valid(self, union: str) -> str:
        members = [self.valid(h) for h in self.program.unions[union].members.values()]
        if any(m.value == 1 for m in members):
            return "True"
        return "(" + (" or ".join(m.code for m in members if m.value is None) or "False") + ")"

    def _compare_headers(self, node: p4.Operation) -> IntExpr:
        """Return the comparison of two headers or unions."""
        if isinstance(node.left, p4.HeaderRef) and isinstance(node.right, p4.HeaderRef):
            pairs = [(node.left.name, node.right.name)]
        else:
            assert isinstance(node.left, p4.UnionRef)
            assert isinstance(node.right, p4.UnionRef)
            unions = self.program.unions
            pairs = list(
                zip(unions[node.left.name].members.values(), unions[node.right.name].members.values(), strict=True)
            )
        code = " or ".join(f"({self._equal(a, b)})" for a, b in pairs)
        return IntExpr(code if node.op == "==" else f"not ({code})", 0, 1)

    def _equal(self, left: str, right: str) -> str:
        """Return code that is true if both are valid and all fields are equal."""
        terms = [self.valid(left).code, self.valid(right).code]
        for field in self.program.headers[left].type.fields:
            a, b = p4.FieldRef(left, field.name), p4.FieldRef(right, field.name)
            if field.varbit:
                terms.append(f"{self.varbit_number(a)} == {self.varbit_number(b)}")
            else:
                terms.append(f"{self.read(a).code} == {self.read(b).code}")
        return " and ".join(terms)

    def _ternary(self, node: p4.Operation) -> IntExpr:
        assert node.cond is not None
        assert node.left is not None
        assert node.right is not None
        cond = self.expr(node.cond)
        left, right = self.expr(node.left), self.expr(node.right)
        if cond.value is not None:
            return left if cond.value else right
        low, high = min(left.low, right.low), max(left.high, right.high)
        return IntExpr(f"{left.operand} if {cond.operand} else {right.operand}", low, high)
