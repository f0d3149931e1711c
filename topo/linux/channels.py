"""Cuts one process off from a Unix socket: its connections are shut down from outside, and the socket is hidden.

Neither end takes part. `pidfd_getfd` (Linux 5.6) lends a process's descriptor; shutdown(2) on it acts on the connection
itself. While the socket is hidden no client can connect again; its server keeps listening.
"""

import contextlib
import ctypes
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from mrclab.topo.errors import EmulationError

_SYS_PIDFD_GETFD = 438  # the same on every architecture


class Cut:
    """A socket that is out of reach until `clear`. Made by `cut`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._hidden = path.with_name(path.name + ".cut")

    def hide(self) -> None:
        """Hide the socket: new connections fail."""
        self._path.rename(self._hidden)

    def clear(self) -> None:
        """Restore the socket, unless its server has made a new one meanwhile."""
        if self._path.exists():
            self._hidden.unlink(missing_ok=True)
        else:
            with contextlib.suppress(FileNotFoundError):
                self._hidden.rename(self._path)


def cut(pid: int | None, path: Path) -> Cut:
    """Cut a process off from the socket `path`; EmulationError if the kernel does not allow it.

    None: no process is connected yet, and none can connect.
    """
    channel = Cut(path)
    channel.hide()
    try:
        if pid is not None:
            _shut_down(pid, str(path))
    except OSError as error:
        channel.clear()
        raise EmulationError(f"the connections of process {pid} cannot be cut from outside: {error.strerror}") from None
    return channel


def _shut_down(pid: int, path: str) -> None:
    """Shut down every connection of a process to the Unix socket that was bound as `path`."""
    process = os.pidfd_open(pid)
    try:
        for descriptor in _sockets(pid):
            with contextlib.suppress(FileNotFoundError), _borrowed(process, descriptor) as connection:
                if connection.family == socket.AF_UNIX and _peer(connection) == path:
                    connection.shutdown(socket.SHUT_RDWR)
    finally:
        os.close(process)


def _sockets(pid: int) -> list[int]:
    found = []
    for entry in os.scandir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            if Path(entry.path).readlink().name.startswith("socket:"):
                found.append(int(entry.name))
    return found


@contextlib.contextmanager
def _borrowed(process: int, descriptor: int) -> Iterator[socket.socket]:
    libc = ctypes.CDLL(None, use_errno=True)
    number = libc.syscall(_SYS_PIDFD_GETFD, process, descriptor, 0)
    if number < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    with socket.socket(fileno=number) as connection:
        yield connection


def _peer(connection: socket.socket) -> str:
    try:
        name = connection.getpeername()
    except OSError:
        return ""  # it listens, or is connected no more
    return name if isinstance(name, str) else ""
