"""The command `mrclab slowdown`: completion times and slowdowns of a run's flows by size."""

from pathlib import Path
from typing import Annotated

import typer

from mrclab.lab import console
from mrclab.lab.command.display import answer
from mrclab.lab.command.options import AsJson
from mrclab.lab.errors import LabError
from mrclab.lab.measure.traffic import slowdown as measured
from mrclab.lab.report import results
from mrclab.lab.report.grid import grid
from mrclab.lab.scenario.units import show_seconds

app = typer.Typer()
out = console.console()


@app.command()
def slowdown(
    directory: Annotated[Path, typer.Argument(metavar="RESULT", help="the directory of a run")],
    traffic: Annotated[str, typer.Option(help="only this workload")] = "",
    as_json: AsJson = False,
) -> None:
    """Show completion times and slowdowns of a run's flows by size: p50, p99 and p99.9.

    Slowdown is a flow's completion time over that of the same flow on an idle fabric.
    """
    run = results.load(directory)
    done = [flow for flow in run.measures.completions.flows if traffic in {"", flow.traffic}]
    if not done:
        raise LabError(f"{directory}: no flow{f' of {traffic}' if traffic else ''} ended")
    rows = measured.table(run.measures.fabric, done)
    if as_json:
        as_rows = [
            {"least": row.min_bytes, "most": row.max_bytes, "flows": row.count}
            | {"seconds": row.seconds, "slowdown": row.slowdowns}
            for row in rows
        ]
        answer.give("slowdown", 0, rows=as_rows)
        return
    headings = (f"{what}\n{name}" for what in ("time", "slowdown") for name in _NAMES)
    table = grid("size", "flows", *headings, left=1)
    table.padding = 0
    for row in rows:
        times, slow = map(show_seconds, row.seconds), (f"{value:.2f}" for value in row.slowdowns)
        table.add_row(_sizes(row), f"{row.count:,}", *times, *slow)
    out.print(table)


_NAMES = tuple(f"p{100 * share:g}" for share in measured.SHARES)


def _sizes(row: measured.SizeRow) -> str:
    least, most = _decimal(row.min_bytes), _decimal(row.max_bytes or 0)
    if row.max_bytes is None:
        return "all" if not row.min_bytes else f"{least} and more"
    return f"below {most}" if not row.min_bytes else f"{least} to {most}"


def _decimal(edge: int) -> str:
    """Show a row's edge, a power of ten: `10 kB`."""
    return f"{edge // 1_000_000} MB" if edge >= 1_000_000 else f"{edge // 1000} kB"
