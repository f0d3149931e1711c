"""Options that several commands have."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from mrclab.lab.kinds import TargetName, WorldName


def _one_of(known: Sequence[str]) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in known:
            raise typer.BadParameter(f"{text!r} is not one of {', '.join(known)}")
        return text

    return parse


def _folder_name(text: str) -> str:
    if not _FOLDER_NAME.fullmatch(text):
        raise typer.BadParameter(f"{text!r} is not a name; write letters, digits, dots, dashes and underscores")
    return text


_FOLDER_NAME = re.compile(r"\w[\w.-]{0,99}")

AsJson = Annotated[bool, typer.Option("--json", help="print JSON; other output goes to stderr")]


def world_option(text: str) -> Any:
    """Return the option `--world` with this help."""
    return typer.Option(parser=_one_of(get_args(WorldName)), metavar="|".join(get_args(WorldName)), help=text)


_WORLDS = "on the wire (namespaces and P4 switches, root), or simulated in virtual time; default: "
World = Annotated[WorldName | None, world_option(f"{_WORLDS}as the scenario says, else wire")]
WorldOfLab = Annotated[WorldName | None, world_option(f"{_WORLDS}wire")]

Target = Annotated[
    TargetName | None,
    typer.Option(
        parser=_one_of(get_args(TargetName)),
        metavar="|".join(get_args(TargetName)),
        help="the P4 switch of the wire (default: bmv2 where it is installed)",
    ),
]
FolderName = Annotated[str, typer.Option(parser=_folder_name, help="names the directory of the report")]
Slower = Annotated[
    float,
    typer.Option(
        min=1, max=1e6, help="divide link rates and multiply delays by this factor: same results in RTTs, less load"
    ),
]
Ui = Annotated[bool, typer.Option("--ui", help="with the live page: prints its address")]
Open = Annotated[bool, typer.Option("--open", help="with the live page, opened in the browser")]
Variant = Annotated[str, typer.Option(help="only this variant of the scenario")]
Sets = Annotated[list[str] | None, typer.Option("--set", help="override a field, e.g. fabric.t1s=4; repeatable")]
Force = Annotated[bool, typer.Option("--force", help="start even if too large for this machine")]
Results = Annotated[Path, typer.Option("--results", help="where result directories go")]
