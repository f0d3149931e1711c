"""Pieces of generated source: nested blocks of lines, and expressions with the range of values they can have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

Part = TypeVar("Part", bound="Block | Fork | LoopScope | Indented")


class Block:
    """Lines, and between them parts that may be filled in later."""

    def __init__(self) -> None:
        self.items: list[str | Block | Fork | LoopScope | Indented] = []

    def line(self, text: str) -> None:
        """Add one line."""
        self.items.append(text)

    def add(self, inner: Part) -> Part:
        """Add a part, and return it."""
        self.items.append(inner)
        return inner

    def render(self, indent: int) -> list[str]:
        """Return the lines, indented."""
        lines: list[str] = []
        for item in self.items:
            if isinstance(item, str):
                lines.append("    " * indent + item)
            else:
                lines.extend(item.render(indent))
        return lines


class Fork:
    """if/elif/else: arms of condition code (None: else) and body. Empty ones at the end are left out."""

    def __init__(self) -> None:
        self.arms: list[tuple[str | None, Block]] = []

    def arm(self, code: str | None) -> Block:
        """Add an arm and return its body."""
        body = Block()
        self.arms.append((code, body))
        return body

    def render(self, indent: int) -> list[str]:
        """Return the lines, indented."""
        arms = [(code, body.render(indent + 1)) for code, body in self.arms]
        while arms and not arms[-1][1]:
            arms.pop()
        if arms and arms[0][0] is None:
            return self.arms[0][1].render(indent)
        lines, space = [], "    " * indent
        for number, (code, body) in enumerate(arms):
            if number == 0 and len(arms) == 2 and not body and arms[1][0] is None:
                return [f"{space}if not ({code}):", *arms[1][1]]
            lines.append(f"{space}else:" if code is None else f"{space}{'elif' if number else 'if'} {code}:")
            lines.extend(body or [f"{space}    pass"])
        return lines


class LoopScope:
    """A body that runs once, which a break may end early (`breaks`); with `repeat` it runs until a break."""

    def __init__(self) -> None:
        self.body = Block()
        self.breaks = False
        self.repeat = False

    def render(self, indent: int) -> list[str]:
        """Return the lines, indented."""
        if not self.breaks:
            return self.body.render(indent)
        lines = ["    " * indent + "while True:", *self.body.render(indent + 1)]
        if not self.repeat:
            lines.append("    " * (indent + 1) + "break")
        return lines


class Indented:
    """A block one level further in: the body of a function."""

    def __init__(self, body: Block) -> None:
        self.body = body

    def render(self, indent: int) -> list[str]:
        """Return the lines, indented."""
        return self.body.render(indent + 1)


@dataclass(frozen=True)
class IntExpr:
    """Generated expression of an integer (or 0/1 boolean) between `low` and `high`, both inclusive.

    `atom` means that it needs no parentheses as an operand.
    """

    code: str
    low: int
    high: int
    atom: bool = False

    @property
    def value(self) -> int | None:
        """Value, if known."""
        return self.low if self.low == self.high else None

    @property
    def operand(self) -> str:
        """Code, in parentheses if needed."""
        return self.code if self.atom else f"({self.code})"

    @property
    def boolean(self) -> bool:
        """True if the value is 0 or 1."""
        return self.low >= 0 and self.high <= 1


def constant(value: int) -> IntExpr:
    """Return the expression of a number."""
    code = str(value) if abs(value) < 1 << 16 else hex(value)
    return IntExpr(code if value >= 0 else f"({code})", value, value, atom=True)


def bits(code: str, width: int, atom: bool = False) -> IntExpr:
    """Return an expression with an unsigned value of `width` bits."""
    return IntExpr(code, 0, (1 << width) - 1, atom)


def boolean(code: str, atom: bool = False) -> IntExpr:
    """Return an expression with a boolean value."""
    return IntExpr(code, 0, 1, atom)


def wrap(expr: IntExpr, width: int, signed: bool = False) -> IntExpr:
    """Return `expr` cut to `width` bits, two's complement where signed."""
    half = 1 << (width - 1) if width else 0
    low, high = (-half, half - 1) if signed else (0, (1 << width) - 1)
    if low <= expr.low and expr.high <= high:
        return expr
    mask = (1 << width) - 1
    if expr.value is not None:
        cut = expr.value & mask
        return constant(cut - (1 << width) if signed and cut >= half else cut)
    if signed:
        return IntExpr(f"(({expr.operand} + {half:#x}) & {mask:#x}) - {half:#x}", low, high)
    return IntExpr(f"{expr.operand} & {mask:#x}", low, high)


def saturate(expr: IntExpr, width: int, signed: bool) -> IntExpr:
    """Return `expr` limited to the range of `width` bits."""
    half = 1 << (width - 1)
    low, high = (-half, half - 1) if signed else (0, (1 << width) - 1)
    if expr.value is not None:
        return constant(min(max(expr.value, low), high))
    code = expr.code
    if expr.low < low:
        code = f"max({code}, {low})"
    if expr.high > high:
        code = f"min({code}, {high:#x})"
    return IntExpr(code, max(expr.low, low), min(expr.high, high), atom=code is not expr.code or expr.atom)
