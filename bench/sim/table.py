"""Results of both simulators: a table for a terminal, a picture, docs/results/htsim.md; sections of other pages."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from rich.table import Table

from mrclab import compiled
from mrclab.bench.sim.children import SimCost
from mrclab.bench.sim.common import SimLoad
from mrclab.lab.measure.intervals import summary, with_half, with_range
from mrclab.lab.report import template
from mrclab.lab.report.grid import grid, markdown
from mrclab.lab.scenario.units import show_bytes

SHARES = {"least": 0.0, "median": 0.5, "99 %": 0.99, "most": 1.0}
COLUMNS = (
    "hosts", "traffic", "simulator", "packets", "retransmitted", "wall s", "CPU s", "packets/s", "CPU µs/packet",
    "memory", *(f"{name} µs" for name in SHARES),
)  # fmt: skip
_MIN_CPU = 0.01  # seconds: resolution of process clocks
_LIMIT = 0.1  # relative difference up to which completion times are near each other
_COLUMNS = 120
_MEDIAN, _TAIL = SHARES["median"], SHARES["99 %"]


@dataclass(frozen=True)
class SimRow:
    """One load in one simulator: completion times of all seeds, mean costs; `cpus`: CPU seconds of each seed."""

    load: SimLoad
    cost: SimCost
    cpus: tuple[float, ...] = ()

    @classmethod
    def of(cls, load: SimLoad, costs: Sequence[SimCost]) -> SimRow:
        """Make a row of several runs."""
        wall, cpu = (fmean(getattr(cost, what) for cost in costs) for what in ("wall", "cpu"))
        packets = round(fmean(cost.packets for cost in costs))
        retransmitted = round(fmean(cost.retransmitted for cost in costs))
        together = sorted(at for cost in costs for at in cost.completions)
        memory = max(cost.memory for cost in costs)
        cpus = tuple(cost.cpu for cost in costs)
        return cls(load, SimCost(wall, cpu, memory).of(costs[0].simulator, packets, retransmitted, together), cpus)

    def times(self) -> list[float]:
        """Completion times, µs: least, median, 99 %, most."""
        return [self.cost.completed(share) * 1e6 for share in SHARES.values()]

    def cells(self) -> list[str]:
        """Return the cells as text."""
        load, cost = self.load, self.cost
        return [
            f"{load.hosts:,}", f"{load.traffic}, {load.size:,} B", cost.simulator, f"{cost.packets:,}",
            f"{cost.retransmitted:,}", f"{cost.wall:.1f}", f"{cost.cpu:.1f}", f"{cost.packets / cost.wall:,.0f}",
            f"{cost.cpu / cost.packets * 1e6:.1f}",
            show_bytes(cost.memory), *(f"{at:.1f}" for at in self.times()),
        ]  # fmt: skip


def terminal(rows: Sequence[SimRow]) -> Table:
    """Return the table of all rows for a terminal."""
    table = grid(*COLUMNS)
    for row in rows:
        table.add_row(*row.cells())
    return table


def pairs(rows: Sequence[SimRow]) -> list[tuple[SimRow, SimRow]]:
    """Return the pairs of rows of loads that both simulators ran."""
    found: dict[str, list[SimRow]] = {}
    for row in rows:
        found.setdefault(repr(row.load), []).append(row)
    return [(two[0], two[1]) for two in found.values() if len(two) == 2]


def cpu_ratios(here: SimRow, there: SimRow) -> list[float]:
    """Return the CPU time here as a multiple of uet-htsim's, for each seed."""
    return [one / max(other, _MIN_CPU) for one, other in zip(here.cpus, there.cpus, strict=True)]


def difference(here: SimRow, there: SimRow, share: float) -> float:
    """Return the relative difference of a completion time from uet-htsim's."""
    return here.cost.completed(share) / there.cost.completed(share) - 1


def within(here: SimRow, there: SimRow) -> bool:
    """Return True if median and 99 % differ by no more than the limit."""
    return all(abs(difference(here, there, SHARES[name])) <= _LIMIT for name in ("median", "99 %"))


