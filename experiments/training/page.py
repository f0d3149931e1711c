"""Page and picture of the cost of failures to training jobs, from the rows of its runs."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mrclab.experiments.runs.store import grouped
from mrclab.experiments.training import figures
from mrclab.experiments.training.figures import FLAPS_PER_DAY, GPUS, FaultCost
from mrclab.experiments.training.sizes import FEW_EVS, SIZES, JobSize, TrainingRun
from mrclab.lab.measure.intervals import with_half
from mrclab.lab.report import template
from mrclab.lab.report.grid import markdown
from mrclab.lab.scenario.seeds import shown as shown_seeds
from mrclab.topo.input.sentences import quantity

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

_SAME_JITTER = "b14077e82c00"
"""Sources that drew the same compute times with every seed."""

_COMPARED = ("mrc", "roce-1", "roce-16")
"""Transports in the page's conclusion."""

MIN_SEEDS = 5
"""A figure of fewer seeds states their number."""


def write(path: Path, rows: Mapping[int, Sequence[TrainingRun]]) -> None:
    """Write the page of these rows, by NICs, and its picture into the same folder."""
    sizes = [size for size in SIZES if _measured(rows.get(size.nics, ()))]
    repeated = [size for size in sizes if any(cost.seeds > 1 for cost in costs_of(rows[size.nics]).values())]
    best = _best_known(sizes, rows) if sizes else None  # one size for all, as a cost grows with the job
    context = {
        "summary": _summary(repeated, rows),
        "picture": PICTURE if draw(path.with_name(PICTURE), repeated, rows) else "",
        "chapters": [_chapter(size, rows[size.nics]) for size in sizes],
        "few_evs": FEW_EVS,
        "day": _day(best, rows[best.nics]) if best else "",
        "day_same_jitter": _same_jitter(rows[best.nics]) if best else [],
        "flaps": FLAPS_PER_DAY,
        "gpus": GPUS,
        "runs": [(size.nics, grouped(rows.get(size.nics, ()), lambda run: run.sources)) for size in SIZES],
        "counts": _counts(rows),
    }
    text = template.fill(Path(__file__).with_name("training.md.j2"), context)
    path.write_text(text + "\n", encoding="utf-8")


def _summary(sizes: Sequence[JobSize], rows: Mapping[int, Sequence[TrainingRun]]) -> str:
    """The page's conclusion: cost of a flap and of a dead T0 for each job."""
    lines = []
    for size in sizes:
        for fault in ("flap", "t0"):
            found = [figures.cost(rows[size.nics], name, fault) for name in _COMPARED]
            if any(found):
                lines.append([FAULTS[fault], f"{size.nics:,} NICs", *map(cost_text, found)])
    return markdown(["", "job", *(TRANSPORTS[name] for name in _COMPARED)], lines) if lines else ""


def _measured(rows: Sequence[TrainingRun]) -> list[str]:
    """Return the transports with a run without a fault, which every cost is compared with."""
    return [name for name in TRANSPORTS if figures.step(rows, name) is not None]


def _chapter(size: JobSize, rows: Sequence[TrainingRun]) -> dict[str, Any]:
    """Return what the template needs of one size; the command is that of the first figure's run."""
    shown = _measured(rows)
    seeds = sorted({run.seed for run in rows})
    usual = [figures.step(rows, name) for name in shown]
    lines = [["*a step without a fault*", *(f"{ms:.3f}" if ms else "–" for ms in usual)]]
    for fault, text in FAULTS.items():
        cells = [figures.cost(rows, name, fault) for name in shown]
        if any(cells):
            lines.append([text, *map(cost_text, cells)])
    return {
        "size": size,
        "seeds": seeds,
        "shown": shown_seeds(seeds).replace("..", " to ").replace(",", ", "),
        "table": markdown(["", *(TRANSPORTS[name] for name in shown)], lines),
        "command": size.command(f"{shown[0]}-flap", seeds[0]),
        "sources": next(run.sources for run in rows if run.transport == shown[0]),
        "same_jitter": _same_jitter(rows),
    }


def _same_jitter(rows: Sequence[TrainingRun]) -> list[str]:
    """Return the transports whose runs drew the same compute times with every seed."""
    names = {run.transport for run in rows if run.sources == _SAME_JITTER}
    return [text for name, text in TRANSPORTS.items() if name in names]


