"""Storage of captured frames: one file, or a ring buffer from which the time around each fault is written."""

import math
import re
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mrclab.lab import history
from mrclab.lab.capture import pcapng
from mrclab.lab.capture.pcapng import CapturedFrame
from mrclab.lab.capture.taps import Taps
from mrclab.lab.history import Record

_READ_S = 0.05  # seconds between two reads of the history
_IN_SOCKET_S = 0.2  # seconds that a frame may wait in its socket
_NANO = 1_000_000_000
VERBS = {"fault.begin": "begins", "fault.end": "ends", "fault.edge": "changes"}


class Faults:
    """Faults that are being recorded in a running lab's history, with times in nanoseconds since the epoch."""

    def __init__(self, path: Path) -> None:
        self._tail = history.Tail(path, from_end=True)
        self.close = self._tail.close

    def new(self) -> list[tuple[int, Record]]:
        """Return the begins, changes and ends of faults recorded since the last call."""
        records = [record for record in self._tail.records() if record.kind in VERBS]
        offset = time.time_ns() - time.monotonic_ns()
        return [(round(record.t * _NANO) + offset, record) for record in records]


@dataclass
class _PendingFile:
    """A fault around which frames are to be written."""

    at: int
    until: int
    path: Path


def comment_on(record: Record) -> str:
    """The text of a comment: `core-link begins: cable t0-p1-1/t1-p1-2 down`."""
    what = record.get("text") or record.get("link") or record.get("fault_kind", "")
    return f"{record['fault']} {VERBS[record.kind]}: {what}".rstrip(": ")


def record_all(taps: Taps, faults: Faults, path: Path, over: Callable[[], bool], most: float = math.inf) -> int:
    """Write frames into one file until `over` or there are `most`; returns their number. OSErrors are passed on."""
    with path.open("wb") as file:
        writer = pcapng.PcapngWriter(file, taps.interfaces)
        file.flush()  # kill -9 leaves whole frames, and programs may read along
        while writer.frames < most and not over():
            for _, record in faults.new():
                writer.comment(comment_on(record))
            for frame in sorted(taps.frames(_READ_S), key=lambda each: each.time):
                if writer.frames < most:
                    writer.write(frame)
            file.flush()
        return writer.frames


class AroundFaults:
    """A ring buffer of the newest frames; each fault gets a file of the frames before and after its begin."""

    def __init__(self, taps: Taps, faults: Faults, folder: Path, before: float, after: float) -> None:
        self._taps, self._faults, self._folder = taps, faults, folder
        self._before, self._after = round(before * _NANO), round(after * _NANO)
        self._ring: deque[CapturedFrame] = deque()
        self._comments: deque[tuple[int, str]] = deque()
        self._pending: list[_PendingFile] = []
        self.files: list[Path] = []

    def step(self) -> None:
        """Read new frames and faults; write the files whose time span is complete."""
        self._ring.extend(self._taps.frames(_READ_S))
        for at, record in self._faults.new():
            self._comments.append((at, comment_on(record)))
            if record.kind == "fault.begin":
                self._schedule(at, str(record["fault"]))
        arrived = time.time_ns() - round(_IN_SOCKET_S * _NANO)  # all frames up to then have been read
        for due in [each for each in self._pending if each.until < arrived]:
            self._write(due)
        reported = arrived - self._after - round(_IN_SOCKET_S * _NANO)  # faults before that have been read
        self._forget(min([reported, *(each.at for each in self._pending)]) - self._before)

    def finish(self) -> None:
        """Write the files still due, with the frames captured so far."""
        for due in list(self._pending):
            self._write(due)

    def _schedule(self, at: int, fault: str) -> None:
        stem = re.sub(r"[^A-Za-z0-9._-]", "-", fault)
        taken = {path.name for path in self.files} | {each.path.name for each in self._pending}
        names = (f"{stem}{'' if n == 1 else f'-{n}'}.pcapng" for n in range(1, len(taken) + 2))
        name = next(name for name in names if name not in taken)
        self._pending.append(_PendingFile(at, at + self._after, self._folder / name))

    def _forget(self, before: int) -> None:
        while self._ring and self._ring[0].time < before:
            self._ring.popleft()
        while self._comments and self._comments[0][0] < before:
            self._comments.popleft()

    def _write(self, due: _PendingFile) -> None:
        begin = due.at - self._before
        frames = (frame for frame in self._ring if begin <= frame.time <= due.until)
        comments = [(at, text) for at, text in self._comments if begin <= at <= due.until]
        pcapng.store(due.path, self._taps.interfaces, frames, comments)
        self._pending.remove(due)
        self.files.append(due.path)
