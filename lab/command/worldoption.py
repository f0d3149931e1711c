"""The option `--world` of commands."""

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
