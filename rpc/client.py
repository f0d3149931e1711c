"""The blocking client: calls with a timeout, and events as an iterator."""

import contextlib
import math
import select
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from mrclab.rpc import peers
from mrclab.rpc.errors import FramingError, RpcError, RpcStopped, RpcTimeout, RpcUnavailable
from mrclab.rpc.framing import LineSplitter, decode, encode
from mrclab.rpc.paths import check_length

DEFAULT_TIMEOUT_S = 10.0
_LOOK_S = 0.25  # seconds between two looks whether the server's process is stopped


class Client:
    """One connection to one server; connects when made. Not for use by two threads at once.

    `timeout` (seconds) bounds each call; math.inf: no bound. `may_stop` returns whether the server's process is stopped
    on purpose. Raises RpcUnavailable when nobody serves `path`.
    """

    def __init__(
        self, path: str | Path, timeout: float = DEFAULT_TIMEOUT_S, may_stop: Callable[[], bool] = lambda: False
    ) -> None:
        self.path = check_length(path)
        self._timeout, self._may_stop = timeout, may_stop
        self._splitter = LineSplitter()
        self._lines: deque[bytes] = deque()
        self._events: deque[dict[str, Any]] = deque()
        self._next_id = 1
        self._socket = self._connect()
        self.pid = peers.peer_pid(self._socket)  # of the server

    def _connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._open(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _open(self, connection: socket.socket) -> None:
        try:
            connection.settimeout(min(self._timeout, DEFAULT_TIMEOUT_S))
            connection.connect(self.path)
            peers.check_peer(connection, self.path)
            connection.setblocking(False)
        except FileNotFoundError as error:
            raise RpcUnavailable("ENOENT", f"no socket {self.path}: its process is not running") from error
        except ConnectionRefusedError as error:
            raise RpcUnavailable("ECONNREFUSED", f"nobody serves {self.path}: its process has died") from error
        except BlockingIOError as error:
            raise RpcUnavailable("EAGAIN", f"{self.path} takes no more connections: its process hangs") from error
        except OSError as error:
            raise RpcUnavailable("EIO", f"cannot connect to {self.path}: {error}") from error

    @classmethod
    def wait_for(cls, path: str | Path, timeout: float) -> "Client":
        """Connect to a server that may still be starting; give up with RpcUnavailable after `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                return cls(path)
            except RpcUnavailable:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(0.02)

    def call(self, op: str, /, *, rpc_timeout: float | None = None, **arguments: Any) -> dict[str, Any]:
        """Return the answer to one request.

        Raises RpcError with the server's code and message, RpcTimeout after `rpc_timeout` seconds (default: the
        client's), RpcStopped where a signal stops the server's process, RpcUnavailable when the server goes away.
        Events that arrive meanwhile are kept for `events`.
        """
        deadline = time.monotonic() + (self._timeout if rpc_timeout is None else rpc_timeout)
        request_id = self._next_id
        self._next_id += 1
        self._send(encode({"id": request_id, "op": op, **arguments}), op, deadline)
        stopped_since = None
        while True:
            message = self._next_message(min(deadline, time.monotonic() + _LOOK_S))
            if message is None:
                stopped_since = self._stopped_since(stopped_since)
                if time.monotonic() >= deadline:
                    self.close()
                    raise RpcTimeout("ETIMEDOUT", f"{self.path} did not answer {op} in time")
            elif "event" in message:
                self._events.append(message["event"])
            elif message.get("id") == request_id:
                return self._outcome(message)

    def _stopped_since(self, since: float | None) -> float | None:
        """Time since which the server's process is known to be stopped; RpcStopped after `STOPPED_S` of it."""
        if not peers.is_stopped(self.pid) or self._may_stop():
            return None
        assert self.pid is not None
        if since is not None and time.monotonic() - since >= peers.STOPPED_S:
            self.close()
            raise RpcStopped(f"the process that serves {self.path} {peers.stopped_text(self.pid)}", self.pid)
        return since or time.monotonic()

    def subscribe(self, kinds: Sequence[str] | None = None) -> None:
        """Ask for the server's events from now on, all or those of some kinds; a second call replaces the first."""
        self.call("subscribe", kinds=None if kinds is None else list(kinds))

    def events(self, timeout: float | None = None) -> Iterator[dict[str, Any]]:
        """Yield events as they come; end after `timeout` seconds in all (None: never), or when the server is gone."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            event = self._next_event(deadline)
            if event is None:
                return
            yield event

    def _next_event(self, deadline: float | None) -> dict[str, Any] | None:
        while not self._events:
            try:
                message = self._next_message(deadline)
            except RpcUnavailable:
                return None
            if message is None:
                return None
            if "event" in message:
                self._events.append(message["event"])
        return self._events.popleft()

    @staticmethod
    def _outcome(message: dict[str, Any]) -> dict[str, Any]:
        if "error" in message:
            error = message["error"]
            raise RpcError(str(error.get("code", "EIO")), str(error.get("message", "no message")))
        result = message.get("ok")
        if not isinstance(result, dict):
            raise FramingError(f"answer {message} holds neither ok nor error")
        return result

    def _send(self, data: bytes, op: str, deadline: float) -> None:
        view = memoryview(data)
        try:
            while view:
                if not self._wait(select.POLLOUT, deadline):
                    self.close()
                    raise RpcTimeout("ETIMEDOUT", f"{self.path} did not take {op} in time")
                view = view[self._socket.send(view) :]
        except OSError as error:
            self.close()
            raise RpcUnavailable("EPIPE", f"{self.path} closed the connection before {op}") from error

    def _next_message(self, deadline: float | None) -> dict[str, Any] | None:
        """Return the next message, or None at the deadline."""
        while not self._lines:
            if not self._wait(select.POLLIN, deadline):
                return None
            try:
                data = self._socket.recv(262144)
            except BlockingIOError:
                continue
            except OSError as error:
                self.close()
                raise RpcUnavailable("EPIPE", f"{self.path} broke the connection: {error.strerror}") from error
            if not data:
                self.close()
                raise RpcUnavailable("EPIPE", f"{self.path} closed the connection: its process has ended")
            self._lines.extend(self._splitter.feed(data))
        return decode(self._lines.popleft())

    def _wait(self, mask: int, deadline: float | None) -> bool:
        if self._socket.fileno() < 0:
            raise RpcUnavailable("EBADF", f"the connection to {self.path} is closed")
        poller = select.poll()
        poller.register(self._socket, mask)
        left = math.inf if deadline is None else deadline - time.monotonic()
        wait_ms = None if left == math.inf else max(0.0, left * 1000)
        return bool(poller.poll(wait_ms))

    def fileno(self) -> int:
        """Return the socket's descriptor, to wait for events of several servers with select."""
        return self._socket.fileno()

    def abort(self) -> None:
        """End a call that another thread is waiting for, with RpcUnavailable; the one thing for a second thread."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection; closing twice is allowed."""
        self._socket.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _value: BaseException | None, _tb: TracebackType | None
    ) -> None:
        self.close()
