"""The command `mrclab figure`: a campaign's figures against one swept field, with intervals over seeds.

Swept values such as `600ns` or `2 MiB` are numbers on the axis, in one unit, which its title names. Percentiles of
flows are pooled over seeds; their interval is Student's t of the seeds' own percentiles (95 %).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mrclab.experiments.campaign import journal
from mrclab.experiments.campaign.journal import field_of, text_of
from mrclab.experiments.campaign.quantities import Axis, order
from mrclab.experiments.runs.store import Row, grouped
from mrclab.lab import console
from mrclab.lab.command.display import answer
from mrclab.lab.command.options import AsJson
from mrclab.lab.errors import LabError, naming
from mrclab.lab.measure.intervals import summary, with_range
from mrclab.lab.measure.series import quantile
from mrclab.lab.report import grid
from mrclab.lab.report.summary import VALID
from mrclab.lab.scenario.units import show_number
from mrclab.topo.input.sentences import nearest

if TYPE_CHECKING:
    from matplotlib.figure import Figure

app = typer.Typer()
out = console.console()

_MICRO = 1e6
_PICTURES = (".png", ".svg", ".pdf")
_LOG_FROM = 8  # times from the least to the greatest number of an axis
_TICKS = 8  # that fit beside each other below a plot


@dataclass(frozen=True)
class PlottedPoint:
    """One point: the value of the field that has a line each, that of the field that has a column each, x, the number
    of samples, and the figure (None where it is that of flows that failed) with its 95 % interval (None of fewer than
    two seeds, and where a seed has no figure).
    """

    by: str
    column: str
    x: float | str | None  # in the unit of the axis; None: a run without the field
    count: int
    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Measure:
    """A figure of a group of runs: a percentile of flows in µs, or the mean of an expectation's figures."""

    label: str
    samples: Callable[[Row], list[float]]
    figure_of: Callable[[Sequence[float]], float]

    def pooled(self, group: Sequence[Row]) -> tuple[int, float | None]:
        """Return the number of samples of a group, and its figure; None without a finite one."""
        found = [value for row in group for value in self.samples(row)]
        value = self.figure_of(found) if found else math.inf
        return len(found), value if math.isfinite(value) else None


@dataclass(frozen=True)
class Plotted:
    """Measures of a campaign against a swept field, with the titles of axes and columns."""

    curves: Sequence[tuple[Measure, Sequence[PlottedPoint]]]
    unit: str  # of the x axis; empty where it has none
    title: str  # of the x axis
    by: str
    columns: str  # title in the table; empty where there is one column of plots
    columns_label: str  # title above the plots, before the value


@app.command()
def figure(
    directory: Annotated[Path, typer.Argument(metavar="CAMPAIGN", help="the directory of a campaign")],
    x: Annotated[str, typer.Option(help="the field on the x axis, e.g. fabric.t1s")],
    y: Annotated[
        list[str], typer.Option(help="pN: percentile N of flows; slowdown.pN; or an expectation's name; several times")
    ],
    by: Annotated[str, typer.Option(help="a line for each value of this field")] = "variant",
    columns: Annotated[str, typer.Option(help="a column of plots for each value of this field")] = "",
    scale: Annotated[float, typer.Option(min=1e-12, max=1e12, help="what x is multiplied by, e.g. planes")] = 1.0,
    x_label: Annotated[str, typer.Option(help="title of the x axis; default: the field")] = "",
    columns_label: Annotated[str, typer.Option(help="title of the columns; default: the field's last part")] = "",
    to: Annotated[Path, typer.Option("--output", "--out", help="a picture (.png, .svg or .pdf)")] = Path("figure.png"),
    table: Annotated[Path | None, typer.Option(help="also write the numbers as a Markdown table")] = None,
    as_json: AsJson = False,
) -> None:
    """Draw figures of a campaign against a swept field, with 95 % intervals over seeds."""
    if to.suffix not in _PICTURES:
        raise LabError(f"--output {to}: name a picture that ends in {', '.join(_PICTURES)}")
    found = plotted(directory, x, y, by, columns, scale, x_label, columns_label)
    with naming(to):
        draw(found).savefig(to, dpi=130, metadata=_UNDATED.get(to.suffix, {}))
    if table is not None:
        with naming(table):
            table.write_text(markdown(found), encoding="utf-8")
    if as_json:
        numbers = {one.label: [asdict(point) for point in points] for one, points in found.curves}
        written = str(table) if table else None
        answer.give("figure", 0, picture=str(to), table=written, x_unit=found.unit, measures=numbers)
        return
    console.plain(out, f"Figure: {to}" + (f"\nTable: {table}" if table else ""))


