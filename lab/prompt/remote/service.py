"""The socket of a session: commands from other terminals and clicks on the page."""

import asyncio
import functools
import io
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mrclab.lab import console
from mrclab.lab.command.ending import remedy
from mrclab.lab.errors import LabError, plain
from mrclab.lab.prompt import registry
from mrclab.lab.prompt.operations import OPERATIONS
from mrclab.lab.prompt.remote.client import SOCKET
from mrclab.lab.prompt.remote.turnlock import Caller, called_by
from mrclab.lab.prompt.session import LabSession
from mrclab.lab.prompt.watching.packetwatch import PacketWatch
from mrclab.rpc.aserver import AsyncServer
from mrclab.rpc.errors import RpcError
from mrclab.topo.errors import TopoError

_AT_ONCE = 64  # commands that are carried out at the same time; more wait for their turn
_WIDTH = 120  # of text for clients without a terminal


@contextmanager
def served(session: LabSession, run_dir: Path) -> Iterator[None]:
    """Serve the session's commands at `RUN_DIR/lab.sock` inside the block, each in a thread of its own.

    A command whose client hangs up is ended.
    """
    packets = PacketWatch(session)
    session.observers.append(packets.close_unused)
    pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="command")
    commands: dict[str, Callable[..., dict[str, Any]]] = {
        "command": lambda line, width=_WIDTH: _command(session, str(line), int(width)),
        "controller": lambda request, seconds, arguments: session.ask(str(request), float(seconds), **dict(arguments)),
        "packets": lambda since=None: packets.poll(None if since is None else int(since)),
    }
    commands |= {name: _operation(session, packets, name) for name in OPERATIONS}
    server = AsyncServer(
        run_dir / SOCKET, {name: _in_thread(session, pool, work) for name, work in commands.items()}, cancel=True
    )
    loop, ended = asyncio.new_event_loop(), asyncio.Event()

    async def serve() -> None:
        async with server:
            await ended.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), name="commands", daemon=True)
    thread.start()
    try:
        yield
    finally:
        session.observers.remove(packets.close_unused)
        packets.close()
        loop.call_soon_threadsafe(ended.set)
        thread.join()
        pool.shutdown(cancel_futures=True)
        loop.close()


def _in_thread(
    session: LabSession, pool: Executor, work: Callable[..., dict[str, Any]]
) -> Callable[..., Awaitable[dict[str, Any]]]:
    """Wrap a function as a coroutine function that runs it in a thread; cancelling it ends the work soon."""

    def carry_out(requester: Caller, arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            with called_by(requester):
                return work(**arguments)
        except (LabError, TopoError, ValueError) as error:
            raise RpcError("EINVAL", str(error)) from None
        except OSError as error:  # of one file or program; the lab goes on
            raise RpcError("EINVAL", f"{plain(error)}; {remedy(error)}") from None
        except KeyboardInterrupt:  # a signal received in virtual time, in this thread
            session.interrupted = True
            raise RpcError("EINTR", "the lab goes down") from None

    @functools.wraps(work)
    async def operation(**arguments: Any) -> dict[str, Any]:
        requester = Caller()
        try:
            return await asyncio.get_running_loop().run_in_executor(pool, carry_out, requester, arguments)
        except asyncio.CancelledError:
            requester.gone.set()
            raise

    return operation


def _command(session: LabSession, line: str, width: int) -> dict[str, Any]:
    answer = registry.run(session, line)
    text = io.StringIO()
    console.console(file=text, width=width, highlight=False).print(answer.shown)
    return {"text": text.getvalue(), "data": answer.data}


def _operation(session: LabSession, packets: PacketWatch, name: str) -> Callable[..., dict[str, Any]]:
    """Return an operation of the page with the arguments that it takes besides the session."""
    bound = functools.partial(OPERATIONS[name], session)

    @functools.wraps(bound)
    def operate(**arguments: Any) -> dict[str, Any]:
        message = bound(**arguments)
        if name in {"speed", "slow"}:
            packets.poll()  # in slow time watching begins at once
        return {"message": message}

    return operate
