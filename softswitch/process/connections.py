"""Stream sockets in the data-plane thread: connections, and received data not yet read."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mrclab.softswitch.switch import SoftSwitch

READ_BYTES = 1 << 14
LONGEST_ANSWER = 1 << 23
"""Bytes that an answer may have: it never waits for its reader, for forwarding would wait as well."""
SO_SNDBUFFORCE = 32  # for CAP_NET_ADMIN; others get as much as the system allows


class Connections:
    """Clients of a listening socket, until `close`.

    `take(client, pending)` is called when more has come: it answers, removes answered requests from `pending`, and
    returns whether the connection goes on. An answer for which its socket has no room is an OSError.
    """

    def __init__(
        self,
        switch: SoftSwitch,
        listener: socket.socket,
        take: Callable[[socket.socket, bytearray], bool],
    ) -> None:
        self._switch = switch
        self._listener = listener
        self._take = take
        self._clients: dict[int, tuple[socket.socket, bytearray]] = {}
        switch.watch(listener.fileno(), self._accept)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            client, _ = self._listener.accept()
            client.setblocking(False)
            for option in (socket.SO_SNDBUF, SO_SNDBUFFORCE):
                with contextlib.suppress(OSError):
                    client.setsockopt(socket.SOL_SOCKET, option, LONGEST_ANSWER)
            self._clients[client.fileno()] = (client, bytearray())
            self._switch.watch(client.fileno(), lambda: self._read(client.fileno()))

    def _read(self, fd: int) -> None:
        client, pending = self._clients[fd]
        try:
            data = client.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        pending += data
        goes_on = False
        with contextlib.suppress(OSError):
            goes_on = self._take(client, pending) and bool(data)
        if not goes_on:
            self._switch.watch(fd, None)
            del self._clients[fd]
            client.close()

    def close(self) -> None:
        """Stop listening, and drop all clients."""
        self._switch.watch(self._listener.fileno(), None)
        self._listener.close()
        for client, _ in self._clients.values():
            client.close()