def plotted(
    directory: Path,
    x: str,
    y: Sequence[str],
    by: str = "variant",
    columns: str = "",
    scale: float = 1.0,
    x_label: str = "",
    columns_label: str = "",
) -> Plotted:
    """Return the points of a campaign's measures; LabError for a field or measure that it does not have."""
    rows = [row for row in journal.Journal(directory, option="").latest() if row["state"] in VALID]
    if not rows:
        raise LabError(f"{directory} holds no finished run; run the campaign first")
    for name in (x, by, *filter(None, [columns])):
        _known(rows, name)
    measures = [measure(rows, name) for name in y]
    curves = [(one, points_of(rows, one, x, by, columns, scale)) for one in measures]
    unit = _axis(rows, x, scale).unit
    title = f"{x_label or x}, {unit}" if unit else x_label or x
    label = columns_label if columns else ""
    return Plotted(curves, unit, title, by, label or columns, label or columns.rpartition(".")[2])


def _known(rows: Sequence[Row], name: str) -> None:
    fields = list(dict.fromkeys(["variant", *(field for row in rows for field in row["values"])]))
    if name not in fields:
        raise LabError(f"{name!r} is not a swept field of this campaign; {nearest(name, fields)}")


def _axis(rows: Sequence[Row], name: str, scale: float = 1.0) -> Axis:
    return Axis.of((field_of(row, name) for row in rows), scale)


def _ranks(rows: Sequence[Row], name: str) -> dict[str, int]:
    """Return the place in order of each value of a field, as text: of quantities by size, of words as they came."""
    values = [field_of(row, name) for row in rows] if name else [""]
    axis = Axis.of(values)
    if not any(isinstance(place, str) for place in axis.places.values()):
        values.sort(key=lambda value: order(axis.at(value)))
    return {text: rank for rank, text in enumerate(dict.fromkeys(map(str, values)))}


def measure(rows: Sequence[Row], name: str) -> Measure:
    """Return the measure that `--y NAME` names; LabError where the campaign has none such."""
    names = list(dict.fromkeys(verdict for row in rows for verdict in row["verdicts"]))
    called = [one for one in names if one.endswith(f" ({name})")]  # as in the scenario, without the kind
    kind, _, rest = name.rpartition("p")
    if kind in {"", "slowdown."} and rest.replace(".", "", 1).isdecimal() and float(rest) <= 100:
        if any(row.get("flows") for row in rows):
            return _percentile(float(rest) / 100, bool(kind))
        if not called:
            raise LabError(
                f"{name}: this campaign keeps no flows; run it with --flows, or with flows: true in its file"
            )
    if name not in names and len(called) == 1:
        name = called[0]
    if name not in names:
        raise LabError(f"--y {name}: write p99, or the name of an expectation; {nearest(name, called or names)}")

    def values(row: Row) -> list[float]:
        value = row["verdicts"].get(name, {}).get("value")
        return [] if value is None else [float(value)]

    unit = next((row["verdicts"][name]["unit"] for row in rows if name in row["verdicts"]), "")
    return Measure(f"{name}, {unit}" if unit else name, values, fmean)


def _percentile(share: float, as_slowdown: bool) -> Measure:
    """Return the measure of a percentile; a flow that failed is slower than any."""

    def slowdowns(row: Row) -> list[float]:
        return [flow[4] if flow[3] is not None else math.inf for flow in row.get("flows", ())]

    def times(row: Row) -> list[float]:
        return [(flow[3] - flow[2]) * _MICRO if flow[3] is not None else math.inf for flow in row.get("flows", ())]

    label = f"slowdown p{100 * share:g}" if as_slowdown else f"completion p{100 * share:g}, µs"
    return Measure(label, slowdowns if as_slowdown else times, lambda found: quantile(found, share))


def points_of(
    rows: Sequence[Row], chosen: Measure, x: str, by: str, columns: str, scale: float = 1.0
) -> list[PlottedPoint]:
    """Return a point for each group of runs that differ in their seed and nothing that is shown, in order of x."""
    axis, lines, column_ranks = _axis(rows, x, scale), _ranks(rows, by), _ranks(rows, columns)
    groups = grouped(rows, lambda row: (text_of(row, by), text_of(row, columns), axis.at(field_of(row, x))))
    found = []
    for line, column, place in sorted(groups, key=lambda key: (lines[key[0]], column_ranks[key[1]], order(key[2]))):
        group = groups[line, column, place]
        count, value = chosen.pooled(group)
        each = [chosen.pooled([row])[1] for row in group if chosen.samples(row)]
        finite = [one for one in each if one is not None]
        known = summary(finite) if finite == each and finite else None  # the interval of some seeds would be too narrow
        if each:
            ends = (known.low, known.high) if known else (None, None)
            found.append(PlottedPoint(line, column, place, count, value, *ends))
    return found


def _ordered(found: Plotted, part: str) -> list[str]:
    return list(dict.fromkeys(str(getattr(one, part)) for _, points in found.curves for one in points))


