"""Run directory of a lab in virtual time: fabric and history as files, as a lab on the wire has them."""

import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING

from mrclab.lab.errors import LabError
from mrclab.topo import fabricfile
from mrclab.topo.errors import UntrustedPlace
from mrclab.topo.input import trust

if TYPE_CHECKING:
    from mrclab.lab.run.virtual import VirtualWorld

OVER = "over"  # marker file: the lab whose history is kept has ended
_OFTEN = 0.1  # seconds of the machine's clock between two writings


class Mirror:
    """Writes `fabric.yaml` and `history/lab.jsonl` into a run directory. LabError where it cannot be created."""

    def __init__(self, world: "VirtualWorld", place: Path, *, keep: bool = False) -> None:
        self.place = place
        self._keep = keep
        self._world = world
        self._written = 0
        self._due = 0.0
        self._fabric, self._history = place / "fabric.yaml", place / "history" / "lab.jsonl"
        try:
            trust.make_private(place)
            trust.make_private(self._history.parent)
            (place / OVER).unlink(missing_ok=True)
            self._history.unlink(missing_ok=True)
            self._file = self._history.open("x", encoding="utf-8")
            fabricfile.store(world.fabric.spec, self._fabric)
        except UntrustedPlace as error:
            raise LabError(f"{error}, or set XDG_RUNTIME_DIR to one" if not keep else f"{error}; see --place") from None
        except OSError as error:
            remedy = "see --place" if keep else "set XDG_RUNTIME_DIR"
            raise LabError(f"cannot make {place}: {error.strerror}; {remedy}") from None

    def write(self) -> None:
        """Write new records; after an OSError, which ends the run, no more of them."""
        if self._file.closed:
            return
        lines = self._world.history_since(self._written)
        self._written += len(lines)
        try:
            self._file.writelines(line + "\n" for line in lines)
            self._file.flush()
        except OSError:
            with contextlib.suppress(OSError):
                self._file.close()
            raise

    def write_now_and_then(self) -> None:
        """Write new records if the last write is long enough ago."""
        if time.monotonic() >= self._due:
            self.write()
            self._due = time.monotonic() + _OFTEN

    def close(self) -> None:
        """Write the remaining records, then remove the files, or keep them with a marker that the lab has ended."""
        for last in (self.write, self._file.close, (self.place / OVER).touch if self._keep else self._remove):
            with contextlib.suppress(OSError):  # its file system is full, which ended the run
                last()

    def _remove(self) -> None:
        for path in (self._fabric, self._history):
            path.unlink(missing_ok=True)
