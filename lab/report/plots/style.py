"""Style of pictures: one width and one time axis, colours safe for colour-blind readers, direct labels.

Every picture over time has its axes at the same place, so that pictures stacked on a page line up. Colours of planes
and EV states are those of `palette`, of other lines those of Okabe and Ito (2008) and of P. Tol's schemes.
"""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from mrclab.lab.measure.fabric.faults import FaultSpan
from mrclab.lab.measure.measures import Measures
from mrclab.lab.measure.series import quantile
from mrclab.lab.report import palette
from mrclab.lab.scenario.units import Units, show_number
from mrclab.topo.input import files

WIDTH = 11.0  # inches
LEFT, RIGHT = 1.35, 1.75  # inches of margin; labels stand in the right one
LABEL = 24  # characters of a label's line that fit there
BOTTOM, TOP = 0.5, 0.32
DPI = 110
DPI_ON_SCREEN = 100.0  # of figures before they are saved
INK, FAINT, GRID = "#222222", "#777777", "#e4e4e4"
BAD, BLUE = palette.BROKEN, "#0072b2"
LINE_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#882255", "#666666")
_WIDE = 20  # times, the longest over the shortest, from which their axis is logarithmic
MANY_FAULTS = 8  # more would cover what they are drawn over
FAULT_COLOURS = ("#aa3377", "#997700", "#225555", "#994455", "#004488", "#663333")

mpl.rc("font", size=9)
mpl.rc("axes", edgecolor=FAINT, labelcolor=INK, titlesize=10, titlelocation="left", titleweight="bold", axisbelow=True)
mpl.rc("axes", titley=1.0)  # at once, without a look at all ticks
mpl.rc("xtick", color=FAINT)
mpl.rc("ytick", color=FAINT)

Label = tuple[float, str, str]  # y, text, colour
Picture = Callable[[Measures], Figure | None]


def colour(number: int) -> str:
    """The colour of the n-th line, the same in every picture."""
    return LINE_COLOURS[number % len(LINE_COLOURS)]


def panels(heights: Sequence[float], gap: float = 0.35) -> tuple[Figure, list[Axes]]:
    """Axes of these heights in inches, one above the other, at the place all pictures over time have."""
    total = sum(heights) + gap * (len(heights) - 1) + BOTTOM + TOP
    figure = Figure(figsize=(WIDTH, total), dpi=DPI_ON_SCREEN)
    found, y = [], total - TOP
    for height in heights:
        y -= height
        axes = figure.add_axes((LEFT / WIDTH, y / total, (WIDTH - LEFT - RIGHT) / WIDTH, height / total))
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color=GRID, linewidth=0.8)
        found.append(axes)
        y -= gap
    return figure, found


def over_time(axes: Sequence[Axes], measures: Measures, spans: bool = True) -> None:
    """Give axes the run's time axis, and mark the faults."""
    seconds, ended = last_moment(measures) - measures.start, measures.end - measures.start
    for place in axes:
        place.set_xlim(0, max(seconds, measures.fabric.spec.sample_interval))
        if seconds > 1.01 * ended:
            place.axvline(ended, color=FAINT, linewidth=1, linestyle=":")
        if spans:
            mark_faults(place, measures)
        if place is not axes[-1]:
            place.tick_params(labelbottom=False)
    time_axis(axes[-1], measures)


def time_axis(axes: Axes, measures: Measures) -> None:
    """Ticks and name of an axis that counts seconds, in the run's unit of time."""
    unit = measures.units
    if unit.seconds != 1:
        axes.xaxis.set_major_formatter(lambda value, _place: f"{value / unit.seconds:g}")
    axes.set_xlabel(f"{'seconds' if unit.seconds == 1 else unit.time} after the traffic began")


def last_moment(measures: Measures) -> float:
    """Return where the time axis ends: with the traffic, or with the last EV that came back after it."""
    last = measures.paths.last_out
    return max(measures.end, last + 0.02 * (last - measures.start))


