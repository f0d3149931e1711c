"""Phases of a run: the goodput between two events."""

import itertools
from typing import Any, NamedTuple

from mrclab.lab.measure import Measures, Selection
from mrclab.lab.measure.measures import COARSE

_SHORTEST = 2  # round trips of the shortest phase
_MAX_OF_LINE = 1.1  # above it the samples are at fault, not the links


class _Moment(NamedTuple):
    """Events at about the same time: the name of the first, and the times of the first and last."""

    name: str
    first: float
    last: float


def relative_time(measures: Measures, t: float) -> float:
    """Seconds since the traffic began, rounded to the resolution of the samples."""
    return round(t - measures.start, 3 if measures.fabric.spec.sample_interval >= COARSE else 9)


def phases(measures: Measures) -> list[dict[str, Any]]:
    """Goodput between every two successive events.

    Empty for flows that come and go, and where samples exceed the line rate: hosts are sampled too rarely then.
    """
    rows: list[dict[str, Any]] = []
    if measures.flows.come_and_go:
        return rows  # no sample has the bytes of QPs that ended before
    for before, after in itertools.pairwise(_moments(measures)):
        begin, end = before.last, after.first
        if end - begin < _SHORTEST * measures.rtt or end > measures.end or begin < measures.start:
            continue
        total, line = measures.goodput(begin, end), measures.rates.line(Selection(), (begin, end))
        if total > _MAX_OF_LINE * line > 0:
            return []
        rates = {plane: measures.goodput(begin, end, Selection(plane=plane)) for plane in measures.rates.by_plane}
        rows.append(
            {
                "phase": f"{before.name} → {after.name}",
                "begin": relative_time(measures, begin),
                "end": relative_time(measures, end),
                "goodput": round(total),
                "of_line": round(total / line, 4) if line else 0.0,
                "planes": {plane: round(rate) for plane, rate in rates.items()},
            }
        )
    return rows


def _moments(measures: Measures) -> list[_Moment]:
    """Return the times of events; those closer than the shortest phase are one, named after the first.

    The run's start and end go before other names: on the wire a second traffic starts a little after the first, and in
    virtual time with it.
    """
    names = ["start", "end", *(name for name in measures.times if not name.endswith(".end"))]
    order = {name: place for place, name in reversed(list(enumerate(names)))}
    times = {**measures.times, "start": measures.start, "end": measures.end}
    found: list[_Moment] = []
    for name, t in sorted(times.items(), key=lambda item: item[1]):
        if found and t - found[-1].first < _SHORTEST * measures.rtt:
            before = found.pop()
            first = min(before.name, name, key=lambda word: order[word.removesuffix(".end")])
            found.append(_Moment(first, before.first, t))
        else:
            found.append(_Moment(name, t, t))
    return found
