"""Kinds of expressions, and the operand kinds of each operator, primitive and parser operation: P4's types.

The compiler can rely on a program that passes: operands are there, of the right kind and of the same shape, and
indices are within declared sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from mrclab.softswitch.objects.runtime_api import PipelineError
from mrclab.softswitch.p4 import program as p4

NUMBER, VARBIT, HEADER, UNION, STACK, UNION_STACK = "number", "varbit", "header", "union", "stack", "union stack"
TARGET, CONST, LIST, NUMBERS = "l-value", "constant", "list number", "list of numbers"
COUNTER, METER, REGISTER, CALCULATION, TEXT = "counter", "meter", "register", "calculation", "string"
HEADER_TARGET, ANY_STACK, ANYTHING = "header to extract", "any stack", "anything"

PRIMITIVES: dict[str, tuple[str, ...]] = {
    "assign": (TARGET, NUMBER), "modify_field": (TARGET, NUMBER),
    "add_to_field": (TARGET, NUMBER), "subtract_from_field": (TARGET, NUMBER),
    "add": (TARGET, NUMBER, NUMBER), "subtract": (TARGET, NUMBER, NUMBER),
    "bit_xor": (TARGET, NUMBER, NUMBER), "bit_or": (TARGET, NUMBER, NUMBER), "bit_and": (TARGET, NUMBER, NUMBER),
    "shift_left": (TARGET, NUMBER, NUMBER), "shift_right": (TARGET, NUMBER, NUMBER),
    "assign_VL": (VARBIT, VARBIT),
    "assign_header": (HEADER, HEADER), "copy_header": (HEADER, HEADER),
    "assign_union": (UNION, UNION),
    "assign_header_stack": (STACK, STACK), "assign_union_stack": (UNION_STACK, UNION_STACK),
    "push": (ANY_STACK, CONST), "pop": (ANY_STACK, CONST),
    "add_header": (HEADER,), "add_header_fast": (HEADER,), "remove_header": (HEADER,),
    "mark_to_drop": (HEADER,), "drop": (), "exit": (), "no_op": (),
    "truncate": (NUMBER,),
    "clone_ingress_pkt_to_egress": (NUMBER, LIST), "clone_egress_pkt_to_egress": (NUMBER, LIST),
    "resubmit": (LIST,), "recirculate": (LIST,),
    "generate_digest": (NUMBER, LIST),
    "count": (COUNTER, NUMBER), "execute_meter": (METER, NUMBER, TARGET),
    "register_read": (TARGET, REGISTER, NUMBER), "register_write": (REGISTER, NUMBER, NUMBER),
    "modify_field_rng_uniform": (TARGET, NUMBER, NUMBER),
    "modify_field_with_hash_based_offset": (TARGET, NUMBER, CALCULATION, NUMBER),
    "log_msg": (TEXT, NUMBERS), "assert": (NUMBER,), "assume": (NUMBER,),
    "_jump": (CONST,), "_jump_if_zero": (NUMBER, CONST),
}  # fmt: skip
"""Parameters of each primitive."""

_LAST_IS_OPTIONAL = {"mark_to_drop", "log_msg"}

_PARSER_OPS: dict[str, tuple[str, ...]] = {
    "extract": (HEADER_TARGET,), "extract_VL": (HEADER_TARGET, NUMBER),
    "verify": (NUMBER, NUMBER), "advance": (NUMBER,),
}  # fmt: skip

OPERATORS: dict[str, tuple[str, ...]] = {
    "?": (NUMBER, NUMBER, NUMBER),
    **dict.fromkeys(("+", "-", "*", "/", "%", "<<", ">>", "&", "|", "^"), (NUMBER, NUMBER)),
    **dict.fromkeys((">", ">=", "<", "<=", "and", "or"), (NUMBER, NUMBER)),
    **dict.fromkeys(("two_comp_mod", "sat_cast", "usat_cast"), (NUMBER, NUMBER)),
    **dict.fromkeys(("~", "not", "d2b", "b2d"), (NUMBER,)),
    **dict.fromkeys(("==", "!="), (ANYTHING, ANYTHING)),
    "valid": (HEADER,), "valid_union": (UNION,),
    **dict.fromkeys(("last_stack_index", "size_stack"), (ANY_STACK,)),
    **dict.fromkeys(("dereference_header_stack", "dereference_stack"), (STACK, NUMBER)),
    "dereference_union_stack": (UNION_STACK, NUMBER),
}  # fmt: skip
"""Operands of each operator, the last being the right one; + and - also have one operand.

