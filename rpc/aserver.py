"""The server for an asyncio process; operations may be coroutines, and a slow one delays no other client."""

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from mrclab.rpc.dispatch import Operation, error_response, response
from mrclab.rpc.server import ClientConnection, Server

_LOOK_S = 0.01  # seconds between two looks at the connections, where the system has no epoll


class AsyncServer(Server):
    """Serves operations on a Unix socket under asyncio: `async with AsyncServer(path, operations) as server`.

    It listens as soon as it is made, and serves clients inside the block. An operation may also be a coroutine
    function. Requests of one connection run side by side; answers carry the request's id. With `cancel`, requests whose
    client hung up are cancelled; else they run to their end.
    """

    def __init__(self, path: str | Path, operations: Mapping[str, Operation], *, cancel: bool = False) -> None:
        super().__init__(path, operations)
        self._cancel = cancel
        self._tasks: dict[asyncio.Future[Any], ClientConnection] = {}
        self._next_look: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> "AsyncServer":
        if self._epoll:
            asyncio.get_running_loop().add_reader(self.fileno(), self.service)
        else:
            self._look()
        return self

    def _look(self) -> None:
        """Serve what is ready now, and look again soon."""
        self._next_look = asyncio.get_running_loop().call_later(_LOOK_S, self._look)
        self.service()

    async def __aexit__(
        self, _type: type[BaseException] | None, _value: BaseException | None, _tb: TracebackType | None
    ) -> None:
        if self._epoll:
            asyncio.get_running_loop().remove_reader(self.fileno())
        elif self._next_look:
            self._next_look.cancel()
        for task in self._tasks:
            task.cancel()
        try:
            if self._tasks:  # those that have ended are answered by callbacks, for which gather would not wait
                await asyncio.wait(list(self._tasks))
        finally:
            self.close()

    def _respond(self, connection: ClientConnection, request: dict[str, Any], result: Any) -> None:
        if inspect.isawaitable(result):
            task = asyncio.ensure_future(_outcome(result) if asyncio.isfuture(result) else result)
            self._tasks[task] = connection
            task.add_done_callback(functools.partial(self._finish, connection, request))
        else:
            super()._respond(connection, request, result)

    def _finish(self, connection: ClientConnection, request: dict[str, Any], task: asyncio.Future[Any]) -> None:
        """Answer a request once its operation has ended; a client that has left gets nothing."""
        del self._tasks[task]
        if task.cancelled():
            return
        error = task.exception()
        reply = response(request, task.result()) if error is None else error_response(request, error)
        connection.queue(reply)
        try:
            self._flush(connection)
        except OSError as lost:
            self._drop(connection, lost)

    def _awaits(self, connection: ClientConnection) -> bool:
        return self._cancel and connection in self._tasks.values()

    def _drop(self, connection: ClientConnection, error: Exception) -> None:
        super()._drop(connection, error)
        for task, whose in self._tasks.items():
            if self._cancel and whose is connection:
                task.cancel()


async def _outcome(future: Awaitable[Any]) -> Any:
    """Return the result of a future that several requests may wait for, each with a task of its own."""
    return await future
