"""Assignments to a P4 field as BMv2 expressions: compiles an action's body on machines without p4c.

Understood are slices, `++`, shifts, `+ - & | ^ ~`, casts to bit<N>, parentheses and constants, with the widths of
P4-16 (§8.6 to §8.12): both sides of an operator have one width, as have a field and its new value.
"""

import re
from dataclasses import dataclass
from typing import Any, NoReturn

from mrclab.lab.errors import LabError

Tree = dict[str, Any]

_TOKEN = re.compile(
    r"\s*(?:(\d{1,9}w)?(0[xX][0-9a-fA-F_]+|0[bB][01_]+|\d[\d_]*)|([A-Za-z_][\w.]*)|(\+\+|<<|>>|[-+&|^~()\[\]:;=<>]))"
)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_LEVELS = (("|",), ("^",), ("&",), ("<<", ">>"), ("++", "+", "-"))  # from the loosest (P4-16, §8)
_DEEPEST, _MAX_OPERATORS = 50, 100
_LONGEST = 4096  # bits, and characters of a body


@dataclass(frozen=True)
class Bits:
    """An expression and its width in bits; None: a constant without one, which takes that of the other side."""

    tree: Tree
    width: int | None
    value: int | None = None


def assignments(body: str, field: str, width: int, place: list[str]) -> list[Tree]:
    """Return the value of `field` after each assignment to it, as BMv2 expressions over the field as it was before.

    LabError for invalid or unsupported P4.
    """
    if len(body) > _LONGEST:
        raise LabError(f"the action has more than {_LONGEST} characters; one statement is enough")
    reader = _StatementReader(_COMMENT.sub(" ", body), field, width, {"type": "field", "value": place})
    made = []
    while not reader.at_end():
        made.append(reader.assignment())
    if not made:
        _refuse(f"the action is empty; write `{field} = ...;`")
    return made


