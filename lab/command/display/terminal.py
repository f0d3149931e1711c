"""The report as a person sees it in a terminal."""

from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mrclab.lab.expectations.base import MEASURED
from mrclab.lab.measure.fabric.paths import path_name
from mrclab.lab.report.grid import grid
from mrclab.lab.report.results import page_of
from mrclab.lab.scenario.units import show_seconds

if TYPE_CHECKING:
    from mrclab.lab.report.summary import Facts

_MAX_CHANGES = 24
_MAX_FLOWS = 16
_OUTCOMES = {
    "passed": ("bold green", "PASS"),
    "failed": ("bold red", "FAIL"),
    "aborted": ("bold red", "ABORTED"),
    "invalid": ("bold yellow", "INVALID"),  # the machine could not keep up: neither passed nor failed
}


def tables(facts: "Facts") -> list[Table]:
    """Return the tables of a report."""
    made = (
        part(facts) for part in (_phases, _flows, _completions, _faults, _paths, _changes, _stalls, _drops, _verdicts)
    )
    return [table for table in made if table.row_count]


def show(facts: "Facts", console: Console) -> None:
    """Print tables and verdict."""
    console.print()
    console.rule(escape(facts.title), align="left")
    for table in tables(facts):
        console.print(table)
    for reason in facts.invalid:
        console.print(f"[yellow]INVALID[/]  {escape(reason)}", soft_wrap=True)
    style, word = _OUTCOMES[facts.state]
    console.print(f"[{style}]{word}[/]  {escape(facts.headline)}", soft_wrap=True)
    if digest := facts.run.get("history_sha256"):
        console.print(f"History: sha256 {digest}; the same scenario and seed give it again", soft_wrap=True)


def show_place(directory: Path, console: Console) -> None:
    """Print the path of the report."""
    console.print(f"Report: {escape(str(page_of(directory)))}", soft_wrap=True)


def _phases(facts: "Facts") -> Table:
    planes = list(facts.phases[0]["planes"]) if facts.phases else []
    units = facts.units
    columns = ["between", units.time, units.rate, "of line", *(f"plane {plane}" for plane in planes)]
    table = grid(*columns, title="Goodput at the receiver", left=1)
    for row in facts.phases:
        rates = [units.flow(rate) for rate in row["planes"].values()]
        span = f"{units.clock(row['begin'])}–{units.clock(row['end'])}"
        share = "–" if row["of_line"] is None else f"{row['of_line'] * 100:.1f}%"
        table.add_row(row["phase"], span, units.flow(row["goodput"]), share, *rates)
    return table


def _flows(facts: "Facts") -> Table:
    table = grid("flow", "QPs", facts.units.rate, "of line", "packets", "lost", title="Flows", left=1)
    for row in facts.flows[:_MAX_FLOWS]:
        rate = facts.units.flow(row["goodput"])
        share = f"{row['of_line'] * 100:.1f}%"
        table.add_row(row["flow"], str(row["qps"]), rate, share, str(row["sent"]), str(row["lost"]))
    if len(facts.flows) > _MAX_FLOWS:
        table.caption = f"{len(facts.flows) - _MAX_FLOWS} more in the report"
    return table


def _completions(facts: "Facts") -> Table:
    table = grid("of", "count", "p50", "p99", "max", title="Completion times", left=1)
    for row in facts.completions:
        times = [show_seconds(row[name]) for name in ("p50", "p99", "max")]
        table.add_row(row["what"], str(row["count"]), *times)
    return table


def _faults(facts: "Facts") -> Table:
    table = grid("fault", "cable", "began", "cleared", "packets lost", "last loss after", title="Faults", left=2)
    for row in facts.faults:
        if row["begin"] is None:
            table.add_row(row["fault"], row["link"], "never", "", "", "")
            continue
        began, cleared = (
            "–" if row[end] is None else f"{facts.units.clock(row[end])} {facts.units.time}" for end in ("begin", "end")
        )
        rtts = "–" if row["last_loss_rtts"] is None else f"{row['last_loss_rtts']:.1f} RTT"
        table.add_row(row["fault"], row["link"], began, cleared, str(row["lost"]), rtts)
    return table


def _paths(facts: "Facts") -> Table:
    table = grid("path", "packets", "share", "lost", title="Data packets by path", left=1)
    for row in facts.paths:
        path = path_name(row["plane"], row["uplink"])
        table.add_row(path, str(row["packets"]), f"{row['share'] * 100:.1f}%", str(row["lost"]))
    return table


def _changes(facts: "Facts") -> Table:
    table = grid("at", "QP", "EV", "path", "from", "to", "because of", title="EV transitions", left=7)
    for row in facts.ev_changes[:_MAX_CHANGES]:
        path = path_name(row["plane"], row["uplink"])
        cells = (row["old"], row["new"], row["reason"])
        at = f"{facts.units.clock(row['t'], 3)} {facts.units.time}"
        table.add_row(at, f"{row['host']}/{row['qp']}", row["ev"], path, *cells)
    if len(facts.ev_changes) > _MAX_CHANGES:
        table.caption = f"{len(facts.ev_changes) - _MAX_CHANGES} more in the report"
    return table


def _stalls(facts: "Facts") -> Table:
    table = grid("since", "QP", "because of", "for", title="QPs without progress", left=3)
    for row in facts.stalls[:_MAX_CHANGES]:
        since = f"{facts.units.clock(row['t'], 3)} {facts.units.time}"
        lasted = "the rest" if row["seconds"] is None else show_seconds(row["seconds"])
        table.add_row(since, f"{row['host']}/{row['qp']}", row["reason"], lasted)
    return table


def _drops(facts: "Facts") -> Table:
    table = grid("reason", "packets", title="Packets dropped by switches", left=1)
    for row in facts.drops:
        table.add_row(row["reason"], str(row["packets"]))
    return table


def _verdicts(facts: "Facts") -> Table:
    table = grid("", "expected", "observed", "when", title="Expectations", left=4)
    for row in facts.verdicts:
        measured = row["ok"] and row["expected"].endswith(MEASURED)
        mark = "measured" if measured else "[green]passed[/]" if row["ok"] else "[red]failed[/]"
        table.add_row(mark, *(escape(row[name]) for name in ("expected", "observed", "when")))
    return table
