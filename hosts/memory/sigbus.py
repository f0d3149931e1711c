"""A mapping whose file was truncated costs its region, not the process.

Touching a page that lies behind the file's end raises SIGBUS (mmap(2)), and by default that ends the process. No check
beforehand can help, since the file may shrink at any time. So the signal is caught where it arises: empty memory takes
the place of the missing ones, the interrupted access goes on, and the owner of the mapping is notified. Python's own
signal handlers cannot do that: they run only after the access, which would fault forever.
"""

from __future__ import annotations

import ctypes
import mmap
import signal
from collections.abc import Callable

_PYBUF_SIMPLE = 0
_MAP_FIXED = 0x10
_SA_SIGINFO = 4
_ADDRESS_AT = 16  # of si_addr in siginfo_t, on every 64-bit Linux
_PAGE = mmap.PAGESIZE

_watched: dict[int, tuple[mmap.mmap, Callable[[], None]]] = {}  # by address
_Handler = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


class _SigAction(ctypes.Structure):
    """struct sigaction of sigaction(2), as the C libraries have it on 64-bit Linux."""

    _fields_ = (
        ("sa_sigaction", _Handler),
        ("sa_mask", ctypes.c_byte * 128),
        ("sa_flags", ctypes.c_int),
        ("sa_restorer", ctypes.c_void_p),
    )


_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (
    ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long,
)  # fmt: skip


def watch(buffer: mmap.mmap, on_truncated: Callable[[], None]) -> None:
    """Survive truncation of the file behind a mapping; `on_truncated` is called from within the failing access."""
    if not _watched:
        action = _SigAction(_on_fault, (ctypes.c_byte * 128)(), _SA_SIGINFO, None)
        if _libc.sigaction(signal.SIGBUS, ctypes.byref(action), None):
            return  # a system that has it otherwise: things are as without
    _watched[address_of(buffer)] = buffer, on_truncated


def forget(buffer: mmap.mmap) -> None:
    """The mapping is closed."""
    for address, (watched, _on_truncated) in list(_watched.items()):
        if watched is buffer:
            del _watched[address]


def put_empty_memory(address: int, size: int) -> bool:
    """Put private, zeroed memory where a mapping was; views of the mapping see it."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_FIXED
    return bool(_libc.mmap(address, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0) == address)


def _survive(_number: int, info: int, _context: int) -> None:
    at = ctypes.c_size_t.from_address(info + _ADDRESS_AT).value & -_PAGE
    for address, (buffer, on_truncated) in _watched.items():
        end = address + len(buffer)
        if address <= at < end and put_empty_memory(at, end - at):
            on_truncated()
            return
    signal.signal(signal.SIGBUS, signal.SIG_DFL)  # none of ours: it ends the process, as it would have


_on_fault = _Handler(_survive)  # kept: the system holds a bare pointer to it


class _PyBuffer(ctypes.Structure):
    """Py_buffer of Python's C API."""

    _fields_ = (
        ("buf", ctypes.c_void_p), ("obj", ctypes.py_object), ("len", ctypes.c_ssize_t), ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int), ("ndim", ctypes.c_int), ("format", ctypes.c_char_p), ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p), ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p),
    )  # fmt: skip


def address_of(buffer: mmap.mmap) -> int:
    """Return the address of a mapping; ctypes itself returns that of writable ones only."""
    view = _PyBuffer()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(buffer), ctypes.byref(view), _PYBUF_SIMPLE)
    address = int(view.buf or 0)
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(view))
    return address
