"""Run directory of a lab."""

from pathlib import Path

BASE = Path("/run/mrclab")
RUN_DIR = BASE / "lab"
"""Of the lab on the wire that commands mean, unless they are told another."""
