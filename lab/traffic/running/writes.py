"""Driver of a write: from a file of random bytes at the sender to a file at the receiver."""

import hashlib
import random
from pathlib import Path
from typing import Any

from typing_extensions import override

from mrclab.lab.errors import naming
from mrclab.lab.traffic.base import Flow
from mrclab.lab.traffic.running.flows import Running

_CHUNK = 1 << 16  # bytes per read, a multiple of four: a larger buffer would be fresh memory pages each time


class RunningWrite(Running):
    """One RDMA write from file to file."""

    @override
    def _end_fields(self, flow: Flow, sends: bool) -> dict[str, Any]:
        return {"path": str(self._file(flow, sends))}

    @override
    def _digests(self, flow: Flow, sent: str, received: str) -> tuple[str, str]:
        target = self._file(flow, False)
        return sha256(self._file(flow, True)), sha256(target) if target.exists() else ""

    def _file(self, flow: Flow, source: bool) -> Path:
        """Return the file that a write reads, or writes.

        One to read is made when first needed, and again where an earlier write left one of another size; what a link
        leads to is somebody's own and stays as it is.
        """
        files = self._world.files.absolute()
        if not source:
            path = files / flow.destination / f"{self.name}-from-{flow.source}"
            path.parent.mkdir(parents=True, exist_ok=True)
            return path
        path, size = files / flow.source / self.name, flow.size or 0
        given = path.is_symlink() or (path.exists() and path.stat().st_size == size)
        return path if given else random_file(path, size, self._content(flow.source))


def random_file(path: Path, size: int, seed: str) -> Path:
    """Make a file of reproducible random bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draw = random.Random(seed)
    with naming(path), path.open("wb") as file:
        for begin in range(0, size, _CHUNK):
            file.write(draw.randbytes(min(_CHUNK, size - begin)))
    return path


def sha256(path: Path) -> str:
    """SHA-256 of a file as hex."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
