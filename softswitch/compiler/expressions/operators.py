"""Code for operators on numbers, with the range of their results.

Arithmetic follows behavioral-model's Data: unlimited integers, cut to a field's width when they are stored (p4c writes
the masks of intermediate results into the JSON itself).
"""

from __future__ import annotations

from mrclab.softswitch.compiler.block import IntExpr, boolean, constant, saturate, wrap
from mrclab.softswitch.objects.runtime_api import PipelineError
from mrclab.softswitch.p4 import kinds

WIDEST_SHIFT = 4096
"""Left shifts beyond this give zero: no field is that wide, and an unlimited shift would fill the memory."""


def unary(op: str, right: IntExpr) -> IntExpr:
    """Return the code of an operation on one number."""
    if op == "d2b":
        return right if right.boolean else boolean(f"{right.operand} != 0")
    if op in {"b2d", "+"}:
        return right
    if op == "not":
        return constant(int(not right.value)) if right.value is not None else boolean(f"not {right.operand}")
    if op == "~":
        return IntExpr(f"~{right.operand}", ~right.high, ~right.low)
    return IntExpr(f"-{right.operand}", -right.high, -right.low)


def comparison(op: str, left: IntExpr, right: IntExpr) -> IntExpr:
    """Return the code of a comparison of two numbers."""
    if left.value is not None and right.value is not None:
        table = {
            "==": left.value == right.value,
            "!=": left.value != right.value,
            ">": left.value > right.value,
            ">=": left.value >= right.value,
            "<": left.value < right.value,
            "<=": left.value <= right.value,
        }
        return constant(int(table[op]))
    if op in {"==", "!="} and right.value == 0 and left.low >= 0:
        return boolean(f"not {left.operand}") if op == "==" else boolean(f"{left.operand} != 0")
    return boolean(f"{left.operand} {op} {right.operand}")


def arithmetic(op: str, left: IntExpr, right: IntExpr) -> IntExpr:  # noqa: C901, PLR0911, PLR0912 - one case per operator
    """Return the code of an operation on two numbers."""
    if op in {"two_comp_mod", "sat_cast", "usat_cast"}:
        if right.value is None:
            raise PipelineError(f"operator {op} with a width that is not a constant is not supported")
        if op == "two_comp_mod":
            return wrap(left, right.value, signed=True)
        return saturate(left, right.value, op == "sat_cast")
    if op in {"and", "or"}:
        return _logic(op, left, right)
    code = f"{left.operand} {op} {right.operand}"
    known = left.value is not None and right.value is not None
    if op == "+":
        return _fold(known, IntExpr(code, left.low + right.low, left.high + right.high), left, right, op)
    if op == "-":
        return _fold(known, IntExpr(code, left.low - right.high, left.high - right.low), left, right, op)
    if op == "*":
        corners = [a * b for a in (left.low, left.high) for b in (right.low, right.high)]
        return IntExpr(code, min(corners), max(corners))
    if op == "&":
        return _bit_and(left, right, code)
    if op in {"|", "^"}:
        if 0 in (left.value, right.value) and max(left.high, right.high) > 1:
            return right if left.value == 0 else left
        top = (1 << max(left.high.bit_length(), right.high.bit_length(), 1)) - 1
        low = 0 if left.low >= 0 and right.low >= 0 else -(1 << max(_bits(left), _bits(right)))
        return IntExpr(code, low, top if low == 0 else -low)
    if op in kinds.SHIFTS and right.value is not None:
        kinds.need_shift(op, right.value)  # computed from constants
    if op == "<<":
        return _shift_left(left, right)
    if op == ">>":
        if right.value is not None:
            return IntExpr(code, left.low >> right.value, left.high >> right.value)
        return IntExpr(code, min(left.low, 0), max(left.high, 0))
    code = f"{left.operand} {'//' if op == '/' else '%'} {right.operand}"
    return IntExpr(code, 0, max(left.high, 0) if op == "/" else max(right.high, 0))


def _fold(known: bool, expr: IntExpr, left: IntExpr, right: IntExpr, op: str) -> IntExpr:
    if known:
        return constant(expr.low)
    if right.value == 0:
        return left
    return right if op == "+" and left.value == 0 else expr


def _logic(op: str, left: IntExpr, right: IntExpr) -> IntExpr:
    for one, other in ((left, right), (right, left)):
        if one.value is not None:
            decided = (op == "and") != bool(one.value)
            return constant(int(bool(one.value))) if decided else other
    return boolean(f"{left.operand} {op} {right.operand}")


def _bit_and(left: IntExpr, right: IntExpr, code: str) -> IntExpr:
    for one, other in ((left, right), (right, left)):
        mask = one.value
        if mask is not None and mask >= 0 and mask & (mask + 1) == 0 and other.low >= 0 and other.high <= mask:
            return other
        if mask is not None and other.value is not None:
            return constant(mask & other.value)
    highs = [expr.high for expr in (left, right) if expr.low >= 0]
    if highs:
        return IntExpr(code, 0, min(highs))
    widest = 1 << max(_bits(left), _bits(right))
    return IntExpr(code, -widest, widest)


def _shift_left(left: IntExpr, right: IntExpr) -> IntExpr:
    if right.value is not None:
        if left.value is not None:
            return constant(left.value << right.value) if right.value < WIDEST_SHIFT else constant(0)
        if right.value >= WIDEST_SHIFT:
            return constant(0)
        return IntExpr(f"{left.operand} << {right.value}", left.low << right.value, left.high << right.value)
    far = min(right.high, WIDEST_SHIFT)
    low, high = min(left.low << far, 0), max(left.high << far, 0)
    if right.high < WIDEST_SHIFT:
        return IntExpr(f"{left.operand} << {right.operand}", low, high)
    call = f"shift_left({left.code}, {right.code})"  # operands are written only once
    return IntExpr(call, low, high, atom=True)


def shift_left(left: int, right: int) -> int:
    """Return a left shift by a run-time number, which may be too large."""
    return left << right if right < WIDEST_SHIFT else 0


def _bits(expr: IntExpr) -> int:
    return max(expr.low.bit_length(), expr.high.bit_length()) + 1
