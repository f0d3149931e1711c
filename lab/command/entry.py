"""The program `mrclab`: loads no more than the command needs; errors meanwhile are one sentence as well."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from mrclab import compiled, starting


def main() -> None:
    """Load the command line and run it; status 130 after Ctrl-C, 2 where compiled modules are asked for and missing."""
    starting.quickly()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # pictures multiply no matrices, and threads may be few
    try:
        if os.environ.get(compiled.VARIABLE) == "1":
            compiled.state()
    except RuntimeError as error:
        sys.stderr.write(f"mrclab: {error}\n")
        sys.exit(2)
    try:
        from mrclab.lab.command import ending  # noqa: PLC0415 - a plain command of the prompt needs no more than these
        from mrclab.lab.command.live import shortcut  # noqa: PLC0415

        if (request := shortcut.request(sys.argv[1:])) is not None:
            ending.run(lambda: shortcut.run(*request))
        if (path := scenario(sys.argv[1:])) is not None:
            ending.run(lambda: _run(path))
        from mrclab.lab.command.cli import main as run  # noqa: PLC0415 - that is what takes a moment
    except KeyboardInterrupt:
        sys.stderr.write("mrclab: interrupted\n")
        sys.exit(130)
    except MemoryError:
        sys.stderr.write("mrclab: there is not enough memory to start; close what else runs\n")
        sys.exit(1)
    run()


def scenario(arguments: Sequence[str]) -> Path | None:
    """Return the SCENARIO of `mrclab run SCENARIO`, which does without typer; None for any other command line."""
    plain = len(arguments) == 2 and arguments[0] == "run" and arguments[1] and not arguments[1].startswith("-")
    return Path(arguments[1]) if plain else None


def _run(path: Path) -> None:
    """Run a scenario as `mrclab run` does without options."""
    from mrclab.lab.command.runs import running  # noqa: PLC0415 - it takes a moment
    from mrclab.topo.linux.paths import RUN_DIR  # noqa: PLC0415

    sys.exit(running.run(RUN_DIR.absolute(), path))
