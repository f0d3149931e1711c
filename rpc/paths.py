"""Unix socket paths: validation, and listening on one that a dead process left behind."""

import errno
import os
import socket
from pathlib import Path

from mrclab.rpc.errors import RpcError

MAX_PATH_BYTES = 107
"""sun_path of Linux holds 108 bytes with the closing zero (unix(7))."""


def check_length(path: str | Path) -> str:
    """Return the path as text; raise RpcError when no Unix socket can have it."""
    text = str(path)
    if len(os.fsencode(text)) > MAX_PATH_BYTES:
        raise RpcError(
            "ENAMETOOLONG", f"socket path {text} has more than {MAX_PATH_BYTES} bytes; use a shorter directory"
        )
    return text


def listen(path: str | Path) -> socket.socket:
    """Return a non-blocking listening socket, for the owner only; a file left by a dead server is replaced.

    Raises RpcError: EADDRINUSE when a living server holds the path, ENOENT when its directory does not exist, or the
    kernel's own code.
    """
    text = check_length(path)
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        server.setblocking(False)
        if Path(text).is_socket():
            _remove_stale(text)
        server.bind(text)
        Path(text).chmod(0o600)
        server.listen(64)
    except OSError as error:
        server.close()
        code = errno.errorcode.get(error.errno or 0, "EIO")
        raise RpcError(code, f"cannot listen on {text}: {error.strerror}") from error
    except RpcError:
        server.close()
        raise
    return server


def is_served(path: str | Path) -> bool:
    """Return True if a process listens on a socket, stopped or not; False for one that a dead process left behind."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
    return True


def _remove_stale(path: str) -> None:
    if is_served(path):
        raise RpcError("EADDRINUSE", f"another process serves {path}")
    Path(path).unlink(missing_ok=True)