class _StatementReader:
    def __init__(self, text: str, field: str, width: int, tree: Tree) -> None:
        self._field, self._width, self._tree = field, width, tree
        self._tokens: list[tuple[str, str]] = []  # kind and text
        at, text = 0, text.rstrip()
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                raise LabError(f"`{text[at:].split()[0]}` is not allowed in an expression here; see the lesson")
            size, number, name, _ = found.groups()
            kind = "number" if number else "name" if name else "sign"
            self._tokens.append((kind, (size or "") + number if number else found[0].strip()))
            at = found.end()
        self._next = self._depth = self._operators = 0

    # --- tokens -------------------------------------------------------------------------------------------------------

    def at_end(self) -> bool:
        """Return True behind the last statement."""
        return self._next == len(self._tokens)

    def _peek(self) -> str:
        return self._tokens[self._next][1] if not self.at_end() else "the end"

    def _take(self, expected: str = "") -> str:
        text = self._peek()
        if self.at_end() or (expected and text != expected):
            raise LabError(f"expected `{expected or 'a value'}`, found {text if self.at_end() else f'`{text}`'}")
        self._next += 1
        return text

    def _accept(self, *expected: str) -> str:
        return self._take() if not self.at_end() and self._peek() in expected else ""

    # --- statements ---------------------------------------------------------------------------------------------------

    def assignment(self) -> Tree:
        """`field = value;` or `field[high:low] = value;`."""
        name = self._take()
        if name != self._field:
            raise LabError(f"`{name}` cannot be assigned here; the lesson is about {self._field}")
        high, low = self._slice(self._width) if self._peek() == "[" else (self._width - 1, 0)
        self._take("=")
        value = self._sized(self._expression(), high - low + 1, f"{self._field}[{high}:{low}]")
        self._take(";")
        if high - low + 1 == self._width:
            return _node("&", value.tree, _number(_mask(self._width)))
        hole = _mask(self._width) ^ _mask(high - low + 1) << low
        return _node("|", _node("&", self._tree, _number(hole)), _node("<<", value.tree, _number(low)))

    def _slice(self, width: int) -> tuple[int, int]:
        self._take("[")
        high = self._bound()
        self._take(":")
        low = self._bound()
        self._take("]")
        if not width > high >= low:
            raise LabError(
                f"[{high}:{low}] is not a slice of {width} bits; write [high:low] with {width} > high >= low"
            )
        return high, low

    def _bound(self) -> int:
        size, value = _constant(self._take())
        if size is not None:
            _refuse("a slice's bounds are plain numbers, such as [127:96]")
        return value

    # --- expressions --------------------------------------------------------------------------------------------------

    def _expression(self, level: int = 0) -> Bits:
        if level == len(_LEVELS):
            return self._unary()
        left = self._expression(level + 1)
        while sign := self._accept(*_LEVELS[level]):
            left = self._applied(sign, left, self._expression(level + 1))
        return left

    def _applied(self, sign: str, left: Bits, right: Bits) -> Bits:
        self._operators += 1
        if self._operators > _MAX_OPERATORS:
            _refuse(f"the action has more than {_MAX_OPERATORS} operators; one statement is enough")
        if sign == "++":
            if left.width is None or right.width is None:
                _refuse("`++` joins bits of a known width; write 16w0, not 0")
            width = left.width + right.width
            if width > _LONGEST:
                _refuse(f"{width} bits are too many")
            return Bits(_node("|", _node("<<", left.tree, _number(right.width)), right.tree), width)
        if sign in {"<<", ">>"}:
            if left.width is None:
                _refuse(f"`{sign}` shifts bits of a known width; write 16w1, not 1")
            if right.value is not None and right.value > _LONGEST:
                _refuse(f"a shift by {right.value} is too far")
            return Bits(_node("&", _node(sign, left.tree, right.tree), _number(_mask(left.width))), left.width)
        both = left.width if left.width is not None else right.width
        if both is None:
            _refuse(f"`{sign}` needs bits of a known width on one side at least; write 16w1, not 1")
        left, right = (self._sized(side, both, f"the other side of `{sign}`") for side in (left, right))
        return Bits(_node("&", _node(sign, left.tree, right.tree), _number(_mask(both))), both)

    def _unary(self) -> Bits:
        self._depth += 1  # of parentheses, casts and ~
        if self._depth > _DEEPEST:
            _refuse("the expression is nested too deeply")
        made = self._operand()
        self._depth -= 1
        return made

    def _operand(self) -> Bits:
        if self._accept("~"):
            inner = self._unary()
            if inner.width is None:
                _refuse("`~` inverts bits of a known width; write 16w0, not 0")
            return Bits(_node("^", inner.tree, _number(_mask(inner.width))), inner.width)
        if self._peek() == "(" and self._next + 1 < len(self._tokens) and self._tokens[self._next + 1][1] == "bit":
            return self._cast()
        made = self._primary()
        while self._peek() == "[":
            if made.width is None:
                _refuse("a plain number has no bits to slice; write its width, such as 16w0")
            high, low = self._slice(made.width)
            cut = _node("&", _node(">>", made.tree, _number(low)), _number(_mask(high - low + 1)))
            made = Bits(cut, high - low + 1)
        return made

    def _cast(self) -> Bits:
        """`(bit<16>) value`."""
        self._take("(")
        self._take("bit")
        self._take("<")
        width = self._bound()
        self._take(">")
        self._take(")")
        if not 0 < width <= _LONGEST:
            _refuse(f"bit<{width}> is not a type here; use bit<1> to bit<{_LONGEST}>")
        inner = self._unary()
        return Bits(_node("&", inner.tree, _number(_mask(width))), width)

    def _primary(self) -> Bits:
        kind, text = self._tokens[self._next] if not self.at_end() else ("", "the end")
        self._take()
        if text == "(":
            made = self._expression()
            self._take(")")
            return made
        if kind == "number":
            width, value = _constant(text)
            if width is not None and value > _mask(width):
                _refuse(f"{text} does not fit {width} bits")
            return Bits(_number(value), width, value)
        if text != self._field:
            _refuse(f"`{text}` is not known here; the statement may use {self._field} and constants")
        return Bits(self._tree, self._width)

    @staticmethod
    def _sized(value: Bits, width: int, where: str) -> Bits:
        if value.width is None:
            if value.value is not None and value.value > _mask(width):
                _refuse(f"{value.value} does not fit the {width} bits of {where}")
            return Bits(value.tree, width, value.value)
        if value.width != width:
            _refuse(f"{where} has {width} bits, and what you write for it has {value.width}")
        return value


def _refuse(why: str) -> NoReturn:
    raise LabError(why)


def _constant(text: str) -> tuple[int | None, int]:
    """Return the width, None where it has none, and the value of `16w0`, `0xff`, `0b1` or `7`."""
    size, _, digits = text.rpartition("w")
    base = {"0x": 16, "0b": 2}.get(digits[:2].lower(), 10)
    try:
        width, value = (int(size) if size else None), int(digits.replace("_", ""), base)
    except ValueError:
        _refuse(f"`{text}` is not a number; write, for example, 16w0 or 0xff")
    if width is not None and not 0 < width <= _LONGEST:
        _refuse(f"`{text}` has a width of {width} bits; 1 to {_LONGEST} are possible")
    return width, value


def _mask(width: int) -> int:
    return (1 << width) - 1


def _node(op: str, left: Tree, right: Tree) -> Tree:
    return {"type": "expression", "value": {"op": op, "left": left, "right": right}}


def _number(value: int) -> Tree:
    return {"type": "hexstr", "value": hex(value)}
