"""A capture at the prompt: one at a time, until it is stopped, on the wire or in virtual time."""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from mrclab.lab.capture import pcapng
from mrclab.lab.errors import LabError
from mrclab.lab.prompt.remote.turnlock import TurnLock
from mrclab.lab.run.world import World
from mrclab.topo.model import Link

if TYPE_CHECKING:
    from mrclab.lab.capture.virtual import VirtualTaps


class CaptureCommand:
    """The capture in progress, if any."""

    def __init__(self, world: World, lock: TurnLock) -> None:
        self._world, self._lock = world, lock
        self._recorder: _CaptureTaps | _CaptureThread | None = None
        self._path = Path()

    def start(self, path: Path, links: Sequence[Link]) -> None:
        """Begin; LabError where one is in progress, or the file cannot be written."""
        if self._recorder is not None:
            raise LabError(f"a capture into {self._path} goes on; `capture stop` ends it")
        try:
            path.touch()
        except OSError as error:
            raise LabError(f"cannot write {path}: {error.strerror}") from None
        run_dir = getattr(self._world, "run_dir", None)
        self._recorder = (
            _CaptureTaps(self._world, self._lock, path, links)
            if run_dir is None
            else _CaptureThread(run_dir, path, links)
        )
        self._path = path

    def note(self, text: str) -> None:
        """Attach a comment to the next frame."""
        if self._recorder is not None:
            self._recorder.note(text)

    def stop(self) -> tuple[Path, int]:
        """End and write; return the file and its number of frames. LabError where no capture is in progress."""
        if self._recorder is None:
            raise LabError("no capture goes on")
        recorder, self._recorder = self._recorder, None
        try:
            return self._path, recorder.stop()
        except OSError as error:
            raise LabError(f"cannot write {self._path}: {error.strerror}") from None

    def close(self) -> None:
        """End the capture, at the end of the lab."""
        if self._recorder is not None:
            self.stop()


class _CaptureTaps:
    """In virtual time: frames are kept in memory until the end."""

    def __init__(self, world: World, lock: TurnLock, path: Path, links: Sequence[Link]) -> None:
        self._world, self._lock, self._path = world, lock, path
        self._notes: list[tuple[int, str]] = []
        with lock:
            self._taps: VirtualTaps = world.tap(links)  # type: ignore[attr-defined]

    def note(self, text: str) -> None:
        """Attach a comment to the next frame."""
        self._notes.append((round(self._world.now * 1e9), text))

    def stop(self) -> int:
        """End and write; return the number of frames in the file. OSError where it cannot be written."""
        with self._lock:
            self._taps.remove()
        return pcapng.store(self._path, self._taps.interfaces, self._taps.frames, self._notes)


class _CaptureThread:
    """On the wire: a thread writes frames as they come, and comments where the history has a fault."""

    def __init__(self, run_dir: Path, path: Path, links: Sequence[Link]) -> None:
        from mrclab.lab.capture import recorders  # noqa: PLC0415 - virtual time has no use for it
        from mrclab.lab.capture.taps import Taps  # noqa: PLC0415 - as above

        self._taps, self._faults = Taps(run_dir, links), recorders.Faults(run_dir / "history" / "lab.jsonl")
        self._ended, self._pool = threading.Event(), ThreadPoolExecutor(1, "capture")
        self._frames = self._pool.submit(recorders.record_all, self._taps, self._faults, path, self._ended.is_set)

    def note(self, text: str) -> None:
        """Faults stand in the history already."""

    def stop(self) -> int:
        """End; return the number of frames in the file. OSError where they could not be written."""
        self._ended.set()
        try:
            return self._frames.result()
        finally:
            self._pool.shutdown()
            self._taps.close()
            self._faults.close()
