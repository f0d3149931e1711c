"""Options that several commands have."""

from pathlib import Path
from typing import Annotated, get_args

import typer

from mrclab.lab.kinds import WorldName


def _world(text: str) -> str:
    known = get_args(WorldName)
    if text not in known:
        raise typer.BadParameter(f"{text!r} is none of {', '.join(known)}")
    return text


World = Annotated[
    str | None,
    typer.Option(
        parser=_world,
        metavar="wire|sim",
        help="on the wire (namespaces and P4 switches, root), or simulated in virtual time; default: as the scenario"
        " says, else wire",
    ),
]

Slower = Annotated[
    float,
    typer.Option(min=1, help="divide link rates and multiply delays by this factor: same round trips, less load"),
]
Ui = Annotated[bool, typer.Option("--ui", help="with the live page: prints its address")]
Open = Annotated[bool, typer.Option("--open", help="with the live page, opened in the browser")]
Target = Annotated[str | None, typer.Option(help="the P4 switch: soft or bmv2 (default: bmv2 where it is installed)")]
Variant = Annotated[str, typer.Option(help="only this variant of the scenario")]
Sets = Annotated[list[str] | None, typer.Option("--set", help="override a field, e.g. fabric.t1s=4; repeatable")]
Force = Annotated[bool, typer.Option("--force", help="start even if too large for this machine")]
Results = Annotated[Path, typer.Option("--results", help="where result directories go")]
