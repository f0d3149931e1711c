"""The page of what failures cost training jobs, from the rows of its runs."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mrclab.experiments.runs.store import Row
from mrclab.experiments.training import costs
from mrclab.experiments.training.costs import FLAPS_PER_DAY, GPUS, FaultCost
from mrclab.experiments.training.sizes import SIZES, JobSize
from mrclab.lab.report import results
from mrclab.lab.report.grid import markdown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TRANSPORTS = {
    "mrc": "MRC",
    "mrc-mapper": "MRC, Clustermapper",
    "mrc-mute": "MRC, port status off",
    "roce-1": "RoCEv2, 1 QP",
    "roce-16": "RoCEv2, 16 QPs",
}
FAULTS = {
    "flap": "a T0–T1 cable is down for 200 µs",
    "flapping": "a T0–T1 cable flaps: down for 50 µs of every 200 µs",
    "port": "a NIC–T0 cable is down for 200 µs",
    "t0": "a T0 dies",
    "t1": "a T1 dies",
    "lossy": "a T0–T1 cable loses 1\N{NO-BREAK SPACE}% of its packets",
}
PICTURE = "training.png"

LEAST_SEEDS = 5
"""Seeds of a figure that is told without saying of how many."""


_HEAD = """\
# What a failure costs a training job

Synchronous training waits for its slowest transfer. Here a job trains in [virtual time](../virtual-time.md) while
something fails, and the cost is the time by which its steps took longer than those of the same job with the same seed
and no fault. Made by `make training` (`python -m mrclab.experiments.training`), which does the runs that are
missing and writes this page; all are done again where the sources of transport or simulator have changed since, which
then were {digest}. Made on {system}, {cores} cores, Python {python}.
A chapter whose runs are of other sources says so.

**The job.** Tensor parallelism in servers of eight, inside which no packet crosses the fabric; a pipeline; data
parallelism in what is left, whose gradients are reduced by halving and doubling while backward goes on. NICs of 4 × 100
Gb/s with MRC; of 400 Gb/s in one plane with RoCEv2, which has one port and static ECMP. Both have the lab's default ACK
timeout, 13 to 26 round trips, shorter than RoCEv2 networks use. Cables take 600 ns, switches 500 ns. Computations vary
by 2 %, drawn from the seed.
The fault begins after 30 % of the job's bytes; switches that die stay dead, and the cable goes on losing packets.

**What the intervals say.** Figures are means over the seeds, each beside its own run without the fault, with the 95 %
interval of Student's t. A cost below its interval is not told from none. *Ends* means that a QP gave up, and the job
with it.
"""

_RATES = """\
## A day

The paper counts 4.2 flaps of T0–T1 links a minute (Figure 5), {flaps:,} a day. If every flap stops all of {gpus:,} GPUs
for as long as it stopped the largest job above in which most transports were measured, a day of them costs:

"""

_LIMITS = """\
## What this does not say

* Jobs are short (one to four steps of 200 to 400 µs), since every packet is simulated: a cost *per event* is
  measured, not a day. What a dead switch costs is told for the rest of such a job, and grows with it where bandwidth is
  gone.
* A flap lasts 200 µs here, in data centres seconds. A T0–T1 cable that is down costs MRC what it takes to notice; a
  NIC's cable costs a share of that NIC's bandwidth for as long as it is down.
* RoCEv2's ECMP is static, as in the rest of this lab: no routing protocol takes a dead path out. Where it says *ends*,
  a network that reroutes within the QP's retries would only stall.
* RoCEv2 notices the loss of a message's last packets by its ACK timeout alone. The short one here is to its advantage:
  with the usual 4 ms and more, each such loss costs that long.
* Rates are the paper's for its own cluster, not scaled to another size; other kinds of events have no published rate,
  and are told per event alone.
