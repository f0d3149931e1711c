"""Sections of a page that a program writes, between two comments, and the figures in them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mrclab.lab.measure.intervals import summary


def write(page: Path, name: str, text: str) -> None:
    """Replace the text between `<!-- NAME -->` and `<!-- end of NAME -->`."""
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
    before, _, rest = page.read_text(encoding="utf-8").partition(begin)
    page.write_text(f"{before}{begin}\n{text}\n{end}{rest.partition(end)[2]}", encoding="utf-8")


def figure(values: Sequence[float], digits: int) -> str:
    """Return the mean with its 95 % interval, or the one value."""
    found = summary(values)
    spread = "" if found.high is None else f" ± {found.high - found.mean:.{digits}f}"
    return f"{found.mean:.{digits}f}{spread}"
