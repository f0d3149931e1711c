"""Benchmark of a host, packets per second and where its CPU time goes: ``sudo python -m mrclab.bench.host``.

One sender and one receiver process on a veth pair, 4 KiB path MTU, no pacing, no delay, no switch. The upper bound,
measured in the same run: bare AF_PACKET sends and receives in Python. The cost of a packet is split into codec (build
or parse, with ICRC), transport (the rest of the endpoint, measured without sockets), and socket and loop (the rest).
Then the same two hosts as in a lab: four links at some hundred packets per second, where most of the cost is waking up.
"""

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from mrclab.bench.host import parts as benchparts
from mrclab.bench.host import wire as benchwire
from mrclab.bench.host.parts import Cost
from mrclab.bench.host.wire import PATH_MTU, TIMEOUT_S, PairLoad, node_config, spawn
from mrclab.lab.command import ending
from mrclab.lab.errors import RunError
from mrclab.lab.run.wire.wireworld import check_root
from mrclab.topo.linux import paths
from mrclab.topo.process.realtime import DATA_PLANE, use_realtime

_MODULE = "mrclab.bench.host"

SIZES = (64, 1000, PATH_MTU + 142)
GOAL = 0.5
"""Share of the bare rate at full size that sender and receiver should reach."""

PACED_RATES = (100, 400)
"""Packets per second and link of the paced part."""

_ATTRIBUTES = {"cc_profile": "none", "mpr": 2}
_ROUNDS = 3  # bare and full-speed runs, alternating; the best of each counts, since others may share the machine
_PACED_PLANES = 4
_PACED_DELAY_S = 0.024  # one way, as over four links of the demo
_PACED_S = 4.0
_QUIET_S = 0.3


@dataclass(frozen=True)
class Split:
    """CPU time of one packet in one process, microseconds."""

    codec: float
    transport: float
    socket_and_loop: float

    @property
    def total(self) -> float:
        """CPU time of all three parts."""
        return self.codec + self.transport + self.socket_and_loop


@dataclass(frozen=True)
class Paced:
    """Two hosts at the rates of a lab: packets per second and link, and CPU time of each."""

    rate_pps: float
    sender: Cost
    receiver: Cost


@dataclass(frozen=True)
class HostResult:
    """One run. Bare costs are by frame size."""

    bare_send: dict[int, Cost]
    bare_receive: dict[int, Cost]
    transfer_rate: float
    sender: Split
    receiver: Split
    paced: tuple[Paced, ...]

    @property
    def share(self) -> float:
        """Rate of the transfer as a share of the bare receive rate at full size."""
        return self.transfer_rate / self.bare_receive[SIZES[-1]].rate


def run(planes: int = 1, packets: int = 50_000, seconds: float = 1.0, paced_seconds: float = _PACED_S) -> HostResult:
    """Measure everything; needs root. Raises RunError with the failed program's output."""
    load = PairLoad(planes, packets, _ATTRIBUTES)
    with paths.folder_in_memory() as name:
        directory = Path(name)
        with benchwire.wire(planes) as names:
            bare = {size: _bare(names, size, seconds) for size in SIZES[:-1]}
            rounds = [
                (_bare(names, SIZES[-1], seconds), benchwire.transfer(names, directory, load)) for _ in range(_ROUNDS)
            ]
        with benchwire.wire(_PACED_PLANES) as names:
            paced = tuple(_paced(names, directory, rate, paced_seconds) for rate in PACED_RATES)
    bare[SIZES[-1]] = max((one for one, _ in rounds), key=lambda costs: costs[1].rate)
    fastest = max((costs for _, costs in rounds), key=lambda costs: costs[0].rate)
    sends, receives = {s: b[0] for s, b in bare.items()}, {s: b[1] for s, b in bare.items()}
    return HostResult(sends, receives, fastest[0].rate, *_splits(load, fastest), paced)


def _splits(load: PairLoad, costs: tuple[Cost, Cost]) -> tuple[Split, Split]:
    """Return sender and receiver: CPU time of a whole packet less that of its parts."""
    configs = node_config(1, load), node_config(2, load)
    both = [
        (benchparts.in_memory(configs, load.packets, load.attributes), benchparts.codec(configs[0], load.packets))
        for _ in range(_ROUNDS)
    ]
    splits = []
    for side, cost in enumerate(costs):
        endpoint = min(endpoints[side].cpu_us for endpoints, _ in both)
        codec = min(codecs[side].cpu_us for _, codecs in both)
        splits.append(Split(codec, endpoint - codec, cost.cpu_us - endpoint))
    return splits[0], splits[1]


