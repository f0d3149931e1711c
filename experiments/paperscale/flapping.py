"""Goodput under flapping links, and its recovery: one run for each share of links, drawn over time."""

from collections.abc import Callable, Sequence
from pathlib import Path

from mrclab.experiments.paper.book import number
from mrclab.experiments.paper.page import Appendix
from mrclab.experiments.paperscale import table, texts
from mrclab.lab.report import results
from mrclab.lab.run.suite import SuiteEntry
from mrclab.lab.scenario import scenario

SHARES = {"one": "1 %", "five": "5 %", "twenty": "20 %"}
"""Variants of the scenario, and the share of links that flap."""

_COLUMNS = (
    ("goodput (before)", "before, Gb/s", 8e-9),
    ("goodput (during)", "while they flap, Gb/s", 8e-9),
    ("goodput_floor (lowest)", "least sample of 50 µs, Gb/s", 8e-9),
    ("goodput (after)", "afterwards, Gb/s", 8e-9),
    ("lost (lost-per-qp)", "packets lost by a QP", 1.0),
    ("ev_swaps (swaps)", "EVs taken out, times", 1.0),
)


def run(directory: Path, notify: Callable[[str], None]) -> list[SuiteEntry]:
    """Do missing runs; return all runs."""
    loaded = scenario.load(table.SCENARIOS / "curves" / "flapping.yaml")
    return table.run(loaded.runs, directory, notify)


def appendix(entries: Sequence[SuiteEntry], place: Path) -> Appendix:
    """Draw goodput over time, and list the figures."""
    from mrclab.lab.report.plots import compare  # noqa: PLC0415 - Matplotlib takes a second to load

    runs = {f"{SHARES[one.variant]} flap": one for one in entries if one.directory}
    path = place / "flapping.png"
    compare.over_time(
        {label: results.load(one.directory).measures for label, one in runs.items() if one.directory}, path
    )
    rows = []
    for one in entries:
        values = {verdict.kind: verdict.value for verdict in one.verdicts}
        figures = ((values.get(kind), factor) for kind, _, factor in _COLUMNS)
        rows.append([SHARES[one.variant], *(number(None if v is None else v * factor) for v, factor in figures)])
    columns = ["links that flap", *(label for _, label, _ in _COLUMNS)]
    return Appendix(*texts.of("flapping"), path, columns, rows)
