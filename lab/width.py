"""Width of printed output, known without rich."""

import shutil
import sys

WITHOUT_TERMINAL = 120
"""Columns where no terminal shows what is printed."""


def of_output() -> int:
    """Return the columns of standard output: the terminal's, or a fixed number where there is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else WITHOUT_TERMINAL
