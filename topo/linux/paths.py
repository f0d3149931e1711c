"""Run directory of a lab."""

from pathlib import Path

BASE = Path("/run/mrclab")
RUN_DIR = BASE / "lab"
"""Default run directory of commands for the lab on the wire."""
