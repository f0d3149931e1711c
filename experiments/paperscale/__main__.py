"""`make paper-scale`: the paper's experiments at its own speed, curves beyond it, and one page of both.

Everything runs in virtual time, without root. What is done already is not done again: an end at any moment costs the
run under way. Exit status 1 where a figure differs from the paper's without a reason, or a run was aborted.
"""

import argparse
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from mrclab.experiments.paper import page
from mrclab.experiments.paperscale import curves, flapping, models, table


def main(words: Sequence[str] | None = None) -> int:
    """Run the missing experiments, write the page, print differences; return the exit status."""
    parser = argparse.ArgumentParser(prog="make paper-scale", description=__doc__)
    parser.add_argument("names", nargs="*", help="experiments to run, such as e02; none: all, and the curves")
    parser.add_argument("--results", type=Path, default=Path("results/paper-scale"), help="where runs are kept")
    parser.add_argument("--page", type=Path, help="where a copy of the page goes")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes that run the curves")
    options = parser.parse_args(words)
    directory: Path = options.results
    table.run(table.planned(options.names), directory, _print)
    table.write(directory)
    place = directory / page.AT_ITS_SPEED.name
    place.mkdir(exist_ok=True)
    sweeps = () if options.names else curves.SWEEPS
    rows = [curves.run(sweep, directory / "curves", options.workers, _print) for sweep in sweeps]
    made = [curves.appendix(sweep, mine, place) for sweep, mine in zip(sweeps, rows, strict=True)]
    varied: list[page.Appendix] = []
    if not options.names:
        made.append(flapping.appendix(flapping.run(directory, _print), place))
        varied = models.appendices(models.run_all(directory / "models", _print), place)
    written, chapters = page.write(directory, appendices=made, varied=varied)
    if options.page:
        shutil.copytree(place, options.page, dirs_exist_ok=True)
    _print(f"Page: {written}")
    wrong = [f"{c.experiment.scenario}: {line.row.what}" for c in chapters for line in c.lines if line.unexplained]
    wrong += [f"{c.experiment.scenario}: {line.row.what} was not measured" for c in chapters for line in c.lines
              if line.state == "missing" and c.experiment.scenario.startswith(tuple(options.names))]  # fmt: skip
    for text in wrong:
        _print(f"no explanation given: {text}")
    return 1 if wrong else 0


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
