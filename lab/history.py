"""The history of a run: what every process wrote down, on the one monotonic clock of the machine.

Each process appends JSON lines to a file of its own, `<node>.jsonl`, with `t` (seconds, CLOCK_MONOTONIC), `node` and
`kind`. Here they are read, merged by time, and stored again as one file.
"""

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO


@dataclass(frozen=True)
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


class History:
    """All records in the order of time."""

    def __init__(self, records: Iterable[Record]) -> None:
        self.records = sorted(records, key=lambda record: record.t)

    def of(self, *kinds: str, node: str | None = None) -> Iterator[Record]:
        """Records of these kinds, of one node where it is given."""
        return (r for r in self.records if r.kind in kinds and (node is None or r.node == node))

    def store(self, path: Path) -> None:
        """Write all records as one file of JSON lines."""
        with path.open("w", encoding="utf-8") as file:
            for r in self.records:
                file.write(json.dumps({"t": r.t, "node": r.node, "kind": r.kind, **r.data}) + "\n")


def parse(lines: Iterable[str]) -> Iterator[Record]:
    """Records of a history file. A last line that a killed process left half written is passed over."""
    for line in lines:
        try:
            data = json.loads(line)
            yield Record(float(data.pop("t")), str(data.pop("node")), str(data.pop("kind")), data)
        except (ValueError, KeyError, AttributeError):
            continue


def load(path: Path) -> History:
    """Read one file, or all `*.jsonl` of a directory."""
    files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
    return History(record for file in files for record in parse(file.read_text(encoding="utf-8").splitlines()))


class Writer:
    """Appends the lab's own records; every line reaches the file at once."""

    def __init__(self, path: Path, node: str = "lab") -> None:
        self.path = path
        self._node = node
        self._file: TextIO = path.open("a", encoding="utf-8", buffering=1)

    def add(self, kind: str, t: float | None = None, **fields: Any) -> float:
        """Append a record, now or with the time given; returns its time."""
        at = time.monotonic() if t is None else t
        self._file.write(json.dumps({"t": at, "node": self._node, "kind": kind, **fields}) + "\n")
        return at

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> "Writer":
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _value: BaseException | None, _tb: TracebackType | None
    ) -> None:
        self.close()