"""


def write(
    path: Path, rows: Mapping[int, Sequence[Row]], digest: str, of_sizes: Mapping[int, str] | None = None
) -> None:
    """Write the page and its picture beside it.

    `digest` names the sources; `of_sizes` those of the sizes whose rows are of others, which their chapters then say.
    """
    of_sizes = of_sizes or {}
    found = results.versions(), results.machine()
    head = _HEAD.format(
        digest=f"`{digest}`", system=found[1]["system"], cores=found[1]["cores"], python=found[0]["python"]
    )
    sizes = [size for size in SIZES if rows.get(size.nics)]
    chapters = [_chapter(size, rows[size.nics], of_sizes.get(size.nics, digest), digest) for size in sizes]
    parts = [head, *chapters, _day(sizes, rows), _LIMITS, _missing(rows)]
    if draw(path.with_name(PICTURE), sizes, rows):
        parts.insert(1, f"![Milliseconds that each fault cost the job, with 95 % intervals]({PICTURE})\n")
    path.write_text("\n".join(part for part in parts if part), encoding="utf-8")


def _chapter(size: JobSize, rows: Sequence[Row], digest: str, current: str) -> str:
    """One table: faults by transports. `digest` names the sources of its rows, `current` those of the page."""
    shown = [name for name in TRANSPORTS if costs.step(rows, name) is not None]
    seeds = sorted({row["seed"] for row in rows})
    words = [f"## {size.nics:,} NICs", ""]
    words.append(
        f"{size.t0s} T0s of {size.hosts_per_t0} NICs and {size.t1s} T1s in each plane; pipeline of {size.pipeline},"
        f" data parallelism of {size.data}.\n{size.gradients >> 10} KiB of gradients for each rank and step;"
        f" {size.steps} step{'s' if size.steps > 1 else ''}. Seeds {seeds[0]} to {seeds[-1]}; ms."
    )
    spent = [row["cpu"] for row in rows if "cpu" in row]
    if spent:
        words.append(f"All {len(spent)} runs together took {sum(spent):,.0f} s of CPU time.")
    if digest != current:
        words.append(f"Its runs are of older sources, `{digest}`: compare them with each other alone.")
    usual = [costs.step(rows, name) for name in shown]
    lines = [["*a step without a fault*", *(f"{ms:.3f}" if ms else "–" for ms in usual)]]
    for fault, text in FAULTS.items():
        cells = [costs.cost(rows, name, fault) for name in shown]
        if any(cells):
            lines.append([text, *map(cost_text, cells)])
    words += ["", markdown(["", *(TRANSPORTS[name] for name in shown)], lines)]
    words += ["", "Each figure's run, here the first: `" + size.command(f"{shown[0]}-flap", seeds[0]) + "`.", ""]
    return "\n".join(words)


def cost_text(cost: FaultCost | None) -> str:
    """Return a cell of the table."""
    if cost is None:
        return "not run"
    if not cost.lost:
        return f"ends ({cost.ended} of {cost.ended})"
    half = cost.half
    said = f"{cost.mean:.3f}" + (f" ± {half:.3f}" if half is not None else " (one seed)")
    if half is not None and len(cost.lost) < LEAST_SEEDS:
        said += f" ({len(cost.lost)} seeds)"
    whole = cost.ended + len(cost.lost)
    return said + (f"; ends in {cost.ended} of {whole}" if cost.ended else "")


def _day(sizes: Sequence[JobSize], rows: Mapping[int, Sequence[Row]]) -> str:
    told_of = {size.nics: {name: costs.cost(rows[size.nics], name, "flap") for name in TRANSPORTS} for size in sizes}
    most = max(sum(cost is not None for cost in found.values()) for found in told_of.values())
    # one size for all, as a cost grows with the job
    size = [size for size in sizes if sum(cost is not None for cost in told_of[size.nics].values()) == most][-1]
    lines: list[list[str]] = []
    for name, text in TRANSPORTS.items():
        cost = told_of[size.nics][name]
        if cost is None:
            continue
        if not cost.lost:
            lines.append([text, f"{size.nics:,} NICs", "ends", "–", "–"])
            continue
        half = cost.half or 0.0
        day, spread = cost.gpu_hours * FLAPS_PER_DAY, half * 1e-3 * GPUS / 3600 * FLAPS_PER_DAY
        hours = [f"{cost.gpu_hours:.3f}", f"{day:,.0f} ± {spread:,.0f}"]
        lines.append([text, f"{size.nics:,} NICs", cost_text(cost), *hours])
    columns = ["", "job", "ms per flap", "GPU-hours per flap", "GPU-hours per day"]
    return _RATES.format(flaps=FLAPS_PER_DAY, gpus=GPUS) + markdown(columns, lines) + "\n"


def _missing(rows: Mapping[int, Sequence[Row]]) -> str:
    """Say what was not run."""
    words = []
    for size in SIZES:
        done = {row["variant"] for row in rows.get(size.nics, ())}
        absent = [
            f"{TRANSPORTS[transport]}"
            for transport in TRANSPORTS
            if not any(f"{transport}-{fault}" in done for fault in FAULTS)
        ]
        seeds = len({row["seed"] for row in rows.get(size.nics, ())})
        if not done:
            words.append(f"* {size.nics:,} NICs: nothing.")
        elif absent or seeds < 5:
            few = f"{seeds} seed{'s' if seeds > 1 else ''} of five" if seeds < LEAST_SEEDS else ""
            what = "; ".join([*absent, *([few] if few else [])])
            words.append(f"* {size.nics:,} NICs: {what}.")
    words.append("* 32,768 NICs: nothing; the QPs of such a job want some 16 GB.")
    return "\n".join(
        ["## What was not run", "", *words, "", "`make training ARGS='--sizes 8192 --seeds 1..5'` does more.", ""]
    )


def draw(path: Path, sizes: Sequence[JobSize], rows: Mapping[int, Sequence[Row]]) -> bool:
    """Draw the costs, one panel for each size that has any; False where there is nothing to draw."""
    from matplotlib.patches import Patch  # noqa: PLC0415 - Matplotlib takes a second to load

    from mrclab.lab.report.plots import style  # noqa: PLC0415

    drawn = {size: costs_of(rows[size.nics]) for size in sizes}
    drawn = {size: found for size, found in drawn.items() if found}
    if not drawn:
        return False
    known = {key for found in drawn.values() for key in found}
    faults = [fault for fault in FAULTS if any(key[0] == fault for key in known)]
    names = [name for name in TRANSPORTS if any(key[1] == name for key in known)]
    colours = dict(zip(names, style.LINE_COLOURS, strict=False))
    figure, panels = style.panels([2.6] * len(drawn), gap=0.95)
    for axes, (size, found) in zip(panels, drawn.items(), strict=True):
        seeds = len({row["seed"] for row in rows[size.nics]})
        many = [f"{count} {what}{'s' if count > 1 else ''}" for count, what in ((size.steps, "step"), (seeds, "seed"))]
        axes.set_title(f"{size.nics:,} NICs, {', '.join(many)}")
        _bars(axes, found, faults, colours)
    figure.legend(
        [Patch(color=colour) for colour in colours.values()], [TRANSPORTS[name] for name in colours], loc="upper left",
        frameon=False, fontsize=8.5, borderaxespad=0,
        bbox_to_anchor=(panels[0].get_position().x1 + 0.01, panels[0].get_position().y1),
    )  # fmt: skip
    return style.save(figure, path)


def costs_of(rows: Sequence[Row]) -> dict[tuple[str, str], FaultCost]:
    """Return what each fault cost each transport, of those that were run."""
    found = {(fault, name): costs.cost(rows, name, fault) for fault in FAULTS for name in TRANSPORTS}
    return {key: cost for key, cost in found.items() if cost is not None}


def _bars(
    axes: Axes, found: Mapping[tuple[str, str], FaultCost], faults: Sequence[str], colours: Mapping[str, str]
) -> None:
    """Draw groups of bars: faults along the axis, a bar with its interval for each transport, from zero."""
    width = 0.8 / len(colours)
    for number, (name, colour) in enumerate(colours.items()):
        offset = (number - (len(colours) - 1) / 2) * width
        ran = {place + offset: found[fault, name] for place, fault in enumerate(faults) if (fault, name) in found}
        well = {x: cost for x, cost in ran.items() if cost.lost}
        means, halves = [cost.mean for cost in well.values()], [cost.half or 0.0 for cost in well.values()]
        bars: dict[str, Any] = {
            "color": colour,
            "ecolor": "#222222",
            "error_kw": {"elinewidth": 0.9, "capsize": 2, "capthick": 0.9},
        }
        axes.bar(list(well), means, width * 0.88, yerr=halves, **bars)
        for x in ran.keys() - well.keys():
            axes.annotate(
                "job ends", (x, 0), (0, 2), textcoords="offset points", rotation=90, ha="center", fontsize=7.5,
                color=colour,
            )  # fmt: skip
    for place, fault in enumerate(faults):
        if not any(key[0] == fault for key in found):
            axes.annotate(
                "not run", (place, 0), (0, 4), textcoords="offset points", ha="center", fontsize=8, color="#777777"
            )
    axes.axhline(0, color="#777777", linewidth=0.8)
    axes.set_ylabel("ms lost (mean, 95 % interval)")
    axes.set_xlim(-0.5, len(faults) - 0.5)
    axes.set_xticks(range(len(faults)), [_label(FAULTS[fault]) for fault in faults], fontsize=8)
    axes.tick_params(axis="x", length=0)


def _label(text: str) -> str:
    """Break a fault's text into two lines or three."""
    return "\n".join(textwrap.wrap(text, 22))
