"""The program `mrclab`: what happens while the command line is loaded, which takes a moment, is one sentence too."""

import gc
import os
import sys

from mrclab import compiled

_NEW_OBJECTS = 100_000  # until garbage is looked for: loading makes many objects, and all of them stay


def main() -> None:
    """Load the command line and run it; status 130 after Ctrl-C meanwhile, 2 where only plain Python would run."""
    gc.set_threshold(_NEW_OBJECTS)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # pictures multiply no matrices, and threads may be few
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # to look for some goes through all installed packages
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
        from mrclab.lab.command.cli import main as run  # noqa: PLC0415 - that is what takes a moment
    except KeyboardInterrupt:
        sys.stderr.write("mrclab: interrupted\n")
        sys.exit(130)
    except MemoryError:
        sys.stderr.write("mrclab: there is not enough memory to start; close what else runs\n")
        sys.exit(1)
    run()
