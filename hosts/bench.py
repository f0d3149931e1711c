"""How many packets a host moves per second, and where its CPU time goes: ``sudo python -m hosts.bench``.

One sender and one receiver process on a veth pair, 4 KiB path MTU, no pacing, no delay, no switch. Beside them, in the
same run, the ceiling: bare AF_PACKET sends and receives in Python. What a packet costs is split into codec (build or
parse, with ICRC), transport (the rest of the endpoint, measured without sockets), and socket and loop (what remains).
"""

import argparse
import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hosts import benchparts
from hosts.benchparts import Cost
from hosts.punctual import be_punctual
from rpc.client import Client
from topo.nodeconfig import NodeConfig

_MODULE = "hosts.bench"
log = logging.getLogger(_MODULE)

PATH_MTU = 4096
SIZES = (64, 1000, PATH_MTU + 142)
GOAL = 0.25
"""Share of the bare rate at full size that a sender and a receiver shall reach."""

_UNPACED_PPS = 1e6
_BASE_RTT_S = 0.01
_ATTRIBUTES = {"cc_profile": "none", "mpr": 2}
_PATIENCE_S = 60.0
_QUIET_S = 0.3


@dataclass(frozen=True)
class Split:
    """CPU time of one packet in one process, microseconds."""

    codec: float
    transport: float
    socket_and_loop: float

    @property
    def total(self) -> float:
        """All of it."""
        return self.codec + self.transport + self.socket_and_loop


@dataclass(frozen=True)
class Result:
    """One run. Bare costs are by frame size."""

    bare_send: dict[int, Cost]
    bare_receive: dict[int, Cost]
    transfer_rate: float
    sender: Split
    receiver: Split

    @property
    def share(self) -> float:
        """Rate of the transfer as a share of the bare rate at full size: what arrives of bare sends."""
        return self.transfer_rate / self.bare_receive[SIZES[-1]].rate


def node_config(host: int, planes: int) -> NodeConfig:
    """Host 1 or 2 of two joined directly: the first uSID of a template is already the destination's downlink."""
    peer, numbers = 3 - host, range(1, planes + 1)
    return NodeConfig.model_validate(
        {
            "version": 1,
            "host": {"name": f"h{host}", "number": host, "group": 1, "downlink": host,
                     "address": f"fdcb:bb00:0:1::{host}"},
            "path_mtu": PATH_MTU,
            "link": {"rate_pps": _UNPACED_PPS, "delay": 0.0},
            "ports": [{"number": p, "name": f"h{host}-p{p}", "plane": p, "mac": _mac(p, host),
                       "peer_switch": f"h{peer}", "peer_port": p, "peer_mac": _mac(p, peer)} for p in numbers],
            "templates": [{"group": 1, "prefix": "fdcb:bb00:0:1::/64", "scope": "t0-local",
                           "address": "fcbb:bb00:3000::", "uplinks": {p: [] for p in numbers},
                           "base_rtt": _BASE_RTT_S, "links": 1}],
            "ev_profiles": [{"name": "default", "active_per_plane": 1, "backup_per_plane": 0, "ev_min_active": 1}],
            "transport": {"mpr": 2, "timeout_exponent": 18, "sack_gen_threshold": 12288, "trimming": True,
                          "trim_threshold": 1000, "drop_threshold": 4000},
            "directory": {f"h{n}": f"fdcb:bb00:0:1::{n}" for n in (1, 2)},
        }
    )  # fmt: skip


def run(planes: int = 1, packets: int = 50_000, seconds: float = 1.0) -> Result:
    """Measure everything once; needs root. Raises RuntimeError with the words of what failed."""
    with tempfile.TemporaryDirectory(dir=_memory_directory()) as directory, _wire(planes) as names:
        bare = {size: _bare(names, size, seconds) for size in SIZES}
        rate, costs = _transfer(names, Path(directory), planes, packets)
    configs = node_config(1, planes), node_config(2, planes)
    endpoints = benchparts.in_memory(configs, packets, _ATTRIBUTES)
    codecs = benchparts.codec(configs[0], packets)
    splits = [
        Split(codec.cpu_us, endpoint.cpu_us - codec.cpu_us, cost.cpu_us - endpoint.cpu_us)
        for codec, endpoint, cost in zip(codecs, endpoints, costs, strict=True)
    ]
    return Result({s: b[0] for s, b in bare.items()}, {s: b[1] for s, b in bare.items()}, rate, splits[0], splits[1])


def table(result: Result) -> str:
    """The result for people."""
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
    return "\n".join(lines)


def _mac(plane: int, host: int) -> str:
    return f"02:0c:{plane:02x}:00:{host:02x}:01"


