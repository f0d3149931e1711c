"""Code for calculations over fields (hashes, checksums), and for verification and update of checksum fields.

Source: behavioral-model's calculations.cpp and checksums.cpp.
"""

from __future__ import annotations

from mrclab.softswitch.compiler.block import IntExpr, bits, constant
from mrclab.softswitch.compiler.flow import BranchScope
from mrclab.softswitch.objects.hashing import ALGORITHMS
from mrclab.softswitch.objects.runtime_api import PipelineError
from mrclab.softswitch.p4 import program as p4
from mrclab.softswitch.p4.layout import UNCUT

NO_BYTES = "b''"
Piece = tuple[str, "int | str"]
"""Code of a number, and its width in bits: a number, or the code of one."""


class Calculations:
    """Calculations of one program, emitted where `at` is."""

    def __init__(self, at: BranchScope) -> None:
        self.at = at
        self.program = at.program

    def calculation(self, name: str) -> IntExpr:
        """Return the code of a calculation's result."""
        calculation = self.program.calculations[name]
        if calculation.algorithm not in ALGORITHMS:
            raise PipelineError(f"calculation {name}: hash algorithm {calculation.algorithm} is not supported")
        number = list(self.program.calculations).index(name)
        data = self.gather(calculation.inputs, calculation.payload)
        return self.at.hoisted(bits(f"hash_{number}({data})", ALGORITHMS[calculation.algorithm][0]))

    def gather(self, inputs: tuple[tuple[p4.Expr, int], ...], payload: bool) -> str:
        """Return code for the bytes of a calculation's input; fields of invalid headers are left out."""
        tail = f" + {self._payload()}" if payload else ""
        guards = [self._guard(expr) for expr, _ in inputs]
        parts = [
            (guard, self._pieces(expr, width))
            for guard, (expr, width) in zip(guards, inputs, strict=True)
            if guard.value != 0
        ]
        fixed: list[tuple[str, int]] = []
        for guard, pieces in parts:
            if guard.value is None or any(isinstance(width, str) for _, width in pieces):
                return self._gather_dynamic(parts, tail)
            fixed.extend((code, width) for code, width in pieces if isinstance(width, int) and width)
        return f"{pack(fixed) if fixed else NO_BYTES}{tail}"

    def _guard(self, expr: p4.Expr) -> IntExpr:
        """Return whether an input is there: its header is valid."""
        if isinstance(expr, p4.FieldRef):
            return self.at.valid(expr.header)
        return self.at.valid(expr.name) if isinstance(expr, p4.HeaderRef) else constant(1)

    def _pieces(self, expr: p4.Expr, width: int) -> list[Piece]:
        """Return the pieces of an input: a header's fields, or one."""
        if isinstance(expr, p4.Const):
            return [(f"{expr.value & ((1 << width) - 1):#x}", width)]
        if isinstance(expr, p4.HeaderRef):
            return [self._field(expr.name, field) for field in self.program.headers[expr.name].type.fields]
        if isinstance(expr, p4.FieldRef) and expr.name != "$valid$":
            return [self._field(expr.header, self.program.field(expr))]
        return [(self.at.expr(expr).operand, width)]

    def _field(self, header: str, field: p4.Field) -> Piece:
        if not field.varbit:
            return self.at.unsigned(header, field), field.width
        code = self.at.read_varbit(p4.FieldRef(header, field.name))
        return f"int_from({code}, 'big')", f"(len({code}) << 3)"

    def _gather_dynamic(self, parts: list[tuple[IntExpr, list[Piece]]], tail: str) -> str:
        """Emit code that collects the input in an integer, part by part; return the code of its bytes."""
        value, width = self.at.temporary(), self.at.temporary()
        self.at.line(f"{value} = {width} = 0")
        for guard, pieces in parts:

            def add(pieces: list[Piece] = pieces) -> None:
                for code, count in pieces:
                    self.at.line(f"{value} = {value} << {count} | {code}")
                    self.at.line(f"{width} += {count}")

            self.at.branch(guard, add)
        return f"({value} << (-{width} & 7)).to_bytes(({width} + 7) >> 3, 'big'){tail}"

    def _payload(self) -> str:
        truncate = self.at.flag("truncate")
        start = "pos" if self.at.state.position is None else str(self.at.state.position)
        if truncate.value == UNCUT:
            return f"d[{start}:]"
        return f"d[{start}:][:{truncate.operand}]"

    # -- checksums ----------------------------------------------------------------------------------------------------

    def verify_checksums(self) -> None:
        """Emit the verification of all checksums; the flag `checksum_error` becomes 1 if one is wrong."""
        for checksum in self.program.checksums:
            if checksum.verify:
                self._verify_checksum(checksum)

    def _verify_checksum(self, checksum: p4.Checksum) -> None:
        def check() -> None:
            found = self.at.read(checksum.target)
            computed = self.calculation(checksum.calculation)

            def wrong() -> None:
                self.at.set_flag("checksum_error", constant(1))

            self.at.branch(IntExpr(f"{computed.operand} != {found.operand}", 0, 1), wrong)

        def conditional() -> None:
            if checksum.condition is None:
                check()
            else:
                self.at.branch(self.at.expr(checksum.condition), check)

        self.at.branch(self.at.valid(checksum.target.header), conditional)

    def update_checksums(self) -> None:
        """Emit the update of all checksum fields."""
        for checksum in self.program.checksums:
            if not checksum.update:
                continue

            def update(checksum: p4.Checksum = checksum) -> None:
                self.at.write(checksum.target, self.calculation(checksum.calculation))

            if checksum.condition is None:
                update()
            else:
                self.at.branch(self.at.expr(checksum.condition), update)


def pack(present: list[tuple[str, int]]) -> str:
    """Return code that packs (code, width) pairs from the left, zero bits behind."""
    total = sum(width for _, width in present)
    below = -total % 8
    terms = []
    for code, width in reversed(present):
        terms.append(f"{code} << {below}" if below else code)
        below += width
    return f"({' | '.join(reversed(terms))}).to_bytes({(total + 7) // 8}, 'big')"
