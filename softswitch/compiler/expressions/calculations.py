"""Code for calculations over fields (hashes, checksums), and for verification and update of checksum fields.

Source: behavioral-model's calculations.cpp and checksums.cpp.
"""

from __future__ import annotations

from mrclab.softswitch.compiler.block import Ex, bits, constant
from mrclab.softswitch.compiler.expressions.operators import arithmetic
from mrclab.softswitch.compiler.flow import BranchScope
from mrclab.softswitch.objects.runtime_api import PipelineError
from mrclab.softswitch.p4 import program as p4
from mrclab.softswitch.p4.layout import UNCUT

_RESULT_BITS = {
    "crc16": 16, "crc16_custom": 16, "crcCCITT": 16, "csum16": 16, "cksum16": 16, "xor16": 16,
    "crc32": 32, "crc32_custom": 32, "xor32": 32, "toeplitz": 32, "crc8_custom": 8,
    "identity": 64, "xxh64": 64, "crc64_custom": 64, "round_robin": 64, "round_robin_consistent": 64,
}  # fmt: skip


class Calculations:
    """Calculations of one program, emitted where `at` is."""

    def __init__(self, at: BranchScope) -> None:
        self.at = at
        self.program = at.program

    def calculation(self, name: str) -> Ex:
        """Return the code of a calculation's result."""
        calculation = self.program.calculations[name]
        if calculation.algorithm not in _RESULT_BITS:
            raise PipelineError(f"calculation {name}: hash algorithm {calculation.algorithm} is not supported")
        number = list(self.program.calculations).index(name)
        data = self.gather(calculation.inputs, calculation.payload)
        return self.at.hoisted(bits(f"hash_{number}({data})", _RESULT_BITS[calculation.algorithm]))

    def gather(self, inputs: tuple[tuple[p4.Expr, int], ...], payload: bool) -> str:
        """Return code for the bytes of a calculation's input; fields of invalid headers are left out."""
        parts = [self._input(expr, width) for expr, width in inputs]
        fixed = all(part is None or isinstance(part, tuple) for part in parts)
        tail = f" + {self._payload()}" if payload else ""
        if fixed:
            present = [part for part in parts if isinstance(part, tuple) and part[1]]
            total = sum(width for _, width in present)
            if not total:
                return f"b''{tail}"
            return f"{pack(present, total)}{tail}"
        return self._gather_dynamic(inputs, tail)

    def _input(self, expr: p4.Expr, width: int) -> tuple[str, int] | bool | None:  # noqa: PLR0911 - one case per kind
        """Return an input's code and width; None if it is left out, False if only known at run time."""
        if isinstance(expr, p4.Const):
            return f"{expr.value & ((1 << width) - 1):#x}", width
        if isinstance(expr, p4.FieldRef):
            if expr.name != "$valid$" and self.program.field(expr).varbit:
                return False
            known = self.at.state.headers[expr.header].valid
            if known is False:
                return None
            ex = self.at.read(expr)
            if ex.low < 0:
                ex = arithmetic("&", ex, constant((1 << width) - 1))
            return (ex.operand, width) if known else False
        if isinstance(expr, p4.HeaderRef):
            known = self.at.state.headers[expr.name].valid
            if known is False:
                return None
            kind = self.program.headers[expr.name].type
            if not known or kind.varbit:
                return False
            pairs = [(self.at.unsigned(expr.name, f), f.width) for f in kind.fields]
            return f"({self._joined(pairs)})", kind.bits
        return self.at.expr(expr).operand, width

    @staticmethod
    def _joined(pairs: list[tuple[str, int]]) -> str:
        below, terms = 0, []
        for code, width in reversed(pairs):
            terms.append(f"{code} << {below}" if below else code)
            below += width
        return " | ".join(reversed(terms))

    def _gather_dynamic(self, inputs: tuple[tuple[p4.Expr, int], ...], tail: str) -> str:
        """Emit code that collects the input in an integer, header by header; return the code of its bytes."""
        value, width = self.at.temporary(), self.at.temporary()
        self.at.line(f"{value} = {width} = 0")
        for expr, bits_wide in inputs:
            header = expr.header if isinstance(expr, p4.FieldRef) else getattr(expr, "name", None)
            guard = self.at.valid(header) if isinstance(expr, p4.FieldRef | p4.HeaderRef) and header else constant(1)
            pieces = self._dynamic_pieces(expr, bits_wide)

            def add(pieces: list[tuple[str, str]] = pieces) -> None:
                for code, count in pieces:
                    self.at.line(f"{value} = {value} << {count} | {code}")
                    self.at.line(f"{width} += {count}")

            self.at.branch(guard, add)
        return f"({value} << (-{width} & 7)).to_bytes(({width} + 7) >> 3, 'big'){tail}"

    def _dynamic_pieces(self, expr: p4.Expr, width: int) -> list[tuple[str, str]]:
        if isinstance(expr, p4.FieldRef):
            fields: tuple[p4.Field, ...] = (self.program.field(expr),)
            header = expr.header
        elif isinstance(expr, p4.HeaderRef):
            fields, header = self.program.headers[expr.name].type.fields, expr.name
        else:
            part = self._input(expr, width)
            assert isinstance(part, tuple)
            return [(part[0], str(width))]
        pieces = []
        for field in fields:
            if field.varbit:
                code = self.at.read_varbit(p4.FieldRef(header, field.name))
                pieces.append((f"int_from({code}, 'big')", f"(len({code}) << 3)"))
            else:
                pieces.append((self.at.unsigned(header, field), str(field.width)))
        return pieces

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

            self.at.branch(Ex(f"{computed.operand} != {found.operand}", 0, 1), wrong)

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


def pack(present: list[tuple[str, int]], total: int) -> str:
    """Return code that packs (code, width) pairs from the left, zero bits behind."""
    below = -total % 8
    terms = []
    for code, width in reversed(present):
        terms.append(f"{code} << {below}" if below else code)
        below += width
    return f"({' | '.join(reversed(terms))}).to_bytes({(total + 7) // 8}, 'big')"