The result of a dereference is the stack's element, of any other a number.
"""
_PLACES = ("condition", "left operand", "right operand")
_CASTS = {"two_comp_mod", "sat_cast", "usat_cast"}
SHIFTS = {"<<", ">>"}
WIDEST_CAST = 1 << 12
MAX_ELEMENTS = 1 << 10
"""Most elements that a stack is shifted by."""


class ExprKind(NamedTuple):
    """Kind of an expression; `shape`: of a header its fields, of a union those of each member, of a stack its length
    and its elements' kind. Things of one kind can be copied and compared.
    """

    name: str
    shape: tuple[Any, ...] = ()


class ExpressionKinds:
    """The kinds of a program's expressions. Everything raises PipelineError."""

    def __init__(self, program: p4.Program) -> None:
        self.program = program
        self._params = 0
        self._ahead = False

    # -- checks -------------------------------------------------------------------------------------------------------

    def need_number(self, expr: p4.Expr, params: int, ahead: bool) -> None:
        """Refuse an expression that is not a number, given `params` arguments and, with `ahead`, lookahead."""
        self._params, self._ahead = params, ahead
        self._need(expr, NUMBER)

    def need_primitive(self, call: p4.Primitive, params: int, ahead: bool) -> None:
        """Refuse a call that the primitive does not take."""
        self._params, self._ahead = params, ahead
        expected = PRIMITIVES.get(call.op)
        if expected is None:
            raise PipelineError(f"primitive {call.op}: not supported")
        self._arguments(call.op, call.args, expected, call.where)
        if call.op.startswith(("assign_", "copy_")) and call.op != "assign_VL":
            target, source = call.args
            if self._kind(target) != self._kind(source):
                raise PipelineError(f"{_shown(target)} and {_shown(source)} have different types")

    def need_parser_op(self, op: p4.ParserOp) -> None:
        """Refuse a parser operation with other arguments than it takes."""
        self._params, self._ahead = 0, True
        if op.op == "set":
            varbit = len(op.args) == 2 and self._kind(op.args[1]).name == VARBIT
            self._arguments(op.op, op.args, (VARBIT, VARBIT) if varbit else (TARGET, NUMBER), op.where)
            if not isinstance(op.args[0], p4.FieldRef):
                raise PipelineError(f"set{op.where}: a field is expected")
        else:
            self._arguments(op.op, op.args, _PARSER_OPS[op.op], op.where)

    def checked(self, ref: p4.StackField) -> p4.StackField:
        """Return a field of a stack's last element after checking that there is one."""
        self.stack_field(ref)
        return ref

    def stack_field(self, ref: p4.StackField) -> p4.Field:
        """Return the field of a stack's elements that `ref` names."""
        kind = self.program.headers[self._stack_member(ref)].type
        if not kind.has(ref.name) or kind.field(ref.name).varbit:
            raise PipelineError(f"stack {ref.stack}: its elements have no field {ref.name}")
        return kind.field(ref.name)

    def _stack_member(self, ref: p4.StackField) -> str:
        """Return the representative header of a stack's elements, or of a member of them."""
        element = self.program.stacks[ref.stack].elements[0]
        if ref.member is None:
            return element
        members = self.program.unions[element].members
        if ref.member not in members:
            raise PipelineError(f"stack {ref.stack}: its elements have no member {ref.member}")
        return members[ref.member]

    def _arguments(self, op: str, args: tuple[p4.Expr, ...], expected: tuple[str, ...], where: str) -> None:
        least = len(expected) - (op in _LAST_IS_OPTIONAL)
        if not least <= len(args) <= len(expected):
            raise PipelineError(f"{op}{where}: {len(args)} arguments, {len(expected)} are expected")
        for arg, kind in zip(args, expected, strict=False):
            if kind == CONST and op.startswith("_jump") and not isinstance(arg, p4.Const):
                raise PipelineError(f"{op}{where}: jumps to a place that is not a constant are not supported")
            self._argument(arg, kind)

    def _argument(self, expr: p4.Expr, expected: str) -> None:
        if expected == TARGET:
            self._need_target(expr)
        elif expected in {CONST, LIST}:
            most = MAX_ELEMENTS if expected == CONST else 1 << 32
            if not isinstance(expr, p4.Const) or not 0 <= expr.value <= most:
                raise PipelineError(f"{_shown(expr)} is not a constant from 0 to {most}")
        elif expected == HEADER_TARGET and isinstance(expr, p4.StackField):
            self._stack_member(expr)
        elif expected == HEADER_TARGET:
            self._need(expr, ANY_STACK if isinstance(expr, p4.StackRef) else HEADER)
        elif expected == NUMBERS:
            if not isinstance(expr, p4.Vector):
                raise PipelineError(f"{_shown(expr)} is not a list")
            for item in expr.items:
                self._need(item, NUMBER)
        else:
            self._need(expr, expected)

    def _need_target(self, expr: p4.Expr) -> None:
        """Refuse a target to which no number can be assigned."""
        if isinstance(expr, p4.FieldRef) and expr.name == "$valid$":
            raise PipelineError(f"assignment to the validity of header {expr.header} is not supported")
        is_access = isinstance(expr, p4.Operation) and expr.op == "access_field"
        if not is_access and not isinstance(expr, p4.FieldRef | p4.StackField | p4.RegisterRef):
            raise PipelineError(f"assignment to {_shown(expr)} is not supported")
        self._need(expr, NUMBER)
        if isinstance(expr, p4.Operation) and expr.left and expr.number >= len(self._kind(expr.left).shape):
            raise PipelineError("assignment to the validity of a stack's element is not supported")

    def _need(self, expr: p4.Expr, expected: str) -> ExprKind:
        """Return the kind of an expression; refuse another than the expected one."""
        kind = self._kind(expr)
        fits = expected in {kind.name, ANYTHING} or (expected == ANY_STACK and kind.name in {STACK, UNION_STACK})
        if not fits:
            raise PipelineError(f"{_shown(expr)} is a {kind.name}; a {expected} is expected")
        return kind

    # -- kinds --------------------------------------------------------------------------------------------------------

    def _kind(self, expr: p4.Expr) -> ExprKind:  # noqa: PLR0911 - one case per kind
        program = self.program
        if isinstance(expr, p4.FieldRef):
            return ExprKind(VARBIT if expr.name != "$valid$" and program.field(expr).varbit else NUMBER)
        if isinstance(expr, p4.HeaderRef):
            if program.headers[expr.name].metadata and expr.name != "standard_metadata":
                raise PipelineError(f"header {expr.name} is metadata")
            return self._header(expr.name)
        if isinstance(expr, p4.UnionRef):
            return self._union(expr.name)
        if isinstance(expr, p4.StackRef):
            elements = program.stacks[expr.name].elements
            if expr.union:
                return ExprKind(UNION_STACK, (len(elements), self._union(elements[0])))
            return ExprKind(STACK, (len(elements), self._header(elements[0])))
        if isinstance(expr, p4.Named):
            return ExprKind(self._named(expr))
        if isinstance(expr, p4.Operation):
            return self._operation(expr)
        if isinstance(expr, p4.Vector):
            return ExprKind(NUMBERS)
        self._check_bounds(expr)
        return ExprKind(NUMBER)

    def _header(self, name: str) -> ExprKind:
        return ExprKind(HEADER, self.program.headers[name].type.fields)

    def _union(self, name: str) -> ExprKind:
        members = self.program.unions[name].members.values()
        return ExprKind(UNION, tuple(self.program.headers[header].type.fields for header in members))

    def _check_bounds(self, expr: p4.Expr) -> None:
        """Refuse a number that is not there: an argument, bits ahead of the parser, a register."""
        if isinstance(expr, p4.Param) and expr.index >= self._params:
            raise PipelineError(f"argument {expr.index} is not one of the action's {self._params}")
        if isinstance(expr, p4.Lookahead) and not self._ahead:
            raise PipelineError("only the parser can look ahead")
        if isinstance(expr, p4.RegisterRef):
            if expr.array not in self.program.registers:
                raise PipelineError(f"register {expr.array}: the program has no such register")
            self._need(expr.index, NUMBER)

    def _named(self, expr: p4.Named) -> str:
        program = self.program
        if expr.kind == "string":
            return TEXT
        objects: dict[str, tuple[str, Mapping[str, object]]] = {
            "calculation": (CALCULATION, program.calculations),
            "register_array": (REGISTER, program.registers),
            "counter_array": (COUNTER, program.counters),
            "meter_array": (METER, program.meters),
        }
        kind, known = objects[expr.kind]
        if expr.name not in known or getattr(known[expr.name], "direct", False):
            raise PipelineError(f"{kind} {expr.name}: the program has no such {kind}")
        return kind

    def _operation(self, node: p4.Operation) -> ExprKind:
        op, left, right = node.op, node.left, node.right
        if op in {"access_field", "access_union_header"}:
            return self._access(node)
        expected = OPERATORS[op]
        if op in {"+", "-"} and left is None:
            expected = (NUMBER,)
        kinds: list[ExprKind] = []
        given = zip((node.cond, left, right)[-len(expected) :], _PLACES[-len(expected) :], strict=True)
        for (part, place), kind in zip(given, expected, strict=True):
            if part is None:
                raise PipelineError(f"operator {op} lacks its {place}")
            kinds.append(self._need(part, kinds[0].name if kind == ANYTHING and kinds else kind))
        if op in {"==", "!="} and left is not None and right is not None and kinds[0].name not in {NUMBER, VARBIT}:
            if not isinstance(left, p4.HeaderRef | p4.UnionRef):
                raise PipelineError(f"comparison of a {kinds[0].name} that is picked by an index is not supported")
            if type(left) is not type(right) or kinds[0] != kinds[1]:
                raise PipelineError(f"{_shown(left)} and {_shown(right)} have different types")
        if op in _CASTS and isinstance(right, p4.Const) and not 1 <= right.value <= WIDEST_CAST:
            raise PipelineError(f"operator {op}: {right.value} bits; the most is {WIDEST_CAST}")
        if op in SHIFTS and isinstance(right, p4.Const):
            need_shift(op, right.value)
        element: ExprKind = kinds[0].shape[1] if op.startswith("dereference_") else ExprKind(NUMBER)
        return element

    def _access(self, node: p4.Operation) -> ExprKind:
        if node.left is None:
            raise PipelineError(f"operator {node.op} lacks its left operand")
        if node.op == "access_union_header":
            members = self._need(node.left, UNION).shape
            if node.number >= len(members):
                raise PipelineError(f"header union has no member {node.number}")
            return ExprKind(HEADER, members[node.number])
        fields: tuple[p4.Field, ...] = self._need(node.left, HEADER).shape
        if node.number > len(fields):
            raise PipelineError(f"header has no field {node.number}")
        if node.number < len(fields) and fields[node.number].varbit:
            raise PipelineError(f"field {fields[node.number].name} of a stack's element is a varbit: not supported")
        return ExprKind(NUMBER)


def need_shift(op: str, bits: int) -> None:
    """Refuse a shift by a negative constant. Raises PipelineError."""
    if bits < 0:
        raise PipelineError(f"operator {op}: a shift by {bits} bits; it must not be negative")


def _shown(expr: p4.Expr) -> str:
    """Return an expression as a message calls it."""
    if isinstance(expr, p4.FieldRef):
        return f"field {expr.header}.{expr.name}"
    if isinstance(expr, p4.HeaderRef | p4.UnionRef | p4.StackRef | p4.Named):
        return f"{type(expr).__name__.removesuffix('Ref').lower()} {expr.name}"
    return f"operator {expr.op}" if isinstance(expr, p4.Operation) else type(expr).__name__.lower()
