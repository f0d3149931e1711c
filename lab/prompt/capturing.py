"""A capture at the prompt of a lab in virtual time: one at a time, written when it ends."""

import threading
from collections.abc import Sequence
from pathlib import Path

from mrclab.lab.capture import pcapng
from mrclab.lab.errors import LabError
from mrclab.lab.run.world import World
from mrclab.topo.model import Link


class CaptureCommand:
    """The capture that goes on, if any."""

    def __init__(self, world: World, lock: threading.RLock) -> None:
        self._world, self._lock = world, lock
        self._taps: object = None
        self._path = Path()
        self._notes: list[tuple[int, str]] = []

    def start(self, path: Path, links: Sequence[Link]) -> None:
        """Begin; LabError on the wire, where one goes on already, or where the file cannot be written."""
        tap = getattr(self._world, "tap", None)
        if tap is None:
            raise LabError("on the wire captures have a process of their own: sudo mrclab capture in a second terminal")
        if self._taps is not None:
            raise LabError(f"a capture into {self._path} goes on; `capture stop` ends it")
        try:
            path.touch()
        except OSError as error:
            raise LabError(f"cannot write {path}: {error.strerror}") from None
        with self._lock:
            self._taps, self._path, self._notes = tap(links), path, []

    def note(self, text: str) -> None:
        """Say something at the next frame."""
        self._notes.append((round(self._world.now * 1e9), text))

    def stop(self) -> tuple[Path, int]:
        """End and write; the file and how many frames it holds. LabError where nothing goes on."""
        from mrclab.lab.capture.virtual import VirtualTaps  # noqa: PLC0415 - a wire lab has no use for it

        taps, self._taps = self._taps, None
        if not isinstance(taps, VirtualTaps):
            raise LabError("no capture goes on")
        with self._lock:
            taps.remove()
        try:
            return self._path, pcapng.store(self._path, taps.interfaces, taps.frames, self._notes)
        except OSError as error:
            raise LabError(f"cannot write {self._path}: {error.strerror}") from None

    def close(self) -> None:
        """Write what goes on, at the end of the lab."""
        if self._taps is not None:
            self.stop()
