"""Command line: `mrclab bench switch [--quick] [--json] [--target NAME]…`; needs root."""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
from collections.abc import Sequence

import grpc
from rich.console import Console

from mrclab.bench.switch import table, targets
from mrclab.bench.switch.generator import pin
from mrclab.bench.switch.measure import QUICK, Effort, SwitchResult, measure_kernel, measure_process
from mrclab.bench.switch.wire import BenchError
from mrclab.topo.errors import TopoError

KERNEL = "kernel"
NAMES = (*targets.TARGETS, KERNEL)


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Return the command line."""
    parser = argparse.ArgumentParser(prog="mrclab bench switch", description=__doc__)
    add = parser.add_argument
    add("--target", action="append", choices=NAMES, help="measure this one only (may be repeated)")
    add("--quick", action="store_true", help="a few seconds: shows that it works, measures little")
    add("--seconds", type=float, default=Effort.trial_seconds, help="length of one trial (default %(default)s)")
    add("--size", type=int, action="append", choices=range(128, 4353), metavar="BYTES", help="frame size")
    add("--switches", type=int, default=Effort.switches, help="how many are started together (default %(default)s)")
    add("--json", action="store_true", help="print one JSON object")
    return parser.parse_args(argv)


def effort(args: argparse.Namespace) -> Effort:
    """Return duration and repetitions."""
    if args.quick:
        return QUICK
    sizes = tuple(args.size) if args.size else Effort.sizes
    return Effort(trial_seconds=args.seconds, switches=args.switches, sizes=sizes)


def run(args: argparse.Namespace, console: Console) -> list[SwitchResult]:
    """Measure all requested targets, one after the other."""
    cpus = sorted(os.sched_getaffinity(0))
    switch_cpu = cpus[1] if len(cpus) > 1 else None
    if switch_cpu is None:
        console.print("one CPU only: switch and generator share it, and the rates show that")
    pin(cpus[0])
    chosen, results = effort(args), []
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


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    args = parse(sys.argv[1:] if argv is None else argv)
    errors = Console(stderr=True)
    if os.geteuid() != 0:
        errors.print("mrclab bench switch: namespaces and packet sockets need root; put sudo in front")
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # child processes end with it
    try:
        results = run(args, errors)
    except (BenchError, TopoError, OSError, grpc.RpcError) as error:
        errors.print(f"mrclab bench switch: {error}", markup=False)
        return 1
    if args.json:
        machine = {"cpus": os.cpu_count(), "kernel": platform.release(), "python": platform.python_version()}
        sys.stdout.write(json.dumps({"machine": machine, "targets": [r.as_json() for r in results]}) + "\n")
    else:
        table.show(results, Console(width=None if sys.stdout.isatty() else 120))
    return 0


if __name__ == "__main__":
    sys.exit(main())
