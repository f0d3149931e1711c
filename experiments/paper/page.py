"""The page of the comparison: HTML with everything in it for a browser, Markdown and pictures for a repository."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mrclab.experiments.paper.comparison import Chapter, Line, compare, number, read_runs
from mrclab.experiments.paper.figures import AT_SPEED, FILE, load
from mrclab.lab import machine
from mrclab.lab.measure.intervals import range_text
from mrclab.lab.report import template

_TEMPLATES = Path(__file__).parent


@dataclass(frozen=True)
class PaperPage:
    """A page of comparisons: title, reference figures and layout."""

    name: str  # of the page's directory below the suite's
    figures: Path
    text: str  # templates
    html: str = ""
    by_interval: bool = False  # figures are judged by the interval of all seeds


@dataclass(frozen=True)
class Appendix:
    """Appendix of a page: a picture of measurements, and the figures in it."""

    title: str
    text: str
    picture: Path
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


_VARIED, _BEYOND = "One set of settings for both transports", "What the paper could not try"
_STATES = {"pass": "agree", "fail": "differ", "open": "open"}

MINIATURE = PaperPage("paper", FILE, "paper.md.j2", "paper.html.j2")
AT_ITS_SPEED = PaperPage("paper-scale", AT_SPEED, "at-speed.md.j2", by_interval=True)


def page_of(names: Iterable[str]) -> PaperPage | None:
    """Return the page with experiments of these names; None if there is none."""
    chosen = set(names)
    return next(
        (layout for layout in (MINIATURE, AT_ITS_SPEED) if {e.scenario for e in load(layout.figures)} & chosen), None
    )


def write(
    directory: Path, *more: Path, appendices: Sequence[Appendix] = (), varied: Sequence[Appendix] = ()
) -> tuple[Path, list[Chapter]]:
    """Make the comparison out of suites' directories: a page, and its pictures, in a directory below the first.

    `varied` shows why figures differ, `appendices` has experiments beyond the paper's.
    """
    from mrclab.experiments.paper import pictures  # noqa: PLC0415 - Matplotlib takes a second to load and needs a home directory

    runs, facts = read_runs(directory)
    for other in more:
        runs += read_runs(other)[0]
    layout = page_of(run.name for run in runs) or MINIATURE
    chapters = compare(runs, load(layout.figures), layout.by_interval)
    place = directory / layout.name
    place.mkdir(exist_ok=True)
    drawn = [(chapter, pictures.draw(chapter, place) if chapter.runs else {}) for chapter in chapters]
    words = {
        "chapters": drawn,
        "date": template.today(),
        "counts": _counts(chapters),
        "number": number,
        "seeds": sorted({run.seed for run in runs}),
        "machine": {**facts["machine"], "system": machine.system_text(facts["machine"])},
        "versions": {name: version for name, version in facts["versions"].items() if name != "kernel"},
        "few": sum(line.state == "open" and line.interval is None for c in chapters for line in c.lines),
        "missing": sum(line.state == "missing" and line.row.accept is not None for c in chapters for line in c.lines),
        "parts": [(head, parts) for head, parts in ((_VARIED, varied), (_BEYOND, appendices)) if parts],
        "transport": {word: sum(c.count(state, False) for c in chapters) for state, word in _STATES.items()},
        "any_sender": {word: sum(c.count(state, True) for c in chapters) for state, word in _STATES.items()},
    }
    filters: dict[str, Callable[..., str]] = {"number": number, "spread": spread, "interval": interval}
    text = template.fill(_TEMPLATES / layout.text, words, **filters)
    (place / "README.md").write_text(text, encoding="utf-8")
    if not layout.html:
        return place / "README.md", chapters
    inlined = [(chapter, template.inlined(found)) for chapter, found in drawn]
    html = template.fill(_TEMPLATES / layout.html, {**words, "chapters": inlined}, **filters)
    (place / "paper.html").write_text(html, encoding="utf-8")
    return place / "paper.html", chapters


def spread(line: Line) -> str:
    """Least and greatest of the seeds; empty for one."""
    figure = line.figure
    return range_text(figure.least, figure.most, number) if figure and figure.count > 1 else ""


def interval(line: Line) -> str:
    """The interval of the seeds, or how many there are; empty without figure."""
    figure, found = line.figure, line.interval
    if figure is None:
        return ""
    if found is None:
        return f"{spread(line)} of {figure.count}" if figure.count > 1 else "one seed"
    return "the same in all" if line.same_for_all_seeds else range_text(*found, number)


def _counts(chapters: Sequence[Chapter]) -> dict[str, int]:
    found = {"pass": 0, "fail": 0, "missing": 0}
    for chapter in chapters:
        found[chapter.state] += 1
    return {state: count for state, count in found.items() if count}
