"""The history of a run: the records of all processes on the machine's monotonic clock.

Each process appends JSON lines to a file of its own, `<node>.jsonl`, with `t` (seconds, CLOCK_MONOTONIC), `node` and
`kind`. This module reads them, merges them by time, and stores them as one file.
"""

import hashlib
import heapq
import json
import math
import re
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from mrclab.events.event import Event, renamed
from mrclab.topo.economy import CompressedLog
from mrclab.topo.input import files

_SAMPLE = "sample"
_HEAD = ("t", "node", "kind")


@dataclass(frozen=True, slots=True)
class Record:
    """One line of a history. `data` holds its fields without t, node and kind."""

    t: float
    node: str
    kind: str
    data: dict[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        return self.data[name]

    def get(self, name: str, default: Any = None) -> Any:
        """The field, or a default."""
        return self.data.get(name, default)


class _StoredSample(Record):
    """A host's sample, parsed on access: as objects, its fields need twenty times the memory."""

    __slots__ = ("_at", "_lines")

    _at: int
    _lines: CompressedLog

    def __init__(self, t: float, node: str, lines: CompressedLog, at: int) -> None:
        for name, value in (("t", t), ("node", node), ("kind", _SAMPLE), ("_lines", lines), ("_at", at)):
            object.__setattr__(self, name, value)

    @property
    def data(self) -> dict[str, Any]:
        """The fields, read again each time."""
        whole = json.loads(self._lines[self._at])
        return {field: value for field, value in whole.items() if field not in _HEAD}

    def __reduce__(self) -> tuple[Any, ...]:
        return Record, (self.t, self.node, self.kind, self.data)  # pickled as any other record


class History:
    """All records in the order of time."""

    def __init__(self, records: Iterable[Record]) -> None:
        self.records = sorted(records, key=lambda record: record.t)
        self._by_kind: dict[str, list[Record]] = {}
        for record in self.records:
            self._by_kind.setdefault(record.kind, []).append(record)

    def of(self, *kinds: str, node: str | None = None) -> Iterator[Record]:
        """Records of these kinds in the order of time, of one node where it is given."""
        found = [self._by_kind.get(kind, []) for kind in dict.fromkeys(kinds)]
        records = iter(found[0]) if len(found) == 1 else heapq.merge(*found, key=lambda record: record.t)
        return records if node is None else (r for r in records if r.node == node)


_TIME = re.compile(r'\{"t": ?([0-9.eE+-]+), ?"node": ?"[^"]*", ?"kind"')


def _line(record: Record) -> str:
    return json.dumps({"t": record.t, "node": record.node, "kind": record.kind, **record.data})


def parse(lines: Iterable[str]) -> Iterator[Record]:
    """Records of a history file. A last line that a killed process left half written is passed over."""
    return filter(None, map(_record, lines))


def _record(line: str) -> Record | None:
    """Parse a line; None where it is not a record."""
    try:
        data = json.loads(line)
        node, t = sys.intern(str(data.pop("node"))), _time(data.pop("t"))
        kind, data = renamed(str(data.pop("kind")), data)
        return Record(t, node, sys.intern(kind), data)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None


def _time(value: Any) -> float:
    """Return a record's time; ValueError if it is no finite number."""
    found = float(value)
    if not math.isfinite(found):
        raise ValueError(value)
    return found


def load(path: Path) -> History:
    """Read a file, or a directory's `*.jsonl`; ValueError names a line that is not a record, unless cut at the end."""
    files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
    return History(record for file in files for record in _stored(file))


class Tail:
    """Follows a growing file of lines, from its first one or from its present end; it stays readable once removed."""

    def __init__(self, path: Path, *, from_end: bool = False) -> None:
        self._file = files.open_regular(path, files.LARGE, follow=False)
        if from_end:
            self._file.seek(0, 2)
        self._half = b""

    def lines(self) -> list[str]:
        """Return the lines that were finished since the last call."""
        *whole, self._half = (self._half + self._file.read()).split(b"\n")
        return [line.decode(errors="replace") for line in whole]

    def records(self) -> Iterator[Record]:
        """Return the records among them."""
        return parse(self.lines())

    def close(self) -> None:
        """Stop reading."""
        self._file.close()


_NUMBER = re.compile(r"-?\d{1,20}(\.\d+)?(e-?\d\d?)?", re.ASCII)  # as JSON has finite ones
_STORED = re.compile(r'\{"t": ?([0-9.eE+-]+), ?"node": ?"([^"\\]*)", ?"kind": ?"sample",.*\}\n')


def _is_whole(line: str) -> bool:
    """Return True if all braces of a line are closed, as in no line that a full disk truncated.

    Braces inside text may have it False of a whole line: such a line is parsed then.
    """
    return line.count("{") == line.count("}") and line.count("[") == line.count("]")


def of_lines(lines: CompressedLog) -> History:
    """Read the lines of a world in virtual time, which were never in a file."""
    return History(_packed((line + "\n" for line in lines.by_time()), "the history"))


def _stored(path: Path) -> Iterator[Record]:
    """Records of a file, samples packed."""
    with files.open_text(path, follow=False) as file:
        yield from _packed(file, path.name)


def _packed(lines: Iterable[str], name: str) -> Iterator[Record]:
    """Records of whole lines, samples packed; ValueError names one that is not a record, unless it was cut."""
    samples = CompressedLog()
    for number, line in enumerate(lines, 1):
        head = _STORED.fullmatch(line)
        if head is None or not _is_whole(line) or not _NUMBER.fullmatch(head[1]):
            if record := _record(line):
                yield record
            elif line.endswith("\n"):
                raise ValueError(f"{name}, line {number} is not a record")
        else:
            samples.append(0.0, line[:-1])
            yield _StoredSample(float(head[1]), sys.intern(head[2]), samples, len(samples) - 1)


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    made = hashlib.sha256()
    with files.open_regular(path, files.LARGE, follow=False) as file:
        while part := file.read(1 << 20):
            made.update(part)
    return made.hexdigest()


def merge(directory: Path, path: Path) -> None:
    """Write all `*.jsonl` of a directory as one file in the order of time, leaving out lines that are no records.
    OSError where one is not a regular file; no link is followed, and one in the place of `path` is replaced.

    Lines are moved as they are: every writer puts `t` first, so that most need not be parsed.
    """
    lines = []
    for file in sorted(directory.glob("*.jsonl")):
        with files.open_text(file, follow=False) as lines_of_file:
            found = lines_of_file.read().splitlines()
        for line in found:
            head = _TIME.match(line)
            if head and _NUMBER.fullmatch(head[1]) and line.endswith("}") and _is_whole(line):
                lines.append((float(head[1]), line))
            else:
                lines += [(record.t, _line(record)) for record in parse([line])]
    lines.sort(key=lambda entry: entry[0])
    with files.replacing(path) as merged:
        merged.writelines(line.encode() + b"\n" for _, line in lines)


class HistoryWriter:
    """Appends the lab's own records; every line reaches the file at once."""

    def __init__(self, path: Path, node: str = "lab") -> None:
        self.path = path
        self._node = node
        self._file: TextIO = path.open("a", encoding="utf-8", buffering=1)

    def add(self, event: Event, t: float | None = None) -> float:
        """Append a record, now or with the time given; returns its time."""
        at = time.monotonic() if t is None else t
        self._file.write(json.dumps({"t": at, "node": self._node, **event.to_record()}) + "\n")
        return at

    def close(self) -> None:
        """Close the file."""
        self._file.close()