def _paced(names: tuple[str, str], directory: Path, rate: float, seconds: float) -> Paced:
    packets = max(1, int(rate * _PACED_PLANES * seconds))
    load = PairLoad(_PACED_PLANES, packets, {"mpr": 2}, rate, _PACED_DELAY_S)
    return Paced(rate, *benchwire.transfer(names, directory, load))


def table(result: HostResult) -> str:
    """Return the result as text."""
    lines = ["bare AF_PACKET in Python      sent/s  µs CPU    received/s  µs CPU"]
    for size in SIZES:
        rates = "  ".join(
            f"{c.rate:12,.0f}  {c.cpu_us:6.1f}" for c in (result.bare_send[size], result.bare_receive[size])
        )
        lines.append(f"  {size:5d} B frames        {rates}")
    share = f"{result.share:.0%} of the bare rate (goal {GOAL:.0%})"
    lines.append(f"MRC, {PATH_MTU} B payload    {result.transfer_rate:12,.0f} packets/s: {share}")
    lines.append("µs CPU per packet            codec  transport  socket, loop   total")
    for name, split in (("sender", result.sender), ("receiver", result.receiver)):
        parts = f"{split.codec:8.1f}  {split.transport:9.1f}  {split.socket_and_loop:12.1f}  {split.total:6.1f}"
        lines.append(f"  {name:20s}     {parts}")
    lines.append(f"paced, {_PACED_PLANES} links              sender µs  of a core  receiver µs  of a core")
    for paced in result.paced:
        costs = "    ".join(f"{c.cpu_us:7.1f}  {c.cpu / c.elapsed:9.1%}" for c in (paced.sender, paced.receiver))
        lines.append(f"  {paced.rate_pps:5.0f} packets/s each     {costs}")
    return "\n".join(lines)


def _bare(names: tuple[str, str], size: int, seconds: float) -> tuple[Cost, Cost]:
    """Send bare frames from one namespace to the other."""
    receiver = spawn(names[1], _MODULE, "--part", "receive", "h2-p1", str(size), str(_QUIET_S))
    if receiver.stdout is None or receiver.stdout.readline() != "ready\n":
        raise RunError("the bare receiver did not start")
    sender = spawn(names[0], _MODULE, "--part", "send", "h1-p1", str(size), str(seconds))
    outputs = [process.communicate(timeout=TIMEOUT_S)[0] for process in (sender, receiver)]
    if sender.returncode or receiver.returncode:
        raise RunError("a bare sender or receiver failed; its output is above")
    sent, received = (Cost(**json.loads(text)) for text in outputs)
    return sent, received


def _part(kind: str, interface: str, size: int, seconds: float) -> None:
    """Run one process of the bare measurement, scheduled as the agents are; print its cost as JSON."""
    use_realtime(DATA_PLANE, inherited=False)
    if kind == "send":
        cost = benchparts.bare_send(interface, size, seconds)
    else:
        cost, _lost = benchparts.bare_receive(interface, size, seconds, lambda: _print("ready"))
    _print(json.dumps(asdict(cost)))


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(argv: Sequence[str] | None = None) -> None:
    """Run the benchmark and print the table, or JSON."""
    parser = argparse.ArgumentParser(
        prog="mrclab bench host", description="packets per second of a host, and their cost"
    )
    parser.add_argument("--planes", type=int, default=1, help="links between the hosts (default %(default)s)")
    parser.add_argument("--packets", type=int, default=50_000, help="of each run (default %(default)s)")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--part", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    for name in ("planes", "packets"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} {getattr(options, name)}: give 1 or more")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # child processes end with it
    if options.part:
        kind, interface, size, seconds = options.part
        _part(kind, interface, int(size), float(seconds))
        return
    check_root()
    result = run(options.planes, options.packets)
    _print(json.dumps(asdict(result)) if options.json else table(result))


if __name__ == "__main__":
    ending.run(main)
