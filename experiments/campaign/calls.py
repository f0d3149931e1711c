"""Campaigns from Python: run them, and have their figures with intervals as a table or a picture."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mrclab.experiments.campaign import figure, journal, plan, work
from mrclab.experiments.runs.store import Row
from mrclab.lab.api import Scenario
from mrclab.lab.callers import arguments_named, path_of, plain
from mrclab.lab.run import worlds
from mrclab.lab.tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def campaign(
    scenario: Scenario,
    directory: str | Path,
    *,
    seeds: Iterable[int],
    sweep: Mapping[str, Sequence[Any]] | None = None,
    variants: Mapping[str, Mapping[str, Sequence[Any]]] | None = None,
    flows: bool = False,
    workers: int | None = None,
) -> list[Row]:
    """Run every seed with every combination of swept values in virtual time, on worker processes; returns their rows.

    `sweep`: dotted path → values, of every variant. `variants`: those that run (all where None), each with what is
    swept of it alone. `flows`: keep each run's flows, so that percentiles of theirs can be pooled. `directory` keeps
    the table: the same call resumes. `workers`: processes, one per CPU where None. A row has variant, seed, values,
    state, trouble, seconds (of this machine's time) and `verdicts` by kind. Raises ScenarioError for a combination that
    is refused, RunError where the machine fails.
    Programs that call it need the guard `if __name__ == "__main__":`, as for every use of multiprocessing.
    """
    given = [plain(seed, "seeds") for seed in seeds]
    with arguments_named():
        swept, own = plain(sweep or {}, "sweep"), plain(variants, "variants")
        planned = plan.make(scenario.loaded, given, swept, of_variants=own, flows=flows)
        worlds.check(*(setting.loaded() for setting in planned.settings))
        table = journal.Journal(path_of(directory, "directory")).begin(planned)
    work.do(table, planned, workers or os.cpu_count() or 1)
    return table.of(planned)


def campaign_table(
    directory: str | Path, x: str, y: str, *, by: str = "variant", columns: str = "", scale: float = 1.0
) -> Table:
    """Return a figure of a campaign against a swept field, with its 95 % interval over seeds (Student's t).

    `x`: the swept field, its values multiplied by `scale`. `y`: the name of an expectation or measure, in its unit, or
    of flows that were kept `pN` (µs) or `slowdown.pN`. A row for each value of the fields `by`, `columns` and `x`; `x`
    is None for runs without that field, as are `low` and `high` of fewer than two seeds. Raises LabError for an unknown
    name.
    """
    ((_, points),) = figure.plotted(Path(directory), x, [y], by, columns, scale).curves
    rows = ((one.by, one.column, one.x, one.count, one.value, one.low, one.high) for one in points)
    return Table(("by", "column", "x", "samples", "value", "low", "high"), rows)


def campaign_figure(
    directory: str | Path,
    x: str,
    *y: str,
    by: str = "variant",
    columns: str = "",
    scale: float = 1.0,
    x_label: str = "",
) -> "Figure":
    """Draw figures of a campaign as `campaign_table` has them: a row of plots for each `y`, a line for each `by`."""
    return figure.draw(figure.plotted(Path(directory), x, y, by, columns, scale, x_label))
