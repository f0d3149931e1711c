"""Commands for a second terminal: each of the prompt's commands under its own name, `mrclab do`, and `mrclab watch`.

They import very little: the lab's process does the work.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from typer.core import TyperCommand

from mrclab.lab import console
from mrclab.lab.command.live import shortcut
from mrclab.lab.command.live.rundir import running_dir

app = typer.Typer()

Words = Annotated[
    list[str] | None, typer.Argument(metavar="[COMMANDS]...", help="the command's arguments; see `mrclab up`, help")
]
AsJson = Annotated[bool, typer.Option("--json", help="print JSON")]


class _Command(TyperCommand):
    """A command whose help is the prompt's, loaded on request."""

    @property
    def help(self) -> str | None:
        """Help of the prompt's command of this name."""
        from mrclab.lab.prompt import registry  # noqa: PLC0415 - importing the parts fills the list
        from mrclab.lab.prompt.commands import changes, views  # noqa: F401, PLC0415 - importing them fills the list

        meaning = registry.COMMANDS[self.name or ""].meaning
        return f"{meaning[:1].upper()}{meaning[1:]}."

    @help.setter  # noqa: A003
    def help(self, _text: str | None) -> None:
        pass


@app.command("watch")
def watch(context: typer.Context, as_json: AsJson = False) -> None:
    """Show a summary of the lab until q or Ctrl-C: goodput by plane, EV states, losses, events; once into a pipe."""
    from mrclab.lab.command.live import operations  # noqa: PLC0415 - the others do without it

    place = running_dir(context.obj)
    if not (place / "fabric.yaml").exists():
        operations.running_lab(context.obj)  # LabError where none runs
    watch_lab(place, (place / "fabric.yaml").exists, as_json)


def watch_lab(run_dir: Path, alive: Callable[[], bool], as_json: bool = False) -> None:
    """Show the lab whose history is in `run_dir` until q, Ctrl-C, or it is no longer alive."""
    from mrclab.lab.prompt.watching import watch as watching  # noqa: PLC0415 - rarely used
    from mrclab.lab.ui.sources import Live  # noqa: PLC0415

    source = Live(run_dir, alive)
    try:
        watching.watch(source, console.console(), as_json)
    finally:
        source.stop()


@app.command("do")
def do(context: typer.Context, line: Words = None, as_json: AsJson = False) -> None:
    """Run a command at the running lab's prompt, e.g. mrclab do up h1-p2."""
    shortcut.run(context.obj, line or ["help"], as_json)


def _register(name: str) -> None:
    def command(context: typer.Context, arguments: Words = None, as_json: AsJson = False) -> None:
        shortcut.run(context.obj, [name, *(arguments or ())], as_json)

    app.command(name, cls=_Command)(command)


for _name in shortcut.NAMES:
    _register(_name)
