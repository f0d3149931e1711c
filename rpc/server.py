"""The server for a process that has its own event loop: one descriptor to watch, one call to make.

The listening socket and all connections sit in an epoll of the server's own, whose descriptor is readable whenever
one of them needs attention (epoll(7): an epoll descriptor can itself be watched). So the outer loop watches
`fileno()` and calls `service()`, which never blocks. A system without epoll has no such descriptor; there the outer
loop calls `service()` again and again.
"""

import logging
import select
import socket
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mrclab.rpc.dispatch import Operation, Operations, Subscription, error_response, response
from mrclab.rpc.errors import RpcError
from mrclab.rpc.framing import MAX_LINE_BYTES, LineSplitter, decode, encode
from mrclab.rpc.listener import ListeningSocket
from mrclab.rpc.paths import listen

log = logging.getLogger(__name__)

MAX_BACKLOG_BYTES = MAX_LINE_BYTES
"""Events for a subscriber that reads too slowly are dropped, and counted, beyond this."""


class ClientConnection:
    """One client: bytes not yet a line, bytes not yet sent."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.splitter = LineSplitter()
        self.outgoing: deque[bytes | memoryview] = deque()
        self.backlog = 0
        self.subscription: Subscription | None = None
        self.sends_no_more = False
        self.watched = select.POLLIN
        self.events_dropped = 0

    @property
    def events(self) -> int:
        """Events of its socket to wait for; a hang-up is reported besides."""
        return (0 if self.sends_no_more else select.POLLIN) | (select.POLLOUT if self.outgoing else 0)

    def queue(self, line: bytes) -> None:
        """Append a line to those to be sent."""
        self.outgoing.append(line)
        self.backlog += len(line)

    def queue_event(self, line: bytes) -> None:
        """Append an event, or count it as dropped where the client reads too slowly."""
        if self.backlog > MAX_BACKLOG_BYTES:
            self.events_dropped += 1
        else:
            self.queue(line)

    def flush(self) -> None:
        """Send as much as the socket accepts now."""
        while self.outgoing:
            chunk = self.outgoing[0]
            try:
                sent = self.socket.send(chunk)
            except BlockingIOError:
                return
            self.backlog -= sent
            if sent == len(chunk):
                self.outgoing.popleft()
            else:
                self.outgoing[0] = memoryview(chunk)[sent:]
            if self.events_dropped and not self.outgoing:
                self.queue(encode({"event": {"kind": "rpc.events_dropped", "count": self.events_dropped}}))
                self.events_dropped = 0


class Server:
    """Serves operations on a Unix socket inside another event loop.

    An operation is called with the request's arguments by keyword, in the thread that calls `service`; it returns a
    dict or None, or raises RpcError. `subscribe` is served here. Raises RpcError when the path cannot be had.
    """

    def __init__(self, path: str | Path, operations: Mapping[str, Operation]) -> None:
        self.path = str(path)
        self._operations = Operations(operations)
        self._connections: dict[int, ClientConnection] = {}
        self._listener = ListeningSocket(listen(path))
        self._epoll = select.epoll() if hasattr(select, "epoll") else None
        self._poll = self._epoll or select.poll()
        self._poll.register(self._listener, select.POLLIN)

    def fileno(self) -> int:
        """Return the descriptor that is readable when `service` has something to do; -1 without epoll."""
        return self._epoll.fileno() if self._epoll else -1

    @property
    def has_subscribers(self) -> bool:
        """True if an event would have a subscriber now."""
        return any(connection.subscription is not None for connection in self._connections.values())

    def service(self) -> None:
        """Serve everything that is ready and return; never blocks."""
        for descriptor, mask in self._poll.poll(0):
            if descriptor == self._listener.fileno():
                self._accept()
                continue
            connection = self._connections.get(descriptor)
            if connection is None:
                continue
            try:
                if mask & (select.POLLIN | select.POLLHUP | select.POLLERR):
                    self._receive(connection)
                self._flush(connection)
            except (OSError, RpcError) as error:
                self._drop(connection, error)

    def publish(self, event: Mapping[str, Any]) -> None:
        """Send an event to all subscribers, or queue it for those that are slow."""
        line: bytes | None = None
        for connection in list(self._connections.values()):
            if connection.subscription is None or not connection.subscription.wants(event):
                continue
            line = line or encode({"event": dict(event)})
            try:
                connection.queue_event(line)
                self._flush(connection)
            except OSError as error:
                self._drop(connection, error)

    def close(self) -> None:
        """Close all connections and remove the socket file."""
        for connection in list(self._connections.values()):
            connection.socket.close()
        self._connections.clear()
        if self._epoll:
            self._epoll.close()
        self._listener.close()
        Path(self.path).unlink(missing_ok=True)

    def _accept(self) -> None:
        accepted = self._listener.accept()
        if accepted is not None:
            self._connections[accepted.fileno()] = ClientConnection(accepted)
            self._poll.register(accepted, select.POLLIN)

    def _receive(self, connection: ClientConnection) -> None:
        try:
            data = connection.socket.recv(262144)
        except BlockingIOError:
            return
        if not data:
            self._end_of_requests(connection)
        for line in connection.splitter.feed(data):
            self._serve(connection, line)

    def _end_of_requests(self, connection: ClientConnection) -> None:
        """Leave pending answers to a client that sends no more, as long as it has not hung up."""
        if connection.sends_no_more:
            raise ConnectionResetError
        connection.sends_no_more = True

    def _awaits(self, connection: ClientConnection) -> bool:
        """Return True if a client that sends no more will still be answered."""
        return False

    def _serve(self, connection: ClientConnection, line: bytes) -> None:
        request: dict[str, Any] = {}
        try:
            request = decode(line)
            if request.get("op") == "subscribe":
                connection.subscription = Subscription(request)
                connection.queue(response(request, None))
            else:
                self._respond(connection, request, self._operations.invoke(request))
        except Exception as error:
            connection.queue(error_response(request, error))

    def _respond(self, connection: ClientConnection, request: dict[str, Any], result: Any) -> None:
        """Answer a request with the result of its operation."""
        connection.queue(response(request, result))

    def _flush(self, connection: ClientConnection) -> None:
        """Send what is queued, unless the connection was dropped, as by an operation of its own that publishes."""
        if connection.socket.fileno() < 0:
            return
        connection.flush()
        if connection.sends_no_more and not connection.outgoing and not self._awaits(connection):
            self._drop(connection, ConnectionResetError())
            return
        events = connection.events
        if events != connection.watched:
            connection.watched = events
            self._poll.modify(connection.socket, events)

    def _drop(self, connection: ClientConnection, error: Exception) -> None:
        if not isinstance(error, (ConnectionResetError, BrokenPipeError)):
            log.warning("connection on %s closed: %s", self.path, error)
        self._connections.pop(connection.socket.fileno(), None)
        self._poll.unregister(connection.socket)
        connection.socket.close()
