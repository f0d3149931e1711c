"""Memory of registered regions: the part of the host that knows files.

`Memory` maps files on any system, `hosts.memory.regions.Mapped` as an agent on Linux should.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from mrclab.rpc.errors import RpcError

Access = Literal["read", "write"]
Buffer = mmap.mmap | bytearray
STEP_INTERVAL_S = 0.001
"""Time between two steps of `populate` that keeps them well ahead of the data and out of its way."""


class Memory:
    """Maps files portably; other systems derive from it."""

    def map(self, path: str, length: int | None, access: Access) -> Buffer:
        """Map a file's first `length` bytes (None: all of it).

        With access "write" the file is made where it is missing and gets exactly `length` bytes. An empty region is an
        empty bytearray, since nothing can be mapped. Raises RpcError with the errno's name; the text names the path.
        """
        if not Path(path).is_absolute():
            raise RpcError(
                "EINVAL", f"path {path!r} is relative; give an absolute path, the agent has its own directory"
            )
        if length is not None and length < 0:
            raise RpcError("EINVAL", f"length {length} of {path} is negative")
        if access == "write" and length is None:
            raise RpcError("EINVAL", f"a region that is written to needs a length; {path} has none yet")
        try:
            descriptor = os.open(path, os.O_RDONLY if access == "read" else os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise _refused(path, access, error) from error
        try:
            return self._map(descriptor, path, length, access)
        except OSError as error:
            raise _refused(path, access, error) from error
        finally:
            os.close(descriptor)

    def unmap(self, buffer: Buffer) -> None:
        """Unmap a region's memory, at the latest when its last view is released; its bytes are in the file."""
        if isinstance(buffer, mmap.mmap):
            with contextlib.suppress(BufferError):  # a view is left, as in what a destroyed QP remembers of a packet
                buffer.close()

    def sync(self, buffer: Buffer) -> None:
        """Write the buffer into the file; do nothing where these are the same memory."""

    def watch(self, buffer: Buffer, on_truncated: Callable[[], None]) -> None:
        """Call `on_truncated` when an access finds that the file was truncated; here that is left to the system."""

    def populate(self, buffer: Buffer, access: Access) -> Callable[[float], bool] | None:
        """Return a step that touches some pages and returns True if there are more; None: nothing to do."""
        return None

    def _map(self, descriptor: int, path: str, length: int | None, access: Access) -> Buffer:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise RpcError("EINVAL", f"{path} is not a regular file")
        if access == "write" and length is not None:
            self._check_space(descriptor, length, status)
            os.ftruncate(descriptor, length)
        elif length is not None and length > status.st_size:
            raise RpcError("EINVAL", f"{path} has {status.st_size} bytes, fewer than the {length} requested")
        size = status.st_size if length is None else length
        if size == 0:
            return bytearray()
        return self._map_bytes(descriptor, path, size, access)

    def _map_bytes(self, descriptor: int, path: str, size: int, access: Access) -> Buffer:
        """Map the first `size` bytes, more than none, of an open file."""
        if access == "write":
            return mmap.mmap(descriptor, size, access=mmap.ACCESS_WRITE)
        return self._map_read(descriptor, size)

    def _check_space(self, descriptor: int, length: int, status: os.stat_result) -> None:
        """OSError where the file cannot grow to this length."""

    def _map_read(self, descriptor: int, size: int) -> mmap.mmap:
        """Map a file for reading."""
        return mmap.mmap(descriptor, size, access=mmap.ACCESS_READ)


class Copies(Memory):
    """Files copied into memory, where a mapping would be a copy that nothing writes back (WebAssembly)."""

    def __init__(self) -> None:
        self._written: dict[int, tuple[bytearray, str]] = {}  # id of a buffer → it, and the file that it belongs in

    def unmap(self, buffer: Buffer) -> None:
        """Write the file and forget the buffer."""
        self.sync(buffer)
        self._written.pop(id(buffer), None)

    def sync(self, buffer: Buffer) -> None:
        """Write the file; OSError where that fails."""
        content, path = self._written.get(id(buffer), (None, ""))
        if content is not None:
            with open(path, "r+b") as file:  # noqa: PTH123 (a path as the caller wrote it)
                file.write(content)

    def _map_bytes(self, descriptor: int, path: str, size: int, access: Access) -> Buffer:
        made = bytearray(size)
        with os.fdopen(os.dup(descriptor), "rb") as file:
            file.readinto(made)
        if access == "write":
            self._written[id(made)] = made, path
        return made


def local_memory() -> Memory:
    """Return the mapper of files of this system."""
    return Copies() if sys.platform in {"emscripten", "wasi"} else Memory()


def _refused(path: str, access: Access, error: OSError) -> RpcError:
    code = errno.errorcode.get(error.errno or errno.EIO, "EIO")
    return RpcError(code, f"cannot {access} {path}: {error.strerror}")
