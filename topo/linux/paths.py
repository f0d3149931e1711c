"""Where a lab keeps its files while it runs."""

from pathlib import Path

BASE = Path("/run/mrclab")
