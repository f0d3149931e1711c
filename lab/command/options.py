"""Options that several commands have."""

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
