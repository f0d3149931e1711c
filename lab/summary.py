"""The facts of a run as rows of text and numbers: what the terminal, the page and result.json show alike."""

import itertools
from collections import Counter as Tally
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lab.expectations import Verdict
from lab.measure import EvChange, Measures
from lab.series import Counter, binned, edges
from lab.units import show_bytes, show_rate, show_seconds

STEP = 0.1  # seconds per bin of a series

Row = dict[str, Any]


@dataclass(frozen=True)
class Facts:
    """Everything a report says. Times are seconds after the traffic began."""

    title: str
    description: str
    ok: bool
    headline: str
    verdicts: list[Row]
    faults: list[Row]
    phases: list[Row]  # goodput between two moments, total and by plane
    paths: list[Row]
    losses: list[Row]
    ev_changes: list[Row]
    drops: list[Row]
    processes: list[Row]
    run: dict[str, Any] = field(default_factory=dict)


def summarize(measures: Measures, verdicts: Sequence[Verdict], info: dict[str, Any]) -> Facts:
    """All facts of a run."""
    ok = all(verdict.ok for verdict in verdicts)
    return Facts(
        title=measures.scenario.title or measures.scenario.name,
        description=measures.scenario.description.strip(),
        ok=ok,
        headline=_headline(measures, verdicts),
        verdicts=[vars(verdict) for verdict in verdicts],
        faults=_faults(measures),
        phases=_phases(measures),
        paths=_paths(measures),
        losses=_losses(measures),
        ev_changes=_ev_changes(measures),
        drops=[{"reason": k, "packets": sum(v.values()), "by_switch": v} for k, v in measures.drops.items()],
        processes=[
            {"process": p.name, "mean": round(p.mean, 4), "peak": round(p.peak, 4)} for p in measures.processes[:8]
        ],
        run=info,
    )


def series(measures: Measures) -> Row:
    """Numbers over time in bins of `STEP` seconds: goodput by plane, losses, retransmissions."""
    at = edges(measures.start, measures.end, STEP)
    goodput = {f"plane {plane}": _rates(counters, at) for plane, counters in measures.placed.items()}
    goodput["total"] = [sum(values) for values in zip(*goodput.values(), strict=True)]
    lost = [loss.t for loss in measures.losses]
    again = [record.t for record in measures.history.of("packet.retx")]
    return {
        "t": [round(t - measures.start, 4) for t in at[:-1]],
        "step": STEP,
        "goodput_bytes_per_second": {name: [round(v) for v in values] for name, values in goodput.items()},
        "lost_packets": _histogram(lost, at),
        "retransmitted_packets": _histogram(again, at),
    }


def _headline(measures: Measures, verdicts: Sequence[Verdict]) -> str:
    held = sum(verdict.ok for verdict in verdicts)
    size = sum(entry.size for entry in measures.scenario.traffic)
    seconds = measures.end - measures.start
    rate = (
        f" in {show_seconds(seconds)} ({show_rate(size / seconds)})" if seconds > 0 and "end" in measures.times else ""
    )
    return f"{held} of {len(verdicts)} expectations held; {show_bytes(size)}{rate}, {len(measures.losses)} packets lost"


def _faults(measures: Measures) -> list[Row]:
    rows = []
    for fault in measures.scenario.faults:
        begin = measures.times.get(fault.name)
        end = measures.times.get(f"{fault.name}.end")
        row: Row = {"fault": fault.name, "kind": fault.kind, "link": fault.link}
        row |= dict.fromkeys(("begin", "end", "lost", "last_loss_rtts"))
        if begin is not None:
            losses = measures.losses_of(fault.name)
            row["begin"] = round(begin - measures.start, 3)
            row["end"] = None if end is None else round(end - measures.start, 3)
            row["lost"] = len(losses)
            row["last_loss_rtts"] = round((losses[-1].t - begin) / measures.rtt, 2) if losses else None
            row["ports_down"] = sum(begin <= r.t <= begin + 1 for r in measures.history.of("port.state"))
        rows.append(row)
    return rows


def _phases(measures: Measures) -> list[Row]:
    """Goodput between every two moments at which something happened."""
    moments = sorted(((t, name) for name, t in measures.times.items()), key=lambda item: item[0])
    rows = []
    for (begin, first), (end, second) in itertools.pairwise(moments):
        if end - begin < 2 * measures.rtt or end > measures.end:
            continue
        total = measures.goodput(begin, end)
        rows.append(
            {
                "phase": f"{first} → {second}",
                "begin": round(begin - measures.start, 3),
                "end": round(end - measures.start, 3),
                "goodput": round(total),
                "of_line": round(total / measures.line_rate, 4),
                "planes": {plane: round(measures.goodput(begin, end, plane)) for plane in measures.placed},
            }
        )
    return rows


def _paths(measures: Measures) -> list[Row]:
    packets = measures.path_packets
    count = sum(packets.values()) or 1
    lost = Tally(loss.path for loss in measures.losses)
    return [
        {"plane": plane, "uplink": uplink, "packets": n, "share": round(n / count, 4), "lost": lost[plane, uplink]}
        for (plane, uplink), n in packets.items()
    ]


def _losses(measures: Measures) -> list[Row]:
    reasons = Tally((loss.host, loss.qp, loss.reason) for loss in measures.losses)
    return [{"host": host, "qp": qp, "reason": why, "packets": n} for (host, qp, why), n in sorted(reasons.items())]


def _ev_changes(measures: Measures) -> list[Row]:
    """Transitions that matter to people: SKIP comes and goes with every ECN mark, and is left out."""
    return [
        {
            "t": round(change.t - measures.start, 3),
            "host": change.host,
            "qp": change.qp,
            "plane": change.path[0],
            "uplink": change.path[1],
            "ev": f"{change.ev:08x}",
            "old": change.old,
            "new": change.new,
            "reason": change.reason,
        }
        for change in measures.ev_changes
        if is_notable(change)
    ]


def is_notable(change: EvChange) -> bool:
    """Whether a transition is more than an ECN skip."""
    return "SKIP" not in {change.old, change.new} or bool({change.old, change.new} & {"ASSUMED_BAD", "PORT_DOWN"})


def _rates(counters: Sequence[Counter], at: Sequence[float]) -> list[float]:
    nothing = [0.0] * (len(at) - 1)
    return [sum(values) for values in zip(nothing, *(binned(counter, at) for counter in counters), strict=True)]


def _histogram(times: Sequence[float], at: Sequence[float]) -> list[int]:
    counts = [0] * (len(at) - 1)
    for t in times:
        if at[0] <= t < at[-1]:
            counts[min(int((t - at[0]) / STEP), len(counts) - 1)] += 1
    return counts
