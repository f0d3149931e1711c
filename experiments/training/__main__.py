"""`make training`: cost of failures for training jobs, in virtual time, and its page.

Finished runs are not repeated: an interruption loses only the run in progress.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Sequence
from pathlib import Path

from mrclab.experiments.training import figures, page, sizes
from mrclab.lab import console
from mrclab.lab.command import ending
from mrclab.lab.report import template
from mrclab.lab.scenario.seeds import parse as parse_seeds


def main(words: Sequence[str] | None = None) -> None:
    """Do missing runs and write the page; exit status 2 for invalid arguments."""
    parser = argparse.ArgumentParser(prog="make training", description=__doc__)
    known = ",".join(str(size.nics) for size in sizes.SIZES)
    parser.add_argument("--sizes", default=known, help=f"NICs of the jobs to run, of {known}; empty: none")
    parser.add_argument("--seeds", help="e.g. 1..5; default: what each size has")
    parser.add_argument("--only", default="", help="variants to run, e.g. mrc-calm,mrc-flap; default: all of a size")
    parser.add_argument("--results", type=Path, default=Path("results/training"), help="where runs are kept")
    parser.add_argument("--page", type=Path, default=Path("docs/results/training.md"), help="where the page goes")
    parser.add_argument(
        "--workers", type=int, default=1, help="processes; each takes 10 GB with 8,192 NICs, up to 17 with 32,768"
    )
    options = parser.parse_args(words)
    if options.workers < 1:
        parser.error(f"--workers {options.workers}: at least one process is needed")
    only = [word for word in options.only.split(",") if word]
    names = [word for word in options.sizes.split(",") if word]
    by_name = {str(size.nics): size for size in sizes.SIZES}
    for word in names:
        if word not in by_name:
            parser.error(f"--sizes {word}: no job of this many NICs; there are {known}")
    variants = sizes.SIZES[0].variants
    for word in only:
        if word not in variants:
            parser.error(f"--only {word}: no run is called so; there are {', '.join(variants)}")
    template.check_page(options.page)
    notify = functools.partial(console.plain, console.standard())
    for word in names:
        size = by_name[word]
        seeds = parse_seeds(options.seeds or f"1..{size.seeds}")
        sizes.run(size, seeds, options.results, options.workers, notify, only)
    path = options.page.with_suffix(".json")
    found = figures.merged(figures.load(path), options.results)
    figures.save(path, found)
    page.write(options.page, found)
    notify(f"Page: {options.page}; figures of all runs: {path}")


if __name__ == "__main__":
    ending.run(main)
