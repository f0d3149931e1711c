"""A capture at the prompt: one at a time, until it is stopped. Virtual time has taps; the wire has `mrclab capture`."""

import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from mrclab.lab.capture import pcapng
from mrclab.lab.errors import LabError
from mrclab.lab.prompt.remote.turnlock import TurnLock
from mrclab.lab.run.world import World
from mrclab.topo.model import Link

_MRCLAB = [sys.executable, "-c", "from mrclab.lab.command.cli import main; main()"]
_ENDING = 30.0  # seconds that the process of a capture may take to write its file


class CaptureCommand:
    """The capture in progress, if any."""

    def __init__(self, world: World, lock: TurnLock) -> None:
        self._world, self._lock = world, lock
        self._recorder: _CaptureTaps | _CaptureProcess | None = None
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
            else _CaptureProcess(run_dir, path, links)
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
        from mrclab.lab.capture.virtual import VirtualTaps  # noqa: PLC0415 - a wire lab has no use for it

        self._world, self._lock, self._path = world, lock, path
        self._notes: list[tuple[int, str]] = []
        with lock:
            taps = world.tap(links)  # type: ignore[attr-defined]
        assert isinstance(taps, VirtualTaps)
        self._taps = taps

    def note(self, text: str) -> None:
        """Attach a comment to the next frame."""
        self._notes.append((round(self._world.now * 1e9), text))

    def stop(self) -> int:
        """End and write; return the number of frames in the file. OSError where it cannot be written."""
        with self._lock:
            self._taps.remove()
        return pcapng.store(self._path, self._taps.interfaces, self._taps.frames, self._notes)


class _CaptureProcess:
    """On the wire: a process of `mrclab capture`, which finds faults in the history."""

    def __init__(self, run_dir: Path, path: Path, links: Sequence[Link]) -> None:
        words = ["--run-dir", str(run_dir), "capture", *(link.name for link in links), "--output", str(path)]
        self._process = subprocess.Popen(
            [*_MRCLAB, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
            start_new_session=True,
        )  # fmt: skip
        assert self._process.stderr is not None
        line = self._process.stderr.readline()  # that it has started, or an error
        if not line.startswith("capturing"):
            self._process.kill()
            self._process.communicate()
            raise LabError(line.removeprefix("mrclab: ").strip() or "mrclab capture ended without output")

    def note(self, text: str) -> None:
        """Faults stand in the history already."""

    def stop(self) -> int:
        """End the process once its file is written; return the number of frames in it. LabError where it has none."""
        self._process.send_signal(signal.SIGINT)
        try:
            output, errors = self._process.communicate(timeout=_ENDING)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
            raise LabError(f"mrclab capture did not end within {_ENDING:g} s; its file is not whole") from None
        count = output.strip().removesuffix(" frames").rpartition(" ")[2]
        if not count.isdigit():
            raise LabError(f"mrclab capture: {errors.strip() or 'it ended without output'}")
        return int(count)
