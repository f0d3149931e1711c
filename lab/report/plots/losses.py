"""Losses and retransmissions over time, and the time things took."""

from matplotlib.figure import Figure

from mrclab.lab.measure.measures import Measures
from mrclab.lab.measure.series import histogram, quantile
from mrclab.lab.report.plots import style
from mrclab.lab.report.summary import bins
from mrclab.lab.scenario.units import show_number, show_seconds

REASONS = {
    "time": ("#d55e00", "SACK, by time"),
    "same_ev": ("#e69f00", "SACK, same EV"),
    "nack": ("#cc79a7", "NACK (trimmed)"),
    "timeout": ("#882255", "time-out"),
    "port": ("#444444", "port down"),
}
_MAX_CURVES = 6
_LONG_S = 0.01  # from which times are in milliseconds


def losses(measures: Measures) -> Figure | None:
    """Packets declared lost, up, by the rule that noticed them; retransmitted packets, down."""
    if not measures.paths.losses:
        return None
    at = bins(measures)
    step = at[1] - at[0]
    edge = [t - measures.start for t in at]
    figure, (axes,) = style.panels([2.2])
    floor, ends = [0] * len(at[1:]), []
    declared = [(loss.t, loss.reason.replace("-", "_")) for loss in measures.paths.losses for _ in range(loss.packets)]
    known = [*REASONS, *sorted({reason for _, reason in declared} - set(REASONS))]
    for reason in known:
        times = [t for t, why in declared if why == reason]
        if times:
            colour, name = REASONS.get(reason, ("#999933", reason or "no reason given"))
            counts = histogram(times, at)
            top = [a + b for a, b in zip(floor, counts, strict=True)]
            axes.stairs(top, edge, baseline=floor, fill=True, color=colour)
            floor = top
            ends.append((name, len(times), colour))
    again = [r.t for r in measures.history.of("packet.retx") for _ in range(int(r.get("count", 1)))]
    down = histogram(again, at)
    axes.stairs([-n for n in down], edge, fill=True, color=style.BLUE)
    axes.axhline(0, color=style.FAINT, linewidth=0.8)
    axes.set_ylabel(f"packets per {show_seconds(step)}")
    highest, bottom = max(*floor, 1), max(*down, 1)
    axes.set_ylim(-1.1 * bottom, 1.1 * highest)
    axes.yaxis.set_major_formatter(lambda value, _: f"{abs(value):g}")
    style.over_time([axes], measures)
    lines = [(highest * (1 - 0.3 * n), f"{name}: {count}", colour) for n, (name, count, colour) in enumerate(ends)]
    style.label_lines(axes, [*lines, (-0.6 * bottom, f"retransmitted: {len(again)}", style.BLUE)])
    return figure


def completions(measures: Measures) -> Figure | None:
    """Distribution of the completion times of messages, iterations and flows, and of latencies."""
    curves = _curves(measures)
    if not curves:
        return None
    figure, (axes,) = style.panels([2.8])
    everything = [t for _, times in curves for t in times]
    spread = max(everything) / max(min(everything), 1e-9)
    unit, scale = ("µs", 1e6) if max(everything) < _LONG_S else ("ms", 1e3)
    for number, (name, times) in enumerate(curves):
        colour = style.LINE_COLOURS[number % len(style.LINE_COLOURS)]
        ordered = sorted(times)
        share = [100 * (n + 1) / len(ordered) for n in range(len(ordered))]
        axes.step([scale * t for t in ordered], share, where="post", color=colour, linewidth=1.4)
        p50, p99 = quantile(times, 0.5), quantile(times, 0.99)
        axes.plot([scale * p50, scale * p99], [50, 99], "o", color=colour, markersize=4)
        text = f"{name} ({len(times)})\np50 {show_number(scale * p50)}, p99 {show_number(scale * p99)} {unit}"
        axes.annotate(
            text,
            (1.0, 0.99 - number / _MAX_CURVES),
            xycoords="axes fraction",
            xytext=(6, 0),
            textcoords="offset points",
            va="top",
            color=colour,
            fontsize=8,
        )
    if spread > 20:
        style.logarithmic(axes)
    else:
        axes.set_xlim(left=0)
    axes.set_ylim(0, 101)
    axes.set_ylabel("% done within")
    axes.set_xlabel(f"time, {unit}")
    axes.grid(axis="x", color=style.GRID, linewidth=0.8)
    return figure


def _curves(measures: Measures) -> list[tuple[str, list[float]]]:
    found: dict[str, list[float]] = {}
    for message in measures.completions.messages:
        found.setdefault(f"{message.traffic}", []).append(message.seconds)
    for traffic in measures.completions.workloads:
        if iterations := measures.completions.iterations(traffic):
            found.pop(traffic, None)
            found[f"{traffic}, iterations"] = iterations
        elif traffic not in found:
            found[f"{traffic}, flows"] = measures.completions.seconds("flows", traffic)
    for traffic in measures.completions.pingpongs:
        found[f"{traffic}, latency"] = [t / 2 for t in measures.completions.round_trips(traffic)]
    return [(name, times) for name, times in found.items() if len(times) > 2][:_MAX_CURVES]
