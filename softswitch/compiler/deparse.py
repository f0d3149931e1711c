"""Code for calculations, checksum updates and the deparser (behavioral-model: calculations.cpp, deparser.cpp).

Headers that kept their place in the packet are patched where they are; only where headers came, went or moved is the
packet put together anew.
"""

from __future__ import annotations

from dataclasses import dataclass

from mrclab.softswitch import program as p4
from mrclab.softswitch.compiler.block import Ex, bits, constant
from mrclab.softswitch.compiler.control import Control
from mrclab.softswitch.compiler.state import is_dirty
from mrclab.softswitch.layout import UNCUT
from mrclab.softswitch.runtime_api import PipelineError

_RESULT_BITS = {
    "crc16": 16, "crc16_custom": 16, "crcCCITT": 16, "csum16": 16, "cksum16": 16, "xor16": 16,
    "crc32": 32, "crc32_custom": 32, "xor32": 32, "toeplitz": 32, "crc8_custom": 8,
    "identity": 64, "xxh64": 64, "crc64_custom": 64, "round_robin": 64, "round_robin_consistent": 64,
}  # fmt: skip


@dataclass(frozen=True)
class Piece:
    """A run of bytes for the output: code, and its start and end in `d` where it is unchanged packet bytes."""

    code: str
    start: int | None = None
    end: int | None = None


@dataclass(frozen=True)
class Run:
    """Bytes of a header that must be written: the fields with their bits below, and the mask of bits to keep."""

    first: int
    size: int
    fields: tuple[tuple[p4.Field, int], ...]
    kept: int


