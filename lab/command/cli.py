"""The command `mrclab`: the module of each command, which is loaded when the command is called."""

import importlib
import sys
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from mrclab.lab.command import ending
from mrclab.lab.command.live import shortcut
from mrclab.topo.linux.paths import RUN_DIR

_HERE, _EXPERIMENTS = "mrclab.lab.command.", "mrclab.experiments."
PANELS: dict[str, dict[str, str]] = {
    "Start here": {
        "run": _HERE + "runs.scenarios",
        "up": _HERE + "live.up",
        "ui": _HERE + "live.ui",
        "send": _HERE + "runs.send",
        "train": _HERE + "runs.train",
        "grade": _HERE + "grade",
        "doctor": _HERE + "machine",
        "clean": _HERE + "machine",
    },
    "Scenarios and results": {
        "plan": _HERE + "runs.scenarios",
        "suite": _HERE + "runs.suitecli",
        "report": _HERE + "runs.scenarios",
        "compare": _HERE + "runs.suitecli",
        "schema": _HERE + "runs.suitecli",
        "slowdown": _HERE + "runs.slowdown",
        "packets": _HERE + "runs.packets",
    },
    "Operate the lab that runs": {
        **dict.fromkeys(
            ("status", "map", "deny", "undeny", "drain", "undrain", "precheck", "p4sh", "exec"),
            _HERE + "live.operations",
        ),
        "capture": _HERE + "live.capture",
        "watch": _HERE + "live.secondterminal",
        "do": _HERE + "live.secondterminal",
    },
    "Commands of its prompt": dict.fromkeys(shortcut.NAMES, _HERE + "live.secondterminal"),
    "Experiments": {
        "campaign": _EXPERIMENTS + "campaign.cli",
        "figure": _EXPERIMENTS + "campaign.figure",
        "worlds": _EXPERIMENTS + "worlds.cli",
        "survey": _EXPERIMENTS + "survey.cli",
        "soak": _EXPERIMENTS + "soak.cli",
        "explore": _EXPERIMENTS + "explore.cli",
        "bench": _HERE + "machine",
    },
}
"""Command → module whose `app` has it, in the order of the help."""


class _Commands(MutableMapping[str, Any]):
    """Commands by name; each command's module is loaded when the command is looked up."""

    def __init__(self) -> None:
        self._places = {name: (panel, module) for panel, them in PANELS.items() for name, module in them.items()}
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            panel, module = self._places[name]
            try:
                group: Any = typer.main.get_group(importlib.import_module(module).app)
            except KeyError as error:  # a KeyError says that there is no such command
                raise ImportError(f"{module} cannot be imported: KeyError {error}") from error
            self._loaded[name] = group.commands[name]
            self._loaded[name].rich_help_panel = panel
        return self._loaded[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self._places[name]

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


class _Anywhere(TyperGroup):
    """Accepts the global options behind the command as well, and loads only the command that is called."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings | {"commands": None})
        self.commands = _Commands()

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Move `--run-dir DIR` to the front from anywhere before a `--`."""
        end = args.index("--") if "--" in args else len(args)
        words, found = args[:end], []
        for at in [at for at, word in enumerate(words) if word.split("=")[0] == "--run-dir"][::-1]:
            size = 1 if "=" in words[at] else 2
            found += words[at : at + size]
            del words[at : at + size]
        return super().parse_args(ctx, [*found, *words, *args[end:]])


app = typer.Typer(
    name="mrclab",
    cls=_Anywhere,
    help="Emulates a multi-plane SRv6/P4 fabric, sprays MRC over it, and breaks it while it runs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _version(requested: bool) -> None:
    if requested:
        from mrclab import __version__  # noqa: PLC0415 - it reads the installed package's metadata

        sys.stdout.write(f"mrclab {__version__}\n")
        raise typer.Exit


@app.callback()
def place(
    context: typer.Context,
    run_dir: Annotated[Path, typer.Option(help="where the running lab keeps sockets and files")] = RUN_DIR,
    version: Annotated[  # noqa: ARG001 - its callback does it
        bool, typer.Option("--version", callback=_version, is_eager=True, help="print the version")
    ] = False,
) -> None:
    """Options that go before every command."""
    context.obj = run_dir.absolute()


def main() -> None:
    """Run `mrclab`; every error is one sentence and its exit status, Ctrl-C is 130."""
    ending.run(lambda: app(standalone_mode=True))
