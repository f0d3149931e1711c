"""One self-contained HTML page per run: facts as tables, pictures inlined, nothing fetched from anywhere."""

import base64
from collections.abc import Mapping
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from mrclab.lab.report.summary import Facts

MOST_ROWS = 1000
"""Of a table of a page that a browser scrolls through with ease."""

_TEMPLATES = Path(__file__).parent / "templates"


def render(facts: Facts, pictures: Mapping[str, Path]) -> str:
    """The page's text; `pictures` maps captions to PNG files, the first goes to the top."""
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    inlined = [(title, base64.b64encode(path.read_bytes()).decode()) for title, path in pictures.items()]
    return environment.get_template("report.html.j2").render(facts=facts, pictures=inlined, most_rows=MOST_ROWS)
