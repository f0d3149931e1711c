"""Losses and retransmissions over time, and the time things took."""

from matplotlib.figure import Figure

from mrclab.lab.measure.measures import Measures
from mrclab.lab.measure.series import histogram
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
_MAX_CURVES = 6


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
    return style.distributions(curves, "time") if curves else None


def _curves(measures: Measures) -> dict[str, list[float]]:
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
    return dict([(name, times) for name, times in found.items() if len(times) > 2][:_MAX_CURVES])
