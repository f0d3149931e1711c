"""Commands of the prompt from a second terminal, without the command line's machinery, which takes most of their time.

`request` recognizes a plain one; whatever else there is (help, a mistake) is the command line's.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mrclab.topo.linux.paths import RUN_DIR

NAMES = (
    "down", "fault", "clear", "traffic", "stop", "wait", "speed", "nodes", "net", "links", "paths", "evs", "trace",
    "pingall", "tables", "counters", "faults", "flows",
)  # fmt: skip
"""Commands of the prompt that no other command has the name of."""


class Request(NamedTuple):
    """A command for the lab of a run directory."""

    run_dir: Path
    words: list[str]
    as_json: bool


def request(arguments: Sequence[str]) -> Request | None:
    """Return the request that the arguments of `mrclab` are; None where they are not plainly one."""
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
    if not words or words[0] not in NAMES or not run_dir.name:
        return None
    return Request(run_dir, words, as_json)


def run(run_dir: Path, words: Sequence[str], as_json: bool) -> None:
    """Have the lab's prompt run a command, and print its output."""
    import json  # noqa: PLC0415 - every process loads this module, and few have such a request
    import shlex  # noqa: PLC0415

    from mrclab.lab import width  # noqa: PLC0415
    from mrclab.lab.command.live.rundir import running_dir  # noqa: PLC0415
    from mrclab.lab.prompt.remote import client  # noqa: PLC0415

    response: dict[str, Any] = client.ask(
        running_dir(run_dir.absolute()), "command", line=shlex.join(words), width=width.of_output()
    )
    sys.stdout.write(json.dumps(response["data"]) + "\n" if as_json else response["text"])
