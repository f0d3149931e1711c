"""Memory regions of the agent: files mapped into memory, so that a write of the peer lands in the file itself.

A device pins the pages of a region when it is registered. Here they are touched ahead of the data, since a page fault
in the middle of a transfer can take the kernel tens of milliseconds. What is read keeps its bytes also when the file
shrinks (see hosts.memory.guard); where that cannot be, and where it is written to, its QPs fail (hosts.memory.sigbus).
"""

import errno
import mmap
import os
from collections.abc import Callable

from mrclab.hosts.memory import guard, sigbus
from mrclab.hosts.memory.memory import Access, Buffer, Plain

_MADV_POPULATE = {"read": 22, "write": 23}  # madvise(2), Linux 5.14
_STEP_BYTES = 1 << 18


class Mapped(Plain):
    """Files mapped on Linux: guarded against truncation, refused where the disk is too full, touched ahead."""

    def unmap(self, buffer: Buffer) -> None:
        """Let the file go as well."""
        super().unmap(buffer)
        if isinstance(buffer, mmap.mmap):
            guard.forget(buffer)
            if buffer.closed:
                sigbus.forget(buffer)

    def watch(self, buffer: Buffer, gone: Callable[[], None]) -> None:
        """Survive a file that is truncated, and call `gone`."""
        if isinstance(buffer, mmap.mmap):
            sigbus.watch(buffer, gone)

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

    def _make_room(self, descriptor: int, length: int, status: os.stat_result) -> None:
        space = os.fstatvfs(descriptor)
        if length - status.st_blocks * 512 > space.f_bavail * space.f_frsize:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _map_read(self, descriptor: int, size: int) -> mmap.mmap:
        return guard.map_guarded(descriptor, size)