def mark_faults(axes: Axes, measures: Measures) -> None:
    """A line where each fault began and was cleared, a faint shade in between; of many faults only the lanes tell."""
    fault_lines(axes, measures, linewidth=0.8, alpha=0.8)
    for fault, colour in coloured(measures) if len(measures.faults) <= MANY_FAULTS else ():
        begin, end = since(measures, fault)
        axes.axvspan(begin, end, color=colour, alpha=0.07, linewidth=0, zorder=0)


def fault_lines(axes: Axes, measures: Measures, **style: Any) -> None:
    """Draw a line where each fault began and ended, in its colour unless `style` has one; none for many faults."""
    for fault, colour in coloured(measures) if len(measures.faults) <= MANY_FAULTS else ():
        for t in since(measures, fault):
            axes.axvline(t, **{"color": colour, **style})


def coloured(measures: Measures) -> list[tuple[FaultSpan, str]]:
    """Every fault that began, with its colour."""
    return [(s, FAULT_COLOURS[n % len(FAULT_COLOURS)]) for n, s in enumerate(measures.faults.values())]


def since(measures: Measures, fault: FaultSpan) -> tuple[float, float]:
    """Return when a fault began and ended, in seconds after the traffic began."""
    begin, end = fault.during(measures.end)
    return begin - measures.start, end - measures.start


def label_lines(axes: Axes, ends: Sequence[Label]) -> None:
    """Write labels into the right margin: long ones are wrapped, those that would touch pushed apart."""
    low, high = axes.get_ylim()
    height = axes.get_window_extent().height / DPI_ON_SCREEN * 72  # points
    need = 11.0 / height * (high - low)  # one line of text
    placed: list[Label] = []
    edge = low - need  # above the label before
    for y, whole, colour in sorted(ends, key=lambda end: end[0]):
        text = "\n".join(textwrap.fill(line, LABEL) for line in whole.split("\n"))
        half = need * (1 + text.count("\n")) / 2
        placed.append((max(y, edge + half), text, colour))
        edge = placed[-1][0] + half
    over = max(0.0, edge - high)
    for y, text, colour in placed:
        label_right(axes, y - over, text, colour)


def label_right(axes: Axes, y: float, text: str, colour: str, size: float = 8.5) -> None:
    """Write a label into the right margin."""
    axes.annotate(
        text, (1.0, y), xycoords=("axes fraction", "data"), xytext=(6, 0), textcoords="offset points", va="center",
        color=colour, fontsize=size, annotation_clip=False,
    )  # fmt: skip


def distributions(times: Mapping[str, Sequence[float]], what: str) -> Figure:
    """Draw the shares of times in seconds that are done within a time, in the unit that fits, with p50 and p99."""
    everything = [t for seconds in times.values() for t in seconds]
    units = Units.of(max(everything), true_speed=True)
    figure, (axes,) = panels([2.8])
    ends: list[Label] = []
    for number, (label, seconds) in enumerate(times.items()):
        ordered = [t / units.seconds for t in sorted(seconds)]
        share = [100 * (place + 1) / len(ordered) for place in range(len(ordered))]
        axes.step(ordered, share, where="post", color=colour(number), linewidth=1.4)
        p50, p99 = (quantile(ordered, q) for q in (0.5, 0.99))
        axes.plot([p50, p99], [50, 99], "o", color=colour(number), markersize=4)
        text = f"{label} ({len(ordered)})\np50 {show_number(p50)}, p99 {show_number(p99)}"
        ends.append((95 - 22 * number, text, colour(number)))
    if max(everything) > _WIDE * max(min(everything), 1e-9):
        logarithmic(axes)
    else:
        axes.set_xlim(left=0)
    axes.set_ylim(0, 101)
    axes.set_ylabel("% done within")
    axes.set_xlabel(f"{what}, {units.time}")
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    label_lines(axes, ends)
    return figure


def logarithmic(axes: Axes) -> None:
    """A logarithmic x axis whose ticks are plain numbers."""
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())


def save(figure: Figure, path: Path) -> bool:
    """Write a picture as PNG."""
    with files.replacing(path) as file:
        figure.savefig(file, format="png", dpi=DPI, facecolor="white")
    return True
