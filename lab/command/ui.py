"""The command `mrclab ui`: the page of the running lab, or of a finished run. It only reads words and calls others."""

import socket
from pathlib import Path
from typing import Annotated, Any

import typer

from mrclab.lab.command.operations import out, running_lab
from mrclab.lab.errors import LabError, RunError
from mrclab.lab.run.attach import Lab
from mrclab.lab.ui.sources import Live, Replay
from mrclab.rpc.client import Client
from mrclab.rpc.errors import RpcError

app = typer.Typer()

_REPLY = 60.0  # seconds an operation may take
_DESK = "lab.sock"  # of the process that owns the lab

Results = Annotated[
    Path | None, typer.Argument(metavar="[RESULT_DIR]", help="a finished run; default: the running lab")
]
Port = Annotated[int, typer.Option(min=0, max=65535, help="on the loopback address; 0: any that is free")]


@app.command()
def ui(context: typer.Context, results: Results = None, port: Port = 0) -> None:
    """Show the running lab, or replay a finished run, in a browser: prints the address, ends with Ctrl-C."""
    if results is not None:
        serve(Replay(results), None, port)
        return
    from mrclab.topo.linux import state  # noqa: PLC0415 - Linux alone has what it needs

    lab = running_lab(context.obj)
    source = Live(lab.run_dir, lambda: state.running(lab.run_dir.parent) is not None)
    try:
        serve(source, lambda operation, arguments: operate(lab, operation, arguments), port)
    finally:
        source.stop()


def serve(source: Live | Replay, operate: Any, port: int) -> None:
    """Serve one source on the loopback address until a signal comes. LabError where the port is taken."""
    try:
        import uvicorn  # noqa: PLC0415 - only those who want the page pay for it

        from mrclab.lab.ui.server import Page  # noqa: PLC0415
    except ImportError as error:
        raise LabError(f"the page needs {error.name}; install it with `pip install mrclab[ui]`") from None

    page = Page(source, operate)
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
    except OSError as error:
        raise LabError(f"cannot listen on port {port}: {error.strerror}; choose another with --port") from None
    out.print(page.address(listener.getsockname()[1]), soft_wrap=True)
    config = uvicorn.Config(page.app, log_level="warning", access_log=False, timeout_graceful_shutdown=1)
    uvicorn.Server(config).run(sockets=[listener])


def operate(lab: Lab, operation: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Ask the process that owns the lab; RunError says why it would not."""
    try:
        with Client(lab.run_dir / _DESK, _REPLY) as client:
            return client.call(operation, **arguments)
    except RpcError as error:
        raise RunError(error.message) from None
