"""Analysis of a campaign's table: outcome of each expectation, and which swept field moves its figure. Pure."""

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mrclab.experiments.campaign.journal import text_of
from mrclab.experiments.runs.store import Row, grouped
from mrclab.lab.expectations.base import MEASURED
from mrclab.lab.measure.intervals import Figure, summary
from mrclab.lab.report import template
from mrclab.lab.report.summary import VALID
from mrclab.lab.scenario.units import show_number, show_value

_BINS = 24
SHOWN = 1000  # runs that did not pass: the most on a page
ENDED = "valid"
"""Row of the page before the expectations where some runs are invalid; figures leave those out."""


@dataclass(frozen=True)
class ValueGroup:
    """The runs with one value of a field, as one expectation saw them."""

    value: str
    passed: int
    runs: int
    figure: Figure | None
    bars: Sequence[int]  # as `Summary.bars`, in the same bins


@dataclass(frozen=True)
class Sensitivity:
    """Influence of one field on one expectation.

    `explained`: its share of the variance (η²) of the figure, or where there is none of whether it passed; None where
    that is the same in all runs, or where only one of its values has some. `chance`: no more than a field without
    influence may have.
    """

    field: str
    explained: float | None
    chance: bool
    values: Sequence[ValueGroup]

    @property
    def passed(self) -> tuple[float, float]:
        """The least and the most share of runs that passed with one value."""
        shares = [group.passed / group.runs for group in self.values]
        return min(shares), max(shares)


@dataclass(frozen=True)
class Summary:
    """One expectation over all runs."""

    name: str
    expected: str
    unit: str
    passed: int
    runs: int
    figure: Figure | None
    low: float | None  # 5 % of the runs lie below
    high: float | None  # 95 % do
    bars: Sequence[int]  # runs per bin from the least to the most figure; none where all are the same
    fields: Sequence[Sensitivity]

    @property
    def is_measured(self) -> bool:
        """True if it has a figure in each run and no limit."""
        return self.expected.endswith(MEASURED) and self.passed == self.runs


def summaries(rows: Sequence[Row], fields: Sequence[str]) -> list[Summary]:
    """Summaries of all expectations over all valid runs, in the scenario's order.

    Where some runs are invalid, the first summary counts those that ended.
    """
    results = [row for row in rows if row["state"] in VALID]
    names = list(dict.fromkeys(name for row in results for name in row["verdicts"]))
    given = {field: list(dict.fromkeys(text_of(row, field) for row in rows)) for field in ("variant", *fields)}
    swept = {field: values for field, values in given.items() if len(values) > 1}
    made = [_summary(name, [row for row in results if name in row["verdicts"]], swept) for name in names]
    return made if len(results) == len(rows) else [_summary(ENDED, list(map(_as_ended, rows)), swept), *made]


def _as_ended(row: Row) -> Row:
    """A row with one verdict: its run is valid."""
    expected = "the run ends, and the machine keeps up"
    verdict = {"ok": row["state"] in VALID, "value": None, "unit": "", "expected": expected}
    return {**row, "verdicts": {ENDED: verdict}}


def _summary(name: str, rows: Sequence[Row], swept: Mapping[str, Sequence[str]]) -> Summary:
    """Return one expectation over these rows; `swept` has the values of each field in the order given."""
    verdicts = [row["verdicts"][name] for row in rows]
    values = _values(name, rows)
    cuts = statistics.quantiles(values, n=20, method="inclusive") if len(values) > 1 else []
    return Summary(
        name,
        " / ".join(dict.fromkeys(verdict["expected"] for verdict in verdicts)),
        next((verdict["unit"] for verdict in verdicts if verdict["unit"]), ""),
        sum(verdict["ok"] for verdict in verdicts),
        len(verdicts),
        summary(values) if values else None,
        cuts[0] if cuts else None,
        cuts[-1] if cuts else None,
        _histogram(values, values),
        [_field(name, rows, values, field, order) for field, order in swept.items()],
    )


