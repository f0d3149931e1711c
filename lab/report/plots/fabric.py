"""Pictures of the switches' counters, port by port, and of the processes' CPU."""

import math
from collections.abc import Mapping
from itertools import pairwise

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mrclab.lab.measure.fabric.switches import Port, growth
from mrclab.lab.measure.measures import Measures
from mrclab.lab.measure.series import CountSeries, Gauge, binned, edges
from mrclab.lab.measure.validity.machine import MAX_CPU
from mrclab.lab.report.plots import style
from mrclab.lab.scenario.units import show_seconds

_MAX_LINES = 6
_GAP = 2.4  # sampling intervals between two samples of a queue that are not joined by a line: some are missing
READING_S = 1.0  # seconds between two readings of the switches' counters


def switches(measures: Measures) -> Figure | None:
    """Queue depth, trims, ECN marks and drops, each where there were any."""
    ports = {(s.name, port.number): f"{s.name}→{port.peer.node}" for s in measures.fabric.switches for port in s.ports}
    measured = measures.switches
    counts: list[tuple[str, Mapping[str, CountSeries]]] = [
        ("packets trimmed a second", _busiest(measured.trims, ports)),
        ("packets marked a second", _busiest(measured.marks, ports)),
        ("packets dropped a second, by reason", {k: c for k, c in measured.drops_over_time.items() if growth([c])}),
    ]
    is_read = style.last_moment(measures) - measures.start >= READING_S  # else there are a first and a last reading
    counts = [(title, lines) for title, lines in counts if lines and is_read]
    deepest = dict(sorted(measured.depth.items(), key=lambda item: -max(item[1].values))[:_MAX_LINES])
    if not counts and not deepest:
        return None
    figure, axes = style.panels([1.35] * (len(counts) + bool(deepest)), gap=0.36)
    if deepest:
        _depths(axes[0], measures, {ports.get(port, f"{port[0]}-{port[1]}"): deepest[port] for port in deepest})
    for place, (title, lines) in zip(axes[bool(deepest) :], counts, strict=True):
        _rates(place, measures, lines)
        place.set_title(title)
    style.over_time(axes, measures)
    return figure


def cpu(measures: Measures) -> Figure | None:
    """CPU use of the busiest processes, steal time, and the limit beyond which a run is invalid."""
    names = [process.name for process in measures.machine.processes[:_MAX_LINES]]
    lines = {name: measures.machine.cpu[name] for name in names if len(measures.machine.cpu[name].times) > 2}
    if not lines:
        return None
    if measures.machine.hypervisor:
        lines["hypervisor, all cores"] = measures.machine.steal
    figure, (axes,) = style.panels([1.7])
    ends = []
    for number, (name, counter) in enumerate(lines.items()):
        colour = style.colour(number)
        times = counter.times
        values = [100 * counter.rate(t - 0.5, t + 0.5) for t in times]
        axes.plot([t - measures.start for t in times], values, color=colour, linewidth=1.1)
        ends.append((values[len(values) // 2], name, colour))
    axes.axhline(100 * MAX_CPU, color=style.BAD, linestyle="--", linewidth=1)
    axes.set_ylim(0, 108)
    axes.set_ylabel("% of a core")
    style.over_time([axes], measures)
    style.label_lines(axes, [*ends, (100 * MAX_CPU, "invalid above", style.BAD)])
    return figure


def _busiest(counters: Mapping[Port, CountSeries], ports: Mapping[Port, str]) -> dict[str, CountSeries]:
    ordered = sorted(counters, key=lambda port: -growth([counters[port]]))[:_MAX_LINES]
    return {ports.get(port, f"{port[0]}-{port[1]}"): counters[port] for port in ordered if growth([counters[port]])}


def _depths(axes: Axes, measures: Measures, lines: Mapping[str, Gauge]) -> None:
    """Samples as they were taken, the deepest of each port in its label, and the thresholds of trimming near them."""
    ends, top = [], 1.0
    intervals = sorted(after - before for gauge in lines.values() for before, after in pairwise(gauge.times))
    interval = intervals[len(intervals) // 2] if intervals else math.inf
    for number, (name, gauge) in enumerate(lines.items()):
        colour = style.colour(number)
        times, values = _with_gaps(gauge, measures.start, _GAP * interval)
        axes.plot(times, values, color=colour, linewidth=1.1, marker=".", markersize=2.5)
        deepest = max(gauge.values)
        top = max(top, deepest)
        ends.append((deepest * (1 - 0.12 * number), f"{name}: ≤ {deepest:.0f}", colour))
    queue = measures.fabric.spec.queue
    for depth, where in ((queue.trim_threshold, "trim"), (queue.last_hop_trim_threshold, "trim to hosts")):
        if measures.fabric.spec.trimming and 0.5 * depth < top:
            axes.axhline(depth, color=style.FAINT, linestyle=":", linewidth=1)
            ends.append((float(depth), f"{where} at {depth}", style.FAINT))
    axes.set_ylim(0, 1.18 * max(1.0, *(y for y, *_ in ends)))
    every = f", a sample every {show_seconds(interval)}" if intervals else ""
    axes.set_title(f"packets in the data queue{every}")
    style.label_lines(axes, ends)


def _with_gaps(gauge: Gauge, start: float, longest: float) -> tuple[list[float], list[float]]:
    """Samples, and no number between two more than `longest` seconds apart: a silent switch has no line."""
    times, values = [], []
    for n, (t, value) in enumerate(zip(gauge.times, gauge.values, strict=True)):
        if n and t - gauge.times[n - 1] > longest:
            times.append(t - start)
            values.append(math.nan)
        times.append(t - start)
        values.append(value)
    return times, values


def _rates(axes: Axes, measures: Measures, lines: Mapping[str, CountSeries]) -> None:
    ends, top = [], 1e-9
    at = edges(measures.start, max(style.last_moment(measures), measures.start + READING_S), READING_S)
    for number, (name, counter) in enumerate(lines.items()):
        colour = style.colour(number)
        values = binned(counter, at)
        axes.stairs(values, [t - measures.start for t in at], baseline=None, color=colour, linewidth=1.3)
        top = max(top, *values)
        ends.append((max(values) * (1 - 0.12 * number), f"{name}: {growth([counter])}", colour))
    axes.set_ylim(0, 1.18 * top)
    style.label_lines(axes, ends)
