"""Process at the other end of a Unix socket: its pid, and whether a signal has stopped it.

Sources: `SO_PEERCRED` (unix(7): of a server, the process that called listen(2)) and the third field of
/proc/PID/stat (proc(5)). Both can be read while the process is stopped. Where the system has neither, nobody is
known to be stopped.
"""

import contextlib
import os
import socket
import struct
from pathlib import Path

from mrclab.rpc.errors import RpcError

STOPPED_S = 3.0
"""Seconds in state T after which a process is given up: a shorter stop is waited for."""

_CREDENTIALS = struct.Struct("iII")  # struct ucred: pid, uid, gid
_STOPPED = "T"


def _credentials(connection: socket.socket) -> tuple[int, int] | None:
    """Pid and user id of the process at the other end; None where the system does not provide it."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return None
    try:
        pid, uid, _ = _CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, option, _CREDENTIALS.size))
    except OSError:
        return None
    return int(pid), int(uid)


def peer_pid(connection: socket.socket) -> int | None:
    """Pid of the process at the other end; None where the system does not provide it."""
    found = _credentials(connection)
    return found[0] or None if found else None


def check_peer(connection: socket.socket, path: str) -> None:
    """Raise RpcError EPERM unless the process at the other end is root's or this user's.

    A user who can create files in the socket's directory could impersonate the lab. Where the system does not
    provide the peer's user, the mode of the socket's directory alone protects it.
    """
    found = _credentials(connection)
    if found and found[1] not in {0, os.geteuid()}:
        raise RpcError(
            "EPERM", f"the process that serves {path} belongs to another user (uid {found[1]}); it gets no request"
        )


def server_pid(path: str | Path) -> int | None:
    """Pid of the process that listens on the Unix socket `path`; None where none does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe, contextlib.suppress(OSError):
        probe.setblocking(False)
        probe.connect(str(path))
        return peer_pid(probe)
    return None


def is_stopped(pid: int | None) -> bool:
    """Return True if a signal has stopped the process (state T)."""
    return pid is not None and stat_fields(pid)[:1] == [_STOPPED]


def stat_fields(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the command name, state first; empty where there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return []
    return stat.rpartition(")")[2].split()


def stopped_text(pid: int) -> str:
    """Describe a stopped process, with the remedy, as a predicate."""
    return f"is stopped (process {pid}, state T: SIGSTOP or the like); `kill -CONT {pid}` resumes it"