def _values(name: str, rows: Iterable[Row]) -> list[float]:
    return [row["verdicts"][name]["value"] for row in rows if row["verdicts"][name]["value"] is not None]


def _histogram(values: Sequence[float], all_values: Sequence[float]) -> list[int]:
    """Count the values in each bin from the least to the most of `all_values`."""
    if len(set(all_values)) < 2:
        return []
    bars, least = [0] * _BINS, min(all_values)
    width = (max(all_values) - least) / _BINS
    for value in values:
        bars[min(_BINS - 1, int((value - least) / width))] += 1
    return bars


def _field(
    name: str, rows: Sequence[Row], all_values: Sequence[float], field: str, order: Sequence[str]
) -> Sensitivity:
    parts = grouped(rows, lambda row: text_of(row, field))
    groups, measured = [], []
    for value in filter(parts.__contains__, order):
        members = parts[value]
        figures, passed = _values(name, members), [float(row["verdicts"][name]["ok"]) for row in members]
        measured.append(figures if all_values else passed)
        shown = summary(figures) if figures else None
        groups.append(ValueGroup(value, int(sum(passed)), len(members), shown, _histogram(figures, all_values)))
    share = explained(measured)
    chance = share is not None and by_chance(share, sum(map(bool, measured)), sum(map(len, measured)))
    return Sensitivity(field, share, chance, groups)


def explained(groups: Iterable[Sequence[float]]) -> float | None:
    """Share of all values' variance that lies between groups, 0…1; None where they do not vary or one group has all."""
    filled = [group for group in groups if group]
    values = [value for group in filled for value in group]
    if len(filled) < 2:
        return None
    mean = statistics.fmean(values)
    total = sum((value - mean) ** 2 for value in values)
    between = sum(len(group) * (statistics.fmean(group) - mean) ** 2 for group in filled)
    return min(1.0, between / total) if total else None


def by_chance(share: float, groups: int, values: int) -> bool:
    """Return True if a field without influence explains as much in more than 1 of 20 campaigns.

    F test, by the cube root (Paulson 1942).
    """
    between, within = groups - 1, values - groups
    if within < 1 or share > 1 - 1e-9:
        return within < 1
    root = math.pow(share / (1 - share) * within / between, 1 / 3)
    low, high = 2 / (9 * between), 2 / (9 * within)
    return (1 - high) * root - (1 - low) <= 1.645 * math.sqrt(high * root**2 + low)


def words(one: Summary) -> list[str]:
    """A summary in words: how many runs passed, where there is a limit, and the median of its figure."""
    passed = [] if one.is_measured else [f"passed {one.passed} of {one.runs}"]
    return [*passed, f"median {show_value(one.figure.median, one.unit)}"] if one.figure else passed


def as_json(one: Summary) -> dict[str, Any]:
    """A summary as JSON: without histograms; runs that passed and the figure by field and value."""
    return asdict(one, dict_factory=lambda fields: {name: value for name, value in fields if name != "bars"})


def render(
    title: str, rows: Sequence[Row], fields: Sequence[str], failing: Sequence[tuple[Row, str]], planned: int
) -> str:
    """One self-contained page; `failing` are rows with the command that replays each, `planned` counts all runs."""
    states = Counter(row["state"] for row in rows)
    seen = {field: {text_of(row, field) for row in rows} for field in fields}
    same = {field: next(iter(values)) for field, values in seen.items() if len(values) == 1}
    context: dict[str, Any] = {"title": title, "rows": len(rows), "of": planned, "states": dict(states), "same": same}
    context["broken"] = any(state not in VALID for state in states)
    context |= {"summaries": summaries(rows, fields), "failing": failing[:SHOWN], "failed": len(failing)}
    return template.fill(Path(__file__).with_name("campaign.html.j2"), context, figure=_number_text, percent=_percent)


def _number_text(value: float | None) -> str:
    return "" if value is None else show_number(value)


def _percent(share: float) -> str:
    """A share in whole percent; 0 % and 100 % only if exact."""
    return f"{share:.0%}".replace("%", " %") if share in {0, 1} else f"{min(99, max(1, round(100 * share)))} %"
