"""Listening socket of a process that goes on when it has no descriptor left."""

import contextlib
import errno
import logging
import socket

log = logging.getLogger(__name__)


class ListeningSocket:
    """Accepts the clients of a listening socket, which does not block."""

    def __init__(self, listening: socket.socket) -> None:
        self._socket = listening
        self._spare = socket.socket(socket.AF_UNIX)  # its descriptor lets a client be refused when none is left

    def fileno(self) -> int:
        """Return the descriptor that is readable when a client waits."""
        return self._socket.fileno()

    def accept(self) -> socket.socket | None:
        """Return the next client's connection, which does not block; None if there is none, or no descriptor for it."""
        try:
            accepted, _ = self._socket.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return None
        except OSError as error:
            if error.errno not in {errno.EMFILE, errno.ENFILE}:
                raise
            log.warning("disconnected a client of %s: %s", self._socket.getsockname(), error)
            self._disconnect_next()
            return None
        accepted.setblocking(False)
        return accepted

    def _disconnect_next(self) -> None:
        """Accept a client with the spare descriptor and close its connection, so that the listener is not ready."""
        self._spare.close()
        with contextlib.suppress(OSError):
            self._socket.accept()[0].close()
        with contextlib.suppress(OSError):  # another thread, or process, has taken it
            self._spare = socket.socket(socket.AF_UNIX)

    def close(self) -> None:
        """Close both sockets."""
        self._socket.close()
        self._spare.close()
