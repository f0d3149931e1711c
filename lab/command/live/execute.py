"""The command `mrclab exec`: a program on a host of the running lab, on its NIC by lib_mrc.so."""

from typing import Annotated

import typer

from mrclab.lab.command.live.operations import running_lab

app = typer.Typer()


@app.command(name="exec", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
def execute(
    context: typer.Context,
    host: Annotated[str, typer.Argument(help="a host, e.g. h1")],
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND...", help="the program and its arguments")],
) -> None:
    """Run a program on a host's NIC: its exit status is this command's. See docs/ocp-api.md."""
    from mrclab.lab.run.wire import programs  # noqa: PLC0415 - Linux alone has what it needs

    raise typer.Exit(programs.run(running_lab(context.obj), host, command))
