"""Run directory of a lab, and names of folders of temporary files."""

import os
from pathlib import Path

BASE = Path("/run/mrclab")
RUN_DIR = BASE / "lab"
"""Default run directory of commands for the lab on the wire."""


def folder_prefix() -> str:
    """Return the start of the name of a folder of temporary files, with this process's pid."""
    return f"mrclab-{os.getpid()}-"
