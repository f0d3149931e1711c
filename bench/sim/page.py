"""docs/results/htsim.md: completion times here beside uet-htsim's on the same work."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import jinja2

from mrclab import compiled
from mrclab.bench.sim import table
from mrclab.bench.sim.common import SimLoad
from mrclab.bench.sim.table import SimRow
from mrclab.bench.sim.turns import Turns
from mrclab.lab.report.grid import markdown

_SPREAD_LOADS = (SimLoad(128, "permutation", 2_000_000), SimLoad(128, "incast", 500_000))
_ALGORITHMS = ("bitmap", "reps", "oblivious")
_COLUMNS = 120
_TRIED = (
    ("words of the outer address by arithmetic, plain counters", "3,576 to 3,534 million, 1.2 % less"),
    ("EVs of a large set made as packets take them", "on 1,024 hosts 8 EVs of 32 are made"),
)
"""Attempts on small transfers, with what each gave."""
_MEDIAN, _MOST_OF_ALL = table.SHARES["median"], table.SHARES["99 %"]


def spread(seeds: int, turns: Turns) -> list[tuple[str, SimRow]]:
    """Both simulators with other choices of their own, at 128 hosts: what differs, and what came of it."""
    found: list[tuple[str, SimRow]] = []
    for load in _SPREAD_LOADS:
        (own,) = turns.both(replace(load, own=True), seeds, beside=False)
        found.append(("its defaults: 3 of 4 uplinks, at the last hop no marks, trimming at 1.5 BDP", own))
        for name in _ALGORITHMS:
            row = turns.only_there(load, seeds, "-load_balancing_algo", name)
            found.append((f"`-load_balancing_algo {name}`", row))
    return found


def text(rows: Sequence[SimRow], others: Sequence[tuple[str, SimRow]], seeds: int) -> str:
    """The page, which shows the picture that stands beside it."""
    both = table.pairs(rows)
    source = (Path(__file__).parent / "htsim.md.j2").read_text(encoding="utf-8")
    page: str = jinja2.Template(source, keep_trailing_newline=True).render(
        hosts=",".join(dict.fromkeys(str(row.load.hosts) for row in rows)),
        seeds=seeds,
        loads=len(both),
        near=sum(table.within(here, there) for here, there in both),
        completions=_completions(both),
        others=_others(others) if others else "",
        form=compiled.state().text,
        costs=_costs(both),
        dearer=textwrap.fill(_dearer(both), _COLUMNS),
        tried=markdown(("attempt", "effect"), _TRIED),
    )
    return page


def _costs(both: Sequence[tuple[SimRow, SimRow]]) -> str:
    """Return the table of costs that hold on a busy machine, too: CPU time and memory, no wall-clock time."""
    head = ["hosts", "traffic", "packets", "CPU s here", "there", "times", "MiB here", "there"]
    lines = []
    for here, there in both:
        cells = [f"{here.load.hosts:,}", here.load.traffic, f"{here.cost.packets:,}"]
        cells += [_spread(here.cpus), _spread(there.cpus), _spread(table.times_cpus(here, there))]
        lines.append([*cells, *(f"{row.cost.memory / 2**20:,.0f}" for row in (here, there))])
    return markdown(head, lines)


def _spread(values: Sequence[float]) -> str:
    """Mean, with the least and the most where there are several."""
    mean = f"{fmean(values):.2f}"
    return mean if len(values) < 2 else f"{mean} ({min(values):.2f} to {max(values):.2f})"


def _dearer(both: Sequence[tuple[SimRow, SimRow]]) -> str:
    """Sentence with the loads that take more CPU time here, the worst first, and with those that do not."""
    found = sorted(((table.times_cpu(*two), two[0].load) for two in both), key=lambda each: -each[0])
    words = [f"{load.traffic} on {load.hosts:,} hosts {times:.2f} times" for times, load in found]
    dearer = sum(times > 1 for times, _load in found)
    sentences = [f"**More CPU time here than there**: {', '.join(words[:dearer])}."] if dearer else []
    sentences += [f"**No more than there**: {', '.join(words[dearer:])}."] if words[dearer:] else []
    return " ".join(sentences)


def _micro(row: SimRow, share: float) -> str:
    return f"{row.cost.completed(share) * 1e6:.1f}"


def _completions(both: Sequence[tuple[SimRow, SimRow]]) -> str:
    head = ["hosts", "traffic", "median here", "there", "", "99 % here", "there", "", "most here", "there"]
    lines = []
    for here, there in both:
        cells = [f"{here.load.hosts:,}", here.load.traffic]
        for share in (_MEDIAN, _MOST_OF_ALL):
            cells += [_micro(here, share), _micro(there, share), f"{table.difference(here, there, share):+.1%}"]
        cells += [_micro(here, 1.0), _micro(there, 1.0)]
        lines.append([*cells, *(f"{row.cost.again / row.cost.packets:.1%}" for row in (here, there))])
    return markdown([*head, "sent again here", "there"], lines)


def _others(others: Sequence[tuple[str, SimRow]]) -> str:
    lines = [
        [row.load.traffic, row.cost.simulator, name, _micro(row, _MEDIAN), _micro(row, _MOST_OF_ALL)]
        for name, row in others
    ]
    return markdown(["128 hosts", "simulator", "with", "median", "99 %"], lines)
