"""Each path selection and congestion control beside uet-htsim's own of the same name, on the same matrices.

`python -m mrclab.bench.sim.baselines --seeds 5 --page docs/results/baselines.md` writes the page's tables; it needs
`htsim_uec` on the path.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mrclab.bench.sim import htsim, load, table
from mrclab.bench.sim.common import SimLoad
from mrclab.lab.measure.intervals import Figure, summary
from mrclab.lab.report.grid import markdown

LOADS = (SimLoad(64, "permutation", 1_000_000), SimLoad(64, "incast", 250_000))
CASES = (
    ("rotation; `mixed` there", "rotation", "nscc", "mixed"),
    ("oblivious", "oblivious", "nscc", "oblivious"),
    ("round_robin; `oblivious` there", "round_robin", "nscc", "oblivious"),
    ("bitmap", "bitmap", "nscc", "bitmap"),
    ("reps", "reps", "nscc", "reps"),
    ("dctcp", "rotation", "dctcp", "mixed"),
    ("swift", "rotation", "swift", ""),
)
"""Name, path selection and congestion control here, load balancing there; none where uet-htsim has nothing like it."""

BEGIN, END = "<!-- figures -->\n", "<!-- end of figures -->\n"
SHARES = {"median": table.SHARES["median"], "99 %": table.SHARES["99 %"]}


@dataclass(frozen=True)
class Compared:
    """One baseline with one traffic: completion times in µs by share, seed by seed; `there` empty without a reference.

    `again` is the mean share of packets that were sent again, here and there.
    """

    traffic: str
    name: str
    here: dict[str, list[float]]
    there: dict[str, list[float]]
    again: tuple[float, float]


def compare(name: str, asked: SimLoad, seeds: int) -> Compared:
    """Run one baseline here and there with seeds 1 to `seeds`; RuntimeError where a simulator does not end its work."""
    times: tuple[dict[str, list[float]], dict[str, list[float]]] = ({}, {})
    again: tuple[list[float], list[float]] = ([], [])
    for seed in range(1, seeds + 1):
        one = replace(asked, seed=seed)
        costs = [load.run(one)]
        if one.htsim_balancing:
            with tempfile.TemporaryDirectory(prefix="mrclab-") as folder:
                costs.append(htsim.run(one, Path(folder)))
        for side, cost in enumerate(costs):
            again[side].append(cost.again / cost.packets)
            for what, share in SHARES.items():
                times[side].setdefault(what, []).append(cost.completed(share) * 1e6)
    means = [sum(found) / len(found) if found else 0.0 for found in again]
    return Compared(asked.traffic, name, *times, (means[0], means[1]))


def rows(seeds: int) -> Iterator[Compared]:
    """All of them, as they come."""
    for asked in LOADS:
        for name, selection, control, balancing in CASES:
            words = "dctcp" if control == "dctcp" else ""
            one = replace(asked, selection=selection, control=control, htsim_balancing=balancing, htsim_control=words)
            yield compare(name, one, seeds)


def text(found: Sequence[Compared]) -> str:
    """The page's tables: one for each traffic."""
    parts = []
    for traffic in dict.fromkeys(one.traffic for one in found):
        head = [f"{traffic}, µs"]
        for what in SHARES:
            head += [f"{what} here", "uet-htsim", ""]
        lines = []
        for one in (one for one in found if one.traffic == traffic):
            line = [one.name]
            for what in SHARES:
                here = summary(one.here[what])
                there = summary(one.there[what]) if one.there else None
                line += [_shown(here), _shown(there), f"{here.mean / there.mean - 1:+.1%}" if there else ""]
            lines.append([*line, f"{one.again[0]:.1%}", f"{one.again[1]:.1%}" if one.there else "–"])
        parts.append(markdown([*head, "sent again here", "there"], lines))
    return "\n\n".join(parts) + "\n"


def _shown(figure: Figure | None) -> str:
    if figure is None:
        return "–"
    if figure.low is None or figure.high is None:
        return f"{figure.mean:.1f}"
    return f"{figure.mean:.1f} ± {figure.high - figure.mean:.1f}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; exit status 0, 1 where a simulator failed, 2 for words that mean nothing."""
    parser = argparse.ArgumentParser(prog="python -m mrclab.bench.sim.baselines", description=__doc__)
    parser.add_argument("--seeds", type=int, default=5, metavar="N", help="so many runs of each, from seeds 1 to N")
    parser.add_argument("--page", type=Path, metavar="MD", help="put the tables into this page")
    options = parser.parse_args(arguments)
    if options.seeds < 1:
        parser.error(f"--seeds {options.seeds}: at least one run is needed; give for example 5")
    if htsim.program() is None:
        sys.stderr.write("htsim_uec is not on the path, and there is nothing to compare with\n")
        return 1
    found = []
    try:
        for one in rows(options.seeds):
            found.append(one)
            sys.stdout.write(json.dumps(vars(one)) + "\n")
            sys.stdout.flush()
    except RuntimeError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    if options.page:
        page = options.page.read_text(encoding="utf-8")
        before, _, rest = page.partition(BEGIN)
        options.page.write_text(before + BEGIN + "\n" + text(found) + "\n" + END + rest.partition(END)[2])
    return 0


if __name__ == "__main__":
    sys.exit(main())