def _memory_directory() -> str | None:
    """Where files are memory, so that no disk is measured."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"ip {' '.join(words)}: {done.stderr.strip()}")


@contextlib.contextmanager
def _wire(planes: int) -> Iterator[tuple[str, str]]:
    """Two namespaces joined by one veth pair per plane; gone afterwards."""
    names = f"mrclab-bench-{os.getpid()}-1", f"mrclab-bench-{os.getpid()}-2"
    made = []
    try:
        for name in names:
            _ip("netns", "add", name)
            made.append(name)
            keys = [f"net.ipv6.conf.{scope}.disable_ipv6=1" for scope in ("default", "all")]
            subprocess.run(["ip", "netns", "exec", name, "sysctl", "-qw", *keys], check=True)
        mtu = str(PATH_MTU + 256)
        for plane in range(1, planes + 1):
            ends = [[f"h{host}-p{plane}", "netns", names[host - 1], "mtu", mtu, "address", _mac(plane, host)]
                    for host in (1, 2)]  # fmt: skip
            _ip("link", "add", *ends[0], "index", str(1000 + plane), "type", "veth", "peer", "name", *ends[1])
            for host in (1, 2):
                _ip("-n", names[host - 1], "link", "set", f"h{host}-p{plane}", "up")
        yield names
    finally:
        for name in made:
            _ip("netns", "del", name)


def _spawn(namespace: str, module: str, *words: str) -> subprocess.Popen[str]:
    argv = ["ip", "netns", "exec", namespace, sys.executable, "-m", module, *words]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)


def _bare(names: tuple[str, str], size: int, seconds: float) -> tuple[Cost, Cost]:
    """Send bare frames from one namespace to the other."""
    receiver = _spawn(names[1], _MODULE, "--part", "receive", "h2-p1", str(size), str(_QUIET_S))
    if receiver.stdout is None or receiver.stdout.readline() != "ready\n":
        raise RuntimeError("the bare receiver did not start")
    sender = _spawn(names[0], _MODULE, "--part", "send", "h1-p1", str(size), str(seconds))
    outputs = [process.communicate(timeout=_PATIENCE_S)[0] for process in (sender, receiver)]
    if sender.returncode or receiver.returncode:
        raise RuntimeError("a bare sender or receiver failed; its words are above")
    sent, received = (Cost(**json.loads(text)) for text in outputs)
    return sent, received


def _transfer(names: tuple[str, str], directory: Path, planes: int, packets: int) -> tuple[float, tuple[Cost, Cost]]:
    """Move a file between two agents; return packets per second and what each agent spent."""
    agents: list[subprocess.Popen[str]] = []
    source = directory / "source"
    source.write_bytes(os.urandom(packets * PATH_MTU))
    try:
        for host in (1, 2):
            stem = directory / f"h{host}"
            stem.with_suffix(".json").write_text(node_config(host, planes).model_dump_json())
            agents.append(
                _spawn(names[host - 1], "hosts.agent", "--log-level", "WARNING", "--node-config", f"{stem}.json",
                       "--socket", f"{stem}.sock", "--history", f"{stem}.jsonl")
            )  # fmt: skip
        clients = [Client.wait_for(directory / f"h{host}.sock", _PATIENCE_S) for host in (1, 2)]
        for client in clients:
            _wait_until_up(client)
        return _measure(clients, source, directory / "target", packets)
    finally:
        for agent in agents:
            agent.send_signal(signal.SIGTERM)
            agent.communicate()


def _wait_until_up(client: Client) -> None:
    client.subscribe()
    for _ in client.events(_PATIENCE_S):
        if all(port["up"] for port in client.call("hello")["ports"]):
            return
    raise RuntimeError(f"the ports of {client.path} did not come up")


def _measure(clients: list[Client], source: Path, target: Path, packets: int) -> tuple[float, tuple[Cost, Cost]]:
    near, far = clients
    here = near.call("create_qp", peer="h2", attributes=_ATTRIBUTES)
    there = far.call("create_qp", peer="h1", attributes=_ATTRIBUTES)
    near.call("connect_qp", qp=here["qp"], remote=there)
    far.call("connect_qp", qp=there["qp"], remote=here)
    local = near.call("reg_mr", path=str(source))
    remote = far.call("reg_mr", path=str(target), length=local["length"], access="write")
    before = [client.call("stats")["cpu"] for client in clients]
    near.call("post_send", qp=here["qp"], wr_id=1, opcode="RDMA_WRITE",
              local={"lkey": local["lkey"], "length": local["length"]},
              remote={"va": remote["va"], "rkey": remote["rkey"]})  # fmt: skip
    began = near.call("hello")["now"]
    done: dict[str, Any] = next(e for e in near.events(_PATIENCE_S) if e["kind"] == "wr.done")
    after = [client.call("stats")["cpu"] for client in clients]
    if target.read_bytes() != source.read_bytes():
        raise RuntimeError("the file did not arrive bit for bit")
    elapsed = done["t"] - began
    costs = [Cost(packets, elapsed, b - a) for a, b in zip(before, after, strict=True)]
    return packets / elapsed, (costs[0], costs[1])


def _part(kind: str, interface: str, size: int, seconds: float) -> None:
    """One process of the bare measurement, scheduled as the agents are: prints its cost as JSON."""
    be_punctual()
    if kind == "send":
        cost = benchparts.bare_send(interface, size, seconds)
    else:
        cost, _lost = benchparts.bare_receive(interface, size, seconds, lambda: _say("ready"))
    _say(json.dumps(asdict(cost)))


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark and print the table, or JSON; return the exit status."""
    parser = argparse.ArgumentParser(prog=_MODULE, description="packets per second of a host, and what they cost")
    parser.add_argument("--planes", type=int, default=1)
    parser.add_argument("--packets", type=int, default=50_000)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--part", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    logging.basicConfig(level=logging.WARNING)
    if options.part:
        kind, interface, size, seconds = options.part
        _part(kind, interface, int(size), float(seconds))
        return 0
    if os.geteuid() != 0:
        log.error("the host benchmark needs root for network namespaces")
        return 1
    result = run(options.planes, options.packets)
    _say(json.dumps(asdict(result)) if options.json else table(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
