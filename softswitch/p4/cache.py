"""Generated code kept from one run to the next, and shared by switches that run the same program.

A file is named by everything its content depends on: the program, the drop port, the compiler's sources and the Python
version. The directory must belong to this user and nobody else may write there: what is in it gets executed.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import marshal
import os
import sys
import tempfile
from pathlib import Path
from types import CodeType

log = logging.getLogger(__name__)

COMPILER = Path(__file__).parents[1] / "compiler"
MAX_FILES = 64


def directory() -> Path | None:
    """Return the cache directory, made where it is missing; None where it cannot be trusted or written."""
    base = os.environ.get("XDG_CACHE_HOME")
    path = (Path(base) if base else Path.home() / ".cache") / "softswitch"
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        info = path.stat()
    except (OSError, RuntimeError):
        return None
    if info.st_uid != os.geteuid() or info.st_mode & 0o022:
        log.warning("%s is not used as a cache: others may write there", path)
        return None
    return path


def key(config: str | bytes, drop_port: int) -> str:
    """Return the name of a program's code."""
    digest = hashlib.sha256(config.encode() if isinstance(config, str) else config)
    for source in sorted(COMPILER.glob("*.py")):
        digest.update(source.read_bytes())
    digest.update(f"{drop_port} {sys.implementation.cache_tag} {sys.hexversion}".encode())
    return digest.hexdigest()


def load(name: str) -> tuple[CodeType, bool] | None:
    """Return the code called `name` and whether it wants enqueue times; None where there is none."""
    path = directory()
    if path is None:
        return None
    try:
        code, enqueue_time = marshal.loads((path / name).read_bytes())
    except (OSError, ValueError, EOFError, TypeError):
        return None
    return code, bool(enqueue_time)


def store(name: str, code: CodeType, enqueue_time: bool) -> None:
    """Keep code under `name`; that it cannot be kept is no error."""
    path = directory()
    if path is None:
        return
    with contextlib.suppress(OSError):
        handle, temporary = tempfile.mkstemp(dir=path)
        with os.fdopen(handle, "wb") as file:
            file.write(marshal.dumps((code, enqueue_time)))
        Path(temporary).replace(path / name)
        _forget_oldest(path)


def _forget_oldest(path: Path) -> None:
    files = sorted(path.iterdir(), key=lambda file: file.stat().st_mtime)
    for old in files[:-MAX_FILES]:
        old.unlink(missing_ok=True)
