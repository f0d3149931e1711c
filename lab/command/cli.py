"""The command `mrclab`: the module of each command, and the handling of errors.

A command's module is loaded when the command is called: a command that only queries a running lab starts as fast as
Python. Known errors become one sentence on stderr and an exit status.
"""

import errno
import importlib
import sys
import tempfile
import traceback
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from typer.core import TyperGroup

from mrclab.lab import console
from mrclab.lab.command.display import sink
from mrclab.lab.command.live import secondterminal
from mrclab.lab.errors import Interrupted, LabError, ScenarioError, exhausted
from mrclab.lab.run.interrupts import guarded, unsubscribe
from mrclab.rpc.errors import RpcError
from mrclab.topo.errors import TopoError
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
            ("status", "map", "deny", "undeny", "drain", "undrain", "precheck", "p4sh"), _HERE + "live.operations"
        ),
        "exec": _HERE + "live.execute",
        "capture": _HERE + "live.capture",
        "watch": _HERE + "live.secondterminal",
        "do": _HERE + "live.secondterminal",
    },
    "Commands of its prompt": dict.fromkeys(secondterminal.NAMES, _HERE + "live.secondterminal"),
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

_REMEDIES = (
    ({errno.ENOSPC, errno.EDQUOT}, "free space there, and do it again"),
    ({errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP}, "name another file or folder"),
    ({errno.EROFS}, "name a place that can be written"),
    ({errno.ENOENT}, "name another place; `mrclab doctor` says which programs this machine lacks"),
)
_KNOWN = (LabError, TopoError, RpcError)

err = console.console(stderr=True)


class _Commands(MutableMapping[str, Any]):
    """Commands by name; each command's module is loaded when the command is looked up."""

    def __init__(self) -> None:
        self._places = {name: (panel, module) for panel, them in PANELS.items() for name, module in them.items()}
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            panel, module = self._places[name]
            group: Any = typer.main.get_group(importlib.import_module(module).app)
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
        """Put `--run-dir DIR` first, wherever it stands before a `--`."""
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


def _version(asked: bool) -> None:
    if asked:
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
    printed = sink.install()
    try:
        with guarded(outermost=True):
            _check_directory()
            app(standalone_mode=True)
        status: int | str | None = 0
    except SystemExit as end:
        status = end.code
    except BaseException as error:
        unsubscribe()
        status = _say(error)
    unsubscribe()
    printed.flush()
    if printed.trouble:
        lost = f"mrclab: what it had to print is lost: {printed.trouble}; what it had to keep is not"
        err.print(lost, soft_wrap=True, highlight=False)
        status = status or sink.LOST
    sys.exit(status)


def _check_directory() -> None:
    """Raise LabError where the current directory no longer exists."""
    try:
        Path.cwd()
    except OSError as error:
        gone = isinstance(error, FileNotFoundError)
        why = "was removed" if gone else f"cannot be entered: {error.strerror}"
        raise LabError(f"the current directory {why}; change to one that is there, as by `cd`") from None


def _say(error: BaseException) -> int:
    """Print the error on standard error; return the exit status."""
    if isinstance(error, ScenarioError):
        for line in error.mistakes:
            err.print(escape(line), soft_wrap=True, highlight=False)
        return error.status
    if isinstance(error, _KNOWN):
        text, status = str(error), error.status if isinstance(error, LabError) else 2
    elif text := exhausted(error):
        status = 1
    elif isinstance(error, PermissionError):
        text, status = f"{error.filename}: permission denied; run the same command with sudo", 2
    elif isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename else ""
        text, status = f"{place}{error.strerror or error}; {_remedy(error)}", 1
    elif isinstance(error, KeyboardInterrupt):
        text, status = "interrupted", Interrupted.status
    else:
        text, status = f"a mistake of the lab's own: {type(error).__name__}: {error}; {_kept(error)}", 1
    err.print(f"mrclab: {escape(text)}", soft_wrap=True, highlight=False)
    return status


def _remedy(error: OSError) -> str:
    """Return the remedy for an operating system error."""
    return next(
        (remedy for numbers, remedy in _REMEDIES if error.errno in numbers), "`mrclab doctor` looks at this machine"
    )


def _kept(error: BaseException) -> str:
    """Return the file that holds the traceback of an unexpected error."""
    text = "".join(traceback.format_exception(error))
    try:
        with tempfile.NamedTemporaryFile("w", prefix="mrclab-", suffix=".log", delete=False) as file:
            file.write(text)
    except OSError:
        return f"its traceback, for a bug report: {text}"
    return f"its traceback is in {file.name}, for a bug report"
