"""Page writer: a template of a folder filled in, as HTML or Markdown by its name."""

import base64
import datetime
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mrclab.lab.errors import LabError
from mrclab.lab.report.summary import Facts
from mrclab.lab.scenario.units import show_seconds

TEMPLATES = Path(__file__).parent / "templates"
MAX_ROWS = 1000
"""Of a table of a page that a browser scrolls through with ease."""


def fill(template: Path, context: Mapping[str, Any], **filters: Callable[..., str]) -> str:
    """Return the text of a page; `filters` may be used in the template. In HTML every value is escaped."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415 - help and plans fill none

    environment = Environment(
        loader=FileSystemLoader(template.parent),
        autoescape=template.name.endswith(".html.j2"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(filters)
    return environment.get_template(template.name).render(context)


def today() -> str:
    """Return the date (UTC), as pages show it."""
    return datetime.datetime.now(datetime.timezone.utc).date().isoformat()


def check_page(path: Path) -> None:
    """Make the folder of a page; LabError where the page cannot be written: before runs of hours, not after them."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        there = path.exists()
        path.open("ab").close()
    except OSError as error:
        raise LabError(f"--page {path}: no page can be written there ({error.strerror}); name another") from None
    if not there:
        path.unlink()


def inlined(pictures: Mapping[str, Path]) -> list[tuple[str, str]]:
    """Return captions with their PNG files in base64, so that a page fetches nothing."""
    return [(caption, base64.b64encode(path.read_bytes()).decode()) for caption, path in pictures.items()]


def report_page(facts: Facts, pictures: Mapping[str, Path]) -> str:
    """The page of a run as text; `pictures` maps captions to PNG files, the first goes to the top."""
    context = {"facts": facts, "pictures": inlined(pictures), "most_rows": MAX_ROWS}
    return fill(TEMPLATES / "report.html.j2", context, seconds=show_seconds)
