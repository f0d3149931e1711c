"""Prompt commands from a second terminal, without typer, whose import takes most of their time.

`request` recognizes a plain command; help and wrong usage are left to the full command line.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mrclab.topo.linux.paths import RUN_DIR

_COMMANDS = Path(__file__).parents[2] / "prompt" / "commands"
_COMMAND = re.compile(r'^@command\(\s*"(\w+)', re.MULTILINE)
_OTHERS = frozenset(
    {"capture", "deny", "drain", "help", "map", "precheck", "report", "send", "status", "undeny", "undrain", "up"}
)
"""Prompt commands whose name is also that of another `mrclab` command: `mrclab do NAME` runs them."""


def _names() -> Iterator[str]:
    """Yield the names of all prompt commands, from their sources: importing these takes a tenth of a second."""
    for path in sorted(_COMMANDS.glob("*.py")):
        yield from _COMMAND.findall(path.read_text(encoding="utf-8"))


NAMES = tuple(name for name in _names() if name not in _OTHERS)
"""Prompt commands that are also commands of `mrclab`."""

_OLD_NAMES = ("heal", "pace")
"""Names of the release before, see RENAMED in prompt/registry.py."""


class Request(NamedTuple):
    """A command for the lab of a run directory."""

    run_dir: Path
    words: list[str]
    as_json: bool


def request(arguments: Sequence[str]) -> Request | None:
    """Parse the arguments of `mrclab` as a request; None where they need the full command line."""
    run_dir, words, as_json = RUN_DIR, list[str](), False
    rest = iter(arguments)
    for word in rest:
        if word == "--json" and words:
            as_json = True
        elif word == "--run-dir":
            run_dir = Path(next(rest, ""))
        elif word.startswith("-"):
            return None
        else:
            words.append(word)
    if not words or words[0] not in {*NAMES, *_OLD_NAMES} or not run_dir.name:
        return None
    return Request(run_dir, words, as_json)


def run(run_dir: Path, words: Sequence[str], as_json: bool) -> None:
    """Have the lab's prompt run a command, and print its output."""
    import json  # noqa: PLC0415 - every `mrclab` loads this module, and few have such a request
    import shlex  # noqa: PLC0415

    from mrclab.lab import width  # noqa: PLC0415
    from mrclab.lab.command.live.rundir import running_dir  # noqa: PLC0415
    from mrclab.lab.prompt.remote import client  # noqa: PLC0415

    response: dict[str, Any] = client.ask(
        running_dir(run_dir.absolute()), "command", line=shlex.join(words), width=width.of_output()
    )
    sys.stdout.write(json.dumps(response["data"]) + "\n" if as_json else response["text"])
