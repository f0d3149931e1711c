"""Reads the expressions, primitives and parser operations of BMv2 JSON (its "type value objects")."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from mrclab.softswitch.objects.runtime_api import PipelineError
from mrclab.softswitch.p4 import program as p4

Json = dict[str, Any]

OPERATORS = frozenset({
    "+", "-", "*", "/", "%", "<<", ">>", "&", "|", "^", "~",
    "==", "!=", ">", ">=", "<", "<=", "and", "or", "not", "?",
    "valid", "valid_union", "d2b", "b2d", "two_comp_mod", "sat_cast", "usat_cast",
    "dereference_header_stack", "dereference_stack", "dereference_union_stack", "last_stack_index", "size_stack",
    "access_field", "access_union_header",
})  # fmt: skip

_NAMED = frozenset({"calculation", "meter_array", "counter_array", "register_array", "string", "extern"})


def hexstr(text: str) -> int:
    """Return the value of a JSON hexstr, which may be negative and may lack its 0x."""
    return int(text, 16)


def where(item: Json) -> str:
    """Return ` (file.p4:12)` for an object with source information, else nothing."""
    info = item.get("source_info")
    if not info or "line" not in info:
        return ""
    return f" ({info.get('filename', '')}:{info['line']})"


@contextlib.contextmanager
def naming(what: str) -> Iterator[None]:
    """Add to a refusal what it stands in."""
    try:
        yield
    except PipelineError as error:
        raise PipelineError(f"{error}, in {what}") from error


class ExpressionReader:
    """Turns JSON values into program expressions, checking every name against the program."""

    def __init__(self, program: p4.Program) -> None:
        self.program = program

    def field(self, value: list[str]) -> p4.FieldRef:
        """Return a field reference after checking that the field exists."""
        header, name = value
        instance = self.program.headers.get(header)
        if instance is None:
            raise PipelineError(f"field {header}.{name}: the program has no header {header}")
        if name != "$valid$" and not any(f.name == name for f in instance.type.fields):
            raise PipelineError(f"field {header}.{name}: header {header} has no such field")
        return p4.FieldRef(header, name)

    def sized(self, item: Json) -> tuple[p4.Expr, int]:
        """Return an expression with its width in bits (of calculation inputs, select keys, digest fields)."""
        expr = self.expr(item)
        if isinstance(expr, p4.FieldRef):
            return expr, 1 if expr.name == "$valid$" else self.program.field(expr).width
        if isinstance(expr, p4.StackField):
            return expr, self._stack_field(expr).width
        if isinstance(expr, p4.Lookahead):
            return expr, expr.width
        if isinstance(expr, p4.HeaderRef):
            return expr, self.program.headers[expr.name].type.bits
        return expr, int(item.get("bitwidth", 0))

    def _stack_field(self, ref: p4.StackField) -> p4.Field:
        element = self.program.stacks[ref.stack].elements[0]
        if ref.member is not None:
            element = self.program.unions[element].members[ref.member]
        return self.program.headers[element].type.field(ref.name)

    def expr(self, item: Any) -> p4.Expr:
        """Return the expression in a type value object."""
        kind, value = item["type"], item["value"]
        if kind == "expression":
            return self._expression(value)
        if kind == "field":
            return self.field(value)
        if kind == "hexstr":
            return p4.Const(hexstr(value), int(item.get("bitwidth", 0)))
        return self._reference(kind, value)

    def _expression(self, value: Any) -> p4.Expr:
        if value is None:
            return p4.BoolConst(False)
        if "op" not in value:
            return self.expr(value)
        op = value["op"]
        if op not in OPERATORS:
            raise PipelineError(f"operator {op} is not supported")
        left, right, cond = value.get("left"), value.get("right"), value.get("cond")
        if op in {"access_field", "access_union_header"}:
            return p4.Operation(op, self.expr(left), None, None, int(right))
        return p4.Operation(
            op,
            self.expr(left) if left is not None else None,
            self.expr(right) if right is not None else None,
            self.expr(cond) if cond is not None else None,
        )

    def _reference(self, kind: str, value: Any) -> p4.Expr:  # noqa: C901, PLR0911 - one case per JSON type
        if kind == "bool":
            return p4.BoolConst(bool(value))
        if kind in {"local", "runtime_data"}:
            return p4.Param(int(value))
        if kind == "header":
            if value not in self.program.headers:
                raise PipelineError(f"header {value}: the program has no such header")
            return p4.HeaderRef(value)
        if kind in {"header_stack", "header_union_stack"}:
            return p4.StackRef(value, kind == "header_union_stack")
        if kind == "header_union":
            return p4.UnionRef(value)
        if kind == "stack_field":
            return p4.StackField(value[0], value[1])
        if kind == "union_stack_field":
            return p4.StackField(value[0], value[2], value[1])
        if kind == "lookahead":
            return p4.Lookahead(int(value[0]), int(value[1]))
        if kind == "register":
            return p4.RegisterRef(value[0], self.expr(value[1]))
        if kind in {"parameters_vector", "field_list"}:
            return p4.Vector(tuple(self.expr(element) for element in value))
        if kind in _NAMED:
            return p4.Named(kind, value)
        raise PipelineError(f"expression type {kind} is not supported")

    def primitive(self, call: Json) -> p4.Primitive:
        """Return a primitive call."""
        try:
            args = tuple(self.expr(arg) for arg in call["parameters"])
        except PipelineError as error:
            raise PipelineError(f"{error}, in {call['op']}{where(call)}") from error
        fragment = (call.get("source_info") or {}).get("source_fragment", "")
        return p4.Primitive(call["op"], args, where(call), fragment)

    def parser_op(self, item: Json) -> p4.ParserOp:
        """Return a parser operation."""
        op, parameters = item["op"], item["parameters"]
        if op == "primitive":
            return p4.ParserOp(op, (), where(item), self.primitive(parameters[0]))
        if op in {"extract", "extract_VL"}:
            target = self._extract_target(parameters[0])
            rest = tuple(self.expr(parameter) for parameter in parameters[1:])
            return p4.ParserOp(op, (target, *rest), where(item))
        if op == "shift":
            return p4.ParserOp("advance", (p4.Const(int(parameters[0]) * 8),), where(item))
        if op in {"set", "verify", "advance"}:
            return p4.ParserOp(op, tuple(self.expr(parameter) for parameter in parameters), where(item))
        raise PipelineError(f"parser operation {op}{where(item)} is not supported")

    def _extract_target(self, parameter: Json) -> p4.Expr:
        kind, value = parameter["type"], parameter["value"]
        if kind == "regular":
            return self.expr({"type": "header", "value": value})
        if kind == "stack":
            return p4.StackRef(value)
        if kind == "union_stack":
            return p4.StackField(value[0], "", value[1])
        raise PipelineError(f"extract to {kind} is not supported")
