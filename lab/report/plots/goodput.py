"""Goodput over the time line of the faults: in total and by plane, by flow, by path."""

import statistics
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mrclab.lab.measure.fabric.faults import FaultSpan
from mrclab.lab.measure.fabric.paths import path_name
from mrclab.lab.measure.measures import Measures
from mrclab.lab.measure.series import binned_total
from mrclab.lab.measure.traffic.flows import Selection
from mrclab.lab.report import palette
from mrclab.lab.report.plots import style
from mrclab.lab.report.summary import bins

_MAX_LINES = 8  # flows drawn as lines; more become rows of a heat map
_MAX_ROWS, _LABELS = 500, 40  # of a heat map; more rows are folded, and fewer than those are labelled
_LANE, _THIN_LANE = 0.24, 0.155  # inches
_NAMED = 48  # faults that get a lane of their own
_KINDS = 18  # kinds of faults that are named beside the lanes


def by_plane(measures: Measures) -> Figure | None:
    """Total and stacked by plane, below one lane for each fault."""
    if not measures.flows:
        return None
    at = bins(measures)
    middle = _middles(at, measures)
    planes = {
        plane: _in_units(measures, measures.rates.binned(at, Selection(plane=plane)))
        for plane in measures.rates.by_plane
    }
    total = _in_units(measures, measures.rates.binned(at))
    if not any(total):
        return None
    lanes = lanes_height(measures)
    figure, axes = style.panels([*lanes, 3.2], gap=0.08)
    main = axes[-1]
    if any(any(values) for values in planes.values()):
        colours = [palette.PLANES[(plane - 1) % len(palette.PLANES)] for plane in planes]
        main.stackplot(middle, *planes.values(), colors=colours, linewidth=0)
    main.plot(middle, total, color=style.INK, linewidth=1.1)
    lines = _in_units(measures, [measures.rates.line(within=(a, b)) for a, b in pairwise(at)])
    line = max(lines)
    main.stairs(lines, [t - measures.start for t in at], baseline=None, color=style.FAINT, linestyle="--", linewidth=1)
    main.set_ylim(0, max(line * 1.12, max(total) * 1.05))
    main.set_ylabel(f"goodput, {measures.units.rate}")
    style.over_time([main], measures)
    _label_planes(main, planes, total, statistics.mode(lines))
    if lanes:
        fault_lanes(axes[0], measures)
    return figure


def lanes_height(measures: Measures) -> list[float]:
    """Inches of the lanes above a picture: none without faults, thinner lanes for many."""
    count = len(measures.faults)
    if not count:
        return []
    return [count * (_LANE if count <= style.MANY_FAULTS else _THIN_LANE)] if count <= _NAMED else [1.6]


def fault_lanes(axes: Axes, measures: Measures) -> None:
    """One lane for each fault, named beside it; too many to be named share lanes, and are coloured by kind."""
    axes.set_xlim(0, max(style.last_moment(measures) - measures.start, measures.fabric.spec.sample_interval))
    axes.axis("off")
    if len(measures.faults) > _NAMED:
        _packed_lanes(axes, measures)
        return
    axes.set_ylim(len(measures.faults), 0)
    for row, (fault, colour) in enumerate(style.coloured(measures)):
        begin, end = style.since(measures, fault)
        axes.barh(row + 0.5, end - begin, left=begin, height=0.62, color=colour, alpha=0.85)
        for edge in fault.edges:
            axes.plot([edge - measures.start] * 2, [row + 0.15, row + 0.85], color="white", linewidth=0.8)
        _name_lane(axes, fault, row, (begin, end), colour)


def _name_lane(axes: Axes, fault: FaultSpan, row: int, span: tuple[float, float], colour: str) -> None:
    """A fault's name where there is room: beside its bar, or inside a long one."""
    begin, end = span
    width = axes.get_xlim()[1]
    text = fault.text if fault.text.startswith(fault.name) else f"{fault.name}: {fault.text}"
    inside, left = end - begin > 0.6 * width, begin > 0.45 * width
    axes.annotate(
        text if len(text) < 64 else text[:62] + "…",
        (begin if left or inside else end, row + 0.5),
        xytext=(-6 if left and not inside else 6, 0),
        textcoords="offset points",
        ha="right" if left and not inside else "left",
        va="center",
        fontsize=8.5 if axes.get_ylim()[0] <= style.MANY_FAULTS else 7,
        color="white" if inside else colour,
        annotation_clip=False,
    )