def markdown(found: Plotted) -> str:
    """The numbers as a table: a row for each place, the interval behind each figure."""
    column_heads = [found.columns] if found.columns else []
    head = [found.by, *column_heads, found.title, "samples", *(one.label for one, _ in found.curves)]
    cells: dict[tuple[str, str, str], list[str]] = {}
    for at, (_, points) in enumerate(found.curves):
        for one in points:
            key = one.by, one.column, "–" if one.x is None else _x_text(one.x)
            line = cells.setdefault(key, [f"{one.count:,}", *["–"] * len(found.curves)])
            line[1 + at] = _shown(one)
    lines = [[key[0], *([key[1]] if column_heads else []), key[2], *line] for key, line in cells.items()]
    return grid.markdown(head, lines) + "\n"


def _x_text(x: float | str) -> str:
    return x if isinstance(x, str) else f"{x:.10g}"


def _shown(one: PlottedPoint) -> str:
    ends = None if one.low is None or one.high is None else (one.low, one.high)
    return "–" if one.value is None else with_range(one.value, ends, show_number)


def draw(found: Plotted) -> "Figure":
    """Return a figure: a row for each measure, a column for each value of a field, a line for each of another."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - it takes a second to load
    from matplotlib.ticker import LogLocator  # noqa: PLC0415

    names, lines = _ordered(found, "column") or [""], _ordered(found, "by")
    rows = len(found.curves)
    figure = Figure(figsize=(2.2 + 2.6 * len(names), 0.8 + 2.2 * rows), layout="constrained")
    axes = figure.subplots(rows, len(names), sharex=True, sharey="row", squeeze=False)
    for row, (chosen, points) in enumerate(found.curves):
        some = [one for one in points if one.value is not None]
        for column, name in enumerate(names):
            axis = axes[row][column]
            for place, line in enumerate(lines):
                _line(axis, [one for one in some if one.column == name and one.by == line], f"C{place}", line, some)
            axis.grid(alpha=0.3)
            if _needs_log(some):
                axis.set_yscale("log")
                axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=12))
                axis.yaxis.set_major_formatter("{x:g}")  # 50 in place of 5 × 10¹
                axis.yaxis.set_minor_formatter("")
            if not row and found.columns:
                axis.set_title(f"{found.columns_label} {name}", fontsize=9)
            if not column:
                axis.set_ylabel(chosen.label, fontsize=9)
            if row == rows - 1:
                axis.set_xlabel(found.title, fontsize=9)
    handles, labels = axes[0][0].get_legend_handles_labels()
    if any(labels):
        figure.legend(handles, labels, loc="outside lower center", ncols=min(6, len(labels)), fontsize=9)
    return figure


_UNDATED: Mapping[str, dict[str, Any]] = {  # metadata with which equal pictures are equal files
    ".svg": {"Date": None},
    ".pdf": {"CreationDate": None},
}


def _needs_log(points: Sequence[PlottedPoint]) -> bool:
    """Return True if the values are positive and range over more than a factor of five."""
    values = [one.value for one in points if one.value is not None]
    return bool(values) and min(values) > 0 and max(values) > 5 * min(values)


def _line(axis: Any, mine: list[PlottedPoint], colour: str, label: str, every: Sequence[PlottedPoint]) -> None:
    """A line with error bars; a horizontal line for runs without a value of x."""
    across = [one for one in mine if one.x is None]
    if across:
        one = across[0]
        axis.axhline(one.value, color=colour, label=label, linestyle="--", linewidth=1.2)
        if one.low is not None:
            axis.axhspan(one.low, one.high, color=colour, alpha=0.12, linewidth=0)
        return
    if not mine:
        axis.plot([], [], color=colour, label=label)
        return
    values = [one.value or 0.0 for one in mine]
    both = list(zip(values, mine, strict=True))
    below = [max(0.0, value - one.low) if one.low is not None else 0.0 for value, one in both]
    above = [max(0.0, one.high - value) if one.high is not None else 0.0 for value, one in both]
    places = _places(axis, [one.x for one in every if one.x is not None])
    at = [places[one.x] for one in mine if one.x is not None]
    axis.errorbar(at, values, [below, above], color=colour, label=label, marker="o", ms=3, capsize=2)


def _places(axis: Any, given: Sequence[float | str]) -> dict[float | str, float]:
    """Set the scale and the ticks of the x axis; return the position of each place: of words their number in order."""
    found = sorted(set(given), key=order)
    if any(isinstance(place, str) for place in found):
        axis.set_xticks(range(len(found)), found)
        return {place: float(at) for at, place in enumerate(found)}
    numbers = [float(place) for place in found]
    ticks = [_x_text(number) for number in numbers]
    if numbers[0] > 0 and numbers[-1] >= _LOG_FROM * numbers[0]:
        axis.set_xscale("log", base=2)
        axis.set_xticks(numbers, ticks)
        axis.minorticks_off()
    elif all(after - before >= (numbers[-1] - numbers[0]) / _TICKS for before, after in pairwise(numbers)):
        axis.set_xticks(numbers, ticks)
    return dict(zip(found, numbers, strict=True))
