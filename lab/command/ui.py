"""The command `mrclab ui`: the page of the running lab, or of a finished run. It only reads words and calls others."""

import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from mrclab.lab.command.held import held_run_dir
from mrclab.lab.command.operations import out, running_lab
from mrclab.lab.errors import LabError
from mrclab.lab.prompt import service
from mrclab.lab.ui.sources import Live, Replay

app = typer.Typer()

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
    place = held_run_dir(context.obj)
    source = Live(place, alive(context.obj, place))
    try:
        serve(source, partial(service.ask, place), port)
    finally:
        source.stop()


def alive(run_dir: Path, place: Path) -> Callable[[], bool]:
    """Whether the lab at a place is still there; LabError where none is."""
    if place == run_dir:
        from mrclab.topo.linux import state  # noqa: PLC0415 - Linux alone has what it needs

        running_lab(run_dir)
        return lambda: state.running(run_dir.parent) is not None
    return (place / "fabric.yaml").exists


def serve(source: Live | Replay, operate: Any, port: int) -> None:
    """Serve one source on the loopback address until a signal comes. LabError where the port is taken."""
    try:
        import uvicorn  # noqa: PLC0415 - only those who want the page pay for it

        from mrclab.lab.ui.server import LivePage  # noqa: PLC0415
    except ImportError as error:
        raise LabError(f"the page needs {error.name}; install it with `pip install mrclab[ui]`") from None

    page = LivePage(source, operate)
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
    except OSError as error:
        raise LabError(f"cannot listen on port {port}: {error.strerror}; choose another with --port") from None
    listener.listen()
    out.print(page.address(listener.getsockname()[1]), soft_wrap=True)
    config = uvicorn.Config(page.app, log_level="warning", access_log=False, timeout_graceful_shutdown=1)
    uvicorn.Server(config).run(sockets=[listener])