def _packed_lanes(axes: Axes, measures: Measures) -> None:
    """Draw each fault in the first lane that is free, coloured by kind."""
    kinds = sorted({fault.kind for fault in measures.faults.values()})
    colours = {kind: style.colour(number) for number, kind in enumerate(kinds)}
    free: list[float] = []  # when each lane ends
    for fault in sorted(measures.faults.values(), key=lambda fault: fault.begin):
        begin, end = style.since(measures, fault)
        lane = next((number for number, until in enumerate(free) if until <= begin), len(free))
        free[lane : lane + 1] = [end]
        axes.barh(lane + 0.5, end - begin, left=begin, height=0.8, color=colours[fault.kind], linewidth=0)
    axes.set_ylim(len(free), 0)
    axes.set_title(f"{len(measures.faults)} faults", fontsize=9)
    rows = [(len(free) * (number + 0.5) / len(kinds), kind, colours[kind]) for number, kind in enumerate(kinds)]
    for y, kind, colour in rows[:_KINDS]:
        style.label_right(axes, y * len(kinds) / min(len(kinds), _KINDS), kind, colour, 6.5)


def by_flow(measures: Measures) -> Figure | None:
    """Every flow as a line, or as a row of a heat map where there are many; in shares of one host's line rate."""
    flows = list(measures.flows)
    if len(flows) < 2:
        return None
    at = bins(measures)
    rows = []
    for flow in flows:
        chosen = Selection(flow=flow.name)
        line = measures.rates.line(chosen) or 1.0
        rows.append([100 * value / line for value in measures.rates.binned(at, chosen)])
    if not any(any(row) for row in rows):
        return None
    if len(flows) > _MAX_LINES:
        return _heat(measures, at, [flow.name for flow in flows], rows, "goodput, % of a host's line rate")
    figure, (axes,) = style.panels([2.6])
    middle, ends = _middles(at, measures), []
    for number, (flow, row) in enumerate(zip(flows, rows, strict=True)):
        colour = style.colour(number)
        axes.plot(middle, row, color=colour, linewidth=1.1)
        active = [value for value in row if value > 1] or [0.0]
        ends.append((sum(active[-10:]) / len(active[-10:]), flow.name, colour))
    axes.set_ylim(0, max(105.0, max(map(max, rows)) * 1.05))
    axes.set_ylabel("% of a host's line rate")
    style.over_time([axes], measures)
    style.label_lines(axes, ends)
    return figure


def by_path(measures: Measures) -> Figure | None:
    """Draw the load of each path as a heat map: share of one link's rate, summed over all senders."""
    counters = measures.rates.by_path
    if len(counters) < 2:
        return None
    at, rate = bins(measures), measures.fabric.spec.link.rate_pps
    names = [path_name(*path) for path in counters]
    rows = [[100 * value / rate for value in binned_total(group, at)] for group in counters.values()]
    return _heat(measures, at, names, rows, "packets acknowledged, % of a link's rate")


def fold(rows: list[list[float]]) -> tuple[list[list[float]], int]:
    """Downsample rows to the pixels of a picture: each is the mean of successive ones."""
    together = -(-len(rows) // _MAX_ROWS)
    groups = [rows[first : first + together] for first in range(0, len(rows), together)]
    return [[statistics.fmean(column) for column in zip(*group, strict=True)] for group in groups], together


def _heat(measures: Measures, at: list[float], names: list[str], rows: list[list[float]], what: str) -> Figure:
    folded, together = fold(rows)
    if together > 1:
        names, rows = names[::together], folded
        what += f"; a row is the mean of {together}"
    labelled = range(0, len(names), -(-len(names) // _LABELS))
    figure, (axes,) = style.panels([max(0.9, min(0.2 * len(names), 6.0))])
    top = max(1.0, float(np.percentile(np.array(rows), 99.5)))
    extent = (0.0, at[-1] - measures.start, len(names) - 0.5, -0.5)
    image = axes.imshow(rows, aspect="auto", extent=extent, cmap="cividis", vmin=0, vmax=top, interpolation="nearest")
    axes.set_yticks(labelled, [names[row] for row in labelled], fontsize=7.5 if len(names) > 20 else 8.5)
    axes.grid(visible=False)
    axes.set_facecolor("#f4f4f4")
    style.over_time([axes], measures, spans=False)
    style.fault_lines(axes, measures, color="white", linewidth=1)
    box = axes.get_position()
    colours = figure.add_axes((box.x1 + 0.012, box.y0, 0.012, box.height))
    figure.colorbar(image, cax=colours)
    colours.tick_params(labelsize=8)
    axes.set_title(what)
    return figure


def _label_planes(axes: Axes, planes: dict[int, list[float]], total: list[float], line: float) -> None:
    ends, floor = [(line, "line rate", style.FAINT)], 0.0
    mean = sum(total) / len(total)
    for plane, values in planes.items():
        part = sum(values) / len(values)
        colour = palette.PLANES[(plane - 1) % len(palette.PLANES)]
        ends.append((floor + part / 2, f"plane {plane}", colour))
        floor += part
    if not floor:
        ends.append((mean, "total", style.INK))
    style.label_lines(axes, ends)


def _middles(at: list[float], measures: Measures) -> list[float]:
    return [(a + b) / 2 - measures.start for a, b in pairwise(at)]


def _in_units(measures: Measures, values: list[float]) -> list[float]:
    """Rates in the run's unit."""
    return [value / measures.units.bytes_per_second for value in values]
