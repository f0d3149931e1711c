"""`make paper-scale`: the paper's experiments at its own speed, curves beyond it, and one page of both.

Everything runs in virtual time, without root. Finished runs are not repeated: an interruption loses only the
run in progress. Exit status 1 where a figure differs from the paper's without a reason, or a run has no result.
"""

import argparse
import functools
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from mrclab.experiments.paper import page
from mrclab.experiments.paper.comparison import number
from mrclab.experiments.paper.page import Appendix
from mrclab.experiments.paperscale import curves, models, table
from mrclab.lab import console
from mrclab.lab.command import ending
from mrclab.lab.report import results, template
from mrclab.lab.report.summary import VALID
from mrclab.lab.run.suite import SuiteEntry
from mrclab.lab.scenario import scenario
from mrclab.topo.input.sentences import quantity

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


def main(words: Sequence[str] | None = None) -> int:
    """Run the missing experiments, write the page, print differences; return the exit status."""
    parser = argparse.ArgumentParser(prog="make paper-scale", description=__doc__)
    parser.add_argument("names", nargs="*", help="experiments to run, such as e02; none: all, and the curves")
    parser.add_argument("--results", type=Path, default=Path("results/paper-scale"), help="where runs are kept")
    parser.add_argument("--page", type=Path, help="where a copy of the page goes")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes that run the curves")
    options = parser.parse_args(words)
    if options.workers < 1:
        parser.error(f"--workers {options.workers}: at least one process is needed")
    if options.page:
        template.check_page(options.page / "README.md")
    directory: Path = options.results
    notify = functools.partial(console.plain, console.standard())
    runs = table.planned(options.names)
    missing = len(runs) - len(table.run(runs, directory, notify))
    table.write(directory)
    place = directory / page.AT_ITS_SPEED.name
    place.mkdir(exist_ok=True)
    sweeps = [] if options.names else curves.sweeps()
    rows = [curves.run(sweep, directory / "curves", options.workers, notify) for sweep in sweeps]
    missing += sum(row["state"] not in VALID for mine in rows for row in mine)
    made = [curves.appendix(sweep, mine, place) for sweep, mine in zip(sweeps, rows, strict=True)]
    varied: list[page.Appendix] = []
    if not options.names:
        flapping, points = run(directory, notify), models.chosen()
        entries = models.run(directory / "models", points, models.SEEDS, notify)
        missing += len(SHARES) - len(flapping) + len(points) * len(models.SEEDS) - len(entries)
        made.append(appendix(flapping, place))
        varied = models.appendices(entries, place)
    written, chapters = page.write(directory, appendices=made, varied=varied)
    if options.page:
        shutil.copytree(place, options.page, dirs_exist_ok=True)
    notify(f"Page: {written}")
    wrong = [f"{c.experiment.scenario}: {line.row.what}" for c in chapters for line in c.lines if line.unexplained]
    wrong += [f"{c.experiment.scenario}: {line.row.what} was not measured" for c in chapters for line in c.lines
              if line.state == "missing" and c.experiment.scenario.startswith(tuple(options.names))]  # fmt: skip
    for text in wrong:
        notify(f"no explanation given: {text}")
    if missing:
        notify(f"missing on the page: {quantity(missing, 'run')} without a result")
    return 1 if wrong or missing else 0


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
    return Appendix(*table.texts_of("flapping"), path, columns, rows)


if __name__ == "__main__":
    ending.run(lambda: sys.exit(main()))
