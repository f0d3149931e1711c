"""Campaigns from Python: run them, and have their figures with intervals as a table or a picture."""

import contextlib
import math
import multiprocessing
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mrclab.experiments.campaign import figure, journal, plan, work
from mrclab.experiments.runs.store import Row, sources
from mrclab.lab.api import Scenario
from mrclab.lab.callers import arguments_named, path_of, plain, seed_of, text_of, whole
from mrclab.lab.errors import LabError
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
    state, error, seconds (of this machine's time) and `verdicts` by kind. Raises ScenarioError for a combination that
    is refused, RunError where the machine fails.
    Programs that call it need the guard `if __name__ == "__main__":`, as for every use of multiprocessing.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise SystemExit(1)  # a worker that imports a program without the guard; its parent says so
    if not isinstance(scenario, Scenario):
        raise LabError(f"campaign takes a Scenario, not {scenario!r:.60}; make one with mrclab.Scenario.from_yaml(…)")
    given = _seeds(seeds)
    processes = None if workers is None else whole(workers, "workers", least=1)
    if not isinstance(flows, bool):
        raise LabError(f"flows is True or False, not {flows!r:.60}")
    with arguments_named():
        swept = _swept({} if sweep is None else sweep, "sweep")
        own = None if variants is None else _of_variants(variants)
        planned = plan.make(scenario.loaded, given, swept, of_variants=own, flows=flows)
        worlds.check(*(setting.loaded() for setting in planned.settings))
        table = journal.Journal(path_of(directory, "directory"))
        with table.owned(), contextlib.closing(work.done(table.begin(planned, sources()), planned, processes)) as rows:
            for _ in rows:
                pass
    return table.of(planned)


def _seeds(seeds: Iterable[int]) -> list[int]:
    if isinstance(seeds, (str, Mapping)) or not isinstance(seeds, Iterable):
        raise LabError(f"seeds are whole numbers, such as range(1, 6) or [1, 2, 7], not {seeds!r:.60}")
    given = [seed_of(seed, "each of seeds") for seed in seeds]
    if not given:
        raise LabError("seeds is empty; give one at least, such as range(1, 6)")
    return given


def _swept(fields: Any, what: str) -> dict[str, list[Any]]:
    """Return the distinct values of each swept field; LabError for what is no such dict."""
    if not isinstance(fields, Mapping):
        raise LabError(
            f"{what} is a dict of fields and their values, such as {{'fabric.t1s': [2, 4]}}, not {fields!r:.60}"
        )
    found = {}
    for path, given in fields.items():
        values = plain(given, f"{what}[{path!r}]")
        if not isinstance(values, list) or not values:
            raise LabError(f"{what}[{path!r}] is a list of values, such as [2, 4], not {given!r:.60}")
        found[text_of(path, f"each field of {what}")] = values
    return found


def _of_variants(variants: Any) -> dict[str, dict[str, list[Any]]]:
    if not isinstance(variants, Mapping):
        raise LabError(f"variants is a dict of variants, each with what is swept of it alone, not {variants!r:.60}")
    if not variants:
        raise LabError("variants is empty; name one at least, or leave it out for all")
    return {text_of(name, "each of variants"): _swept(own, f"variants[{name!r}]") for name, own in variants.items()}


def campaign_table(
    directory: str | Path, x: str, y: str, *, by: str = "variant", columns: str = "", scale: float = 1.0
) -> Table:
    """Return a figure of a campaign against a swept field, with its 95 % interval over seeds (Student's t).

    `x`: the swept field, its values multiplied by `scale`. `y`: the name of an expectation or measure, in its unit, or
    of flows that were kept `pN` (µs) or `slowdown.pN`. A row for each value of the fields `by`, `columns` and `x`; `x`
    is None for runs without that field, as are `low` and `high` of fewer than two seeds. Raises LabError for an unknown
    name.
    """
    ((_, points),) = _plotted(directory, [y], scale, x=x, by=by, columns=columns).curves
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
    columns_label: str = "",
) -> "Figure":
    """Draw figures of a campaign as `campaign_table` has them: a row of plots for each `y`, a line for each `by`."""
    if not y:
        raise LabError("name a figure to draw, such as p99, or an expectation")
    titles = {"x_label": x_label, "columns_label": columns_label}
    return figure.draw(_plotted(directory, y, scale, x=x, by=by, columns=columns, **titles))


def _plotted(directory: Any, y: Sequence[Any], scale: Any, **fields: Any) -> figure.Plotted:
    place = path_of(directory, "directory")
    names = [text_of(name, "each of y") for name in y]
    texts = {name: text_of(field, name) for name, field in fields.items()}
    factor = plain(scale, "scale")
    if isinstance(factor, bool) or not isinstance(factor, (int, float)) or not 0 < factor < math.inf:
        raise LabError(f"scale is a number above 0, not {scale!r:.60}")
    with arguments_named():
        return figure.plotted(place, y=names, scale=factor, **texts)
