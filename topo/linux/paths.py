"""Run directory of a lab, and folders of temporary files."""

import os
import tempfile
from pathlib import Path

BASE = Path("/run/mrclab")
RUN_DIR = BASE / "lab"
"""Default run directory of commands for the lab on the wire."""

_MEMORY = Path("/dev/shm")


def folder_prefix() -> str:
    """Return the start of the name of a folder of temporary files, with this process's pid."""
    return f"mrclab-{os.getpid()}-"


def folder_places() -> list[Path]:
    """Return where folders of temporary files are."""
    return [Path(tempfile.gettempdir()), *([_MEMORY] if _MEMORY.is_dir() else [])]


def folder_in_memory() -> tempfile.TemporaryDirectory[str]:
    """Make a folder in memory where there is one, so that no disk is measured; it goes with its block."""
    return tempfile.TemporaryDirectory(prefix=folder_prefix(), dir=folder_places()[-1])
