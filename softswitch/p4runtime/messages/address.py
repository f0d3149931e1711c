"""Listening address of the server: checks that gRPC leaves out or reports without a reason, and who may connect.

Any client that connects can become primary and load a program. So a Unix socket is this user's alone (mode
0600), also by default; a TCP port, which every local user reaches, is served only on request.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

log = logging.getLogger(__name__)

UNIX_PREFIX = "unix:"
MAX_UNIX_PATH_BYTES = 107  # sun_path without its final zero


class ServerError(Exception):
    """The server cannot listen at its address; the message says why."""


def default_address(device_id: int) -> str:
    """Return the default address of a switch: in a folder that only this user may enter."""
    for folder in _folders():
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            info = folder.lstat()
        except OSError:
            continue
        if stat.S_ISDIR(info.st_mode) and info.st_uid == os.geteuid() and not info.st_mode & 0o077:
            return f"{UNIX_PREFIX}{folder}/softswitch-{device_id}.sock"
    raise ServerError("no folder for the P4Runtime socket is this user's alone: give --grpc-server-addr unix:/path")


def _folders() -> Iterator[Path]:
    own = os.environ.get("XDG_RUNTIME_DIR", "")
    if own.startswith("/"):
        yield Path(own)
    if os.geteuid() == 0:
        yield Path("/run/softswitch")
    yield Path(f"/tmp/softswitch-{os.geteuid()}")


@contextlib.contextmanager
def private(address: str) -> Iterator[None]:
    """Give a Unix socket that the block makes mode 0600 from the start; warn of a TCP port."""
    if not address.startswith(UNIX_PREFIX):
        log.warning("P4Runtime on %s: every user of this machine who reaches it can program the switch", address)
        yield
        return
    before = os.umask(0o177)
    try:
        yield
    finally:
        os.umask(before)


def check_address(address: str) -> None:
    """Refuse an address that cannot be listened on.

    gRPC removes a socket file that is in its way, even while another process listens on it.
    """
    if not address.startswith(UNIX_PREFIX):
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit() or int(port) > 65535:
            raise ServerError(f"{address!r} is not an address to listen on: give host:port or unix:/path")
        return
    path = address[len(UNIX_PREFIX) :]
    if len(os.fsencode(path)) > MAX_UNIX_PATH_BYTES:
        raise ServerError(
            f"{path}: the path of a Unix socket has at most {MAX_UNIX_PATH_BYTES} bytes, use a shorter one"
        )
    if not Path(path).absolute().parent.is_dir():
        raise ServerError(f"{path}: its directory does not exist, make it first")
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        if probe.connect_ex(path) == 0:
            raise ServerError(f"{path}: another process listens there, stop it or use another path")
