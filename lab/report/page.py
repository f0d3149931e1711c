"""One self-contained HTML page per run: facts as tables, pictures inlined, nothing fetched from anywhere."""

from collections.abc import Mapping
from pathlib import Path

from mrclab.lab.report import template
from mrclab.lab.report.summary import Facts

MAX_ROWS = 1000
"""Of a table of a page that a browser scrolls through with ease."""


def render(facts: Facts, pictures: Mapping[str, Path]) -> str:
    """The page's text; `pictures` maps captions to PNG files, the first goes to the top."""
    context = {"facts": facts, "pictures": template.inlined(pictures), "most_rows": MAX_ROWS}
    return template.fill(template.TEMPLATES / "report.html.j2", context)
