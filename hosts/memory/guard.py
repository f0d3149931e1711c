"""Guard of files that are sent from: they keep their bytes when another process truncates them.

A page of a mapping that lies behind the file's end is no memory any more: touching it kills the process (SIGBUS,
mmap(2)). So a file lease is taken (fcntl(2), F_SETLEASE): a process that writes to or truncates the file is blocked
by the kernel until this process has put a copy of its bytes where the mapping was, which takes milliseconds. Sending
itself pays nothing. Where there can be no lease, since a process writes to the file already or the file system knows
none, the bytes are copied at once.
"""

import contextlib
import ctypes
import fcntl
import mmap
import os
import signal
import threading

from mrclab.hosts.memory.sigbus import address_of, put_empty_memory

_leased: dict[int, tuple[mmap.mmap, int]] = {}  # by address: the mapping and a descriptor of its file


def map_guarded(descriptor: int, size: int) -> mmap.mmap:
    """Map the first `size` bytes of a file for reading; OSError where it cannot be mapped or read."""
    made = mmap.mmap(descriptor, size, access=mmap.ACCESS_READ)
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
