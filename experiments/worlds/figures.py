"""Figures of a run's report that are compared with the other world's."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["goodput", "count", "time", "share"]

MIN_RTTS = 20
"""Shortest phase whose figures depend on the network more than on when it was sampled."""
MAX_PHASES = 16  # a run with more has its goodput reported as a whole

_COUNTED = {"packets", "times", "QPs", "EVs", "elements", "marked", "trimmed"}
_TOTALS = {
    "lost": "packets lost",
    "trimmed": "packets trimmed",
    "marked": "packets marked (ECN)",
    "queue_drops": "packets dropped at full queues",
}


@dataclass(frozen=True)
class RunFigure:
    """One figure of one run."""

    name: str
    kind: Kind
    value: float
    unit: str = ""


def figures(facts: Mapping[str, Any]) -> dict[str, RunFigure]:
    """Name → figure, out of `mrclab.lab.report.summary.Facts`, in the order of a page."""
    return {figure.name: figure for figure in _all(facts)}


def _all(facts: Mapping[str, Any]) -> Iterator[RunFigure]:
    yield from _goodput(facts)
    yield from _verdicts(facts)
    for name, words in _TOTALS.items():
        yield RunFigure(words, "count", float(facts["totals"][name]), "packets")
    if len(facts["faults"]) <= MAX_PHASES:
        yield from _faults(facts)
    for row in facts["completions"]:
        for part in ("p50", "p99"):
            yield RunFigure(f"{row['what']}, {part}", "time", float(row[part]), "s")


def _goodput(facts: Mapping[str, Any]) -> Iterator[RunFigure]:
    least = MIN_RTTS * float(facts["totals"]["rtt"])
    phases = [row for row in facts["phases"] if row["end"] - row["begin"] >= least and row["of_line"] is not None]
    if len(facts["phases"]) > MAX_PHASES or not phases:
        yield RunFigure("goodput, start → end", "goodput", float(facts["totals"]["of_line"]), "of line")
        return
    for row in phases:
        yield RunFigure(f"goodput, {row['phase']}", "goodput", float(row["of_line"]), "of line")


def _verdicts(facts: Mapping[str, Any]) -> Iterator[RunFigure]:
    """Return the figures of expectations."""
    numbers: dict[str, int] = {}
    for row in facts["verdicts"]:
        kind, value, unit = str(row["kind"]), row["value"], str(row["unit"])
        if value is None or unit == "problems":
            continue
        numbers[kind] = numbers.get(kind, 0) + 1
        name = f"{kind} #{numbers[kind]}" if numbers[kind] > 1 else kind
        yield RunFigure(name, _kind(kind, unit), float(value), unit)


def _kind(kind: str, unit: str) -> Kind:
    if kind.startswith("goodput") and unit.startswith("of "):
        return "goodput"
    if unit in _COUNTED:
        return "count"
    return "time" if re.fullmatch(r"s|ms|µs|RTT", unit) else "share"


def _faults(facts: Mapping[str, Any]) -> Iterator[RunFigure]:
    for row in facts["faults"]:
        if row["begin"] is None:
            continue
        yield RunFigure(f"lost to {row['fault']}", "count", float(row["lost"]), "packets")
        for field, words in (("detected_rtts", "detected after"), ("last_loss_rtts", "last loss after")):
            if row[field] is not None:
                yield RunFigure(f"{row['fault']} {words}", "time", float(row[field]), "RTT")
