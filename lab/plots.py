"""Pictures of a run as PNG files; the x axis is seconds after the traffic began."""

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from lab.measure import Measures
from lab.summary import series

PLANE_COLOURS = ("#4477aa", "#66ccee", "#228833", "#ccbb44", "#ee6677", "#aa3377", "#bbbbbb", "#222255")
STATE_COLOURS = {
    "GOOD": "#7fbf7b",
    "SKIP": "#d9f0d3",
    "STANDBY": "#cfd8e3",
    "ASSUMED_BAD": "#d7301f",
    "PORT_DOWN": "#444444",
    "DENIED": "#984ea3",
}
FAULT_COLOURS = ("#ee6677", "#aa3377", "#ccbb44", "#228833")
_DPI = 110


def draw(measures: Measures, directory: Path) -> dict[str, Path]:
    """Draw all pictures; returns title → file."""
    pictures: dict[str, tuple[str, Callable[[Measures, Path], bool]]] = {
        "Goodput at the receiver, stacked by plane": ("goodput.png", goodput),
        "State of every EV of the senders' QPs": ("evs.png", ev_states),
        "Packets lost and sent again": ("losses.png", losses),
        "Data packets by path": ("paths.png", paths),
    }
    made = {}
    for title, (name, picture) in pictures.items():
        if picture(measures, directory / name):
            made[title] = directory / name
    return made


def goodput(measures: Measures, path: Path) -> bool:
    """Total and per-plane goodput over the time line of faults."""
    data = series(measures)
    if not data["t"]:
        return False
    figure, axes = plt.subplots(figsize=(10, 4.2), layout="constrained")
    middle = [t + data["step"] / 2 for t in data["t"]]
    rows = {name: [v / 1e6 for v in values] for name, values in data["goodput_bytes_per_second"].items()}
    total = rows.pop("total")
    axes.stackplot(middle, *rows.values(), labels=list(rows), colors=PLANE_COLOURS, alpha=0.85, linewidth=0)
    axes.plot(middle, total, color="black", linewidth=1.2, label="total")
    axes.axhline(measures.line_rate / 1e6, color="grey", linestyle="--", linewidth=1, label="payload line rate")
    axes.set_ylim(0, measures.line_rate / 1e6 * 1.25)
    axes.set_xlim(0, max(measures.end - measures.start, data["step"]))
    axes.set_ylabel("goodput, MB/s")
    _fault_spans(axes, measures)
    _legend_below(figure, axes)
    return _save(figure, axes, path)


def ev_states(measures: Measures, path: Path) -> bool:
    """EV × time, coloured by state."""
    spans = state_spans(measures)
    if not spans:
        return False
    keys = sorted(spans, key=lambda key: (key[0], key[1], key[3], key[2]))
    figure, axes = plt.subplots(figsize=(10, 0.9 + 0.27 * len(keys)), layout="constrained")
    for row, key in enumerate(keys):
        for begin, end, state in spans[key]:
            axes.barh(row, end - begin, left=begin, height=0.86, color=STATE_COLOURS.get(state, "#ffffff"))
    axes.set_yticks(range(len(keys)), [_ev_label(key) for key in keys], fontsize=8)
    axes.invert_yaxis()
    last = max(end for bars in spans.values() for _, end, _ in bars)
    axes.set_xlim(0, last)
    _fault_spans(axes, measures, label=False)
    used = {state for bars in spans.values() for *_, state in bars}
    handles = [Patch(color=colour, label=state) for state, colour in STATE_COLOURS.items() if state in used]
    figure.legend(handles=handles, loc="outside lower center", ncols=6, fontsize=8, frameon=False)
    return _save(figure, axes, path)


def losses(measures: Measures, path: Path) -> bool:
    """Losses and retransmissions per bin."""
    data = series(measures)
    if not measures.losses:
        return False
    figure, axes = plt.subplots(figsize=(10, 2.8), layout="constrained")
    step = data["step"]
    axes.bar([t + 0.3 * step for t in data["t"]], data["lost_packets"], 0.4 * step, color="#d7301f", label="lost")
    again = data["retransmitted_packets"]
    axes.bar([t + 0.7 * step for t in data["t"]], again, 0.4 * step, color="#4477aa", label="sent again")
    axes.set_ylabel(f"packets per {step * 1000:.0f} ms")
    axes.set_xlim(0, max(measures.end - measures.start, step))
    _fault_spans(axes, measures, label=False)
    axes.legend(fontsize=8)
    return _save(figure, axes, path)


