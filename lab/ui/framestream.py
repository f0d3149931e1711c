"""Frames of a history, one after another: while a run goes on and when it is replayed, by the same code.

They are kept as differences: JSON merge patches (RFC 7396), where null says that a value is gone, objects are merged
and lists replaced. Pure: no clock, no I/O.
"""

import json
import math
import threading
from collections.abc import Iterable, Iterator
from typing import Any

from mrclab.lab.history import Record
from mrclab.lab.ui.model import PageModel
from mrclab.topo.model import Fabric

Frame = dict[str, Any]

_LONGEST_GAP = 100  # frames; where nothing was written for longer, time jumps
_CABLES_PER_INTERVAL = 5000  # that a frame for every sampling interval can show; with more there are fewer frames
MAX_FRAMES = 20_000  # frames kept: half an hour of a lab that goes on
_MAX_TEXT = 40_000_000  # characters of what changed from frame to frame


class FrameStream:
    """Frames of a history as its records come: one at every multiple of `step` of its time, independent of readers.

    `step` is seconds of the history's clock; a frame has the state just before its time.
    """

    def __init__(self, model: PageModel, step: float) -> None:
        self._model = model
        self._step = step
        self._due: float | None = None

    def take(self, record: Record) -> list[Frame]:
        """Take the next record; return the frames that were due before it."""
        if self._due is None:
            self._due = record.t
        made = self.until(record.t)
        self._model.take(record)
        return made

    def until(self, now: float) -> list[Frame]:
        """The frames that are due at `now`."""
        made: list[Frame] = []
        if self._due is None:
            return made
        if now - self._due > _LONGEST_GAP * self._step:
            made.append(self._model.frame(self._due))
            self._due += self._step * int((now - self._due) / self._step)
        while self._due <= now:
            made.append(self._model.frame(self._due))
            self._due = max(self._due + self._step, math.nextafter(self._due, math.inf))  # however late that is
        return made


def frames(model: PageModel, records: Iterable[Record], step: float) -> Iterator[Frame]:
    """All frames of a history that is complete; the last one has its end."""
    stream, t = FrameStream(model, step), 0.0
    for record in records:
        yield from stream.take(record)
        t = record.t
    yield model.frame(t)


def frame_interval(fabric: Fabric) -> float:
    """Seconds between two frames of a lab that goes on: a sampling interval, or some of them on a large fabric."""
    return fabric.spec.sample_interval * -(-len(fabric.links) // _CABLES_PER_INTERVAL)


class FrameLog:
    """The frames so far, each as the text of its difference from the one before. Threads may read while one adds.

    The oldest are forgotten beyond `most` frames, or beyond a size that a browser takes at once.
    """

    def __init__(self, most: int = MAX_FRAMES, most_text: int = _MAX_TEXT) -> None:
        self._most, self._most_text = most, most_text
        self._first = 0  # number of the oldest frame
        self._before: Frame = {}  # the frame before it
        self._changes: list[str] = []
        self._size = 0
        self._lock = threading.Lock()
        self.last: Frame = {}
        """The newest frame; empty before there is one."""

    def add(self, frame: Frame) -> None:
        """Append a frame, which must not change afterwards."""
        text = json.dumps(patch(self.last, frame))
        with self._lock:
            self.last = frame
            self._changes.append(text)
            self._size += len(text)
            if len(self._changes) > self._most or self._size > self._most_text:
                self._forget(max(1, len(self._changes) // 10))

    def _forget(self, count: int) -> None:
        for text in self._changes[:count]:
            self._before = merge(self._before, json.loads(text))
            self._size -= len(text)
        del self._changes[:count]
        self._first += count

    def changes_since(self, since: int) -> tuple[int, list[str]]:
        """The number of the first frame there is from `since` on, and the difference of each from there on.

        The first one is whole where the client has not seen the one before: where it is 0, or later than `since`.
        """
        with self._lock:
            first, before = max(since, self._first), self._before
            changes = self._changes[first - self._first :]
        if changes and first == self._first:
            changes[0] = json.dumps(merge(before, json.loads(changes[0])))
        return first, changes

    def events(self, since: int) -> tuple[int, list[Frame]]:
        """The number of the next frame, and the events of all from number `since` on."""
        first, changes = self.changes_since(since)
        return first + len(changes), [event for text in changes for event in json.loads(text).get("events", ())]

    def frames(self) -> Iterator[Frame]:
        """All frames there are, whole."""
        with self._lock:
            frame, changes = self._before, list(self._changes)
        for text in changes:
            frame = merge(frame, json.loads(text))
            yield frame


def patch(before: Frame, after: Frame) -> Frame:
    """Return the difference of `after` and `before`, which hold no None."""
    changed: Frame = dict.fromkeys(before.keys() - after.keys())
    for name, value in after.items():
        old = before.get(name)
        if name not in before or (value is not old and value != old):
            changed[name] = patch(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return changed


def merge(before: Frame, change: Frame) -> Frame:
    """Return `before` with the changes applied."""
    made = dict(before)
    for name, value in change.items():
        if value is None:
            made.pop(name, None)
        elif isinstance(value, dict):
            old = before.get(name)
            made[name] = merge(old if isinstance(old, dict) else {}, value)
        else:
            made[name] = value
    return made
