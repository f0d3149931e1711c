"""`python -m mrclab.bench.trace`: CPU time of a packet that a graph sends, beside the same of a connection matrix.

Every host sends one other as many bytes, in one message: once as a GOAL schedule and once as a uet-htsim
matrix, alternating.
The runs are the same to the packet; they differ in the driver of the traffic.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from mrclab.lab.run import runner
from mrclab.lab.scenario import scenario

_MTU = 4096


def write(folder: Path, hosts: int, size: int) -> None:
    """Write both files: host i sends to the one half of them further on."""
    half = hosts // 2
    pairs = [(one, (one + half) % hosts) for one in range(hosts)]
    rows = [f"{a}->{b} start 0 size {size}" for a, b in pairs]
    (folder / "flows.cm").write_text("\n".join([f"Nodes {hosts}", f"Connections {hosts}", *rows]) + "\n")
    goal = [f"num_ranks {hosts}"]
    for a, b in pairs:
        goal += [f"rank {a} {{", f"send {size}b to {b} tag 0", f"recv {size}b from {(a - half) % hosts} tag 0", "}"]
    (folder / "flows.goal").write_text("\n".join(goal) + "\n")


def seconds(folder: Path, hosts: int, traffic: dict[str, object]) -> float:
    """Return the CPU time of a run."""
    fabric = {
        "planes": 4, "t0s": 2, "t1s": 8, "hosts_per_t0": hosts // 2, "path_mtu": _MTU,
        "link": {"rate": "100Gb/s", "delay": "600ns"},
    }  # fmt: skip
    given = {"name": "bench", "world": "sim", "fabric": fabric, "traffic": [{"name": "flows", **traffic}]}
    loaded = scenario.from_data(given, str(folder / "bench.yaml"))
    gc.collect()
    began = time.process_time()
    outcome = runner.run_scenario(loaded, folder, lambda *_: None, lambda _: None, report=False)
    took = time.process_time() - began
    if any(record.get("error") for record in outcome.measures.history.of("flow.end")):
        raise RuntimeError("a flow failed; what was measured is nothing")
    return took


def main(words: Sequence[str] | None = None) -> int:
    """Measure, and say the medians."""
    parser = argparse.ArgumentParser(prog="python -m mrclab.bench.trace", description=__doc__)
    parser.add_argument("--hosts", type=int, default=128)
    parser.add_argument("--size", type=int, default=1_000_000, help="bytes of each flow")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(words)
    kinds: dict[str, dict[str, object]] = {
        "matrix": {"kind": "matrix", "file": "flows.cm", "message": options.size, "depth": 1},
        "trace": {"kind": "trace", "file": "flows.goal"},
    }
    packets = options.hosts * -(-options.size // _MTU)
    found: dict[str, list[float]] = {kind: [] for kind in kinds}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write(folder, options.hosts, options.size)
        for _ in range(options.rounds):
            for kind, traffic in kinds.items():
                found[kind].append(1e6 * seconds(folder, options.hosts, traffic) / packets)
    for kind, took in found.items():
        each = ", ".join(f"{one:.1f}" for one in took)
        sys.stdout.write(f"{kind:8} {statistics.median(took):6.1f} µs CPU per packet ({each})\n")
    ratio = statistics.median(found["trace"]) / statistics.median(found["matrix"])
    sys.stdout.write(f"trace / matrix {ratio:.2f}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
