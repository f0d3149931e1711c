"""The command `mrclab`: the modules of its commands, each loaded when its command is called."""

import importlib
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from mrclab.lab.command import ending
from mrclab.lab.command.live import shortcut
from mrclab.topo.linux.paths import RUN_DIR

_LAB, _EXPERIMENTS = "mrclab.lab.command.", "mrclab.experiments."
PANELS: dict[str, dict[str, str]] = {
    "Start here": {
        "run": _LAB + "runs.scenarios",
        "up": _LAB + "live.up",
        "ui": _LAB + "live.ui",
        "send": _LAB + "runs.send",
        "train": _LAB + "runs.train",
        "grade": _LAB + "grade",
        "doctor": _LAB + "machine",
        "clean": _LAB + "machine",
    },
    "Scenarios and results": {
        "plan": _LAB + "runs.scenarios",
        "suite": _LAB + "runs.suitecli",
        "report": _LAB + "runs.scenarios",
        "compare": _LAB + "runs.suitecli",
        "schema": _LAB + "runs.suitecli",
        "slowdown": _LAB + "runs.slowdown",
        "packets": _LAB + "runs.packets",
    },
    "Operate the lab that runs": {
        **dict.fromkeys(
            ("status", "map", "deny", "undeny", "drain", "undrain", "precheck", "p4sh", "exec"),
            _LAB + "live.operations",
        ),
        "capture": _LAB + "live.capture",
        "watch": _LAB + "live.secondterminal",
        "do": _LAB + "live.secondterminal",
    },
    "Commands of its prompt": dict.fromkeys(shortcut.NAMES, _LAB + "live.secondterminal"),
    "Experiments": {
        "campaign": _EXPERIMENTS + "campaign.cli",
        "figure": _EXPERIMENTS + "campaign.figure",
        "worlds": _EXPERIMENTS + "worlds.cli",
        "survey": _EXPERIMENTS + "survey.cli",
        "soak": _EXPERIMENTS + "soak.cli",
        "explore": _EXPERIMENTS + "explore.cli",
        "bench": _LAB + "machine",
    },
}
"""Command → module whose `app` has it, in the order of the help."""


class _Commands(Mapping[str, Any]):
    """Commands by name; a module is loaded when a command of it is looked up."""

    def __init__(self) -> None:
        self._modules = {name: (panel, module) for panel, modules in PANELS.items() for name, module in modules.items()}
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            panel, module = self._modules[name]
            try:
                group: Any = typer.main.get_group(importlib.import_module(module).app)
            except KeyError as error:  # a KeyError says that there is no such command
                raise ImportError(f"{module} cannot be imported: KeyError {error}") from error
            self._loaded[name] = group.commands[name]
            self._loaded[name].rich_help_panel = panel
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)


class _CommandGroup(TyperGroup):
    """Accepts the global options behind the command as well, and loads only the command that is called."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings | {"commands": None})
        self.commands: Any = _Commands()

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Move `--run-dir DIR` to the front from anywhere before a `--`."""
        end = args.index("--") if "--" in args else len(args)
        words, found = args[:end], list[str]()
        for at in [at for at, word in enumerate(words) if word.split("=")[0] == "--run-dir"][::-1]:
            size = 1 if "=" in words[at] else 2
            found[:0] = words[at : at + size]
            del words[at : at + size]
        return super().parse_args(ctx, [*found, *words, *args[end:]])


app = typer.Typer(
    name="mrclab",
    cls=_CommandGroup,
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
def global_options(
    context: typer.Context,
    run_dir: Annotated[Path, typer.Option(help="where the running lab keeps sockets and files")] = RUN_DIR,
    version: Annotated[  # noqa: ARG001 - its callback does it
        bool, typer.Option("--version", callback=_version, is_eager=True, help="print the version")
    ] = False,
) -> None:
    """Options of every command, before or behind its name."""
    context.obj = run_dir.absolute()


def main() -> None:
    """Run `mrclab`; every error is one sentence and its exit status, Ctrl-C is 130."""
    ending.run(lambda: app(standalone_mode=True))