class Deparsing(Control):
    """Control plus everything that turns fields back into bytes."""

    # -- calculations -------------------------------------------------------------------------------------------------

    def calculation(self, name: str) -> Ex:
        """Return the code of a calculation's result."""
        calculation = self.program.calculations.get(name)
        if calculation is None:
            raise PipelineError(f"calculation {name}: the program has no such calculation")
        if calculation.algorithm not in _RESULT_BITS:
            raise PipelineError(f"calculation {name}: hash algorithm {calculation.algorithm} is not supported")
        number = list(self.program.calculations).index(name)
        data = self.gather(calculation.inputs, calculation.payload)
        return self.held(bits(f"hash_{number}({data})", _RESULT_BITS[calculation.algorithm]))

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
            return f"{self._pack(present, total)}{tail}"
        return self._gather_dynamic(inputs, tail)

    @staticmethod
    def _pack(present: list[tuple[str, int]], total: int) -> str:
        """Return code that packs (code, width) pairs from the left, zero bits behind."""
        below = -total % 8
        terms = []
        for code, width in reversed(present):
            terms.append(f"{code} << {below}" if below else code)
            below += width
        return f"({' | '.join(reversed(terms))}).to_bytes({(total + 7) // 8}, 'big')"

    def _input(self, expr: p4.Expr, width: int) -> tuple[str, int] | bool | None:  # noqa: PLR0911 - one case per kind
        """Return an input's code and width, None for one that is left out, False where only run time knows."""
        if isinstance(expr, p4.Const):
            return f"{expr.value & ((1 << width) - 1):#x}", width
        if isinstance(expr, p4.FieldRef):
            if expr.name != "$valid$" and self.program.field(expr).varbit:
                return False
            known = self.state.headers[expr.header].valid
            if known is False:
                return None
            ex = self.read(expr)
            if ex.low < 0:
                ex = self._arithmetic("&", ex, constant((1 << width) - 1))
            return (ex.operand, width) if known else False
        if isinstance(expr, p4.HeaderRef):
            known = self.state.headers[expr.name].valid
            if known is False:
                return None
            kind = self.program.headers[expr.name].type
            if not known or kind.varbit:
                return False
            pairs = [(self._unsigned(expr.name, f), f.width) for f in kind.fields]
            return f"({self._joined(pairs)})", kind.bits
        return self.expr(expr).operand, width

    @staticmethod
    def _joined(pairs: list[tuple[str, int]]) -> str:
        below, terms = 0, []
        for code, width in reversed(pairs):
            terms.append(f"{code} << {below}" if below else code)
            below += width
        return " | ".join(reversed(terms))

    def _unsigned(self, header: str, field: p4.Field) -> str:
        ex = self.read(p4.FieldRef(header, field.name))
        return f"({ex.code} & {(1 << field.width) - 1:#x})" if ex.low < 0 else ex.operand

    def _gather_dynamic(self, inputs: tuple[tuple[p4.Expr, int], ...], tail: str) -> str:
        """Emit code that collects the input in an integer, header by header; return the code of its bytes."""
        value, width = self.temporary(), self.temporary()
        self.line(f"{value} = {width} = 0")
        for expr, bits_wide in inputs:
            header = expr.header if isinstance(expr, p4.FieldRef) else getattr(expr, "name", None)
            guard = self.valid(header) if isinstance(expr, p4.FieldRef | p4.HeaderRef) and header else constant(1)
            pieces = self._dynamic_pieces(expr, bits_wide)

            def add(pieces: list[tuple[str, str]] = pieces) -> None:
                for code, count in pieces:
                    self.line(f"{value} = {value} << {count} | {code}")
                    self.line(f"{width} += {count}")

            self.branch(guard, add)
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
                code = self.read_varbit(p4.FieldRef(header, field.name))
                pieces.append((f"int_from({code}, 'big')", f"(len({code}) << 3)"))
            else:
                pieces.append((self._unsigned(header, field), str(field.width)))
        return pieces

    def _payload(self) -> str:
        truncate = self.flag("truncate")
        start = "pos" if self.state.position is None else str(self.state.position)
        if truncate.value == UNCUT:
            return f"d[{start}:]"
        return f"d[{start}:][:{truncate.operand}]"

    def update_checksums(self) -> None:
        """Emit the update of all checksum fields."""
        for checksum in self.program.checksums:
            if not checksum.update:
                continue

            def update(checksum: p4.Checksum = checksum) -> None:
                self.write(checksum.target, self.calculation(checksum.calculation))

            if checksum.condition is None:
                update()
            else:
                self.branch(self.expr(checksum.condition), update)

    # -- deparser -----------------------------------------------------------------------------------------------------

    def deparse(self) -> None:
        """Emit the deparser: afterwards `d` is the packet to send, before truncation."""
        self.update_checksums()
        self.body(self.program.deparser_calls)
        if self._in_place():
            self._patch()
        else:
            self._rebuild()

    def _in_place(self) -> bool:
        """Return whether all headers known to be valid lie in the packet one behind the other from byte 0 on."""
        position = 0
        for name in self.program.deparser:
            info = self.state.headers[name]
            if info.valid is False:
                continue
            if info.valid is None or info.offset != position or info.length != 0:
                return False
            position += self.program.headers[name].type.bits // 8
        return position == self.state.position

    def _patch(self) -> None:
        for name in self.program.deparser:
            info = self.state.headers[name]
            if info.valid is False:
                continue
            assert info.offset is not None
            kind = self.program.headers[name].type
            for run in dirty_runs(kind, {f.name for f in self.dirty_fields(name)}):
                code = self._run_code(name, run)
                start = info.offset + run.first
                if run.size == 1:
                    self.line(f"d[{start}] = {code}")
                else:
                    self.line(f"d[{start}:{start + run.size}] = ({code}).to_bytes({run.size}, 'big')")

    def _run_code(self, header: str, run: Run) -> str:
        """Return the integer of a run's bytes: its fields, and the packet's own bits where they are not covered."""
        terms = []
        if run.kept:
            last = run.first + run.size - 1

            def at(byte: int) -> str:
                return self.offset_code(header, byte, after_varbit=False)

            own = self.take(at, run.first, last, 0, run.size * 8)
            terms.append(f"{own if run.size != 2 else f'({own})'} & {run.kept:#x}")
        for field, below in run.fields:
            code = self._unsigned(header, field)
            if code not in {"0", "0x0"}:
                terms.append(f"{code} << {below}" if below else code)
        return " | ".join(terms) or "0"

    def _rebuild(self) -> None:
        """Emit code that joins all valid headers and the payload."""
        static = all(self.state.headers[name].valid is not None for name in self.program.deparser)
        if static:
            pieces: list[Piece] = []
            for name in self.program.deparser:
                if self.state.headers[name].valid:
                    pieces.extend(self._pieces(name))
            pieces.append(self._rest())
            self.line(f"d = bytearray().join(({', '.join(piece.code for piece in merge(pieces))},))")
            return
        out = self.temporary()
        self.line(f"{out} = []")
        for name in self.program.deparser:
            if self.state.headers[name].valid is False:
                continue
            before = self.state.headers[name]

            def add(name: str = name) -> None:
                self.state.edit(name).valid = True
                for piece in merge(self._pieces(name)):
                    self.line(f"{out}.append({piece.code})")

            self.branch(self.valid(name), add)
            self.state.replace(name, before.copy())
        self.line(f"{out}.append({self._rest().code})")
        self.line(f"d = bytearray().join({out})")

    def _rest(self) -> Piece:
        position = self.state.position
        return Piece("d[pos:]") if position is None else Piece(f"d[{position}:]", position, 1 << 30)

    def _pieces(self, name: str) -> list[Piece]:
        """Return the pieces of one valid header, in order."""
        kind, info = self.program.headers[name].type, self.state.headers[name]
        whole = info.offset == -1
        dirty = {f.name for f in kind.fields if whole or is_dirty(info.place(f.name))}
        if kind.varbit is not None:
            return self._varbit_pieces(name, kind, dirty)
        pieces, cursor = [], 0
        for run in dirty_runs(kind, dirty):
            if run.first > cursor:
                pieces.append(self._clean(name, cursor, run.first))
            pieces.append(Piece(f"({self._run_code(name, run)}).to_bytes({run.size}, 'big')"))
            cursor = run.first + run.size
        if cursor < kind.bits // 8:
            pieces.append(self._clean(name, cursor, kind.bits // 8))
        return pieces

    def _clean(self, name: str, first: int, end: int) -> Piece:
        offset = self.state.headers[name].offset
        start, stop = (self.offset_code(name, byte, after_varbit=False) for byte in (first, end))
        if offset is None:
            return Piece(f"d[{start}:{stop}]")
        return Piece(f"d[{start}:{stop}]", offset + first, offset + end)

    def _varbit_pieces(self, name: str, kind: p4.HeaderType, dirty: set[str]) -> list[Piece]:
        """Return the pieces of a header with a varbit: unchanged as a whole, or everything from its fields."""
        if not dirty:
            start = self.offset_code(name, 0, after_varbit=False)
            stop = self.offset_code(name, kind.bits // 8, after_varbit=True)
            return [Piece(f"d[{start}:{stop}]")]
        pieces, group = [], list[tuple[str, int]]()
        for field in kind.fields:
            if not field.varbit:
                group.append((self._unsigned(name, field), field.width))
                continue
            if sum(width for _, width in group) % 8:
                raise PipelineError(f"header {name}: a varbit that does not start at a byte is not supported")
            if group:
                pieces.append(Piece(self._pack(group, sum(width for _, width in group))))
            pieces.append(Piece(self.read_varbit(p4.FieldRef(name, field.name))))
            group = []
        if group:
            pieces.append(Piece(self._pack(group, sum(width for _, width in group))))
        return pieces


def dirty_runs(kind: p4.HeaderType, dirty: set[str]) -> list[Run]:
    """Return the byte ranges that dirty fields touch, adjacent ones as one."""
    spans: list[tuple[int, int, list[p4.Field]]] = []
    for field in kind.fields:
        if field.name not in dirty or not field.width:
            continue
        first, last = field.offset // 8, (field.offset + field.width - 1) // 8
        if spans and first <= spans[-1][1] + 1:
            spans[-1] = (spans[-1][0], max(last, spans[-1][1]), [*spans[-1][2], field])
        else:
            spans.append((first, last, [field]))
    runs = []
    for first, last, fields in spans:
        placed = tuple((field, (last + 1) * 8 - field.offset - field.width) for field in fields)
        covered = sum(((1 << field.width) - 1) << below for field, below in placed)
        size = last - first + 1
        runs.append(Run(first, size, placed, ((1 << size * 8) - 1) ^ covered))
    return runs


def merge(pieces: list[Piece]) -> list[Piece]:
    """Join pieces that lie side by side in the packet."""
    merged: list[Piece] = []
    for piece in pieces:
        previous = merged[-1] if merged else None
        if previous is not None and previous.end is not None and previous.end == piece.start:
            stop = "" if piece.end == 1 << 30 else str(piece.end)
            merged[-1] = Piece(f"d[{previous.start}:{stop}]", previous.start, piece.end)
        else:
            merged.append(piece)
    return merged
