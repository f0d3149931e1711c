"""The server for an asyncio process; operations may be coroutines, and a slow one delays no other client."""

import asyncio
import inspect
import logging
import select
import socket
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from mrclab.rpc.dispatch import Operation, Operations, Subscription, answer, failure
from mrclab.rpc.errors import FramingError
from mrclab.rpc.framing import MAX_LINE_BYTES, LineSplitter, decode, encode
from mrclab.rpc.paths import listen

log = logging.getLogger(__name__)

_LOOK_S = 0.1  # seconds between two looks whether a client without requests has hung up


class AsyncServer:
    """Serves operations on a Unix socket under asyncio: `async with AsyncServer(path, operations) as server`.

    An operation takes its arguments by keyword and returns a dict or None, or is a coroutine function that does.
    `subscribe` is served here. Requests of one connection run side by side; answers carry the request's id. With
    `cancel`, requests whose client hung up are cancelled; else they run to their end.
    """

    def __init__(self, path: str | Path, operations: Mapping[str, Operation], *, cancel: bool = False) -> None:
        self.path, self._cancel = str(path), cancel
        self._operations = Operations(operations)
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._subscribers: dict[asyncio.StreamWriter, Subscription] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Listen; raise RpcError when the path cannot be had."""
        self._server = await asyncio.start_unix_server(self._connected, sock=listen(self.path))

    async def close(self) -> None:
        """Stop listening, end running operations, close all connections and remove the socket file."""
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        for writer in list(self._writers):
            writer.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        Path(self.path).unlink(missing_ok=True)

    def publish(self, event: Mapping[str, Any]) -> None:
        """Send an event to all subscribers; one that reads too slowly misses events."""
        if not self._subscribers:
            return
        line = encode({"event": dict(event)})
        for writer, subscription in list(self._subscribers.items()):
            if subscription.wants(event) and writer.transport.get_write_buffer_size() < MAX_LINE_BYTES:
                writer.write(line)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        splitter = LineSplitter()
        self._writers.add(writer)
        own: set[asyncio.Task[None]] = set()
        try:
            while data := await reader.read(262144):
                for line in splitter.feed(data):
                    own.add(self._begin(line, writer))
                own = {task for task in own if not task.done()}
            if self._cancel:
                await self._last(own, writer)
        except (ConnectionError, FramingError) as error:
            log.warning("connection on %s closed: %s", self.path, error)
        finally:
            self._writers.discard(writer)
            self._subscribers.pop(writer, None)
            writer.close()

    @staticmethod
    async def _last(own: set[asyncio.Task[None]], writer: asyncio.StreamWriter) -> None:
        """Cancel pending requests of a client once it has hung up; one without further requests gets its responses."""
        while pending := {task for task in own if not task.done()}:
            if _hung_up(writer.get_extra_info("socket")):
                for task in pending:
                    task.cancel()
                return
            await asyncio.wait(pending, timeout=_LOOK_S)

    def _begin(self, line: bytes, writer: asyncio.StreamWriter) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(self._serve(line, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _serve(self, line: bytes, writer: asyncio.StreamWriter) -> None:
        request: dict[str, Any] = {}
        try:
            request = decode(line)
            reply = answer(request, await self._invoke(request, writer))
        except Exception as error:
            reply = failure(request, error)
        if not writer.is_closing():
            writer.write(reply)
            try:
                await writer.drain()
            except ConnectionError:
                log.debug("a client of %s left before its answer", self.path)

    async def _invoke(self, request: dict[str, Any], writer: asyncio.StreamWriter) -> Any:
        if request.get("op") == "subscribe":
            self._subscribers[writer] = Subscription(request)
            return None
        result = self._operations.invoke(request)
        return await result if inspect.isawaitable(result) else result

    async def __aenter__(self) -> "AsyncServer":
        await self.start()
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _value: BaseException | None, _tb: TracebackType | None
    ) -> None:
        await self.close()


def _hung_up(connection: socket.socket) -> bool:
    """Return True if the other end has closed the connection in both directions."""
    if not hasattr(select, "poll") or connection.fileno() < 0:
        return True
    poller = select.poll()
    poller.register(connection, 0)
    return any(mask & (select.POLLHUP | select.POLLERR) for _, mask in poller.poll(0))
