"""Pictures of a chapter: our figures beside the paper's, goodput over time, rates of a collective by size."""

from collections.abc import Sequence
from pathlib import Path
from statistics import median

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from mrclab.experiments.paper.comparison import Chapter, Line, number, values
from mrclab.lab.measure.measures import Measures
from mrclab.lab.report import results
from mrclab.lab.report.plots import compare, goodput, style
from mrclab.lab.run.suite import SuiteEntry

_ROW = 0.27  # inches per row of the picture of figures
_COLOUR = {"pass": "#4C9A6A", "fail": "#C4452F", "open": "#D9A441", "shown": "#8FA3B5"}


def draw(chapter: Chapter, directory: Path) -> dict[str, Path]:
    """Draw the figures that have data; return captions and files, in order."""
    stem = chapter.experiment.scenario
    found: dict[str, Path] = {}

    def keep(caption: str, path: Path, drawn: bool) -> None:
        if drawn:
            found[caption] = path

    path = directory / f"{stem}-figures.png"
    judged = any(line.by_interval for line in chapter.lines)
    bars = "the mean with its 95 % interval" if judged else "the median with the range of all runs"
    keep(f"Measured here (bars: {bars}) and in the paper (diamonds)", path, _bars(chapter, path))
    runs = {variant: run for variant in chapter.experiment.over_time if (run := _first(chapter.runs, variant))}
    if runs:
        path = directory / f"{stem}-over-time.png"
        measured = {variant or "MRC": _measures(run) for variant, run in runs.items()}
        keep("Goodput over time, one run of each", path, compare.over_time(measured, path))
        if chapter.experiment.flows:
            label, one = next(iter(measured.items()))
            path = directory / f"{stem}-flows.png"
            figure = goodput.by_flow(one)
            drawn = figure is not None and style.save(figure, path)
            keep(f"Goodput of each flow over time, {label}", path, drawn)
    if chapter.experiment.curve == "collective":
        path = directory / f"{stem}-sizes.png"
        variants = dict.fromkeys(run.variant for run in chapter.runs)
        curves = [curve for variant in variants if (curve := _collective(chapter, variant)).x]
        keep("Rate of the collective by buffer size", path, compare.lines(curves, path, "bytes", "MB/s per host"))
    return found


def _bars(chapter: Chapter, path: Path) -> bool:
    """The rows by unit, each a bar with the paper's value as diamond; ratios and shares have no unit."""
    units: dict[str, list[Line]] = {}
    for line in chapter.lines:
        if line.figure is not None:
            units.setdefault(line.row.unit, []).append(line)
    if not units:
        return False
    counts = [len(lines) for lines in units.values()]
    height = _ROW * sum(counts) + 0.55 * len(counts) + 0.25
    figure = Figure(figsize=(style.WIDTH, height), layout="constrained", dpi=style.DPI_ON_SCREEN)
    places = figure.subplots(len(counts), height_ratios=counts, squeeze=False)
    for axes, (unit, lines) in zip(places.flat, units.items(), strict=True):
        _rows(axes, lines)
        axes.set_xlabel(unit or "share of line rate, or ratio", fontsize=8.5)
    handles: list[Artist] = [Patch(color=colour, label=label) for colour, label in _legend(chapter)]
    handles.append(Line2D([], [], marker="D", linestyle="", color=style.INK, markersize=5, label="paper"))
    figure.legend(handles=handles, loc="outside upper right", ncols=4, frameon=False, fontsize=8.5)
    return style.save(figure, path)


def _legend(chapter: Chapter) -> list[tuple[str, str]]:
    words = {"pass": "accepted", "fail": "not accepted", "open": "open", "shown": "no rule"}
    there = {line.state for line in chapter.lines}
    return [(_COLOUR[state], word) for state, word in words.items() if state in there]


def _rows(axes: Axes, lines: Sequence[Line]) -> None:
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(left=False)
    for place, line in enumerate(lines):
        ours = line.ours
        assert ours is not None
        axes.barh(place, ours, height=0.62, color=_COLOUR[line.state])
        if line.range is not None:
            axes.plot(line.range, [place, place], "|-", color=style.INK, linewidth=1, markersize=6)
        if line.row.paper is not None:
            axes.plot(line.row.paper, place, "D", color=style.INK, markersize=5)
        axes.annotate(number(ours), (_edge(line), place), xytext=(7, 0), textcoords="offset points", va="center")
    axes.set_yticks(range(len(lines)), [line.row.what for line in lines], fontsize=8.5)
    axes.set_ylim(len(lines) - 0.4, -0.6)
    widest = max(map(_edge, lines))
    axes.set_xlim(0, 1.1 * widest or 1.0)
    axes.grid(axis="x", color=style.GRID, linewidth=0.8)


def _edge(line: Line) -> float:
    """Return the rightmost place of a row."""
    return max(line.ours or 0.0, line.range[1] if line.range else 0.0, line.row.paper or 0.0)


def _collective(chapter: Chapter, variant: str) -> compare.Curve:
    """Bytes that a host moves per second of an iteration, by size, median of the runs."""
    run = _first(chapter.runs, variant)
    if run is None:
        return compare.Curve(variant, (), ())
    sizes = {entry.name: entry.size for entry in _measures(run).scenario.traffic if hasattr(entry, "size")}
    figures = [values(other) for other in chapter.runs if other.variant == variant and other.is_valid]
    points = []
    for line_name, size in sizes.items():
        seconds = [found[f"{line_name}-time"] for found in figures if f"{line_name}-time" in found]
        if seconds and size:
            points.append((float(size), size / median(seconds) / 1e6))
    return compare.Curve(variant, [x for x, _ in points], [y for _, y in points])


def _first(runs: Sequence[SuiteEntry], variant: str) -> SuiteEntry | None:
    return next((run for run in runs if run.variant == variant and run.is_valid and run.directory is not None), None)


def _measures(run: SuiteEntry) -> Measures:
    assert run.directory is not None
    return results.load(run.directory).measures