def picture(rows: Sequence[SimRow], path: Path) -> None:
    """Draw CPU time per packet and memory against the number of hosts, for each traffic with several."""
    import matplotlib as mpl  # noqa: PLC0415 - it takes a second to load

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    sizes = {(row.load.traffic, row.load.hosts) for row in rows}
    several = [traffic for traffic, number in Counter(traffic for traffic, _hosts in sizes).items() if number > 1]
    patterns = [name for name in dict.fromkeys(row.load.traffic for row in rows) if name in several or not several]
    size = (1 + 2.6 * len(patterns), 5.2)
    figure, grid_of = plt.subplots(2, len(patterns), figsize=size, layout="constrained", squeeze=False, sharey="row")
    for place, traffic in enumerate(patterns):
        above, below = grid_of[0][place], grid_of[1][place]
        above.set_title(traffic)
        for name in dict.fromkeys(row.cost.simulator for row in rows):
            mine = [row for row in rows if (row.cost.simulator, row.load.traffic) == (name, traffic)]
            hosts = [row.load.hosts for row in mine]
            each = [[cpu / row.cost.packets * 1e6 for cpu in row.cpus] for row in mine]
            above.plot(hosts, [fmean(found) for found in each], marker="o", label=name)
            above.fill_between(hosts, [min(found) for found in each], [max(found) for found in each], alpha=0.2)
            below.plot(hosts, [row.cost.memory / 2**20 for row in mine], marker="o", label=name)
        for axis in (above, below):
            axis.set(xscale="log", yscale="log")
            axis.set_xticks(sorted({row.load.hosts for row in rows if row.load.traffic in patterns}))
            axis.xaxis.set_major_formatter(lambda value, _place: f"{value:,.0f}")
            axis.yaxis.set_major_formatter(lambda value, _place: f"{value:,g}")
            axis.minorticks_off()
            axis.grid(alpha=0.3)
        below.set_xlabel("hosts")
    grid_of[0][0].set_ylabel("CPU per data packet, µs")
    grid_of[1][0].set_ylabel("memory, MiB")
    grid_of[0][0].legend()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def write_section(page: Path, name: str, text: str) -> None:
    """Replace the text between `<!-- NAME -->` and `<!-- end of NAME -->`; append it to a page that lacks them."""
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
    before, _, rest = (page.read_text(encoding="utf-8") if page.exists() else "").partition(begin)
    below = rest.partition(end)[2] if end in rest else rest
    page.write_text(f"{before}{begin}\n{text}\n{end}{below}", encoding="utf-8")


def figure_text(values: Sequence[float], digits: int) -> str:
    """Return the mean with its 95 % interval, or the one value."""
    found = summary(values)
    return with_half(f"{found.mean:.{digits}f}", None if found.half is None else f"{found.half:.{digits}f}")


def page_text(rows: Sequence[SimRow], words: str, *, whole: bool) -> str:
    """The page, which shows the picture beside it; `words` are those of the command.

    `whole`: every load was run with every seed.
    """
    both = pairs(rows)
    context = {
        "words": words,
        "whole": whole,
        "loads": len(both),
        "near": sum(within(here, there) for here, there in both),
        "completions": _completions(both),
        "form": compiled.state().text,
        "costs": _costs(both),
        "floor": f"{min(row.cost.memory for row in rows) / 2**20:,.0f}",  # of the process that began the loads
        "slower_here": textwrap.fill(_slower_here(both), _COLUMNS),
    }
    return template.fill(Path(__file__).with_name("htsim.md.j2"), context) + "\n"


def _costs(both: Sequence[tuple[SimRow, SimRow]]) -> str:
    """Return the table of costs that hold on a busy machine, too: CPU time and memory, no wall-clock time."""
    head = ["hosts", "traffic", "seeds", "packets", "CPU s here", "there", "times", "MiB here", "there"]
    lines = []
    for here, there in both:
        cells = [f"{here.load.hosts:,}", here.load.traffic, str(len(here.cpus)), f"{here.cost.packets:,}"]
        cells += [_spread(here.cpus), _spread(there.cpus), _spread(cpu_ratios(here, there))]
        lines.append([*cells, *(f"{row.cost.memory / 2**20:,.0f}" for row in (here, there))])
    return markdown(head, lines)


def _spread(values: Sequence[float]) -> str:
    """Return the mean, with minimum and maximum of several values."""
    return with_range(fmean(values), (min(values), max(values)) if len(values) > 1 else None, "{:.2f}".format)


def _slower_here(both: Sequence[tuple[SimRow, SimRow]]) -> str:
    """Return a sentence with the loads that need more CPU time here, the worst first, and with the others."""
    found = sorted(((fmean(cpu_ratios(*two)), two[0].load) for two in both), key=lambda each: -each[0])
    words = [f"{load.traffic} on {load.hosts:,} hosts {times:.2f} times" for times, load in found]
    slower_here = sum(times > 1 for times, _load in found)
    sentences = [f"**More CPU time here than there**: {', '.join(words[:slower_here])}."] if slower_here else []
    sentences += [f"**No more than there**: {', '.join(words[slower_here:])}."] if words[slower_here:] else []
    return " ".join(sentences)


def _micro(row: SimRow, share: float) -> str:
    return f"{row.cost.completed(share) * 1e6:.1f}"


def _completions(both: Sequence[tuple[SimRow, SimRow]]) -> str:
    head = ["hosts", "traffic", "median here", "there", "", "99 % here", "there", "", "most here", "there"]
    lines = []
    for here, there in both:
        cells = [f"{here.load.hosts:,}", here.load.traffic]
        for share in (_MEDIAN, _TAIL):
            cells += [_micro(here, share), _micro(there, share), f"{difference(here, there, share):+.1%}"]
        cells += [_micro(here, 1.0), _micro(there, 1.0)]
        lines.append([*cells, *(f"{row.cost.retransmitted / row.cost.packets:.1%}" for row in (here, there))])
    return markdown([*head, "retransmitted here", "there"], lines)
