"""Cost of a write by lib_mrc.so and by the agents' workload: ``sudo python -m mrclab.bench.verbs``.

Two agents on a veth pair, as in the benchmark of hosts. First as fast as they go, in messages of one packet: the cost
of mrc_post_send to the program, and of a message to the agents. Then at the rate of a lab, in messages of 1 MiB: how
much of the bandwidth of the agent's own stream a program gets.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mrclab.bench.host.parts import Cost
from mrclab.bench.host.wire import PATH_MTU, TIMEOUT_S, PairLoad, agents, costs, cpu_of, wire
from mrclab.hosts.agent.provider import SUFFIX
from mrclab.lab.command import ending
from mrclab.lab.errors import Refused, RunError
from mrclab.lab.run.wire.wireworld import check_root
from mrclab.rpc.client import Client
from mrclab.topo.linux import paths

PROGRAM = Path(__file__).parents[1] / "hosts" / "libmrc" / "build" / "verbs_bench"
LARGE = 1 << 20  # bytes
_ATTRIBUTES = {"cc_profile": "none", "mpr": 2}
_DEPTH = 128
_PACED_PLANES, _PACED_RATE, _PACED_DELAY_S = 4, 400.0, 0.002
_ROUNDS = 3  # alternating; the best of each counts, since others may share the machine


@dataclass(frozen=True)
class VerbsRun:
    """Rate and CPU time of both agents; of a program also nanoseconds of one mrc_post_send."""

    sender: Cost
    receiver: Cost
    post_ns: float = 0.0

    @property
    def rate(self) -> float:
        """Messages per second."""
        return self.sender.rate


@dataclass(frozen=True)
class VerbsResult:
    """Results of a program, and of the agents' own workload (`own`): one-packet messages at full speed, and 1 MiB at a
    lab's rate (`paced`).
    """

    program: VerbsRun
    own: VerbsRun
    paced_program: VerbsRun
    paced_own: VerbsRun


def run(messages: int = 20_000, large: int = 24) -> VerbsResult:
    """Measure everything; needs root and the built library. Raises RunError with the failed program's output."""
    if not PROGRAM.exists():
        raise Refused(f"{PROGRAM.name} is not built; run make libmrc")
    with paths.folder_in_memory() as name:
        fast = _both(Path(name), PairLoad(1, 0, _ATTRIBUTES), messages, PATH_MTU)
        slow = _both(Path(name), PairLoad(_PACED_PLANES, 0, {}, _PACED_RATE, _PACED_DELAY_S), large, LARGE)
    return VerbsResult(*fast, *slow)


def _both(directory: Path, load: PairLoad, count: int, size: int) -> tuple[VerbsRun, VerbsRun]:
    found: dict[Callable[..., VerbsRun], list[VerbsRun]] = {_by_program: [], _by_workload: []}
    with wire(load.planes) as names:
        for _ in range(_ROUNDS):
            for kind, runs in found.items():
                with agents(names, directory, load) as clients:
                    runs.append(kind(names, clients, load, count, size))
    programs, own = (max(runs, key=lambda one: one.rate) for runs in found.values())
    return programs, own


def _by_program(names: tuple[str, str], clients: list[Client], load: PairLoad, count: int, size: int) -> VerbsRun:
    del load
    ends = []
    for name, client, role in zip(names, clients, ("send", "receive"), strict=True):
        environment = {**os.environ, "MRCLAB_VERBS": str(Path(client.path).with_suffix(SUFFIX))}
        command = ["ip", "netns", "exec", name, str(PROGRAM), role, str(count), str(size)]
        ends.append(subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        ))  # fmt: skip
    try:
        sides = [_line(end) for end in ends]
        for end, peer in zip(ends, reversed(sides), strict=True):
            _send(end, peer)
        for end in ends:
            _line(end)
        before = cpu_of(clients)
        _send(ends[0], "go")
        elapsed, post_ns = map(float, _line(ends[0]).split())
        after = cpu_of(clients)
        return VerbsRun(*costs(count, elapsed, before, after), post_ns)
    finally:
        for end in ends:
            end.kill()
            end.communicate()


def _by_workload(names: tuple[str, str], clients: list[Client], load: PairLoad, count: int, size: int) -> VerbsRun:
    del names
    spec = {"kind": "stream", "message": size, "size": count * size, "depth": min(_DEPTH, count), "seed": "bench"}
    infos = []
    for client, role, peer in zip(clients, ("send", "recv"), ("h2", "h1"), strict=True):
        flow = {"name": "flow", "role": role, "peer": peer, "qps": 1, "attributes": load.attributes}
        infos.append(client.call("prepare_workload", name="bench", spec=spec, flows=[flow])["flows"])
    for client, theirs in zip(clients, reversed(infos), strict=True):
        client.call("connect_workload", name="bench", flows={"flow": theirs["flow"]})
    before = cpu_of(clients)
    at = clients[0].call("hello")["now"] + 0.05
    for client in clients:
        client.call("start_workload", name="bench", at=at)
    done: dict[str, Any] = next(e for e in clients[0].events(TIMEOUT_S) if e["kind"] == "flow.done")
    return VerbsRun(*costs(count, done["ended"] - at, before, cpu_of(clients)))


def _line(end: "subprocess.Popen[str]") -> str:
    assert end.stdout is not None
    line = end.stdout.readline()
    if not line:
        raise RunError("verbs_bench ended early; its output is above")
    return line.strip()


def _send(end: "subprocess.Popen[str]", text: str) -> None:
    assert end.stdin is not None
    end.stdin.write(text + "\n")
    end.stdin.flush()


def table(result: VerbsResult) -> str:
    """The result as text."""
    fast, own = result.program, result.own
    program, agents_own = _mbit(result.paced_program), _mbit(result.paced_own)
    rates = f"{program:.2f} Mb/s by a program, {agents_own:.2f} by the agents' workload"
    lines = [
        f"{PATH_MTU} B messages           messages/s  agent sends µs  agent receives µs",
        f"  by a program             {fast.rate:10,.0f}  {fast.sender.cpu_us:14.1f}  {fast.receiver.cpu_us:17.1f}",
        f"  by the agents' workload  {own.rate:10,.0f}  {own.sender.cpu_us:14.1f}  {own.receiver.cpu_us:17.1f}",
        f"mrc_post_send              {fast.post_ns / 1000:10.2f} µs a request (goal: under 5)",
        f"1 MiB messages, {_PACED_PLANES} links    {rates}: {program / agents_own:.1%} (goal: within 3 %)",
    ]
    return "\n".join(lines)


def _mbit(one: VerbsRun) -> float:
    return one.rate * LARGE * 8 / 1e6


def main(argv: Sequence[str] | None = None) -> None:
    """Run the benchmark and print the table, or JSON."""
    parser = argparse.ArgumentParser(prog="mrclab bench verbs", description="cost of a write by lib_mrc.so")
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    if options.messages < 1:
        parser.error(f"--messages {options.messages}: give 1 or more")
    check_root()
    result = run(options.messages)
    sys.stdout.write((json.dumps(asdict(result)) if options.json else table(result)) + "\n")


if __name__ == "__main__":
    ending.run(main)
