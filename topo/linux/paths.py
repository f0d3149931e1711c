"""Run directory of a lab."""

from pathlib import Path

BASE = Path("/run/mrclab")
