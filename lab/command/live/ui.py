"""The command `mrclab ui`: the page of the running lab, of a finished run, or of a scenario that is being written."""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from mrclab.lab.command.live.operations import err, out, running_lab
from mrclab.lab.command.live.rundir import on_the_wire, running_dir, virtual
from mrclab.lab.errors import LabError
from mrclab.lab.prompt.remote import client
from mrclab.lab.run.mirror import OVER
from mrclab.lab.scenario.files import yamlfile
from mrclab.lab.ui.sources import Blank, Live, Replay, Source

app = typer.Typer()

What = Annotated[
    Path | None,
    typer.Argument(
        metavar="[RESULT_DIR|SCENARIO|PLACE]",
        help="a finished run; a scenario file, to write and run it; where a lab keeps its history; default: the"
        " running lab",
    ),
]
Port = Annotated[int, typer.Option(min=0, max=65535, help="on the loopback address; 0: any that is free")]
Open = Annotated[bool, typer.Option("--open", help="open it in the browser as well")]
Results = Annotated[
    Path, typer.Option(help="folder of finished runs to play again, and for runs from the scenario editor")
]
Attended = Annotated[bool, typer.Option("--attended", hidden=True, help="end with standard input")]


@app.command()
def ui(
    context: typer.Context,
    what: What = None,
    port: Port = 0,
    results: Results = Path("results"),
    browser: Open = False,
    attended: Attended = False,
) -> None:
    """Show the running lab, replay a finished run, or write a scenario, in a browser: prints the address."""
    try:
        from mrclab.lab.ui.checking import Checker  # noqa: PLC0415
        from mrclab.lab.ui.editor import EXAMPLE, Editor  # noqa: PLC0415 - slow to import
        from mrclab.lab.ui.sources import RunIndex  # noqa: PLC0415
        from mrclab.lab.ui.web.serve import serve  # noqa: PLC0415
        from mrclab.lab.ui.web.server import LivePage  # noqa: PLC0415
    except ImportError as error:
        raise LabError(f"the page needs {error.name}; install it with `pip install '.[ui]'`") from None
    source, operate, text = _source(context.obj, what, EXAMPLE)
    folder = what.parent if text and what is not None else Path()
    checker = Checker(folder)
    editor = Editor(text or EXAMPLE, results, context.obj, folder)
    try:
        packets = (lambda since: operate("packets", since=since)) if operate else None
        page = LivePage(
            source, operate, editor=editor, run_index=RunIndex(results), check=checker.check, packets=packets
        )
        serve(page, port, _announce, browser=browser, attended=attended)
    finally:
        checker.close()
        source.stop()
        editor.close()


def _source(run_dir: Path, what: Path | None, example: str) -> tuple[Source, Any, str]:
    """Return frames, click handler, and a scenario's text: the example where no lab runs and nothing is named."""
    if what is not None and what.is_file():
        text = yamlfile.text_of(what)
        return Blank(text, str(what), what.parent), None, text
    if what is not None and not (what / "history").is_dir():
        return Replay(what), None, ""
    place = running_dir(run_dir) if what is None else what
    if what is None and place == run_dir and not on_the_wire(run_dir) and virtual(run_dir) is None:
        err.print(
            "no lab is running: the page has the scenario editor, and *Runs* plays finished runs again", markup=False
        )
        return Blank(example, "example.yaml", Path()), None, example
    operate = partial(client.ask, place) if (place / client.SOCKET).exists() else None
    return Live(place, _alive(run_dir, place)), operate, ""


def _alive(run_dir: Path, place: Path) -> Callable[[], bool]:
    """Return True if the lab at a place is still there; LabError where none is."""
    if place == run_dir and virtual(run_dir) is None:
        running_lab(run_dir)
        return lambda: on_the_wire(run_dir)
    return lambda: (place / "fabric.yaml").exists() and not (place / OVER).exists()


def _announce(address: str) -> None:
    out.print(address, soft_wrap=True)
    sys.stdout.flush()
