"""Files that another user may have put in place: regular ones only, up to a size; written whole or not at all.

Every refusal is an OSError whose `strerror` names the kind of file found.
"""

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, TextIO

SMALL = 64 << 20
"""Most bytes of a file written by hand, or about a run: scenario, matrix, JSON."""

LARGE = 64 << 30
"""Most bytes of a file that grows with a run: its history, a capture."""

_BINARY: int = getattr(os, "O_BINARY", 0)
_SPECIAL: int = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_CLOEXEC", 0)
_NOFOLLOW: int = getattr(os, "O_NOFOLLOW", 0)
_DIRECTORY: int = getattr(os, "O_DIRECTORY", 0)
_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISLNK, "a symbolic link"),
)


def open_regular(path: Path, limit: int = SMALL, *, follow: bool = True, dir_fd: int | None = None) -> BinaryIO:
    """Open a regular file of at most `limit` bytes for reading; never blocks. OSError for any other kind of file.

    `follow`: whether `path` may be a symbolic link; `dir_fd` is a directory that it is relative to.
    """
    flags = os.O_RDONLY | _BINARY | _SPECIAL | (0 if follow else _NOFOLLOW)
    try:
        descriptor = os.open(path, flags, dir_fd=dir_fd)
    except OSError as error:
        if not follow and error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "it is a symbolic link, which is not followed here", str(path)) from None
        if error.errno in {errno.ENXIO, errno.EOPNOTSUPP}:  # open(2) of a socket
            raise OSError(errno.EINVAL, "it is a socket, not a regular file", str(path)) from None
        raise
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            kind = next((name for test, name in _KINDS if test(found.st_mode)), "something else")
            raise OSError(errno.EINVAL, f"it is {kind}, not a regular file", str(path))
        if found.st_size > limit:
            raise too_large(path, limit)
        return open(descriptor, "rb")  # noqa: PTH123 - a descriptor has no path
    except BaseException:
        os.close(descriptor)
        raise


def read_bytes(path: Path, limit: int = SMALL, *, follow: bool = True) -> bytes:
    """Return a whole regular file of at most `limit` bytes; OSError where it is not one, or larger."""
    with open_regular(path, limit, follow=follow) as file:
        return _whole(file, path, limit)


def read_text(path: Path, limit: int = SMALL, *, follow: bool = True) -> str:
    """Return the same as text in UTF-8; UnicodeDecodeError where it is not one."""
    return read_bytes(path, limit, follow=follow).decode("utf-8").replace("\r\n", "\n")


def open_text(path: Path, *, follow: bool = True) -> TextIO:
    """Open a regular file of UTF-8 text for reading line by line."""
    import io  # noqa: PLC0415 - the only use

    return io.TextIOWrapper(open_regular(path, LARGE, follow=follow), encoding="utf-8")


def read_beneath(root: Path, name: str, limit: int = SMALL) -> bytes:
    """Return a file whose path, relative to `root`, leads through no link and not out of it; OSError else."""
    parts = Path(name).parts
    if not parts or Path(name).is_absolute() or ".." in parts:
        raise OSError(errno.EACCES, f"it is not below {root.absolute()}, where files are read from here", name)
    folder = os.open(root, os.O_RDONLY | _DIRECTORY | _SPECIAL)
    try:
        for part in parts[:-1]:
            inner = os.open(part, os.O_RDONLY | _DIRECTORY | _NOFOLLOW | _SPECIAL, dir_fd=folder)
            os.close(folder)
            folder = inner
        with open_regular(Path(parts[-1]), limit, follow=False, dir_fd=folder) as file:
            return _whole(file, Path(name), limit)
    finally:
        os.close(folder)


def too_large(path: Path, limit: int) -> OSError:
    """Return the error of a file that has more bytes than it may."""
    return OSError(errno.EFBIG, f"it has more than {limit >> 20} MiB, the most that is read of such a file", str(path))


def _whole(file: BinaryIO, path: Path, limit: int) -> bytes:
    data = file.read(limit + 1)  # a file of /proc has no size, and one may grow
    if len(data) > limit:
        raise too_large(path, limit)
    return data


def replace_file(path: Path, data: str | bytes) -> None:
    """Write a whole file in one step: readers see the old one or the new one; a link in its place is replaced.

    OSError where it cannot be written; nothing is left of the draft then.
    """
    with replacing(path) as file:
        file.write(data.encode() if isinstance(data, str) else data)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a draft for writing inside the block; it takes the place of `path` where the block ends well."""
    draft = path.with_name(f".{path.name[:100]}.{secrets.token_hex(6)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY | _NOFOLLOW | getattr(os, "O_CLOEXEC", 0)
    try:  # around all of it: a signal may come the moment that the draft is there
        try:
            descriptor = os.open(draft, flags, 0o666)
        except OSError as error:
            error.filename = str(path)
            raise
        with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor has no path
            yield file
        draft.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise
