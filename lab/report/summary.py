"""The facts of a run as rows of text and numbers: shown alike by terminal, page and result.json."""

import itertools
from collections import Counter as Tally
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, NamedTuple, cast, get_args

from mrclab.lab.errors import error_of
from mrclab.lab.expectations import Verdict
from mrclab.lab.measure.fabric.faults import FaultSpan
from mrclab.lab.measure.fabric.paths import OUT, EvChange, path_name
from mrclab.lab.measure.fabric.switches import growth, link_at
from mrclab.lab.measure.measures import COARSE, Measures
from mrclab.lab.measure.series import CountSeries, Gauge, binned, binned_total, edges, histogram, quantile
from mrclab.lab.measure.traffic.flows import Selection
from mrclab.lab.measure.traffic.training import TimeLost
from mrclab.lab.measure.validity.machine import ProcessLoad
from mrclab.lab.scenario.units import Units, show_bytes, show_rate, show_seconds
from mrclab.topo.input.sentences import quantity

MAX_BINS = 1200  # a longer run gets wider bins
_MAX_FLOWS = 32
_MAX_QPS = 128

Row = dict[str, Any]
State = Literal["passed", "failed", "invalid", "aborted"]
VALID: Final = frozenset({"passed", "failed"})
"""States of runs whose figures are the network's: they went to their end, and the machine kept up."""

_OLD_STATES: dict[str, State] = {"held": "passed", "broken": "aborted"}  # of results before version 0.2
_SHORTEST = 2  # round trips of the shortest phase
_MAX_OF_LINE = 1.1  # above it the samples are at fault, not the links


@dataclass(frozen=True)
class Facts:
    """Content of a report. Times are seconds after the traffic began."""

    title: str
    description: str
    ok: bool
    state: State
    invalid: list[str]  # why the run is invalid
    headline: str
    verdicts: list[Row]
    faults: list[Row]
    phases: list[Row]  # goodput between two successive events, total and by plane
    flows: list[Row]
    completions: list[Row]
    paths: list[Row]
    losses: list[Row]
    stalls: list[Row]  # QPs that made no progress for long, and why
    ev_changes: list[Row]
    drops: list[Row]
    ports: list[Row]  # switch ports that trimmed, marked or queued packets
    totals: Row  # RTT in seconds, goodput as a share of line; packets lost, retransmitted, trimmed, marked, dropped
    processes: list[Row]
    hypervisor: Row | None  # share of all CPUs that a hypervisor took
    run: dict[str, Any] = field(default_factory=dict)
    units: Units = field(default_factory=Units)


def state(measures: Measures, verdicts: Sequence[Verdict], error: str = "") -> State:
    """Return how a run came out; one with which the machine could not keep up has neither passed nor failed."""
    if error:
        return "aborted"
    if measures.invalid:
        return "invalid"
    return "passed" if all(verdict.ok for verdict in verdicts) else "failed"


def state_of(word: str) -> State:
    """Return the state that a result of this version or an earlier one names; ValueError for other words."""
    state = _OLD_STATES.get(word, word)
    if state not in get_args(State):
        raise ValueError(f"invalid state {word!r}: expected {', '.join(get_args(State))}")
    return cast("State", state)


def summarize(measures: Measures, verdicts: Sequence[Verdict], info: dict[str, Any]) -> Facts:
    """All facts of a run."""
    outcome = state(measures, verdicts, error_of(info))
    processes, waits = measures.machine.processes[:8], measures.machine.lateness.worst()
    facts = Facts(
        title=measures.scenario.title or measures.scenario.name,
        description=measures.scenario.description.strip(),
        ok=outcome == "passed",
        state=outcome,
        invalid=measures.invalid,
        headline=_headline(measures, verdicts),
        verdicts=[vars(verdict) for verdict in verdicts],
        faults=[_fault(measures, fault) for fault in measures.faults.values()] + _never_began(measures),
        phases=phases(measures),
        flows=_flows(measures),
        completions=_completions(measures),
        paths=_paths(measures),
        losses=_losses(measures),
        stalls=_stalls(measures),
        ev_changes=_ev_changes(measures),
        drops=[{"reason": k, "packets": sum(v.values()), "by_switch": v} for k, v in measures.switches.drops.items()],
        ports=_ports(measures),
        totals=_totals(measures),
        processes=[_process(process, waits) for process in processes],
        hypervisor=_process(measures.machine.hypervisor) if measures.machine.hypervisor else None,
        run=info,
        units=measures.units,
    )
    if measures.scenario.history == "full":
        return facts
    nothing: Any = {name: [] for name in _OF_RECORDS}  # rather than zeros that were not counted
    return replace(facts, totals={"rtt": measures.rtt}, **nothing)


_OF_RECORDS = ("faults", "phases", "flows", "paths", "losses", "stalls", "ev_changes", "drops", "ports")


def _process(process: ProcessLoad, waits: Mapping[str, float] | None = None) -> Row:
    wait = (waits or {}).get(process.name)
    late = {"worst_wait": None if wait is None else round(wait, 4)}
    return {"process": process.name, "mean": round(process.mean, 4), "peak": round(process.peak, 4), **late}


def bins(measures: Measures) -> list[float]:
    """Edges of the bins in which a run is drawn: of a sampling interval, wider where that made more than `MAX_BINS`."""
    seconds = measures.end - measures.start
    step = least = measures.fabric.spec.sample_interval
    while seconds / step > MAX_BINS:
        step *= 2 if round(step / least) % 5 else 2.5
    return edges(measures.start, measures.end, step)


def series(measures: Measures) -> Row:
    """Numbers over time in bins: goodput by plane, traffic and flow, losses, retransmissions."""
    at = bins(measures)
    goodput = {f"plane {plane}": measures.rates.binned(at, Selection(plane=plane)) for plane in measures.rates.by_plane}
    goodput["total"] = measures.rates.binned(at)
    by_flow = {flow.name: measures.rates.binned(at, Selection(flow=flow.name)) for flow in measures.flows}
    lost = [loss.t for loss in measures.paths.losses for _ in range(loss.packets)]
    return {
        "t": [round(t - measures.start, 9) for t in at[:-1]],
        "step": round(at[1] - at[0], 9),
        "goodput_bytes_per_second": {name: [round(v) for v in values] for name, values in goodput.items()},
        "flow_goodput_bytes_per_second": {name: [round(v) for v in values] for name, values in by_flow.items()},
        "path_packets_per_second": {
            path_name(*path): [round(v, 1) for v in binned_total(counters, at)]
            for path, counters in measures.rates.by_path.items()
        },
        "qp_goodput_bytes_per_second": _by_qp(measures, at),
        "lost_packets": histogram(lost, at),
        "retransmitted_packets": histogram(measures.paths.retransmitted, at),
    }


def _by_qp(measures: Measures, at: list[float]) -> dict[str, list[int]]:
    """Goodput of every receiving QP of flows with several, as long as they are not too many to look at."""
    flows = [flow for flow in measures.flows if len(flow.receivers) > 1]
    if sum(len(flow.receivers) for flow in flows) > _MAX_QPS:
        return {}
    return {
        f"{flow.name} QP {key[1]}": [round(v) for v in binned(measures.samples.qps[key].count("placed_bytes"), at)]
        for flow in flows
        for key in flow.receivers
    }


def _headline(measures: Measures, verdicts: Sequence[Verdict]) -> str:
    judged = [verdict for verdict in verdicts if not verdict.is_measured]
    figures = len(verdicts) - len(judged)
    measured = f", {quantity(figures, 'figure')} measured" if figures else ""
    passed = f"{sum(verdict.ok for verdict in judged)} of {len(judged)} expectations passed{measured}"
    seconds, size = measures.end - measures.start, _carried(measures)
    rate = f" in {show_seconds(seconds)} ({show_rate(size / seconds)})" if size and seconds > 0 else ""
    lost = f", {sum(loss.packets for loss in measures.paths.losses)} packets lost"
    lost = lost if measures.scenario.history == "full" else ""
    cost = "".join(
        f"; faults cost {job} {found}"
        for job in measures.training.jobs
        if (found := lost_by_faults(measures, job)) is not None
    )
    return f"{passed}; {show_bytes(size)}{rate}{lost}{cost}"


def lost_by_faults(measures: Measures, job: str) -> TimeLost | None:
    """Return the training time that faults cost a job; None where nothing began, or there is nothing to compare."""
    begins = [fault.begin for fault in measures.faults.values()]
    return measures.training.time_lost(job, min(begins)) if begins else None


def _carried(measures: Measures) -> int:
    """Bytes of all flows, as each reports at its end; while some run, as far as hosts were sampled if that is more."""
    sizes = [int(record["bytes"]) for record in measures.history.of("flow.end")]
    counted = all(sizes) or not measures.flows  # of an open loop each flow that did not fail is counted
    if "end" in measures.times and counted and len(sizes) >= len(measures.flows):
        return sum(sizes)
    sampled = round(measures.goodput(measures.start, measures.end) * (measures.end - measures.start))
    return max(sampled, sum(sizes))  # flows of an open loop are not sampled


def _fault(measures: Measures, fault: FaultSpan) -> Row:
    losses = measures.losses_of(fault.name)
    begin, end = fault.begin, fault.end
    return {
        "fault": fault.name,
        "kind": fault.kind,
        "link": fault.text,
        "begin": relative_time(measures, begin),
        "end": None if end is None else relative_time(measures, end),
        "lost": sum(loss.packets for loss in losses),
        "last_loss_rtts": round((losses[-1].t - begin) / measures.rtt, 2) if losses else None,
        "detected_rtts": _detected(measures, fault),
        "injected": counted[1] if (counted := measures.injected(fault.name)) else None,
        "ports_down": sum(begin <= r.t <= begin + 1 for r in measures.history.of("port.state")),
    }


def _detected(measures: Measures, fault: FaultSpan) -> float | None:
    """Round trips from a fault's begin until a sender took an EV over its cables out of use; None if none did."""
    begin, end = fault.during(measures.end)
    gone = (c.t for c in measures.changes_over(fault, begin, end) if c.new in OUT and c.old not in OUT)
    first = next(gone, None)
    return None if first is None else round((first - begin) / measures.rtt, 2)


def _never_began(measures: Measures) -> list[Row]:
    """Faults of the scenario that never began."""
    empty = dict.fromkeys(("begin", "end", "lost", "last_loss_rtts", "detected_rtts", "injected"))
    return [
        {"fault": fault.name, "kind": fault.kind_name, "link": fault.text(measures.fabric), **empty}
        for fault in measures.scenario.faults
        if fault.name not in measures.faults
    ]


def _flows(measures: Measures) -> list[Row]:
    """Goodput of each flow while its traffic ran, where there are several."""
    rows: list[Row] = []
    for flow in measures.flows.all[:_MAX_FLOWS] if len(measures.flows) > 1 else ():
        begin = measures.times.get(flow.traffic, measures.start)
        end = measures.times.get(f"{flow.traffic}.end", measures.end)
        chosen = Selection(flow=flow.name)
        rate, line = measures.goodput(begin, end, chosen), measures.rates.line(chosen)
        lost, sent = (measures.samples.last(flow.senders, name) for name in ("lost_packets", "sent_packets"))
        share = round(rate / line, 4) if line else 0.0
        rows.append(
            {"flow": flow.name, "qps": len(flow.senders), "goodput": round(rate), "of_line": share}
            | {"sent": round(sent), "lost": round(lost)}
        )
    return rows


def _completions(measures: Measures) -> list[Row]:
    """Percentiles of everything that was timed, in seconds."""
    timed: dict[str, list[float]] = {}
    for message in measures.completions.messages:
        timed.setdefault(f"messages of {message.traffic}", []).append(message.seconds)
    for traffic in measures.completions.workloads:
        timed[f"iterations of {traffic}"] = measures.completions.iterations(traffic)
        timed[f"flows of {traffic}"] = measures.completions.seconds("flows", traffic)
    for job in measures.training.jobs:
        timed[f"steps of {job}"] = measures.training.seconds(job)
    for traffic in measures.completions.pingpongs:
        timed[f"latency of {traffic}"] = [t / 2 for t in measures.completions.round_trips(traffic)]
    return [
        {"what": what, "count": len(times)}
        | {name: round(quantile(times, share), 9) for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0))}
        for what, times in timed.items()
        if len(times) > 1
    ]


def _paths(measures: Measures) -> list[Row]:
    packets = measures.paths.packets
    count = sum(packets.values()) or 1
    lost: Tally[tuple[int, int]] = Tally()
    for loss in measures.paths.losses:
        lost[loss.path] += loss.packets
    return [
        {"plane": plane, "uplink": uplink, "packets": n, "share": round(n / count, 4), "lost": lost[plane, uplink]}
        for (plane, uplink), n in packets.items()
    ]


def _losses(measures: Measures) -> list[Row]:
    reasons: Tally[tuple[str, int, str]] = Tally()
    for loss in measures.paths.losses:
        reasons[loss.host, loss.qp, loss.reason] += loss.packets
    return [{"host": host, "qp": qp, "reason": why, "packets": n} for (host, qp, why), n in sorted(reasons.items())]


def _stalls(measures: Measures) -> list[Row]:
    """Stalls that hosts reported; `seconds` is None where the QP did not go on."""
    resumed = list(measures.history.of("qp.resumed"))
    found = []
    for record in measures.history.of("qp.stalled"):
        key = record.node, record["qp"]
        ends = [r["seconds"] for r in resumed if (r.node, r["qp"]) == key and r.t >= record.t]
        found.append(
            {
                "t": relative_time(measures, float(record["since"])),
                "host": record.node,
                "qp": record["qp"],
                "seconds": ends[0] if ends else None,
                "reason": record["reason"],
            }
        )
    return found


def _ev_changes(measures: Measures) -> list[Row]:
    """Transitions to show: SKIP comes and goes with every ECN mark, and is left out."""
    return [
        {
            "t": relative_time(measures, change.t),
            "host": change.host,
            "qp": change.qp,
            "plane": change.path[0],
            "uplink": change.path[1],
            "ev": f"{change.ev:08x}",
            "old": change.old,
            "new": change.new,
            "reason": change.reason,
        }
        for change in measures.paths.changes
        if is_notable(change)
    ]


def is_notable(change: EvChange) -> bool:
    """Return True if a transition is more than an ECN skip."""
    return change.old in OUT or change.new in OUT or "SKIP" not in {change.old, change.new}


def _totals(measures: Measures) -> Row:
    """Return the load of the whole run, as a share of the line rate, and packets by outcome."""
    switches, line = measures.switches, measures.rates.line()
    carried = measures.goodput(measures.start, measures.end) if measures.end > measures.start else 0.0
    return {
        "rtt": measures.rtt,
        "of_line": round(carried / line, 4) if line else 0.0,
        "lost": sum(loss.packets for loss in measures.paths.losses),
        "sent_again": len(measures.paths.retransmitted),
        "trimmed": growth(switches.trims.values()),
        "marked": growth(switches.marks.values()),
        "queue_drops": sum(switches.drops.get("queue", {}).values()),
    }


def _ports(measures: Measures) -> list[Row]:
    """Switch ports that trimmed, marked or queued packets, most trims first."""
    switches, fabric = measures.switches, measures.fabric
    rows: list[Row] = [
        {
            "port": f"{port[0]} port {port[1]}",
            "link": link_at(fabric, *port),
            "trimmed": growth([switches.trims.get(port, CountSeries())]),
            "marked": growth([switches.marks.get(port, CountSeries())]),
            "deepest": round(max(switches.depth.get(port, Gauge()).values, default=0)),
        }
        for port in sorted({*switches.trims, *switches.depth})
    ]
    busy = [row for row in rows if row["trimmed"] or row["marked"] or row["deepest"]]
    return sorted(busy, key=lambda row: (-row["trimmed"], -row["marked"], -row["deepest"]))[:20]


class _EventGroup(NamedTuple):
    """Events at about the same time: the name of the first, and the times of the first and last."""

    name: str
    first: float
    last: float


def relative_time(measures: Measures, t: float) -> float:
    """Seconds since the traffic began, rounded to the resolution of the samples."""
    return round(t - measures.start, 3 if measures.fabric.spec.sample_interval >= COARSE else 9)


def phases(measures: Measures) -> list[dict[str, Any]]:
    """Goodput between every two successive events; where no flow ran it is 0, and its share of the line None.

    Empty for flows that come and go, and where samples exceed the line rate: hosts are sampled too rarely then.
    """
    rows: list[dict[str, Any]] = []
    if measures.flows.come_and_go:
        return rows  # no sample has the bytes of QPs that ended before
    for before, after in itertools.pairwise(_event_groups(measures)):
        begin, end = before.last, after.first
        if end - begin < _SHORTEST * measures.rtt or end > measures.end or begin < measures.start:
            continue
        total, line = measures.goodput(begin, end), measures.rates.line(Selection(), (begin, end))
        if total > _MAX_OF_LINE * line > 0:
            return []
        rates = {
            plane: measures.goodput(begin, end, Selection(plane=plane)) if line else 0.0
            for plane in measures.rates.by_plane
        }
        rows.append(
            {
                "phase": f"{before.name} → {after.name}",
                "begin": relative_time(measures, begin),
                "end": relative_time(measures, end),
                "goodput": round(total) if line else 0,
                "of_line": round(total / line, 4) if line else None,
                "planes": {plane: round(rate) for plane, rate in rates.items()},
            }
        )
    return rows


def _event_groups(measures: Measures) -> list[_EventGroup]:
    """Return the events in order of time; those closer than the shortest phase are one group, named after the first.

    The run's start and end go before other names: on the wire a second traffic starts a little after the first, and in
    virtual time with it.
    """
    names = ["start", "end", *(name for name in measures.times if not name.endswith(".end"))]
    order = {name: place for place, name in reversed(list(enumerate(names)))}
    times = {**measures.times, "start": measures.start, "end": measures.end}
    found: list[_EventGroup] = []
    for name, t in sorted(times.items(), key=lambda item: item[1]):
        if found and t - found[-1].first < _SHORTEST * measures.rtt:
            before = found.pop()
            first = min(before.name, name, key=lambda word: order[word.removesuffix(".end")])
            found.append(_EventGroup(first, before.first, t))
        else:
            found.append(_EventGroup(name, t, t))
    return found
