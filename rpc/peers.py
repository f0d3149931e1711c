"""Process at the other end of a Unix socket: its pid, and whether a signal has stopped it.

Sources: `SO_PEERCRED` (unix(7): of a server, the process that called listen(2)) and the third field of
/proc/PID/stat (proc(5)). Both can be read while the process stands still. Where the system has neither, nobody is
known to be stopped.
"""

import contextlib
import socket
import struct
from pathlib import Path

STOPPED_S = 3.0
"""Seconds in state T after which nobody waits for a process any longer: a stop may be over in a moment."""

_CREDENTIALS = struct.Struct("iII")  # struct ucred: pid, uid, gid
_STOPPED = "T"


def peer_pid(connection: socket.socket) -> int | None:
    """Pid of the process at the other end; None where the system cannot tell."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return None
    try:
        pid, _, _ = _CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, option, _CREDENTIALS.size))
    except OSError:
        return None
    return int(pid) or None


def server_pid(path: str | Path) -> int | None:
    """Pid of the process that listens on the Unix socket `path`; None where none does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe, contextlib.suppress(OSError):
        probe.setblocking(False)
        probe.connect(str(path))
        return peer_pid(probe)
    return None


def is_stopped(pid: int | None) -> bool:
    """Return True if a signal has stopped the process (state T)."""
    if pid is None:
        return False
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[:1] == [_STOPPED]


def stopped_text(pid: int) -> str:
    """Say of a stopped process what stopped it and what lets it go on; the sentence lacks its subject."""
    return f"is stopped (process {pid}, state T: SIGSTOP or the like); `kill -CONT {pid}` lets it go on"
