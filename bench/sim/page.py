"""docs/results/htsim.md: completion times here beside uet-htsim's on the same work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import jinja2

from mrclab import compiled
from mrclab.bench.sim import table
from mrclab.bench.sim.common import SimLoad
from mrclab.bench.sim.table import SimRow
from mrclab.bench.sim.turns import here_and_there, only_there
from mrclab.lab.report.grid import markdown
from mrclab.lab.scenario.units import show_bytes

_SPREAD_LOADS = (SimLoad(128, "permutation", 2_000_000), SimLoad(128, "incast", 500_000))
_ALGORITHMS = ("bitmap", "reps", "oblivious")
_MEDIAN, _MOST_OF_ALL = table.SHARES["median"], table.SHARES["99 %"]


def spread(seeds: int) -> list[tuple[str, SimRow]]:
    """Both simulators with other choices of their own, at 128 hosts: what differs, and what came of it."""
    found: list[tuple[str, SimRow]] = []
    for load in _SPREAD_LOADS:
        (own,) = here_and_there(replace(load, own=True), seeds, beside=False)
        found.append(
            ("its defaults: three uplinks of four in use, no marks at the last hop, trimming there at 1.5 BDP", own)
        )
        for name in _ALGORITHMS:
            row = only_there(load, seeds, "-load_balancing_algo", name)
            found.append((f"`-load_balancing_algo {name}` in place of `mixed`", row))
    return found


def text(
    rows: Sequence[SimRow], others: Sequence[tuple[str, SimRow]], seeds: int, *, largest: str, picture: bool
) -> str:
    """The page; `largest` as the command had it, and with `picture` it shows htsim.png, which stands beside it."""
    both = table.pairs(rows)
    source = (Path(__file__).parent / "htsim.md.j2").read_text(encoding="utf-8")
    page: str = jinja2.Template(source, keep_trailing_newline=True).render(
        hosts=",".join(
            dict.fromkeys(str(row.load.hosts) for row in rows if str(row.load.hosts) not in largest.split(","))
        ),
        largest=largest,
        seeds=seeds,
        picture=picture,
        loads=len(both),
        near=sum(table.within(here, there) for here, there in both),
        completions=_completions(both),
        others=_others(others) if others else "",
        form=compiled.state().text,
        costs=_costs(both),
        dearer=_dearer(both),
    )
    return page


def _costs(both: Sequence[tuple[SimRow, SimRow]]) -> str:
    """Return the table of costs that hold on a busy machine, too: CPU time and memory, no wall-clock time."""
    head = ["hosts", "traffic", "packets", "CPU s here", "there", "times", "memory here", "there"]
    lines = []
    for here, there in both:
        cells = [f"{here.load.hosts:,}", f"{here.load.traffic}, {here.load.size:,} B", f"{here.cost.packets:,}"]
        cells += [_seconds(here), _seconds(there), f"{table.times_cpu(here, there):.2f}"]
        lines.append([*cells, show_bytes(here.cost.memory), show_bytes(there.cost.memory)])
    return markdown(head, lines)


def _seconds(row: SimRow) -> str:
    """Mean CPU seconds, with the least and the most where there are several."""
    mean = f"{row.cost.cpu:.2f}"
    return mean if len(row.cpus) < 2 else f"{mean} ({row.cpus[0]:.2f} to {row.cpus[-1]:.2f})"


def _dearer(both: Sequence[tuple[SimRow, SimRow]]) -> str:
    """Loads that take more CPU time here, the worst first."""
    found = sorted(((table.times_cpu(*two), two[0].load) for two in both), key=lambda each: -each[0])
    return ", ".join(f"{load.traffic} on {load.hosts:,} hosts {times:.1f} times" for times, load in found if times > 1)


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
