"""The wire of the host benchmark: two namespaces joined by veth pairs, two agents on them, one write between them."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mrclab.bench.host.parts import Cost
from mrclab.bench.switch.wire import ip, namespace
from mrclab.lab.errors import RunError
from mrclab.rpc.client import Client
from mrclab.topo.config.nodeconfig import NodeConfig

PATH_MTU = 4096
TIMEOUT_S = 60.0
_UNPACED_PPS = 1e6
_RTT_SLACK_S = 0.01  # part of base_rtt for the hosts themselves


@dataclass(frozen=True)
class PairLoad:
    """Load of two hosts: links, packets of PATH_MTU bytes, and the QP's attributes."""

    planes: int
    packets: int
    attributes: dict[str, Any]
    rate_pps: float = _UNPACED_PPS  # of a link
    delay: float = 0.0  # of a link, seconds one way


def node_config(host: int, load: PairLoad) -> NodeConfig:
    """Host 1 or 2 of two joined directly: the first uSID of a template is already the destination's downlink."""
    peer, numbers = 3 - host, range(1, load.planes + 1)
    return NodeConfig.model_validate(
        {
            "version": 1,
            "host": {"name": f"h{host}", "number": host, "group": 1, "downlink": host,
                     "address": f"fdcb:bb00:0:1::{host}"},
            "path_mtu": PATH_MTU,
            "link": {"rate_pps": load.rate_pps, "delay": load.delay},
            "ports": [{"number": p, "name": f"h{host}-p{p}", "plane": p, "mac": mac(p, host),
                       "peer_switch": f"h{peer}", "peer_port": p, "peer_mac": mac(p, peer)} for p in numbers],
            "templates": [{"group": 1, "prefix": "fdcb:bb00:0:1::/64", "scope": "t0-local",
                           "address": "fcbb:bb00:3000::", "uplinks": {p: [] for p in numbers},
                           "base_rtt": 2 * load.delay + _RTT_SLACK_S, "links": 1}],
            "ev_profiles": [{"name": "default", "active_per_plane": 1, "backup_per_plane": 0, "ev_min_active": 1}],
            "transport": {"mpr": 2, "timeout_exponent": 18, "sack_gen_threshold": 12288, "trimming": True,
                          "trim_threshold": 1000, "drop_threshold": 4000},
            "directory": {f"h{n}": f"fdcb:bb00:0:1::{n}" for n in (1, 2)},
        }
    )  # fmt: skip


def mac(plane: int, host: int) -> str:
    """MAC of a port."""
    return f"02:0c:{plane:02x}:00:{host:02x}:01"


@contextlib.contextmanager
def wire(planes: int) -> Iterator[tuple[str, str]]:
    """Two namespaces joined by one veth pair per plane; gone afterwards. RunError with the words of `ip`."""
    with namespace("1") as (one, _), namespace("2") as (two, _):
        mtu = PATH_MTU + 256
        for plane in range(1, planes + 1):
            near, far = ([f"h{host}-p{plane}", "mtu", mtu, "address", mac(plane, host)] for host in (1, 2))
            ip(one, "link", "add", *near, "index", 1000 + plane, "type", "veth", "peer", "name", *far, "netns", two)
            for host, name in enumerate((one, two), 1):
                ip(name, "link", "set", f"h{host}-p{plane}", "up")
        yield one, two


def spawn(namespace: str, module: str, *words: str) -> subprocess.Popen[str]:
    """Start a Python module in a namespace, with its output readable."""
    argv = ["ip", "netns", "exec", namespace, sys.executable, "-m", module, *words]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)


def transfer(names: tuple[str, str], directory: Path, load: PairLoad) -> tuple[Cost, Cost]:
    """Move a file between two agents; return the costs of the sender's and the receiver's process.

    RunError where the file did not arrive bit for bit, or a port does not come up.
    """
    source = directory / "source"
    source.write_bytes(os.urandom(load.packets * PATH_MTU))
    with agents(names, directory, load) as clients:
        return _measure(clients, source, directory / "target", load)


@contextlib.contextmanager
def agents(names: tuple[str, str], directory: Path, load: PairLoad) -> Iterator[list[Client]]:
    """Context manager: both agents, up, as their clients."""
    started: list[subprocess.Popen[str]] = []
    try:
        for host in (1, 2):
            stem = directory / f"h{host}"
            stem.with_suffix(".json").write_text(node_config(host, load).model_dump_json())
            started.append(
                spawn(names[host - 1], "mrclab.hosts.agent", "--log-level", "WARNING", "--node-config", f"{stem}.json",
                      "--socket", f"{stem}.sock", "--history", f"{stem}.jsonl")
            )  # fmt: skip
        clients = [Client.wait_for(directory / f"h{host}.sock", TIMEOUT_S) for host in (1, 2)]
        for client in clients:
            _wait_until_up(client)
        yield clients
    finally:
        for agent in started:
            agent.send_signal(signal.SIGTERM)
            agent.communicate()


def _wait_until_up(client: Client) -> None:
    client.subscribe()
    for _ in client.events(TIMEOUT_S):
        if all(port["up"] for port in client.call("hello")["ports"]):
            return
    raise RunError(f"the ports of {client.path} did not come up")


def _measure(clients: list[Client], source: Path, target: Path, load: PairLoad) -> tuple[Cost, Cost]:
    near, far = clients
    here = near.call("create_qp", peer="h2", attributes=load.attributes)
    there = far.call("create_qp", peer="h1", attributes=load.attributes)
    near.call("connect_qp", qp=here["qp"], remote=there)
    far.call("connect_qp", qp=there["qp"], remote=here)
    local = near.call("reg_mr", path=str(source))
    remote = far.call("reg_mr", path=str(target), length=local["length"], access="write")
    before = cpu_of(clients)
    began = near.call("hello")["now"]
    near.call("post_send", qp=here["qp"], wr_id=1, opcode="RDMA_WRITE",
              local={"lkey": local["lkey"], "length": local["length"]},
              remote={"va": remote["va"], "rkey": remote["rkey"]})  # fmt: skip
    done: dict[str, Any] = next(e for e in near.events(TIMEOUT_S) if e["kind"] == "wr.done")
    after = cpu_of(clients)
    if target.read_bytes() != source.read_bytes():
        raise RunError("the file did not arrive bit for bit")
    return costs(load.packets, done["t"] - began, before, after)


def cpu_of(clients: list[Client]) -> list[float]:
    """Return the CPU seconds of each agent so far."""
    return [float(client.call("stats")["cpu"]) for client in clients]


def costs(count: int, elapsed: float, before: list[float], after: list[float]) -> tuple[Cost, Cost]:
    """Return the costs of sender and receiver, from their CPU seconds before and after."""
    sender, receiver = (Cost(count, elapsed, b - a) for a, b in zip(before, after, strict=True))
    return sender, receiver
