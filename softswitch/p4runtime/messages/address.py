"""Where the server listens: checks that gRPC leaves out or reports without a reason."""

from __future__ import annotations

import os
import socket
from pathlib import Path

UNIX_PREFIX = "unix:"
MAX_UNIX_PATH_BYTES = 107  # sun_path without its final zero


class ServerError(Exception):
    """The server cannot listen where it was told to; the message says why."""


def check_address(address: str) -> None:
    """Refuse an address that cannot be listened on.

    gRPC removes a socket file that is in its way, even while another process listens on it.
    """
    if not address.startswith(UNIX_PREFIX):
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit() or int(port) > 65535:
            raise ServerError(f"{address!r} is no address to listen on: give host:port or unix:/path")
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
