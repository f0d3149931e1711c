"""Campaigns from Python: `mrclab.campaign`."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mrclab.experiments.campaign import journal, plan, work
from mrclab.experiments.runs.store import Row
from mrclab.lab.api import Scenario
from mrclab.lab.run import worlds


def campaign(
    scenario: Scenario,
    directory: str | Path,
    *,
    seeds: Iterable[int],
    sweep: Mapping[str, Sequence[Any]] | None = None,
    workers: int | None = None,
) -> list[Row]:
    """Run every seed with every combination of swept values in virtual time, on worker processes; returns their rows.

    `sweep`: dotted path → values. `directory` keeps the table: the same call resumes. `workers`:
    processes, one per CPU where None. A row has variant, seed, values, state, trouble, seconds (of this machine's time)
    and `verdicts` by kind. Raises ScenarioError for a combination that is refused, RunError where the machine fails.
    Programs that call it need the guard `if __name__ == "__main__":`, as for every use of multiprocessing.
    """
    planned = plan.make(scenario.loaded, list(seeds), sweep or {})
    worlds.check(*(setting.loaded() for setting in planned.settings))
    table = journal.Journal(Path(directory)).begin(planned)
    work.do(table, planned, workers or os.cpu_count() or 1)
    return table.of(planned)
