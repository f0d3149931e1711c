"""Files of transfers: reproducible random bytes, and digests."""

import hashlib
import random
from pathlib import Path

_CHUNK = 1 << 16  # bytes per read, a multiple of four: a larger buffer would be fresh memory pages each time


def random_file(path: Path, size: int, seed: str) -> Path:
    """Make a file of reproducible random bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draw = random.Random(seed)
    with path.open("wb") as file:
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