def cost_text(cost: FaultCost | None) -> str:
    """Return a cell of the table: mean, interval and the number of jobs that did not do all their steps."""
    if cost is None:
        return "not run"
    if not cost.lost:
        return f"ends ({cost.aborted} of {cost.aborted})"
    half = cost.half
    text = with_half(f"{cost.mean:.3f}", f"{half:.3f}") if half is not None else f"{cost.mean:.3f} (one seed)"
    if half is not None and len(cost.lost) < MIN_SEEDS:
        text += f" ({len(cost.lost)} seeds)"
    return text + (f"; ends in {cost.aborted} of {cost.seeds}" if cost.aborted else "")


def _best_known(sizes: Sequence[JobSize], rows: Mapping[int, Sequence[TrainingRun]]) -> JobSize:
    """Return the size with the flap's cost for most transports, then most seeds, then most NICs."""

    def known(size: JobSize) -> tuple[int, int, int]:
        found = [figures.cost(rows[size.nics], name, "flap") for name in TRANSPORTS]
        seeds = [cost.seeds for cost in found if cost]
        return len(seeds), min(seeds, default=0), size.nics

    return max(sizes, key=known)


def _day(size: JobSize, rows: Sequence[TrainingRun]) -> str:
    """Return the table of costs of a day's flaps to a size."""
    lines: list[list[str]] = []
    for name, text in TRANSPORTS.items():
        cost = figures.cost(rows, name, "flap")
        if cost is None:
            continue
        if not cost.lost:
            lines.append([text, f"{size.nics:,} NICs", "ends", "–", "–"])
            continue
        per_ms = 1e-3 * GPUS / 3600 * FLAPS_PER_DAY
        half = None if cost.half is None else f"{cost.half * per_ms:,.0f}"
        hours = [f"{cost.gpu_hours:.3f}", with_half(f"{cost.mean * per_ms:,.0f}", half)]
        lines.append([text, f"{size.nics:,} NICs", cost_text(cost), *hours])
    columns = ["", "job", "ms per flap", "GPU-hours per flap", "GPU-hours per day"]
    return markdown(columns, lines)


def _counts(rows: Mapping[int, Sequence[TrainingRun]]) -> str:
    """Return the table of seeds that ran, by transport and fault."""
    cases = (figures.CALM, *FAULTS)
    lines = []
    for size in SIZES:
        ran = Counter(run.variant for run in rows.get(size.nics, ()))
        for transport in size.transports if size.nics in rows else ():
            counts = [ran[f"{transport}-{case}"] for case in cases]
            lines.append([f"{size.nics:,}", f"`{transport}`", *(str(count) if count else "–" for count in counts)])
    return markdown(["NICs", "", *(f"`{case}`" for case in cases)], lines)


def draw(path: Path, sizes: Sequence[JobSize], rows: Mapping[int, Sequence[TrainingRun]]) -> bool:
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
        seeds = len({run.seed for run in rows[size.nics]})
        many = [quantity(count, what) for count, what in ((size.steps, "step"), (seeds, "seed"))]
        if any(len(cost.lost) + cost.aborted < seeds for cost in found.values()):
            many[-1] = f"up to {many[-1]}"
        axes.set_title(f"{size.nics:,} NICs, {', '.join(many)}")
        _bars(axes, found, faults, colours)
    figure.legend(
        [Patch(color=colour) for colour in colours.values()], [TRANSPORTS[name] for name in colours], loc="upper left",
        frameon=False, fontsize=8.5, borderaxespad=0,
        bbox_to_anchor=(panels[0].get_position().x1 + 0.01, panels[0].get_position().y1),
    )  # fmt: skip
    return style.save(figure, path)


def costs_of(rows: Sequence[TrainingRun]) -> dict[tuple[str, str], FaultCost]:
    """Return the cost of each fault to each transport, of those that were run."""
    found = {(fault, name): figures.cost(rows, name, fault) for fault in FAULTS for name in TRANSPORTS}
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
        texts = {place + offset: "not run" for place, fault in enumerate(faults) if (fault, name) not in found}
        texts |= dict.fromkeys(ran.keys() - well.keys(), "job ends")
        texts |= {x: "one seed" for x, cost in well.items() if cost.half is None}
        for x, text in texts.items():
            top = max(0.0, well[x].mean) if x in well else 0.0
            axes.annotate(
                text, (x, top), (0, 2), textcoords="offset points", rotation=90, ha="center", fontsize=7.5, color=colour
            )
    axes.axhline(0, color="#777777", linewidth=0.8)
    axes.set_ylabel("ms lost (mean, 95 % interval)")
    axes.set_xlim(-0.5, len(faults) - 0.5)
    axes.set_xticks(range(len(faults)), ["\n".join(textwrap.wrap(FAULTS[fault], 22)) for fault in faults], fontsize=8)
    axes.tick_params(axis="x", length=0)
