"""Pictures that compare several runs, such as the variants of a scenario."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mrclab.lab.measure.intervals import summary
from mrclab.lab.measure.measures import Measures
from mrclab.lab.measure.series import quantile
from mrclab.lab.measure.traffic.flows import Selection
from mrclab.lab.report.compare import ComparisonRow
from mrclab.lab.report.plots import style
from mrclab.lab.report.plots.goodput import fault_lanes, lanes_height
from mrclab.lab.report.summary import bins
from mrclab.lab.scenario.units import scale_of, show_number

_ROW = 0.26  # inches per bar
_COLUMNS = 2


@dataclass(frozen=True)
class Curve:
    """A figure over some x for one variant; `low` and `high` bound an interval."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()


def bars(rows: Sequence[ComparisonRow], path: Path) -> bool:
    """Draw each row as a small picture of horizontal bars, two beside each other; return False without any."""
    if not rows:
        return False
    high = (len(rows) + _COLUMNS - 1) // _COLUMNS
    tallest = max(len(row.values) for row in rows)
    size = style.WIDTH, high * (tallest * _ROW + 0.75) + 0.35
    figure = Figure(figsize=size, layout="constrained", dpi=style.DPI_ON_SCREEN)
    places = figure.subplots(high, _COLUMNS, squeeze=False)
    for place, row in zip_longest(places.flat, rows):
        if row:
            _bars(place, row)
        else:
            place.axis("off")
    return style.save(figure, path)


def _bars(axes: Axes, row: ComparisonRow) -> None:
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(left=False)
    factor, unit = scale_of(row.unit, max(figure.mean for figure in row.figures.values()))
    groups = {label: [factor * value for value in runs] for label, runs in row.values.items()}
    top = 1e-12
    for place, runs in enumerate(groups.values()):
        figure = summary(runs)
        axes.barh(place, figure.mean, height=0.66, color=style.colour(place), alpha=0.85)
        if figure.low is not None and figure.high is not None:
            axes.plot([figure.low, figure.high], [place, place], color=style.INK, linewidth=1.2)
            axes.plot(runs, [place] * len(runs), "|", color=style.INK, markersize=7, markeredgewidth=0.8)
        edge, text = max(figure.most, figure.high or 0.0), show_number(figure.mean)
        axes.annotate(text, (edge, place), xytext=(5, 0), textcoords="offset points", va="center", fontsize=8.5)
        top = max(top, figure.high or figure.mean)
    axes.set_yticks(range(len(groups)), list(groups), fontsize=8.5)
    axes.set_ylim(len(groups) - 0.4, -0.6)
    axes.set_xlim(0, 1.16 * top)
    axes.set_title(row.title if len(row.title) < 70 else row.title[:68] + "…", fontsize=9)
    axes.set_xlabel(unit.strip(), fontsize=8.5)
    axes.grid(axis="x", color=style.GRID, linewidth=0.8)


def lines(curves: Sequence[Curve], path: Path, xlabel: str, ylabel: str) -> bool:
    """Draw curves with their intervals, labelled beside, over a logarithmic axis; return False without any."""
    curves = [curve for curve in curves if curve.x]
    if not curves:
        return False
    figure, (axes,) = style.panels([3.4])
    ends: list[style.Label] = []
    for number, curve in enumerate(curves):
        axes.plot(curve.x, curve.y, "o-", color=style.colour(number), linewidth=1.5, markersize=4)
        if curve.low and curve.high:
            axes.fill_between(curve.x, curve.low, curve.high, color=style.colour(number), alpha=0.2, linewidth=0)
        ends.append((curve.y[-1], curve.label, style.colour(number)))
    style.logarithmic(axes)
    axes.set_ylim(bottom=0)
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    style.label_lines(axes, ends)
    return style.save(figure, path)


def over_time(runs: Mapping[str, Measures], path: Path) -> bool:
    """Draw the goodput of several runs, in shares of line rate; faults are those of the first run."""
    shown = {label: run for label, run in runs.items() if run.flows}
    if not shown:
        return False
    first, every = next(iter(shown.values())), Selection()
    lanes = lanes_height(first)
    figure, axes = style.panels([*lanes, 2.8], gap=0.08)
    main, ends, top, last = axes[-1], [], 100.0, 0.0
    for number, (label, run) in enumerate(shown.items()):
        at = bins(run)
        line = max([run.rates.line(every, (a, b)) for a, b in pairwise(at)] or [0.0]) or 1.0
        share = [100 * rate / line for rate in run.rates.binned(at, every)]
        main.plot([(a + b) / 2 - run.start for a, b in pairwise(at)], share, color=style.colour(number), linewidth=1.2)
        ends.append((quantile(share, 0.5), label, style.colour(number)))
        top, last = max(top, *share), max(last, run.end - run.start)
    main.set_ylim(0, 1.05 * top)
    main.set_ylabel("goodput, % of line")
    style.mark_faults(main, first)
    for place in axes:
        place.set_xlim(0, last)
    style.time_axis(main, first)
    style.label_lines(main, ends)
    if lanes:
        fault_lanes(axes[0], first)
        axes[0].set_xlim(0, last)
    return style.save(figure, path)


def distributions(times: Mapping[str, Sequence[float]], path: Path, what: str) -> bool:
    """Draw the completion times of several runs, in seconds, as distributions; return False without any."""
    shown = {label: seconds for label, seconds in times.items() if len(seconds) > 1}
    return style.save(style.distributions(shown, what), path) if shown else False
