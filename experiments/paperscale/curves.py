"""Curves beyond the paper: campaigns over one field each, and their results.

Runs are those of `mrclab campaign`: a row is kept when its run is done, and no run is done twice.
"""

import contextlib
import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

from pydantic import Field

from mrclab.experiments.campaign import journal, plan, work
from mrclab.experiments.paper.comparison import cell, number
from mrclab.experiments.paper.page import Appendix
from mrclab.experiments.paperscale import memory
from mrclab.experiments.paperscale.table import SCENARIOS, texts_of
from mrclab.experiments.runs.store import Row, grouped
from mrclab.lab.measure.intervals import summary
from mrclab.lab.report.summary import VALID
from mrclab.lab.scenario import scenario
from mrclab.lab.scenario.base import Strict
from mrclab.lab.scenario.files.yamlfile import read

Rows = Sequence[Row]


class Measured(Strict):
    """A figure of a run: an expectation, and the factor to its unit."""

    label: str
    expectation: str = Field(description="its kind, and its name in brackets")
    unit: str = ""
    factor: float = 1.0
    minus: str = Field(default="", description="an expectation from which the figure is the distance")

    @property
    def heading(self) -> str:
        """Label and unit."""
        return f"{self.label}, {self.unit}" if self.unit else self.label

    def of(self, row: Row) -> float | None:
        """The figure, or None where the run gave none."""
        values = [row["verdicts"].get(name, {}).get("value") for name in (self.expectation, self.minus) if name]
        return None if None in values else float(self.factor * (values[0] - sum(values[1:])))


class Sweep(Strict):
    """One campaign, its drawn figure, the first, and those in its table."""

    name: str = Field(description="of the scenario below curves/, of the picture, and of its text in texts.yaml")
    swept: dict[str, list[Any]] = Field(description="dotted path → values")
    field: str = Field(description="of the x axis")
    times: float = Field(default=1.0, description="what its number is multiplied by")
    x_label: str
    figures: list[Measured]
    lines: tuple[str, str, str] | None = Field(default=None, description="field, curve of runs where it is set, others")
    memory: bool = Field(default=False, description="a column has the memory of a QP")
    seeds: list[int] = Field(default=[1, 2])

    def x(self, values: Mapping[str, Any]) -> float:
        """Return the place of a run's values on the x axis: a number, or how many a list has."""
        value = values[self.field]
        return self.times * (len(value) if isinstance(value, list) else float(str(value).rstrip("%")))

    def line(self, values: Mapping[str, Any]) -> str:
        """Return the curve to which a run belongs; empty where there is one."""
        if self.lines is None:
            return ""
        field, where_set, otherwise = self.lines
        return where_set if values[field] else otherwise


def cables(planes: int, t0s: int, t1s: int) -> list[str]:
    """All T0–T1 cables of a fabric in an order drawn once and for all, so that more of them include the fewer."""
    places = itertools.product(range(1, planes + 1), range(1, t0s + 1), range(1, t1s + 1))
    names = [f"t0-p{plane}-{t0}/t1-p{plane}-{t1}" for plane, t0, t1 in places]
    random.Random("links at once").shuffle(names)
    return names


def _silent(links: Sequence[str]) -> list[dict[str, str]]:
    return [
        {"name": f"bad-{place}", "kind": "silent_drop", "link": link, "at": "0s"} for place, link in enumerate(links, 1)
    ]


_SWEPT: Mapping[str, dict[str, list[Any]]] = {
    "links-at-once": {"faults.cut.links": [cables(8, 2, 8)[:n] for n in (1, 4, 8, 16, 32, 48, 64)]},
    "evs": {"transport.ev_profile.active_per_plane": [4, 8, 12, 16, 24, 32]},
    "trimming": {
        "traffic.incast.from": [[f"h{n}" for n in range(9, 9 + degree)] for degree in (2, 4, 8, 16, 24)],
        "fabric.trimming": [True, False],
    },
    "start-up": {"faults": [_silent(cables(4, 2, 16)[:n]) for n in (1, 4, 13, 26)], "mapper.deny": [False, "all"]},
    "clustermapper": {"faults.hurt.rate": ["0.2%", "1%", "5%", "20%"], "mapper.deny": [False, True]},
}


@cache
def sweeps() -> list[Sweep]:
    """All sweeps, in the order of the page."""
    known = read(Path(__file__).with_name("sweeps.yaml")).data
    return [Sweep.model_validate({"name": name, "swept": swept, **known[name]}) for name, swept in _SWEPT.items()]


def run(sweep: Sweep, directory: Path, workers: int, notify: Callable[[str], None]) -> Rows:
    """Run jobs without a row; return all rows."""
    loaded = scenario.load(SCENARIOS / "curves" / f"{sweep.name}.yaml")
    planned = plan.make(loaded, sweep.seeds, sweep.swept)
    table = journal.Journal(directory / sweep.name, "--results")
    with table.owned(), contextlib.closing(work.done(table.begin(planned), planned, workers)) as rows:
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
        drawn = {x: _all(sweep.figures[0], mine) for (line, x), mine in groups.items() if line == name}
        points = {x: found for x, found in drawn.items() if found}
        middle, low, high = ([of(found) for found in points.values()] for of in (median, min, max))
        curves.append(compare.Curve(name, list(points), middle, low, high))
    path = place / f"{sweep.name}.png"
    compare.lines(curves, path, sweep.x_label, sweep.figures[0].heading)
    columns = [sweep.x_label, *(["run"] if any(names) else []), *(one.heading for one in sweep.figures)]
    table = []
    for (line, x), mine in groups.items():
        figures = [cell(summary(found) if (found := _all(one, mine)) else None) for one in sweep.figures]
        table.append([number(x), *([line] if any(names) else []), *figures])
    if sweep.memory:
        columns.append("memory of a QP, KiB")
        for row, mine in zip(table, groups.values(), strict=True):
            row.append(number(memory.qp_memory(mine[0]["values"])))
    return Appendix(*texts_of(sweep.name), path, columns, table)


def _groups(sweep: Sweep, rows: Rows) -> dict[tuple[str, float], list[Row]]:
    """Runs by curve and place on it, of all seeds."""
    found = grouped(rows, lambda row: (sweep.line(row["values"]), sweep.x(row["values"])))
    return dict(sorted(found.items()))


def _all(one: Measured, rows: Rows) -> list[float]:
    return [value for row in rows if (value := one.of(row)) is not None]
