"""Generated code kept from one run to the next, and shared by switches that run the same program.

A file is named by everything its content depends on: the program, the drop port, softswitch's own sources and the
Python that runs them. Its contents are executed: the directory and all folders above belong to this user or to root,
no other user may write there, and no folder of its path is a link.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
import marshal
import os
import secrets
import stat
import sys
from pathlib import Path
from types import CodeType

log = logging.getLogger(__name__)

PACKAGE = Path(__file__).parents[1]
MAX_FILES = 64
MAX_BYTES = 1 << 26


def location() -> Path:
    """Return where the cache is: in XDG_CACHE_HOME, else in the effective user's own home (not sudo's)."""
    base = os.environ.get("XDG_CACHE_HOME")
    if base:
        return Path(base).absolute() / "softswitch"
    try:
        import pwd  # noqa: PLC0415 - a browser's Python has none

        home = pwd.getpwuid(os.geteuid()).pw_dir
    except (ImportError, KeyError):
        home = os.environ.get("HOME", "/")
    return Path(home).absolute() / ".cache" / "softswitch"


def _directory() -> Path | None:
    """Return the cache directory, made where it is missing; None where others could put code into it."""
    if not hasattr(os, "geteuid"):  # a browser has no users
        return None
    path = location()
    try:
        for folder in (*reversed(path.parents), path):
            with contextlib.suppress(FileExistsError):
                folder.mkdir(0o700)
            _check(folder, own=folder == path)
    except (OSError, ValueError) as error:
        log.info("%s is not used as a cache: %s", path, error)
        return None
    return path


def _check(folder: Path, own: bool) -> None:
    """Refuse a link, a folder of another user, or one where others may put something in another's place."""
    info = folder.lstat()
    if not stat.S_ISDIR(info.st_mode):
        raise ValueError(f"{folder} is a link or a file")
    if info.st_uid not in ({os.geteuid()} if own else {0, os.geteuid()}):
        raise ValueError(f"{folder} belongs to user {info.st_uid}")
    if info.st_mode & 0o022 and (own or not info.st_mode & stat.S_ISVTX):
        raise ValueError(f"others may write to {folder}")


@functools.cache
def _sources() -> bytes:
    """Return the digest of softswitch's own sources."""
    digest = hashlib.sha256()
    for source in sorted(PACKAGE.rglob("*.py")):
        digest.update(f"{source.relative_to(PACKAGE)}\0".encode())
        digest.update(hashlib.sha256(source.read_bytes()).digest())
    return digest.digest()


def key(config: str | bytes, drop_port: int) -> str:
    """Return the name of a program's code."""
    digest = hashlib.sha256(_sources())
    digest.update(f"{drop_port}\0{sys.implementation.cache_tag}\0{sys.version}\0{sys.flags.optimize}\0".encode())
    digest.update(config.encode() if isinstance(config, str) else config)
    return digest.hexdigest()


def load(name: str) -> tuple[CodeType, bool] | None:
    """Return the code called `name` and whether it reads enqueue times; None if there is none."""
    folder = _directory()
    if folder is None:
        return None
    try:
        code, enqueue_time = marshal.loads(_read(folder / name))
    except (OSError, ValueError, EOFError, TypeError):
        return None
    return (code, bool(enqueue_time)) if isinstance(code, CodeType) else None


def _read(path: Path) -> bytes:
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        info = os.fstat(handle)
        ours = info.st_uid == os.geteuid() and not info.st_mode & 0o022
        if not ours or not stat.S_ISREG(info.st_mode) or info.st_nlink != 1 or info.st_size > MAX_BYTES:
            raise ValueError(f"{path} is not a file that only this user can write")
        return file.read(MAX_BYTES)


def store(name: str, code: CodeType, enqueue_time: bool) -> None:
    """Keep code under `name`; that it cannot be kept is no error."""
    folder = _directory()
    if folder is None:
        return
    with contextlib.suppress(OSError):
        temporary = folder / f"tmp-{secrets.token_hex(8)}"
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(marshal.dumps((code, enqueue_time)))
        temporary.replace(folder / name)
        for old in sorted(folder.iterdir(), key=lambda file: file.lstat().st_mtime)[:-MAX_FILES]:
            old.unlink()
