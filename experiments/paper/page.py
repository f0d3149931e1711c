"""The page of the comparison: HTML with everything in it for a browser, Markdown and pictures for a repository."""

import base64
import datetime
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from mrclab import HOME
from mrclab.experiments.paper.book import Chapter, Line, hold, read_runs
from mrclab.experiments.paper.figures import load

_TEMPLATES = HOME / "experiments" / "paper"


def concerns(names: Sequence[str]) -> bool:
    """Whether some of these scenarios mirror an experiment of the paper."""
    return bool({experiment.scenario for experiment in load()} & set(names))


def write(directory: Path, *more: Path) -> tuple[Path, list[Chapter]]:
    """Make the comparison out of suites' directories: paper.html, README.md, pictures in `paper/` of the first."""
    from mrclab.experiments.paper import pictures  # noqa: PLC0415 - Matplotlib takes a second to load and wants a home directory

    runs, facts = read_runs(directory)
    for other in more:
        runs += read_runs(other)[0]
    chapters = hold(runs)
    place = directory / "paper"
    place.mkdir(exist_ok=True)
    drawn = [(chapter, pictures.draw(chapter, place) if chapter.runs else {}) for chapter in chapters]
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    words = {
        "chapters": drawn,
        "date": today,
        "counts": _counts(chapters),
        "number": number,
        "seeds": sorted({run.seed for run in runs}),
        "machine": _plain(facts["machine"]),
        "versions": {name: version for name, version in facts["versions"].items() if name != "kernel"},
    }
    inlined = [
        (chapter, [(caption, base64.b64encode(path.read_bytes()).decode()) for caption, path in found.items()])
        for chapter, found in drawn
    ]
    html = _environment(autoescape=True).get_template("paper.html.j2").render(**{**words, "chapters": inlined})
    (place / "paper.html").write_text(html, encoding="utf-8")
    text = _environment(autoescape=False).get_template("paper.md.j2").render(**words)
    (place / "README.md").write_text(text, encoding="utf-8")
    return place / "paper.html", chapters


def _plain(machine: dict[str, Any]) -> dict[str, Any]:
    """The machine without what only its owner knows: the kernel's version, and not its build."""
    kernel = re.match(r"([A-Za-z]+)-(\d+\.\d+)", str(machine.get("system", "")))
    return {**machine, "system": f"{kernel[1]} {kernel[2]}" if kernel else "an unknown system"}


def number(value: float | None) -> str:
    """Three digits that matter; a dash for none."""
    if value is None:
        return "–"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def spread(line: Line) -> str:
    """Least and greatest of the seeds; empty for one."""
    figure = line.figure
    return f"{number(figure.least)} … {number(figure.most)}" if figure and figure.count > 1 else ""


def _counts(chapters: Sequence[Chapter]) -> dict[str, int]:
    found = {"pass": 0, "fail": 0, "missing": 0}
    for chapter in chapters:
        found[chapter.state] += 1
    return {state: count for state, count in found.items() if count}


def _environment(autoescape: bool) -> Environment:
    made = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=autoescape,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["number"] = number
    made.filters["spread"] = spread
    return made
