"""Memory regions of the agent: files mapped into memory, so that a write of the peer lands in the file itself.

A device pins the pages of a region when it is registered. Here they are touched ahead of the data, since a page fault
in the middle of a transfer can take the kernel tens of milliseconds. Memory that is read keeps its bytes when another
process truncates the file (a page behind its end would be no memory any more, mmap(2)): a lease of the file (fcntl(2),
F_SETLEASE) blocks that process until a copy of the bytes is where the mapping was, which takes milliseconds. Where
there can be none, the bytes are copied at once; where that fails, and where a file is written to, its QPs fail
(hosts.memory.sigbus).
"""

import contextlib
import ctypes
import errno
import fcntl
import mmap
import os
import signal
import threading
from collections.abc import Callable

from mrclab.hosts.memory import sigbus
from mrclab.hosts.memory.memory import Access, Buffer, Memory
from mrclab.hosts.memory.sigbus import address_of, put_empty_memory

_MADV_POPULATE = {"read": 22, "write": 23}  # madvise(2), Linux 5.14
_STEP_BYTES = 1 << 18
_leased: dict[int, tuple[mmap.mmap, int]] = {}  # by address: the mapping and a descriptor of its file


def forget(buffer: mmap.mmap) -> None:
    """Stop guarding the file of a mapping."""
    for address, (guarded, own) in list(_leased.items()):
        if guarded is buffer:
            del _leased[address]
            os.close(own)


def _take_lease(descriptor: int) -> None:
    if threading.current_thread() is not threading.main_thread():
        raise OSError("the signal that a lease is broken by reaches the main thread only")
    signal.signal(signal.SIGIO, _on_break)
    fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)


def _on_break(_signal: int, _frame: object) -> None:
    """Copy the bytes of a file that another process is about to change, and release it."""
    for address, (guarded, own) in list(_leased.items()):
        if fcntl.fcntl(own, fcntl.F_GETLEASE) != fcntl.F_RDLCK:
            del _leased[address]
            with contextlib.suppress(OSError):  # not readable: the mapping stays as good as it is
                _copy_over(address, own, len(guarded))
            fcntl.fcntl(own, fcntl.F_SETLEASE, fcntl.F_UNLCK)
            os.close(own)


def _copy_over(address: int, descriptor: int, size: int) -> None:
    """Put private memory with the file's bytes where its mapping was; views of the mapping see it."""
    copy = bytearray(size)
    done = 0
    while done < size and (got := os.preadv(descriptor, [memoryview(copy)[done:]], done)):
        done += got
    if not put_empty_memory(address, size):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    ctypes.memmove(address, (ctypes.c_char * size).from_buffer(copy), size)


class Mapped(Memory):
    """Files mapped on Linux: guarded against truncation, refused where the disk is too full, touched ahead."""

    def unmap(self, buffer: Buffer) -> None:
        """Let the file go as well."""
        super().unmap(buffer)
        if isinstance(buffer, mmap.mmap):
            forget(buffer)
            if buffer.closed:
                sigbus.forget(buffer)

    def watch(self, buffer: Buffer, on_truncated: Callable[[], None]) -> None:
        """Survive a file that is truncated, and call `on_truncated`."""
        if isinstance(buffer, mmap.mmap):
            sigbus.watch(buffer, on_truncated)

    def populate(self, buffer: Buffer, access: Access) -> Callable[[float], bool]:
        """Return the step that touches pages; it ends when the region is unmapped.

        Steps belong in the loop that moves the data: a thread would hold the interpreter while the scheduler lets it
        wait.
        """
        size, advice, start = len(buffer), _MADV_POPULATE[access], 0

        def step(_now: float) -> bool:
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

    def _check_space(self, descriptor: int, length: int, status: os.stat_result) -> None:
        space = os.fstatvfs(descriptor)
        if length - status.st_blocks * 512 > space.f_bavail * space.f_frsize:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _map_read(self, descriptor: int, size: int) -> mmap.mmap:
        """Map a file for reading, guarded by a lease or else copied; OSError where it cannot be mapped or read."""
        made = super()._map_read(descriptor, size)
        address = address_of(made)
        own = os.dup(descriptor)
        try:
            _take_lease(own)
        except OSError:
            try:
                _copy_over(address, own, size)
            finally:
                os.close(own)
            return made
        _leased[address] = made, own
        return made
