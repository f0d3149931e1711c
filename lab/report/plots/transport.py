"""Pictures of the senders: packets declared lost and retransmitted; window, bytes in flight, round-trip time."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mrclab.lab.measure.measures import Measures
from mrclab.lab.measure.series import Gauge, histogram
from mrclab.lab.measure.traffic.flows import QpKey
from mrclab.lab.report.plots import style
from mrclab.lab.report.summary import bins
from mrclab.lab.scenario.units import show_seconds

REASONS = {
    "time": ("#d55e00", "SACK, by time"),
    "same_ev": ("#e69f00", "SACK, same EV"),
    "nack": ("#cc79a7", "NACK (trimmed)"),
    "timeout": ("#882255", "time-out"),
    "port": ("#444444", "port down"),
}
_MAX_LINES = 6  # QPs drawn one by one; of more, the middle and the spread


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
    again = measures.paths.retransmitted
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


def transport(measures: Measures) -> Figure | None:
    """One panel for each figure that was sampled."""
    senders = {key: flow.name for flow in measures.flows for key in flow.senders}
    series = {key: measures.samples.qps[key] for key in senders if key in measures.samples.qps}
    packet = measures.fabric.spec.path_mtu
    rtt_unit, rtt_scale = ("ms", 1e-3) if measures.units.seconds == 1 else ("µs", 1e-6)
    columns = (
        ("cwnd", "congestion window", "packets", packet),
        ("rate", "sending rate", measures.units.rate, measures.units.bytes_per_second),
        ("inflight", "in flight", "packets", packet),
        ("rtt", "round-trip time", rtt_unit, rtt_scale),
    )
    shown = []
    for name, title, unit, scale in columns:
        gauges = {key: qp.gauges[name] for key, qp in series.items() if name in qp.gauges}
        if gauges:
            shown.append((name, title, unit, scale, gauges))
    if not shown:
        return None
    figure, axes = style.panels([1.35] * len(shown), gap=0.36)
    for place, (name, title, unit, scale, gauges) in zip(axes, shown, strict=True):
        ends = _draw(place, measures, gauges, scale, {key: f"{senders[key]} QP {key[1]}" for key in gauges})
        place.set_title(f"{title}, {unit}")
        place.set_ylim(0, 1.15 * max(value / scale for gauge in gauges.values() for value in gauge.values))
        if name == "rtt":
            place.axhline(measures.rtt / rtt_scale, color=style.FAINT, linestyle="--", linewidth=1)
            ends.append((measures.rtt / rtt_scale, "base RTT", style.FAINT))
        style.label_lines(place, ends)
    style.over_time(axes, measures)
    return figure


def _draw(
    axes: Axes,
    measures: Measures,
    gauges: dict[tuple[str, int], Gauge],
    scale: float,
    names: dict[tuple[str, int], str],
) -> list[style.Label]:
    """Lines, or their middle and spread where they are many; returns the labels."""
    if len(gauges) <= _MAX_LINES:
        ends = []
        for number, (key, gauge) in enumerate(gauges.items()):
            colour = style.colour(number)
            end = max(gauge.times[-1], min(measures.flows.by_sender[key].end, measures.end))  # it stayed as it was
            values = [value / scale for value in [*gauge.values, gauge.values[-1]]]
            times = [t - measures.start for t in [*gauge.times, end]]
            axes.plot(times, values, color=colour, linewidth=1.1, drawstyle="steps-post")
            ends.append((float(np.median(values)), names[key], colour))
        return ends if len(gauges) > 1 else []
    at = np.array(bins(measures))
    grid = np.array([_values_at(measures, key, gauge, at) for key, gauge in gauges.items()]) / scale
    seen = ~np.all(np.isnan(grid), axis=0)
    if not seen.any():  # the run ended before any host was sampled twice
        return []
    t, grid = at[seen] - measures.start, grid[:, seen]
    low, middle, high = (np.nanpercentile(grid, share, axis=0) for share in (5, 50, 95))
    axes.fill_between(t, low, high, color=style.BLUE, alpha=0.25, linewidth=0)
    axes.plot(t, middle, color=style.BLUE, linewidth=1.2)
    axes.plot(t, np.nanmax(grid, axis=0), color=style.BLUE, linewidth=0.6, alpha=0.6)
    return [(float(np.median(middle)), f"median of {len(gauges)} QPs;\n5 to 95%; maximum", style.BLUE)]


def _values_at(measures: Measures, key: QpKey, gauge: Gauge, at: "np.typing.NDArray[np.float64]") -> Any:
    """The gauge's last value at each time while its flow ran; not a number before and after."""
    place = np.searchsorted(gauge.times, at, side="right") - 1
    values = np.array(gauge.values)[np.maximum(place, 0)]
    flow = measures.flows.by_sender[key]
    return np.where((place >= 0) & (at <= flow.end), values, np.nan)
