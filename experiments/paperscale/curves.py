"""Curves beyond the paper: campaigns over one field each, and their results.

Runs are those of `mrclab campaign`: a row is kept when its run is done, and no run is done twice.
"""

import contextlib
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from mrclab.experiments.campaign import journal, plan, work
from mrclab.experiments.paper.comparison import cell, number
from mrclab.experiments.paper.page import Appendix
from mrclab.experiments.paperscale import memory
from mrclab.experiments.paperscale.table import SCENARIOS, texts_of
from mrclab.experiments.runs.store import Row, grouped
from mrclab.lab.measure.intervals import summary
from mrclab.lab.report.summary import VALID
from mrclab.lab.scenario import scenario

Rows = Sequence[Row]
_SEEDS = (1, 2)


@dataclass(frozen=True)
class Measured:
    """A figure of a run: an expectation, and the factor to its unit."""

    label: str
    expectation: str  # its kind, and its name in brackets
    unit: str
    factor: float = 1.0
    minus: str = ""  # an expectation from which the figure is the distance

    @property
    def heading(self) -> str:
        """Label and unit."""
        return f"{self.label}, {self.unit}" if self.unit else self.label

    def of(self, row: Row) -> float | None:
        """The figure, or None where the run gave none."""
        values = [row["verdicts"].get(name, {}).get("value") for name in (self.expectation, self.minus) if name]
        return None if None in values else float(self.factor * (values[0] - sum(values[1:])))


@dataclass(frozen=True)
class Sweep:
    """One campaign, and its drawn figure."""

    name: str  # of the scenario below curves/, of the picture, and of its text in texts.yaml
    swept: Mapping[str, Sequence[Any]]  # dotted path → values
    x: Callable[[Mapping[str, Any]], float]  # of a run's values
    x_label: str
    drawn: Measured
    columns: Sequence[Measured]
    lines: Callable[[Mapping[str, Any]], str] = lambda _: ""  # which curve a run belongs to
    extra_column: tuple[str, Callable[[Mapping[str, Any]], float | None]] | None = None  # a figure that is no run's
    seeds: Sequence[int] = _SEEDS


def cables(planes: int, t0s: int, t1s: int) -> list[str]:
    """All T0–T1 cables of a fabric in an order drawn once and for all, so that more of them include the fewer."""
    names = [
        f"t0-p{plane}-{t0}/t1-p{plane}-{t1}"
        for plane in range(1, planes + 1)
        for t0 in range(1, t0s + 1)
        for t1 in range(1, t1s + 1)
    ]
    random.Random("links at once").shuffle(names)
    return names


def _count(path: str) -> Callable[[Mapping[str, Any]], float]:
    return lambda values: float(len(values[path]))


def _silent(links: Sequence[str]) -> list[dict[str, str]]:
    return [
        {"name": f"bad-{place}", "kind": "silent_drop", "link": link, "at": "0s"} for place, link in enumerate(links, 1)
    ]


