"""The socket of a desk: words from other terminals, and what is clicked on the page."""

import contextlib
import io
import select
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from mrclab.lab.errors import LabError
from mrclab.lab.prompt import words
from mrclab.lab.prompt.desk import Desk
from mrclab.rpc.client import Client
from mrclab.rpc.errors import RpcError, RpcUnavailable
from mrclab.rpc.server import Server
from mrclab.topo.errors import TopoError

SOCKET = "lab.sock"
_LOOK = 0.1  # seconds between two looks whether to end
_LONGEST = 4000.0  # seconds that a word may take
_WIDTH = 120  # of text for who has no terminal


@contextmanager
def served(desk: Desk, run_dir: Path) -> Iterator[None]:
    """Serve the desk's words at `RUN_DIR/lab.sock` inside the block, one at a time, in a thread of their own."""
    server = Server(run_dir / SOCKET, {
        "word": lambda line, width=_WIDTH: _word(desk, str(line), int(width)),
        "strike": lambda kind, fields: {"said": _refusing(lambda: desk.strike(str(kind), dict(fields)))},
        "controller": lambda request, seconds, arguments: _refusing(
            lambda: desk.ask(str(request), float(seconds), **dict(arguments))
        ),
        "heal": lambda name="": {"said": "\n".join(_refusing(lambda: desk.heal(str(name)))) or "nothing to heal"},
        "traffic": lambda traffic: {"said": _refusing(lambda: _start(desk, dict(traffic)))},
    })  # fmt: skip
    ended = threading.Event()

    def serve() -> None:
        while not ended.is_set():
            if select.select([server.fileno()], (), (), _LOOK)[0]:
                server.service()

    thread = threading.Thread(target=serve, name="words", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(timeout=2.0)
        server.close()


def ask(run_dir: Path, operation: str, refused: type[LabError] = LabError, /, **arguments: Any) -> dict[str, Any]:
    """Ask the process that holds the lab. `refused` with its sentence; LabError where nobody holds one."""
    try:
        with contextlib.closing(Client(run_dir / SOCKET, _LONGEST)) as client:
            return client.call(operation, **arguments)
    except RpcUnavailable:
        raise LabError("no prompt holds a lab; start one with `mrclab up` in another terminal") from None
    except RpcError as error:
        raise refused(error.message) from None


def _start(desk: Desk, traffic: dict[str, Any]) -> str:
    with desk.lock:
        return f"{desk.flows.start(traffic).running.name} runs"


def _word(desk: Desk, line: str, width: int) -> dict[str, Any]:
    answer = _refusing(lambda: words.run(desk, line))
    text = io.StringIO()
    Console(file=text, width=width, highlight=False).print(answer.shown)
    return {"text": text.getvalue(), "data": answer.data}


def _refusing(work: Any) -> Any:
    try:
        return work()
    except (LabError, TopoError, ValueError) as error:
        raise RpcError("EINVAL", str(error)) from None
