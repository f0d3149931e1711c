"""Command line: `mrclab bench switch [--quick] [--json] [--target NAME]…`; needs root."""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict

import grpc
from rich.console import Console
from rich.table import Table

from mrclab.bench.switch import targets
from mrclab.bench.switch.generator import pin
from mrclab.bench.switch.measure import (
    INSERTS,
    QUICK,
    SwitchRates,
    SwitchResult,
    TrialPlan,
    measure_kernel,
    measure_process,
)
from mrclab.lab import machine
from mrclab.lab.command import ending
from mrclab.lab.errors import RunError
from mrclab.lab.report.grid import grid
from mrclab.lab.run.wire.wireworld import check_root
from mrclab.lab.scenario.units import show_bytes, show_seconds

KERNEL = "kernel"
NAMES = (*targets.TARGETS, KERNEL)
NO_VALUE = "–"


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Return the command line."""
    parser = argparse.ArgumentParser(prog="mrclab bench switch", description=__doc__)
    add = parser.add_argument
    add("--target", action="append", choices=NAMES, help="measure this one only (may be repeated)")
    add("--quick", action="store_true", help="take a few seconds: a check that everything works, with rough figures")
    add("--seconds", type=float, default=TrialPlan.trial_seconds, help="length of one trial (default %(default)s)")
    add("--size", type=int, action="append", metavar="BYTES", help="frame size, 128 to 4352")
    add("--switches", type=int, default=TrialPlan.switches, help="switches started together (default %(default)s)")
    add("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(argv)
    for size in options.size or ():
        if not 128 <= size <= 4352:
            parser.error(f"--size {size}: give 128 to 4352 bytes")
    if not 0 < options.seconds < math.inf:
        parser.error(f"--seconds {options.seconds:g}: give more than 0")
    if options.switches < 1:
        parser.error(f"--switches {options.switches}: give 1 or more")
    return options


def plan(args: argparse.Namespace) -> TrialPlan:
    """Return the length and the number of the trials."""
    if args.quick:
        return QUICK
    sizes = tuple(args.size) if args.size else TrialPlan.sizes
    return TrialPlan(trial_seconds=args.seconds, switches=args.switches, sizes=sizes)


def run(args: argparse.Namespace, console: Console) -> list[SwitchResult]:
    """Measure all requested targets, one after the other."""
    cpus = sorted(os.sched_getaffinity(0))
    switch_cpu = cpus[1] if len(cpus) > 1 else None
    if switch_cpu is None:
        console.print("one CPU only: switch and generator share it, so that all rates are lower")
    pin(cpus[0])
    chosen, results = plan(args), []
    with console.status("starting") as status:
        for key in args.target or NAMES:
            reason = targets.missing(key)
            if reason is not None:
                title = targets.TARGETS[key].title
                results.append(SwitchResult(key, title, skipped=reason))
            elif key == KERNEL:
                results.append(measure_kernel(chosen, status.update))
            else:
                results.append(measure_process(targets.TARGETS[key], chosen, switch_cpu, status.update))
    return results


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line."""
    args = parse(sys.argv[1:] if argv is None else argv)
    check_root()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # child processes end with it
    try:
        results = run(args, Console(stderr=True))
    except grpc.RpcError as error:
        raise RunError(f"an RPC to a switch failed: {error}") from None
    if args.json:
        versions = machine.versions()
        here = {"cpus": machine.about()["cores"], "kernel": versions["kernel"], "python": versions["python"]}
        sys.stdout.write(json.dumps({"machine": here, "targets": [asdict(r) for r in results]}) + "\n")
    else:
        show(results, Console(width=None if sys.stdout.isatty() else 120))


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
    headings = ("frame", "loss-free", "saturated", "CPU/packet", "P4 program alone", "latency, median", "99 %")
    table = grid("", *headings, title="one direction, one CPU for the switch", left=1)
    for result in results:
        for number, (size, speed) in enumerate(result.speeds.items()):
            table.add_row(result.title if not number else "", f"{size} B", *_speed(speed))
        table.add_section()
    return table


def _speed(speed: SwitchRates) -> list[str]:
    more = "≥ " if speed.generator_limit else ""
    return [
        f"{more}{speed.loss_free / 1e3:.1f} k/s",
        f"{speed.saturated / 1e3:.1f} k/s",
        *map(_time, (speed.cpu_per_packet, speed.program, speed.latency_median, speed.latency_p99)),
    ]


def _processes(results: list[SwitchResult]) -> Table:
    table = grid("", *(result.title for result in results), title="the process", left=1)
    rows: list[tuple[str, Callable[[SwitchResult], str]]] = [
        ("start to first RPC answered", lambda r: _time(r.start_seconds)),
        ("program and first entries", lambda r: _time(r.load_seconds)),
        (f"{INSERTS} inserts, one RPC", lambda r: _time(r.inserts_seconds)),
        (f"{INSERTS} inserts, one RPC each", lambda r: _time(r.inserts_single_seconds)),
        ("one insert, median", lambda r: _time(r.insert_seconds)),
        ("an empty RPC of grpc in Python", lambda r: _time(r.rpc_floor_seconds)),
        ("resident memory", lambda r: _memory(r.resident_bytes)),
        ("private memory", lambda r: _memory(r.private_bytes)),
        ("switches started together", lambda r: f"{r.fleet}: {_time(r.fleet_seconds)}" if r.fleet else NO_VALUE),
    ]
    for title, cell in rows:
        table.add_row(title, *(cell(result) for result in results))
    return table


def _time(seconds: float | None) -> str:
    return NO_VALUE if seconds is None else show_seconds(seconds)


def _memory(size: int | None) -> str:
    return NO_VALUE if size is None else show_bytes(size)


if __name__ == "__main__":
    ending.run(main)