def paths(measures: Measures, path: Path) -> bool:
    """Share of data packets by path."""
    packets = measures.path_packets
    if not packets:
        return False
    count = sum(packets.values()) or 1
    figure, axes = plt.subplots(figsize=(10, 2.8), layout="constrained")
    for place, ((plane, _), n) in enumerate(packets.items()):
        axes.bar(place, 100 * n / count, color=PLANE_COLOURS[(plane - 1) % len(PLANE_COLOURS)])
        axes.annotate(f"{n}", (place, 100 * n / count), ha="center", va="bottom", fontsize=8)
    names = [f"plane {plane}" + (f"\nT1 {uplink}" if uplink else "") for plane, uplink in packets]
    axes.set_xticks(range(len(packets)), names, fontsize=8)
    axes.set_ylabel("share of packets, %")
    axes.margins(y=0.15)
    return _save(figure, axes, path, "")


EvKey = tuple[str, int, int, tuple[int, int]]  # host, QP, EV, path
Span = tuple[float, float, str]  # begin, end, state


def state_spans(measures: Measures) -> dict[EvKey, list[Span]]:
    """Every EV's states over the run, as (begin, end, state) in seconds after the traffic began."""
    sources = {entry.source for entry in measures.scenario.traffic}
    last = measures.history.records[-1].t if measures.history.records else measures.end
    changes: dict[EvKey, list[tuple[float, str]]] = defaultdict(list)
    for sample in measures.history.of("sample"):
        for row in sample.get("paths", []) if sample.node in sources else []:
            key = (sample.node, row["qp"], row["ev"], (row["plane"], row["uplink"]))
            if not changes[key]:
                changes[key].append((measures.start, row["state"]))
    for change in measures.ev_changes:
        if change.host in sources:
            key = (change.host, change.qp, change.ev, change.path)
            if not changes[key] and change.t > measures.start:
                changes[key].append((measures.start, change.old))
            changes[key].append((max(change.t, measures.start), change.new))
    spans: dict[EvKey, list[Span]] = {}
    for key, moments in changes.items():
        moments.sort(key=lambda moment: moment[0])
        ends = [t for t, _ in moments[1:]] + [last]
        spans[key] = [
            (t - measures.start, end - measures.start, state)
            for (t, state), end in zip(moments, ends, strict=True)
            if end > t
        ]
    return spans


def _ev_label(key: EvKey) -> str:
    host, qp, _, (plane, uplink) = key
    return f"{host} QP {qp}  plane {plane}" + (f" T1 {uplink}" if uplink else "")


def _fault_spans(axes: Axes, measures: Measures, label: bool = True) -> None:
    """Shade the time of every fault; names stand above each other at the top."""
    for number, fault in enumerate(measures.scenario.faults):
        begin, end = measures.times.get(fault.name), measures.times.get(f"{fault.name}.end", measures.end)
        if begin is None:
            continue
        colour = FAULT_COLOURS[number % len(FAULT_COLOURS)]
        first, last = begin - measures.start, end - measures.start
        axes.axvspan(first, last, color=colour, alpha=0.10, linewidth=0)
        for t in (first, last):
            axes.axvline(t, color=colour, linewidth=1)
        if label:
            place = (first, axes.get_ylim()[1] * (0.985 - 0.06 * number))
            axes.annotate(f" {fault.name}: {fault.link}", place, va="top", fontsize=8, color=colour)


def _legend_below(figure: Figure, axes: Axes) -> None:
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), fontsize=8, frameon=False)


def _save(figure: Figure, axes: Axes, path: Path, xlabel: str = "seconds after the traffic began") -> bool:
    axes.spines[["top", "right"]].set_visible(False)
    if xlabel:
        axes.set_xlabel(xlabel)
    figure.savefig(path, dpi=_DPI)
    plt.close(figure)
    return True
