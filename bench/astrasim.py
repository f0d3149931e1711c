"""`python -m mrclab.bench.astrasim FOLDER`: ASTRA-sim's microbenchmarks beside its analytical network.

FOLDER is `examples/workload/microbenchmarks` of a clone of astra-sim/astra-sim. Its Chakra traces run as they are, on
one T0 that has the bandwidth, for the payload of full packets, and the latency, from the end of a packet at its sender
to the end at its receiver, of ASTRA-sim's example network. That network takes the latency and the bytes over the
bandwidth for each step of a ring. It knows no packets, so no header of a shorter one and no acknowledgement.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from mrclab.lab.command import ending
from mrclab.lab.errors import RunError
from mrclab.lab.run import runner
from mrclab.lab.scenario import scenario
from mrclab.topo.numbers import FULL_HEADER_BYTES

BANDWIDTH = 50 * 2**30  # bytes per second of examples/network/analytical/Ring_*npus.yml
LATENCY = 500e-9
MTU = 4096
SIZE = 1 << 20  # bytes of each rank, as the folders' names say
_RING_PASSES = {"all_gather": 1, "reduce_scatter": 1, "all_reduce": 2}


def analytical(kind: str, ranks: int) -> float:
    """Return the seconds of a collective around a ring of this many steps, each a latency and a chunk."""
    chunk = SIZE if kind == "all_gather" else SIZE / ranks
    return _RING_PASSES[kind] * (ranks - 1) * (LATENCY + chunk / BANDWIDTH)


def simulated(stem: Path, ranks: int) -> float:
    """Return the seconds of the one step of a trace; RunError where it does not end well."""
    rate = BANDWIDTH * 8 * (MTU + FULL_HEADER_BYTES) / MTU
    delay = (LATENCY - MTU / BANDWIDTH) / 2  # the switch stores a packet before it forwards it
    fabric = {
        "planes": 1, "t0s": 1, "t1s": 1, "hosts_per_t0": ranks, "path_mtu": MTU, "switch_latency": 0.0,
        "nic_latency": 0.0,
        "link": {"rate": rate, "delay": delay},
    }  # fmt: skip
    given = {
        "name": "astrasim", "world": "sim", "fabric": fabric, "expect": [{"kind": "integrity"}],
        "traffic": [{"name": "job", "kind": "trace", "file": stem.name}],
    }  # fmt: skip
    loaded = scenario.from_data(given, str(stem.with_suffix(".yaml")))
    with tempfile.TemporaryDirectory() as place:
        outcome = runner.measure(loaded, Path(place), lambda *_: None, lambda _: None)
    if outcome.state != "passed":
        raise RunError(f"{stem}: {outcome.error or outcome.state}")
    (step,) = outcome.measures.training.steps("job")
    return step.seconds


def traces(folder: Path) -> Iterator[tuple[str, int, Path]]:
    """Yield kind, ranks and the stem of the files of each trace whose figure is known."""
    for first in sorted(folder.glob("*/*/*.0.et")):
        stem = first.parent / first.name.removesuffix(".0.et")
        if stem.name in _RING_PASSES:
            yield stem.name, len(list(first.parent.glob("*.et"))), stem


def main(words: Sequence[str] | None = None) -> None:
    """Run all and print a table in Markdown."""
    parser = argparse.ArgumentParser(prog="python -m mrclab.bench.astrasim", description=__doc__)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args(words)
    found = list(traces(options.folder))
    if not found:
        parser.error(f"{options.folder} has no traces such as all_reduce/8npus_1MB/all_reduce.0.et; see --help")
    sys.stdout.write("| Trace | here | analytical | |\n|---|---|---|---|\n")
    for kind, ranks, stem in found:
        here, there = simulated(stem, ranks), analytical(kind, ranks)
        name = f"{kind.replace('_', '-')}, {ranks} ranks"
        sys.stdout.write(f"| {name} | {1e6 * here:.1f} µs | {1e6 * there:.1f} µs | {here / there - 1:+.1%} |\n")
        sys.stdout.flush()


if __name__ == "__main__":
    ending.run(main)
