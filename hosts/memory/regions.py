"""Memory regions of the agent: files mapped into memory, so that a write of the peer lands in the file itself.

A device pins the pages of a region when it is registered. Here they are touched ahead of the data, since a page fault
in the middle of a transfer can take the kernel tens of milliseconds.
"""

import contextlib
import errno
import mmap
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from mrclab.hosts.memory import guard
from mrclab.rpc.errors import RpcError

Access = Literal["read", "write"]

_MADV_POPULATE = {"read": 22, "write": 23}  # madvise(2), Linux 5.14
_STEP_BYTES = 1 << 18
STEP_INTERVAL_S = 0.001
"""Time between two steps of `populate` that keeps them well ahead of the data and out of its way."""

Buffer = mmap.mmap | bytearray


def map_file(path: str, length: int | None, access: Access) -> Buffer:
    """Map a file's first `length` bytes (None: all of it).

    With access "write" the file is made where it is missing and gets exactly `length` bytes. What is read keeps its
    bytes also when the file shrinks (see hosts.guard). An empty region is an empty bytearray, since nothing can be
    mapped. Raises RpcError with the errno's name; the text names the path.
    """
    if not Path(path).is_absolute():
        raise RpcError("EINVAL", f"path {path!r} is relative; give an absolute path, the agent has its own directory")
    if length is not None and length < 0:
        raise RpcError("EINVAL", f"length {length} of {path} is negative")
    if access == "write" and length is None:
        raise RpcError("EINVAL", f"a region that is written to needs a length; {path} has none yet")
    try:
        descriptor = os.open(path, os.O_RDONLY if access == "read" else os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise _refused(path, access, error) from error
    try:
        return _map(descriptor, path, length, access)
    except OSError as error:
        raise _refused(path, access, error) from error
    finally:
        os.close(descriptor)


def unmap(buffer: Buffer) -> None:
    """Give a region's memory back, at the latest when the last view of it goes; everything written is in the file."""
    if isinstance(buffer, mmap.mmap):
        guard.forget(buffer)
        with contextlib.suppress(BufferError):  # a view is left, as in what a destroyed QP remembers of a packet
            buffer.close()


def _map(descriptor: int, path: str, length: int | None, access: Access) -> Buffer:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise RpcError("EINVAL", f"{path} is no regular file")
    if access == "write" and length is not None:
        space = os.fstatvfs(descriptor)
        if length - status.st_blocks * 512 > space.f_bavail * space.f_frsize:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.ftruncate(descriptor, length)
    elif length is not None and length > status.st_size:
        raise RpcError("EINVAL", f"{path} has {status.st_size} bytes, fewer than the {length} asked for")
    size = status.st_size if length is None else length
    if size == 0:
        return bytearray()
    if access == "write":
        return mmap.mmap(descriptor, size, access=mmap.ACCESS_WRITE)
    return guard.map_guarded(descriptor, size)


def populate(buffer: Buffer, access: Access) -> Callable[[], bool]:
    """Return a step that touches some pages of a region and says whether there are more; ends when it is unmapped.

    Steps belong in the loop that moves the data: a thread would hold the interpreter while the scheduler lets it wait.
    """
    size, advice, start = len(buffer), _MADV_POPULATE[access], 0

    def step() -> bool:
        nonlocal start
        if not isinstance(buffer, mmap.mmap) or start >= size:
            return False
        try:
            buffer.madvise(advice, start, min(_STEP_BYTES, size - start))
        except (OSError, ValueError):  # an older kernel, or unmapped: pages then come as they are touched
            return False
        start += _STEP_BYTES
        return start < size

    return step


def _refused(path: str, access: Access, error: OSError) -> RpcError:
    code = errno.errorcode.get(error.errno or errno.EIO, "EIO")
    return RpcError(code, f"cannot {access} {path}: {error.strerror}")
