"""Store of finished runs: a JSON line each, so that a batch can end at any moment and go on later.

A line is appended in one write and on the disk before its run counts as done. An incomplete last line is removed, and
its run is done again.
"""

import hashlib
import json
import os
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from mrclab import HOME
from mrclab.lab.errors import LabError, naming
from mrclab.topo.input import files

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

Row = dict[str, Any]
_MAX_BYTES = 1 << 30  # bytes of a file of rows
_RESULT_SOURCES = (
    "controller", "events", "hosts", "sim", "topo", "lab/expectations", "lab/faults", "lab/measure", "lab/run",
    "lab/scenario", "lab/topology", "lab/traffic", "lab/training",
)  # fmt: skip


def sources() -> str:
    """Return a digest of the sources that affect the figures of a run."""
    found = hashlib.sha256()
    for folder in _RESULT_SOURCES:
        for path in sorted((HOME / folder).rglob("*.py")):
            found.update(path.relative_to(HOME).as_posix().encode() + path.read_bytes())
    return found.hexdigest()


def grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Return items by their key, in the order in which they come."""
    found: dict[K, list[T]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return found


class RunStore:
    """Rows of one file, to read and to append to.

    `key` returns the run of a row, and raises ValueError, KeyError or TypeError for anything else; `what` is the noun
    of that error's message, `option` the one that names the directory; empty: an argument does.
    """

    def __init__(self, path: Path, key: Callable[[Row], str], what: str, option: str = "--output") -> None:
        self.path = path
        self.rows: dict[str, Row] = {}  # by key, in the order in which they were done
        self._key = key
        self._what = what
        self._remedy = f"name another directory with {option}" if option else "name another directory"

    def open(self) -> "RunStore":
        """Read existing rows, without an incomplete last line; return itself."""
        data = self._bytes()
        if data and not data.endswith(b"\n"):
            os.truncate(self.path, data.rfind(b"\n") + 1)
        self.rows = {self._key(row): row for row in self.read()}
        return self

    def _bytes(self) -> bytes:
        """Return the file's text, empty if there is none; LabError if it is not a regular file."""
        try:
            return files.read_bytes(self.path, _MAX_BYTES, follow=False)
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise self.refused(f"{self.path} cannot be read: {error.strerror}") from None

    def refused(self, why: str) -> LabError:
        """Return the error of a directory that cannot be used, with the remedy."""
        return LabError(f"{why}; {self._remedy}")

    def read(self) -> Iterator[Row]:
        """Yield the rows that are on the disk, each run once; LabError where a line is not a row."""
        seen = set()
        data = self._bytes()
        for number, line in enumerate(data[: data.rfind(b"\n") + 1].splitlines(), 1):
            try:
                row = json.loads(line)
                name = self._key(row)
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                place = f"{self.path}, line {number}"
                why = f"{place} is not a row of {self._what}; remove the line to repeat its run, or {self._remedy}"
                raise LabError(why) from None
            if name not in seen:
                seen.add(name)
                yield row

    @contextmanager
    def owned(self) -> Iterator[None]:
        """Context manager: no other process owns the directory meanwhile; LabError where one does already."""
        place = self.path.parent
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            why = "it is not a directory" if isinstance(error, FileExistsError) else error.strerror
            raise self.refused(f"{place} cannot be made: {why}") from None
        try:
            import fcntl  # noqa: PLC0415 - not on Windows
        except ImportError:
            yield
            return
        lock = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
        try:
            with suppress(OSError):  # a file system without locks
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    raise LabError(f"another process adds runs to {place}; wait for it, or {self._remedy}") from None
            yield
        finally:
            os.close(lock)

    def append(self, row: Row) -> None:
        """Add a finished run; it is on the disk when this returns."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with naming(self.path), self.path.open("ab") as file:
            file.write(json.dumps(row).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self.rows[self._key(row)] = row

    def __contains__(self, key: str) -> bool:
        return key in self.rows

    def __len__(self) -> int:
        return len(self.rows)
