"""Pictures of how long things took: steps of training jobs over time, distributions of completion times."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mrclab.lab.measure.measures import Measures
from mrclab.lab.report.plots import style
from mrclab.lab.report.summary import lost_by_faults

_MAX_CURVES = 6
_MAX_JOBS = 4


def steps(measures: Measures) -> Figure | None:
    """Steps of training jobs with their compute share, one panel for each job."""
    jobs = [job for job in measures.training.jobs if len(measures.training.steps(job)) > 1][:_MAX_JOBS]
    if not jobs:
        return None
    figure, axes = style.panels([1.8] * len(jobs), gap=0.36)
    for place, job in zip(axes, jobs, strict=True):
        _steps(place, measures, job)
    style.over_time(axes, measures)
    return figure


def _steps(axes: Axes, measures: Measures, job: str) -> None:
    training, unit = measures.training, measures.units
    found = training.steps(job)
    edges = [found[0].began - measures.start, *(step.ended - measures.start for step in found)]
    scale = unit.seconds if unit.seconds < 1 else 1.0
    values = [step.seconds / scale for step in found]
    axes.stairs(values, edges, color=style.BLUE, linewidth=1.4, baseline=None)
    ends = [(values[-1], "a step", style.BLUE)]
    if all(step.compute is not None for step in found):
        computed = [(step.compute or 0.0) / scale for step in found]
        axes.stairs(computed, edges, color=style.BLUE, alpha=0.2, fill=True)
        ends.append((computed[-1] / 2, "computing", style.FAINT))
    axes.set_ylim(0, 1.15 * max(values))
    title = f"step time of {job}, {unit.time if unit.seconds < 1 else 's'}"
    lost = lost_by_faults(measures, job)
    if lost is not None:
        title += f"; faults cost {lost}"
    late = [row for row in training.stragglers(job) if row.last][:1]
    if late and training.ranks(job) > 1:
        title += f"; rank {late[0].rank} was last in {late[0].last} of {len(found)} steps"
    axes.set_title(title)
    style.label_lines(axes, ends)


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
