"""`python -m mrclab.bench.sim`: packets per second of wall time, memory, and completion times in virtual time."""

import argparse
import json
import resource
import sys
from collections.abc import Sequence

from mrclab.bench.sim import load
from mrclab.lab.scenario.units import parse_size, show_bytes, show_seconds

_KIB = 1024  # unit of ru_maxrss on Linux
_DEFAULT = ((16, "permutation", 2 << 20), (128, "permutation", 2 << 20), (128, "incast", 1 << 20))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; exit status 0, or 2 for words that mean nothing."""
    parser = argparse.ArgumentParser(prog="mrclab bench sim", description=__doc__)
    parser.add_argument("--hosts", type=int, help="a multiple of eight, at least 16; default: 16 and 128")
    parser.add_argument("--traffic", choices=list(load.TRAFFIC), default="permutation")
    parser.add_argument("--size", type=parse_size, default=2 << 20, help="of each transfer, e.g. 2MiB")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="one object per line")
    options = parser.parse_args(arguments)
    if options.hosts is not None and (options.hosts < 16 or options.hosts % load.HOSTS_PER_T0):
        parser.error(f"{options.hosts} hosts do not fill T0s of {load.HOSTS_PER_T0}; give a multiple of it from 16 on")
    asked = _DEFAULT if options.hosts is None else ((options.hosts, options.traffic, int(options.size)),)
    for hosts, traffic, size in asked:
        _show(hosts, traffic, size, load.run(hosts, traffic, size, options.seed), options.json)
    return 0


def _show(hosts: int, traffic: str, size: int, result: load.SimResult, as_json: bool) -> None:
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _KIB
    rate, cost = result.packets / result.wall, result.cpu / result.packets
    times = [result.completed(share) for share in (0.0, 0.5, 0.99, 1.0)]
    if as_json:
        said = {"hosts": hosts, "traffic": traffic, "size": size, "packets": result.packets, "wall": result.wall}
        sys.stdout.write(json.dumps({**said, "cpu": result.cpu, "memory": memory, "completions": times}) + "\n")
        return
    words = " / ".join(show_seconds(at) for at in times)
    sys.stdout.write(
        f"{hosts} hosts, {traffic} of {show_bytes(size)}: {result.packets} data packets in {result.wall:.1f} s"
        f" ({rate:,.0f} per second; {show_seconds(cost)} of CPU each), {show_bytes(memory)};"
        f" set up in {result.setup:.1f} s; completed in {words} (least, median, 99 %, most)\n"
    )


if __name__ == "__main__":
    sys.exit(main())