LOST = Measured("packets lost per QP", "lost (lost-per-qp)", "")
SWEEPS = (
    Sweep(
        "links-at-once",
        {"faults.cut.links": [cables(8, 2, 8)[:n] for n in (1, 4, 8, 16, 32, 48, 64)]},
        _count("faults.cut.links"),
        "T0–T1 links that fail at once, of 128",
        Measured("extra time of the iteration", "completion (during)", "µs", 1e6, "completion (before)"),
        (
            Measured("extra time of the next one", "completion (after)", "µs", 1e6, "completion (before)"),
            LOST,
            Measured("an undisturbed iteration", "completion (before)", "µs", 1e6),
        ),
    ),
    Sweep(
        "evs",
        {"transport.ev_profile.active_per_plane": [4, 8, 12, 16, 24, 32]},
        lambda values: 8.0 * values["transport.ev_profile.active_per_plane"],
        "EVs of the QP, in eight planes",
        Measured("until the last dead EV is out", "detect (last)", "RTT"),
        (
            Measured("until the first is out", "detect (first)", "RTT"),
            Measured("packets lost", "lost (lost)", ""),
            Measured("goodput after the failure", "goodput (rate)", "Gb/s", 8e-9),
        ),
        extra_column=("memory of a QP, KiB", memory.qp_memory),
    ),
    Sweep(
        "trimming",
        {
            "traffic.incast.from": [[f"h{n}" for n in range(9, 9 + degree)] for degree in (2, 4, 8, 16, 24)],
            "fabric.trimming": [True, False],
        },
        _count("traffic.incast.from"),
        "senders",
        Measured("EVs taken out of use", "ev_swaps (swaps)", "times"),
        (
            Measured("the last is done", "completion (last)", "µs", 1e6),
            Measured("half of them are done", "completion (half)", "µs", 1e6),
            Measured("trimmed", "trims (trimmed)", "packets"),
            Measured("dropped by full queues", "drops (dropped)", "packets"),
            Measured("retransmitted", "retransmitted (again)", "% of packets", 100),
        ),
        lines=lambda values: "trimming" if values["fabric.trimming"] else "no trimming",
        seeds=(1,),
    ),
    Sweep(
        "start-up",
        {"faults": [_silent(cables(4, 2, 16)[:n]) for n in (1, 4, 13, 26)], "mapper.deny": [False, "all"]},
        _count("faults"),
        "silent T0–T1 cables, of 128",
        LOST,
        (
            Measured("by the worst QP", "lost (worst-qp)", "packets"),
            Measured("goodput of the first 200 µs", "goodput (rate)", "Gb/s", 8e-9),
            Measured("99 % of messages within", "completion (tail)", "µs", 1e6),
            Measured("healthy elements blamed", "false_alarms (false-positives)", ""),
        ),
        lines=lambda values: "with denylist" if values["mapper.deny"] else "MRC alone",
        seeds=(1,),
    ),
    Sweep(
        "clustermapper",
        {"faults.hurt.rate": ["0.2%", "1%", "5%", "20%"], "mapper.deny": [False, True]},
        lambda values: float(str(values["faults.hurt.rate"]).rstrip("%")),
        "packets that the cable loses, %",
        Measured("99 % of messages within", "completion (tail)", "µs", 1e6),
        (
            Measured("goodput", "goodput (rate)", "Gb/s", 8e-9),
            Measured("goodput of the last 500 µs", "goodput (settled)", "Gb/s", 8e-9),
            Measured("lost in the last 500 µs", "lost (lost-then)", "packets"),
        ),
        lines=lambda values: "with denylist" if values["mapper.deny"] else "MRC alone",
        seeds=(1,),
    ),
)


def run(sweep: Sweep, directory: Path, workers: int, notify: Callable[[str], None]) -> Rows:
    """Run jobs without a row; return all rows."""
    loaded = scenario.load(SCENARIOS / "curves" / f"{sweep.name}.yaml")
    planned = plan.make(loaded, sweep.seeds, sweep.swept)
    table = journal.Journal(directory / sweep.name, "--results").begin(planned)
    with contextlib.closing(work.done(table, planned, workers)) as rows:
        for job, row in rows:
            done = f"{sweep.name}, {len(table.of(planned))} of {len(planned)}"
            notify(f"{done}: seed {job.seed}, {row['state']} {row['error']}".rstrip())
    return table.of(planned)


def appendix(sweep: Sweep, rows: Rows, place: Path) -> Appendix:
    """Draw a campaign, and list its figures."""
    from mrclab.lab.report.plots import compare  # noqa: PLC0415 - Matplotlib takes a second to load

    groups = _groups(sweep, [row for row in rows if row["state"] in VALID])
    names = list(dict.fromkeys(line for line, _ in groups))
    curves = []
    for name in names:
        points = [
            (x, found) for (line, x), mine in groups.items() if line == name if (found := _all(sweep.drawn, mine))
        ]
        curves.append(
            compare.Curve(
                name,
                [x for x, _ in points],
                [median(found) for _, found in points],
                [min(found) for _, found in points],
                [max(found) for _, found in points],
            )
        )
    path = place / f"{sweep.name}.png"
    compare.lines(curves, path, sweep.x_label, sweep.drawn.heading)
    shown = (sweep.drawn, *sweep.columns)
    columns = [sweep.x_label, *(["run"] if any(names) else []), *(one.heading for one in shown)]
    table = [
        [
            number(x),
            *([line] if any(names) else []),
            *(cell(summary(found) if (found := _all(one, mine)) else None) for one in shown),
        ]
        for (line, x), mine in groups.items()
    ]
    if sweep.extra_column:
        columns.append(sweep.extra_column[0])
        for row, mine in zip(table, groups.values(), strict=True):
            row.append(number(sweep.extra_column[1](mine[0]["values"])))
    return Appendix(*texts_of(sweep.name), path, columns, table)


def _groups(sweep: Sweep, rows: Rows) -> dict[tuple[str, float], list[Row]]:
    """Runs by curve and place on it, of all seeds."""
    found = grouped(rows, lambda row: (sweep.lines(row["values"]), sweep.x(row["values"])))
    return dict(sorted(found.items()))


def _all(one: Measured, rows: Rows) -> list[float]:
    return [value for row in rows if (value := one.of(row)) is not None]
