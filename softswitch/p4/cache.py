"""Generated code kept from one run to the next, and shared by switches that run the same program.

A file is named by everything its content depends on: the program, the drop port, softswitch's own sources and the
Python that runs them. Its contents are executed: the directory and all folders above belong to this user or to root,
no other user may write there, and no part of the way is followed through a link.
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
from collections.abc import Iterator
from pathlib import Path
from types import CodeType

log = logging.getLogger(__name__)

PACKAGE = Path(__file__).parents[1]
MAX_FILES = 64
MAX_BYTES = 1 << 26
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


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


@contextlib.contextmanager
def _directory() -> Iterator[int | None]:
    """Give a descriptor of the cache directory, made where it is missing; None where it cannot be trusted."""
    if not hasattr(os, "geteuid"):  # a browser has no users
        yield None
        return
    path = location()
    try:
        handle = _walk(path)
    except (OSError, ValueError) as error:
        log.info("%s is not used as a cache: %s", path, error)
        yield None
        return
    try:
        yield handle
    finally:
        os.close(handle)


def _walk(path: Path) -> int:
    """Return a descriptor of a directory, reached from the root folder by folder without following a link."""
    handle = os.open("/", _FOLDER)
    try:
        for number, part in enumerate(path.parts[1:], 1):
            last = number == len(path.parts) - 1
            try:
                below = os.open(part, _FOLDER, dir_fd=handle)
            except FileNotFoundError:
                os.mkdir(part, 0o700, dir_fd=handle)
                below = os.open(part, _FOLDER, dir_fd=handle)
            os.close(handle)
            handle = below
            _trusted(os.fstat(handle), part, last)
    except BaseException:
        os.close(handle)
        raise
    return handle


def _trusted(info: os.stat_result, name: str, own: bool) -> None:
    """Refuse a folder of another user, or where others may put something in another's place."""
    sticky = not own and info.st_mode & stat.S_ISVTX
    if info.st_uid not in ({os.geteuid()} if own else {0, os.geteuid()}):
        raise ValueError(f"{name} belongs to user {info.st_uid}")
    if info.st_mode & 0o022 and not sticky:
        raise ValueError(f"others may write to {name}")


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
    with _directory() as folder:
        if folder is None:
            return None
        try:
            code, enqueue_time = marshal.loads(_read(name, folder))
        except (OSError, ValueError, EOFError, TypeError):
            return None
    return (code, bool(enqueue_time)) if isinstance(code, CodeType) else None


def _read(name: str, folder: int) -> bytes:
    handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    with os.fdopen(handle, "rb") as file:
        info = os.fstat(handle)
        ours = info.st_uid == os.geteuid() and not info.st_mode & 0o022
        if not ours or not stat.S_ISREG(info.st_mode) or info.st_nlink != 1 or info.st_size > MAX_BYTES:
            raise ValueError(f"{name} is not a file that only this user can write")
        return file.read(MAX_BYTES)


def store(name: str, code: CodeType, enqueue_time: bool) -> None:
    """Keep code under `name`; that it cannot be kept is no error."""
    with _directory() as folder, contextlib.suppress(OSError):
        if folder is None:
            return
        temporary = f"tmp-{secrets.token_hex(8)}"
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder)
        with os.fdopen(handle, "wb") as file:
            file.write(marshal.dumps((code, enqueue_time)))
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        _forget_oldest(folder)


def _forget_oldest(folder: int) -> None:
    def age(name: str) -> float:
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime

    for old in sorted(os.listdir(folder), key=age)[:-MAX_FILES]:
        os.unlink(old, dir_fd=folder)
