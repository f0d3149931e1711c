"""RoCEv2's loss recovery beside theory: completion under random loss with go-back-N and selective repeat.

One flow at full rate over one path with the RTT R, packets of time T, each lost with probability p on its way
there. Go-back-N sends N = ceil((R + T) / T) packets for each lost one: those that left until the NAK came, which the
packet behind the lost one draws (Bertsekas and Gallager, Data Networks, §2.4). Of each gap there is one NAK, so a
retransmission that is lost as well waits for the retry timer, RTO. Selective repeat sends 1/(1 - p) packets for each.

`python -m mrclab.bench.sim.losses --seeds 5 --page docs/results/baselines.md` writes the page's table.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import mrclab
from mrclab.bench.sim import table
from mrclab.lab.command import ending
from mrclab.lab.errors import RunError
from mrclab.lab.report import template
from mrclab.lab.report.grid import markdown
from mrclab.topo.config.nodeconfig import ACK_TIMEOUT_UNIT

_NAMES = {"go_back_n": "go-back-n", "selective_repeat": "selective repeat"}
_LOSSES = (0.0001, 0.001, 0.01)
_SIZE_MIB = 128

_TIMEOUT_EXPONENT = 5
_MPR = 255
"""Packets in flight, in 128: more than the retry timer lets pass, so that nothing waits for the window."""


@dataclass(frozen=True)
class Expected:
    """Expected time (seconds) of a flow, and packets retransmitted for each of its packets."""

    seconds: float
    retransmitted: float


@dataclass(frozen=True)
class LossRow:
    """One recovery at one loss: each seed's time (seconds) and share of packets retransmitted, and theory's."""

    recovery: str
    loss: float
    seconds: list[float]
    retransmitted: list[float]
    expected: Expected


def scenario(recovery: str, loss: float, mib: int) -> mrclab.Scenario:
    """One write over one path of which one cable loses packets on their way there."""
    attributes = {"recovery": recovery, "timeout_exponent": _TIMEOUT_EXPONENT, "mpr": _MPR}
    lossy = {"name": "loss", "kind": "loss", "link": "t0-p1-1/t1-p1-1", "direction": "up", "rate": loss, "at": "0s"}
    return mrclab.scenario(
        fabric={
            "planes": 1, "t0s": 2, "t1s": 1, "hosts_per_t0": 1, "link": {"rate": "100 Gb/s", "delay": "600ns"}
        },
        transport={"kind": "roce", "congestion_control": "none", "attributes": attributes},
        traffic=[{"name": "flow", "kind": "write", "from": "h1", "to": "h2", "size": f"{mib} MiB"}],
        faults=[lossy] if loss else [],
        expect=[{"kind": "integrity"}],
        timeout="60s",
    )  # fmt: skip


def theory(recovery: str, loss: float, packets: int, packet_time: float, rtt: float) -> Expected:
    """Return the expected time and retransmissions of a flow of `packets`."""
    if recovery == "selective_repeat":
        retransmitted = loss / (1 - loss)
        return Expected(packets * packet_time * (1 + retransmitted), retransmitted)
    burst = math.ceil((rtt + packet_time) / packet_time)
    timeouts = loss * loss / (1 - loss)  # for each packet
    stalled = timeouts * ACK_TIMEOUT_UNIT * 2**_TIMEOUT_EXPONENT
    return Expected(packets * (packet_time * (1 + loss * burst) + stalled), loss * burst + stalled / packet_time)


def measure(recovery: str, loss: float, seeds: int, mib: int = _SIZE_MIB) -> LossRow:
    """Run with seeds 1 to `seeds`; RunError if a run does not pass."""
    whole = _run(scenario(recovery, 0.0, 16), 1)
    longer = _run(scenario(recovery, 0.0, 32), 1)
    packet_time = (longer["seconds"] - whole["seconds"]) / (longer["sent_packets"] - whole["sent_packets"])
    tail = whole["seconds"] - whole["sent_packets"] * packet_time  # from the last packet's end to its ACK
    runs = [_run(scenario(recovery, loss, mib), seed) for seed in range(1, seeds + 1)]
    packets = mib * 2**20 // 4096
    expected = theory(recovery, loss, packets, packet_time, tail + packet_time)
    seconds = [run["seconds"] - tail for run in runs]
    return LossRow(recovery, loss, seconds, [run["sent_packets"] / packets - 1 for run in runs], expected)


def _run(what: mrclab.Scenario, seed: int) -> dict[str, float]:
    run = mrclab.run(what, world="sim", seed=seed)
    if not run.passed:
        raise RunError(f"seed {seed}: {run.error or [verdict.kind for verdict in run.verdicts if not verdict.ok]}")
    (flow,) = run.flows
    return dict(flow)


def rows(seeds: int) -> Iterator[LossRow]:
    """Yield all of them."""
    for recovery in _NAMES:
        for loss in _LOSSES:
            yield measure(recovery, loss, seeds)


def text(found: Sequence[LossRow]) -> str:
    """Return the page's table."""
    lines = [
        [
            _NAMES[row.recovery], f"{row.loss:.2%}",
            table.figure_text([1000 * one for one in row.seconds], 3), f"{1000 * row.expected.seconds:.3f}",
            f"{fmean(row.seconds) / row.expected.seconds - 1:+.1%}",
            table.figure_text([100 * one for one in row.retransmitted], 2), f"{100 * row.expected.retransmitted:.2f}",
        ]
        for row in found
    ]  # fmt: skip
    return markdown(["recovery", "loss", "time, ms", "theory", "", "retransmitted, %", "theory"], lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run; RunError if a run does not pass."""
    parser = argparse.ArgumentParser(prog="python -m mrclab.bench.sim.losses", description=__doc__)
    parser.add_argument("--seeds", type=int, default=5, metavar="N", help="runs of each, with seeds 1 to N")
    parser.add_argument("--page", type=Path, metavar="MD", help="put the table into this page")
    options = parser.parse_args(arguments)
    if options.seeds < 1:
        parser.error(f"--seeds {options.seeds}: at least one run is needed; give, for example, 5")
    if options.page:
        template.check_page(options.page)
    made = text(list(rows(options.seeds)))
    sys.stdout.write(made)
    if options.page:
        table.write_section(options.page, "losses", made)


if __name__ == "__main__":
    ending.run(main)
