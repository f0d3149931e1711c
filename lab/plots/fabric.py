"""What the switches counted, port by port, and what the processes cost."""

from collections.abc import Mapping
from pathlib import Path

from matplotlib.axes import Axes

from lab.measure import Measures
from lab.measure.machine import MAX_CPU
from lab.measure.switches import Port
from lab.plots import style
from lab.series import Counter, binned, edges

_MAX_LINES = 6
READING_S = 1.0  # seconds between two readings of the switches' counters


def switches(measures: Measures, path: Path) -> bool:
    """Queue depth, trims, ECN marks and drops, each where there were any."""
    ports = {(s.name, port.number): f"{s.name}→{port.peer.node}" for s in measures.fabric.switches for port in s.ports}
    told = measures.switches
    rows: list[tuple[str, Mapping[str, Counter], bool]] = [
        ("packets trimmed a second", _busiest(told.trims, ports), True),
        ("packets marked a second", _busiest(told.marks, ports), True),
        ("packets dropped a second, by reason", {k: c for k, c in told.drops_over_time.items() if _grew(c)}, True),
    ]
    depth = {
        ports.get(port, str(port)): Counter(gauge.times, gauge.values)
        for port, gauge in sorted(told.depth.items(), key=lambda item: -max(item[1].values))[:_MAX_LINES]
        if max(gauge.values)
    }
    rows.insert(0, ("packets in the queue", depth, False))
    shown = [row for row in rows if row[1]]
    if not shown:
        return False
    figure, axes = style.panels([1.35] * len(shown), gap=0.36)
    for place, (title, lines, is_count) in zip(axes, shown, strict=True):
        _draw(place, measures, lines, is_count)
        place.set_title(title)
    style.over_time(axes, measures)
    return style.save(figure, path)


def cpu(measures: Measures, path: Path) -> bool:
    """CPU of the busiest processes, and the limit beyond which a run is no result."""
    names = [process.name for process in measures.machine.processes[:_MAX_LINES]]
    lines = {name: measures.machine.cpu[name] for name in names if len(measures.machine.cpu[name].times) > 2}
    if not lines:
        return False
    figure, (axes,) = style.panels([1.7])
    ends = []
    for number, (name, counter) in enumerate(lines.items()):
        colour = style.LINE_COLOURS[number % len(style.LINE_COLOURS)]
        times = counter.times
        values = [100 * counter.rate(t - 0.5, t + 0.5) for t in times]
        axes.plot([t - measures.start for t in times], values, color=colour, linewidth=1.1)
        ends.append((values[len(values) // 2], name, colour))
    axes.axhline(100 * MAX_CPU, color=style.BAD, linestyle="--", linewidth=1)
    axes.set_ylim(0, 108)
    axes.set_ylabel("% of a core")
    style.over_time([axes], measures)
    style.label_lines(axes, [*ends, (100 * MAX_CPU, "invalid above", style.BAD)])
    return style.save(figure, path)


def _busiest(counters: Mapping[Port, Counter], ports: Mapping[Port, str]) -> dict[str, Counter]:
    ordered = sorted(counters, key=lambda port: -_grew(counters[port]))[:_MAX_LINES]
    return {ports.get(port, f"{port[0]}-{port[1]}"): counters[port] for port in ordered if _grew(counters[port])}


def _grew(counter: Counter) -> float:
    return counter.values[-1] - counter.values[0] if counter.values else 0.0


def _draw(axes: Axes, measures: Measures, lines: Mapping[str, Counter], is_count: bool) -> None:
    ends, top = [], 1e-9
    at = edges(measures.start, max(style.last_moment(measures), measures.start + READING_S), READING_S)
    for number, (name, counter) in enumerate(lines.items()):
        colour = style.LINE_COLOURS[number % len(style.LINE_COLOURS)]
        values = binned(counter, at) if is_count else counter.at_all(at[:-1])
        axes.stairs(values, [t - measures.start for t in at], baseline=None, color=colour, linewidth=1.3)
        top = max(top, *values)
        label = f"{name}: {_grew(counter):.0f}" if is_count else name
        ends.append((max(values) * (1 - 0.12 * number), label, colour))
    axes.set_ylim(0, 1.18 * top)
    style.label_lines(axes, ends)
