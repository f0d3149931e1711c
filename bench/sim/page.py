"""docs/results/htsim.md: completion times here beside uet-htsim's on the same work."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import jinja2

from mrclab import compiled
from mrclab.bench.sim import table
from mrclab.bench.sim.table import SimRow
from mrclab.lab.report.grid import markdown

_COLUMNS = 120
_MEDIAN, _TAIL = table.SHARES["median"], table.SHARES["99 %"]


def text(rows: Sequence[SimRow], words: str, *, whole: bool) -> str:
    """The page, which shows the picture beside it; `words` are those of the command.

    `whole`: every load was run with every seed.
    """
    both = table.pairs(rows)
    source = (Path(__file__).parent / "htsim.md.j2").read_text(encoding="utf-8")
    page: str = jinja2.Template(source, keep_trailing_newline=True).render(
        words=words,
        whole=whole,
        loads=len(both),
        near=sum(table.within(here, there) for here, there in both),
        completions=_completions(both),
        form=compiled.state().text,
        costs=_costs(both),
        floor=f"{min(row.cost.memory for row in rows) / 2**20:,.0f}",  # of the process that began the loads
        dearer=textwrap.fill(_dearer(both), _COLUMNS),
    )
    return page


def _costs(both: Sequence[tuple[SimRow, SimRow]]) -> str:
    """Return the table of costs that hold on a busy machine, too: CPU time and memory, no wall-clock time."""
    head = ["hosts", "traffic", "seeds", "packets", "CPU s here", "there", "times", "MiB here", "there"]
    lines = []
    for here, there in both:
        cells = [f"{here.load.hosts:,}", here.load.traffic, str(len(here.cpus)), f"{here.cost.packets:,}"]
        cells += [_spread(here.cpus), _spread(there.cpus), _spread(table.times_cpus(here, there))]
        lines.append([*cells, *(f"{row.cost.memory / 2**20:,.0f}" for row in (here, there))])
    return markdown(head, lines)


def _spread(values: Sequence[float]) -> str:
    """Return the mean, with minimum and maximum of several values."""
    mean = f"{fmean(values):.2f}"
    return mean if len(values) < 2 else f"{mean} ({min(values):.2f} to {max(values):.2f})"


def _dearer(both: Sequence[tuple[SimRow, SimRow]]) -> str:
    """Return a sentence with the loads that need more CPU time here, the worst first, and with the others."""
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
        for share in (_MEDIAN, _TAIL):
            cells += [_micro(here, share), _micro(there, share), f"{table.difference(here, there, share):+.1%}"]
        cells += [_micro(here, 1.0), _micro(there, 1.0)]
        lines.append([*cells, *(f"{row.cost.again / row.cost.packets:.1%}" for row in (here, there))])
    return markdown([*head, "sent again here", "there"], lines)
