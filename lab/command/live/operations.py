"""Commands for the lab that is up: `mrclab status`, `map`, `deny`, `drain`, `precheck`, `p4sh`, `exec`.

They send requests to the running lab's controller over its socket; in virtual time through the lab's prompt. `--json`
prints the response.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import RenderableType
from rich.markup import escape

from mrclab.lab import console
from mrclab.lab.command.display import progress, views
from mrclab.lab.command.live.rundir import on_the_wire, virtual
from mrclab.lab.errors import LabError, RunError
from mrclab.lab.prompt.remote import client
from mrclab.rpc.client import Client
from mrclab.rpc.errors import RpcError, RpcStopped, RpcUnavailable
from mrclab.rpc.peers import stopped_text

if TYPE_CHECKING:
    from mrclab.lab.run.wire.attach import LabClients

app = typer.Typer(no_args_is_help=True)
out = console.standard(highlight=False)
err = console.console(stderr=True)

AsJson = Annotated[bool, typer.Option("--json", help="print the controller's response as JSON")]
Element = Annotated[
    list[str], typer.Argument(metavar="WHAT", help="t1-p1-2, t0-p1-1/t1-p1-2, h1-p2, plane 3, or h1 to h3 p2 u1")
]
SwitchName = Annotated[str, typer.Argument(metavar="SWITCH", help="a T0 or T1, e.g. t1-p1-2")]
Reason = Annotated[str, typer.Option(help="reason, stored with the denial")]
Timeout = Annotated[float, typer.Option(min=0, max=3600, help="time limit in seconds")]

_LOOK_S = 1.0  # seconds in which switches and agents must respond
_CONTROLLER = "controller.sock"
_REPLY = 10.0  # seconds a controller may take beyond the requested time


@app.command()
def status(context: typer.Context, as_json: AsJson = False) -> None:
    """Show the running lab's state: switches, cables, table entries, agents, denials."""
    response = _ask(context, "status", _LOOK_S, ask=_LOOK_S)
    _print(response, as_json, views.status)


@app.command("map")
def link_map(
    context: typer.Context,
    as_json: AsJson = False,
    forget: Annotated[
        bool, typer.Option("--forget", help="clear Clustermapper's observations, e.g. after a repair")
    ] = False,
) -> None:
    """Show Clustermapper's map: health of every cable by the hosts' probes, and faulty elements."""
    view = (lambda _response: "Clustermapper begins again") if forget else views.link_map
    _print(_ask(context, "forget" if forget else "map"), as_json, view)


@app.command()
def deny(context: typer.Context, what: Element, reason: Reason = "", as_json: AsJson = False) -> None:
    """Keep all QPs off a switch, cable, plane or path; returns when every host is notified."""
    response = _ask(context, "deny", what=" ".join(what), reason=reason)
    _print(response, as_json, views.denied, done=not response["unnotified"])


@app.command()
def undeny(context: typer.Context, what: Element, as_json: AsJson = False) -> None:
    """Lift all denials of an element, whatever their source."""
    response = _ask(context, "undeny", what=" ".join(what))
    _print(response, as_json, views.undenied, done=not response["unnotified"])


@app.command()
def drain(
    context: typer.Context, switch: SwitchName, reason: Reason = "", timeout: Timeout = 30.0, as_json: AsJson = False
) -> None:
    """Take a T0 or T1 out of service without losing a packet: deny it, and wait until no packet crosses it."""
    response = _ask(context, "drain", timeout, switch=switch, reason=reason, timeout=timeout)
    _print(response, as_json, views.drained, done=response["drained"])


@app.command()
def undrain(context: typer.Context, switch: SwitchName, timeout: Timeout = 30.0, as_json: AsJson = False) -> None:
    """Return a drained switch to service as soon as it forwards again."""
    _print(_ask(context, "undrain", timeout, switch=switch, timeout=timeout), as_json, views.undrained)


@app.command()
def precheck(context: typer.Context, timeout: Timeout = 10.0, as_json: AsJson = False) -> None:
    """Check whether a job may start: switches, entries, cables, agents, NIC ports. Exit status 1 if not."""
    response = _ask(context, "precheck", timeout, timeout=timeout)
    _print(response, as_json, views.precheck, done=response["ok"])


@app.command("p4sh")
def shell(context: typer.Context, switch: SwitchName) -> None:
    """Open p4runtime-shell on a switch as a backup controller: it may read everything and write nothing."""
    from mrclab.lab.command.live import p4sh  # noqa: PLC0415 - the fabric's model takes a moment

    raise typer.Exit(p4sh.attach(running_lab(context.obj), switch))


@app.command(name="exec", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
def execute(
    context: typer.Context,
    host: Annotated[str, typer.Argument(help="a host, e.g. h1")],
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND...", help="the program and its arguments")],
) -> None:
    """Run a program on a host's NIC: its exit status is this command's. See docs/ocp-api.md."""
    from mrclab.lab.run.wire import programs  # noqa: PLC0415 - Linux alone has what it needs

    raise typer.Exit(programs.run(running_lab(context.obj), host, command))


def running_lab(run_dir: Path, instead: str = "") -> "LabClients":
    """The lab that runs on the wire; LabError with the remedy where there is none. `instead` is the remedy where the
    running lab is in virtual time.
    """
    lab = None
    if on_the_wire(run_dir):
        from mrclab.lab.run.wire.attach import attach  # noqa: PLC0415 - the fabric's model takes a moment

        lab = attach(run_dir)
    if lab is None:
        if virtual(run_dir):
            raise LabError(instead or "virtual time has no processes to open; start the lab with --world wire")
        raise LabError(client.NO_LAB)
    return lab


def ask(run_dir: Path, op: str, seconds: float = 0.0, /, **arguments: Any) -> dict[str, Any]:
    """Send a request to the controller; `seconds` limits the operation itself. RunError with the controller's
    message."""
    try:
        with Client(run_dir / _CONTROLLER) as client:
            return client.call(op, rpc_timeout=seconds + _REPLY, **arguments)
    except RpcStopped as error:
        raise RunError(f"the controller {stopped_text(error.pid)}") from None
    except RpcUnavailable as error:
        running_lab(run_dir)  # LabError where none runs
        raise RunError(f"the lab's controller cannot be reached: {error.message}") from None
    except RpcError as error:
        raise RunError(error.message) from None


def _ask(context: typer.Context, op: str, seconds: float = 0.0, /, **arguments: Any) -> dict[str, Any]:
    with progress.shown(err, at_once=False) as bar:
        if seconds:
            bar(f"{op} …", 0, 0)
        if place := virtual(context.obj):
            return client.ask(place, "controller", RunError, request=op, seconds=seconds, arguments=arguments)
        if not (context.obj / _CONTROLLER).exists():
            running_lab(context.obj)  # LabError where none runs
        return ask(context.obj, op, seconds, **arguments)


def _print(
    response: dict[str, Any], as_json: bool, view: Callable[[dict[str, Any]], RenderableType], done: bool = True
) -> None:
    """Print a response; end with exit status 1 where what was requested is not done."""
    if as_json:
        sys.stdout.write(json.dumps(response, indent=1) + "\n")
    else:
        shown = view(response)
        out.print(escape(shown) if isinstance(shown, str) else shown, soft_wrap=isinstance(shown, str))
    if not done:
        raise typer.Exit(1)
