"""The program `mrclab`: what happens while the command line is loaded, which takes a moment, is one sentence too."""

import os
import sys


def main() -> None:
    """Load the command line and run it; exit status 130 where Ctrl-C comes meanwhile."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # pictures multiply no matrices, and threads may be few
    try:
        from mrclab.lab.command.cli import main as run  # noqa: PLC0415 - that is what takes a moment
    except KeyboardInterrupt:
        sys.stderr.write("mrclab: interrupted\n")
        sys.exit(130)
    except MemoryError:
        sys.stderr.write("mrclab: there is not enough memory to start; close what else runs\n")
        sys.exit(1)
    run()
