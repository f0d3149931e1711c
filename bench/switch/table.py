"""The results as text."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console
from rich.table import Table

from mrclab.bench.switch.measure import INSERTS, Speed, SwitchResult
from mrclab.lab.report.grid import grid

NO_VALUE = "–"


def show(results: list[SwitchResult], console: Console) -> None:
    """Print one table of rates and one of processes."""
    measured = [result for result in results if result.skipped is None]
    if measured:
        console.print(_speeds(measured))
    started = [result for result in measured if result.start_seconds is not None]
    if started:
        console.print(_processes(started))
    for result in results:
        if result.skipped is not None:
            console.print(f"{result.title}: not measured: {result.skipped}", markup=False)


def _speeds(results: list[SwitchResult]) -> Table:
    headings = ("frame", "loss-free", "saturated", "CPU/packet", "program's", "latency, median", "99 %")
    table = grid("", *headings, title="one direction, one CPU for the switch", left=1)
    for result in results:
        for number, (size, speed) in enumerate(result.speeds.items()):
            table.add_row(result.title if not number else "", f"{size} B", *_speed(speed))
        table.add_section()
    return table


def _speed(speed: Speed) -> list[str]:
    more = "≥ " if speed.generator_limit else ""
    return [
        f"{more}{speed.loss_free / 1e3:.1f} k/s",
        f"{speed.saturated / 1e3:.1f} k/s",
        f"{speed.cpu_per_packet * 1e6:.1f} µs",
        NO_VALUE if speed.program is None else f"{speed.program * 1e6:.1f} µs",
        f"{speed.latency_median * 1e6:.0f} µs",
        f"{speed.latency_p99 * 1e6:.0f} µs",
    ]


def _processes(results: list[SwitchResult]) -> Table:
    table = grid("", *(result.title for result in results), title="the process", left=1)
    rows: list[tuple[str, Callable[[SwitchResult], str]]] = [
        ("start to first RPC answered", lambda r: _milliseconds(r.start_seconds)),
        ("program and first entries", lambda r: _milliseconds(r.load_seconds)),
        (f"{INSERTS} inserts, one RPC", lambda r: _milliseconds(r.inserts_seconds)),
        (f"{INSERTS} inserts, one RPC each", lambda r: _milliseconds(r.inserts_single_seconds)),
        ("one insert, median", lambda r: _microseconds(r.insert_seconds)),
        ("an empty RPC of grpc in Python", lambda r: _microseconds(r.rpc_floor_seconds)),
        ("resident", lambda r: _megabytes(r.resident_bytes)),
        ("of it private", lambda r: _megabytes(r.private_bytes)),
        ("many switches ready", lambda r: f"{r.fleet}: {r.fleet_seconds:.2f} s" if r.fleet_seconds else NO_VALUE),
    ]
    for title, cell in rows:
        table.add_row(title, *(cell(result) for result in results))
    return table


def _milliseconds(seconds: float | None) -> str:
    return NO_VALUE if seconds is None else f"{seconds * 1e3:.0f} ms"


def _microseconds(seconds: float | None) -> str:
    return NO_VALUE if seconds is None else f"{seconds * 1e6:.0f} µs"


def _megabytes(size: int | None) -> str:
    return NO_VALUE if size is None else f"{size / 1e6:.1f} MB"
