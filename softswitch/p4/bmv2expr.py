"""Reads the expressions, primitives and parser operations of BMv2 JSON (its "type value objects")."""

from __future__ import annotations

from dataclasses import replace

from mrclab.softswitch.objects.runtime_api import PipelineError
from mrclab.softswitch.p4 import program as p4
from mrclab.softswitch.p4.jsonvalue import JsonValue, naming
from mrclab.softswitch.p4.kinds import OPERATORS, ExpressionKinds

MAX_FIELD_BITS = 1 << 12
"""Widest field; p4c itself allows 2,048 bits."""
MAX_AHEAD_BITS = 1 << 20

_NAMED = frozenset({"calculation", "meter_array", "counter_array", "register_array", "string"})

_LISTS = {
    "resubmit": 0, "recirculate": 0, "clone_ingress_pkt_to_egress": 1, "clone_egress_pkt_to_egress": 1,
    "generate_digest": 1,
}  # fmt: skip
"""Primitives that name a field list or a digest, and the argument that does."""


class ExpressionReader:
    """Turns JSON values into program expressions, checking every name and every operand against the program.

    `list_numbers` and `digest_numbers`: numbers of field lists and digests by their ids in the JSON.
    """

    def __init__(self, program: p4.Program) -> None:
        self.program = program
        self.kinds = ExpressionKinds(program)
        self.list_numbers: dict[int, int] = {}
        self.digest_numbers: dict[int, int] = {}

    def field(self, value: JsonValue) -> p4.FieldRef:
        """Return a field reference after checking that the field exists."""
        header, name = (part.text for part in value.elements(2, 2))
        instance = self.program.headers.get(header)
        if instance is None:
            raise PipelineError(f"field {header}.{name}: the program has no header {header}")
        if name != "$valid$" and not instance.type.has(name):
            raise PipelineError(f"field {header}.{name}: header {header} has no such field")
        return p4.FieldRef(header, name)

    def sized(self, item: JsonValue, ahead: bool = False) -> tuple[p4.Expr, int]:
        """Return an expression with its width in bits (of calculation inputs, select keys, digest fields)."""
        expr = self._expr(item)
        if isinstance(expr, p4.HeaderRef):
            return expr, self.program.headers[expr.name].type.bits
        if isinstance(expr, p4.FieldRef):
            return expr, 1 if expr.name == "$valid$" else self.program.field(expr).width
        self.kinds.need_number(expr, 0, ahead)
        if isinstance(expr, p4.StackField):
            return expr, self.kinds.stack_field(expr).width
        if isinstance(expr, p4.Lookahead):
            return expr, expr.width
        return expr, item.optional("bitwidth", lambda width: width.whole(MAX_FIELD_BITS)) or 0

    def plain(self, item: JsonValue, ahead: bool = False) -> tuple[p4.Expr, int]:
        """Return a number with its width: a select key, or an element of a digest or field list."""
        expr, width = self.sized(item, ahead)
        varbit = isinstance(expr, p4.FieldRef) and expr.name != "$valid$" and self.program.field(expr).varbit
        if varbit or isinstance(expr, p4.HeaderRef):
            raise item.refused("a field that is a number")
        return expr, width

    def number(self, item: JsonValue, params: int = 0, ahead: bool = False) -> p4.Expr:
        """Return an expression of a number; `params`: arguments of the action, `ahead`: it may look ahead."""
        expr = self._expr(item)
        self.kinds.need_number(expr, params, ahead)
        return expr

    def _expr(self, item: JsonValue) -> p4.Expr:
        """Return the expression in a type value object, its operands unchecked."""
        kind, value = item["type"].text, item["value"]
        if kind == "expression":
            return self._expression(value)
        if kind == "field":
            return self.field(value)
        if kind == "hexstr":
            return p4.Const(value.hexstr)
        return self._reference(kind, value)

    def _expression(self, value: JsonValue) -> p4.Expr:
        if value.value is None:
            return p4.Const(0)
        if value.get("op") is None:
            return self._expr(value)
        op = value["op"].text
        if op in {"access_field", "access_union_header"}:
            return p4.Operation(op, self._expr(value["left"]), None, None, value["right"].whole())
        if op not in OPERATORS:
            raise PipelineError(f"operator {op} is not supported")
        operands: list[p4.Expr | None] = []  # nested expressions may be deep: few calls for each
        for part in ("left", "right", "cond"):
            found = value.get(part)
            operands.append(None if found is None else self._expr(found))
        left, right, cond = operands
        return p4.Operation(op, left, right, cond)

    def _reference(self, kind: str, value: JsonValue) -> p4.Expr:  # noqa: C901, PLR0911, PLR0912 - one case per JSON type
        if kind == "bool":
            return p4.Const(int(value.flag))
        if kind in {"local", "runtime_data"}:
            return p4.Param(value.whole())
        if kind == "header":
            if value.text not in self.program.headers:
                raise PipelineError(f"header {value.text}: the program has no such header")
            return p4.HeaderRef(value.text)
        if kind in {"header_stack", "header_union_stack"}:
            return self._stack(value, kind == "header_union_stack")
        if kind == "header_union":
            if value.text not in self.program.unions:
                raise PipelineError(f"header union {value.text}: the program has no such union")
            return p4.UnionRef(value.text)
        if kind == "stack_field":
            stack, name = value.elements(2, 2)
            return self.kinds.checked(p4.StackField(self._stack(stack, False).name, name.text))
        if kind == "union_stack_field":
            stack, member, name = value.elements(3, 3)
            return self.kinds.checked(p4.StackField(self._stack(stack, True).name, name.text, member.text))
        if kind == "lookahead":
            offset, width = value.elements(2, 2)
            return p4.Lookahead(offset.whole(MAX_AHEAD_BITS), width.whole(MAX_FIELD_BITS, 1))
        if kind == "register":
            name, index = value.elements(2, 2)
            return p4.RegisterRef(name.text, self._expr(index))
        if kind in {"parameters_vector", "field_list"}:
            return p4.Vector(tuple(self._expr(element) for element in value.elements()))
        if kind in _NAMED:
            return p4.Named(kind, value.prose if kind == "string" else value.text)
        raise PipelineError(f"expression type {kind} is not supported")

    def _stack(self, value: JsonValue, union: bool) -> p4.StackRef:
        stack = self.program.stacks.get(value.text)
        if stack is None or stack.union != union:
            raise PipelineError(
                f"stack {value.text}: the program has no such stack of header{'' if not union else ' union'}s"
            )
        return p4.StackRef(stack.name, union)

    def primitive(self, call: JsonValue, params: int = 0, ahead: bool = False) -> p4.Primitive:
        """Return a primitive call of an action or, with lookahead, of the parser."""
        op, place = call["op"].text, call.where
        fragment = call.optional("source_info", lambda info: info.optional("source_fragment", lambda text: text.prose))
        with naming(f"{op}{place}"):
            args = tuple(self._expr(arg) for arg in call["parameters"].elements())
            found = p4.Primitive(op, args, place, fragment or "")
            self.kinds.need_primitive(found, params, ahead)
            found = self._numbered(found)
        if found.message is not None:
            self.program.add_text(found.message)
        return found

    def _numbered(self, call: p4.Primitive) -> p4.Primitive:
        """Return a call with the number of its field list or digest in the place of the id; 0 is no field list."""
        place = _LISTS.get(call.op)
        if place is None:
            return call
        arg, digest = call.args[place], call.op == "generate_digest"
        assert isinstance(arg, p4.Const)
        numbers = self.digest_numbers if digest else self.list_numbers | {0: 0}
        if arg.value not in numbers:
            raise PipelineError(f"{'digest' if digest else 'field list'} {arg.value}: the program has no such list")
        return replace(call, args=(*call.args[:place], p4.Const(numbers[arg.value]), *call.args[place + 1 :]))

    def parser_op(self, item: JsonValue) -> p4.ParserOp:
        """Return a parser operation."""
        op, parameters = item["op"].text, item["parameters"].elements(1)
        if op == "primitive":
            return p4.ParserOp(op, (), item.where, self.primitive(parameters[0], ahead=True))
        if op == "shift":
            return p4.ParserOp("advance", (p4.Const(parameters[0].whole(MAX_AHEAD_BITS) * 8),), item.where)
        if op in {"extract", "extract_VL"}:
            target = self._extract_target(parameters[0])
            rest = tuple(self.number(parameter, ahead=True) for parameter in parameters[1:])
            found = p4.ParserOp(op, (target, *rest), item.where)
        elif op in {"set", "verify", "advance"}:
            found = p4.ParserOp(op, tuple(self._expr(parameter) for parameter in parameters), item.where)
        else:
            raise PipelineError(f"parser operation {op}{item.where} is not supported")
        self.kinds.need_parser_op(found)
        return found

    def _extract_target(self, parameter: JsonValue) -> p4.Expr:
        kind, value = parameter["type"].text, parameter["value"]
        if kind == "regular":
            return self._reference("header", value)
        if kind == "stack":
            return self._stack(value, False)
        if kind == "union_stack":
            stack, member = value.elements(2, 2)
            return p4.StackField(self._stack(stack, True).name, "", member.text)
        raise PipelineError(f"extract to {kind} is not supported")
