"""Code for the deparser (behavioral-model: deparser.cpp).

Headers that kept their place in the packet are patched there; the packet is assembled again only if headers were
added, removed or moved.
"""

from __future__ import annotations

from dataclasses import dataclass

from mrclab.softswitch.compiler.analysis.state import is_dirty
from mrclab.softswitch.compiler.expressions.calculations import Calculations, pack
from mrclab.softswitch.compiler.flow import BranchScope
from mrclab.softswitch.compiler.packets.headers import HeaderOps
from mrclab.softswitch.compiler.primitives import Primitives
from mrclab.softswitch.objects.runtime_api import PipelineError
from mrclab.softswitch.p4 import program as p4


@dataclass(frozen=True)
class Piece:
    """A run of bytes for the output: code, and its start and end in `d` where it is unchanged packet bytes."""

    code: str
    start: int | None = None
    end: int | None = None


@dataclass(frozen=True)
class ByteRun:
    """Bytes of a header that must be written: the fields with their bits below, and the mask of bits to keep."""

    first: int
    size: int
    fields: tuple[tuple[p4.Field, int], ...]
    kept: int


class Deparser:
    """Writes fields back into bytes at `at`."""

    def __init__(self, at: BranchScope, headers: HeaderOps, primitives: Primitives, calculations: Calculations) -> None:
        self.at, self.headers, self.primitives, self.calculations = at, headers, primitives, calculations
        self.program = at.program

    def emit(self) -> None:
        """Emit the deparser: afterwards `d` is the packet to send, before truncation."""
        self.calculations.update_checksums()
        self.primitives.body(self.program.deparser_calls)
        if self._in_place():
            self._patch()
        else:
            self._rebuild()

    def _in_place(self) -> bool:
        """Return True if all headers known to be valid are adjacent in the packet from byte 0 on."""
        position = 0
        for name in self.program.deparser:
            info = self.at.state.headers[name]
            if info.valid is False:
                continue
            if info.valid is None or info.offset != position or info.length != 0:
                return False
            position += self.program.headers[name].type.bits // 8
        return position == self.at.state.position

    def _patch(self) -> None:
        for name in self.program.deparser:
            info = self.at.state.headers[name]
            if info.valid is False:
                continue
            assert info.offset is not None
            kind = self.program.headers[name].type
            for run in dirty_runs(kind, {f.name for f in self.headers.dirty_fields(name)}):
                code = self._run_code(name, run)
                start = info.offset + run.first
                if run.size == 1:
                    self.at.line(f"d[{start}] = {code}")
                else:
                    self.at.line(f"d[{start}:{start + run.size}] = ({code}).to_bytes({run.size}, 'big')")

    def _run_code(self, header: str, run: ByteRun) -> str:
        """Return the integer of a run's bytes: its fields, and the packet's own bits elsewhere."""
        terms = []
        if run.kept:
            last = run.first + run.size - 1

            def at(byte: int) -> str:
                return self.at.offset_code(header, byte, after_varbit=False)

            own = self.at.extract(at, run.first, last, 0, run.size * 8)
            terms.append(f"{own if run.size != 2 else f'({own})'} & {run.kept:#x}")
        for field, below in run.fields:
            code = self.at.unsigned(header, field)
            if code not in {"0", "0x0"}:
                terms.append(f"{code} << {below}" if below else code)
        return " | ".join(terms) or "0"

    def _rebuild(self) -> None:
        """Emit code that joins all valid headers and the payload."""
        static = all(self.at.state.headers[name].valid is not None for name in self.program.deparser)
        if static:
            pieces: list[Piece] = []
            for name in self.program.deparser:
                if self.at.state.headers[name].valid:
                    pieces.extend(self._pieces(name))
            pieces.append(self._rest())
            self.at.line(f"d = bytearray().join(({', '.join(piece.code for piece in merge(pieces))},))")
            return
        out = self.at.temporary()
        self.at.line(f"{out} = []")
        for name in self.program.deparser:
            if self.at.state.headers[name].valid is False:
                continue
            before = self.at.state.headers[name]

            def add(name: str = name) -> None:
                self.at.state.edit(name).valid = True
                for piece in merge(self._pieces(name)):
                    self.at.line(f"{out}.append({piece.code})")

            self.at.branch(self.at.valid(name), add)
            self.at.state.replace(name, before.copy())
        self.at.line(f"{out}.append({self._rest().code})")
        self.at.line(f"d = bytearray().join({out})")

    def _rest(self) -> Piece:
        position = self.at.state.position
        return Piece("d[pos:]") if position is None else Piece(f"d[{position}:]", position, 1 << 30)

    def _pieces(self, name: str) -> list[Piece]:
        """Return the pieces of one valid header, in order."""
        kind, info = self.program.headers[name].type, self.at.state.headers[name]
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
        offset = self.at.state.headers[name].offset
        start, stop = (self.at.offset_code(name, byte, after_varbit=False) for byte in (first, end))
        if offset is None:
            return Piece(f"d[{start}:{stop}]")
        return Piece(f"d[{start}:{stop}]", offset + first, offset + end)

    def _varbit_pieces(self, name: str, kind: p4.HeaderType, dirty: set[str]) -> list[Piece]:
        """Return the pieces of a header with a varbit: unchanged as a whole, or everything from its fields."""
        if not dirty:
            start = self.at.offset_code(name, 0, after_varbit=False)
            stop = self.at.offset_code(name, kind.bits // 8, after_varbit=True)
            return [Piece(f"d[{start}:{stop}]")]
        pieces, group = [], list[tuple[str, int]]()
        for field in kind.fields:
            if not field.varbit:
                group.append((self.at.unsigned(name, field), field.width))
                continue
            if sum(width for _, width in group) % 8:
                raise PipelineError(f"header {name}: a varbit that does not start at a byte is not supported")
            if group:
                pieces.append(Piece(pack(group)))
            pieces.append(Piece(self.at.read_varbit(p4.FieldRef(name, field.name))))
            group = []
        if group:
            pieces.append(Piece(pack(group)))
        return pieces


def dirty_runs(kind: p4.HeaderType, dirty: set[str]) -> list[ByteRun]:
    """Return the byte ranges of dirty fields, adjacent ones merged."""
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
        runs.append(ByteRun(first, size, placed, ((1 << size * 8) - 1) ^ covered))
    return runs


def merge(pieces: list[Piece]) -> list[Piece]:
    """Join adjacent pieces of the packet."""
    merged: list[Piece] = []
    for piece in pieces:
        previous = merged[-1] if merged else None
        if previous is not None and previous.end is not None and previous.end == piece.start:
            stop = "" if piece.end == 1 << 30 else str(piece.end)
            merged[-1] = Piece(f"d[{previous.start}:{stop}]", previous.start, piece.end)
        else:
            merged.append(piece)
    return merged
