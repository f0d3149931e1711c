"""Two host agents as processes in namespaces of their own, one cable per plane between them, no switch.

The first uSID of their templates is already the downlink of the destination, as it arrives behind a T0.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from netns import Namespace, join

from mrclab.rpc.client import Client

TIMEOUT_S = 20.0
NAMES = ("h1", "h2")
SIZES = (0, 1, 4096, 4097, 3_000_001)
"""Bytes of files: none, less than a packet, just one, just more, and many."""


def random_file(path: Path, size: int) -> Path:
    path.write_bytes(os.urandom(size))
    return path


def mac(plane: int, host: int) -> str:
    return f"02:0c:{plane:02x}:00:{host:02x}:01"


def node_config(host: int, planes: int, rate_pps: float, delay: float, **transport: Any) -> dict[str, Any]:
    """The node config of host 1 or 2, each the other's neighbour in every plane."""
    peer = 3 - host
    numbers = range(1, planes + 1)
    return {
        "version": 1,
        "host": {"name": f"h{host}", "number": host, "group": 1, "downlink": host, "address": f"fdcb:bb00:0:1::{host}"},
        "path_mtu": 4096,
        "link": {"rate_pps": rate_pps, "delay": delay},
        "ports": [
            {"number": p, "name": f"h{host}-p{p}", "plane": p, "mac": mac(p, host), "peer_switch": f"h{peer}",
             "peer_port": p, "peer_mac": mac(p, peer)}
            for p in numbers
        ],
        "templates": [
            {"group": 1, "prefix": "fdcb:bb00:0:1::/64", "scope": "t0-local", "address": "fcbb:bb00:3000::",
             "uplinks": {str(p): [] for p in numbers}, "base_rtt": 2 * delay + 3 / rate_pps, "links": 1}
        ],
        "ev_profiles": [{"name": "default", "active_per_plane": 1, "backup_per_plane": 0, "ev_min_active": 1}],
        "transport": {"mpr": 8, "timeout_exponent": 16, "sack_gen_threshold": 12288, "trimming": True,
                      "trim_threshold": 50, "drop_threshold": 200} | transport,
        "directory": {f"h{n}": f"fdcb:bb00:0:1::{n}" for n in (1, 2)},
    }  # fmt: skip


class AgentPair:
    """Both agents, their clients, and their history files."""

    def __init__(self, directory: Path, planes: int, rate_pps: float, delay: float, **transport: Any) -> None:
        self.directory = directory
        self.planes = planes
        self.namespaces = {name: Namespace(name) for name in NAMES}
        self.processes: dict[str, subprocess.Popen[str]] = {}
        self.clients: dict[str, Client] = {}
        for plane in range(1, planes + 1):
            ends = ((self.namespaces[name], f"{name}-p{plane}", mac(plane, host)) for host, name in enumerate(NAMES, 1))
            join(*(part for end in ends for part in end))
        for number, name in enumerate(NAMES, 1):
            config = node_config(number, planes, rate_pps, delay, **transport)
            self.config_path(name).write_text(json.dumps(config))

    def config_path(self, name: str) -> Path:
        return self.directory / f"{name}.json"

    def start(self) -> None:
        """Start both agents and wait until they see carrier on all ports."""
        for name in NAMES:
            self.start_one(name)
        for name in NAMES:
            self.clients[name] = client = Client.wait_for(self.directory / f"{name}.sock", TIMEOUT_S)
            client.subscribe()
            if not all(port["up"] for port in client.call("hello")["ports"]):
                self.wait_event(name, lambda _, client=client: all(p["up"] for p in client.call("hello")["ports"]))

    def start_one(self, name: str) -> subprocess.Popen[str]:
        files = {"node-config": self.config_path(name), "socket": f"{name}.sock", "history": f"{name}.jsonl"}
        options = [word for option, file in files.items() for word in (f"--{option}", str(self.directory / file))]
        argv = [sys.executable, "-m", "mrclab.hosts.agent", *options]
        self.processes[name] = self.namespaces[name].popen(argv, stderr=subprocess.PIPE)
        return self.processes[name]

    def wait_event(self, name: str, wanted) -> dict[str, Any]:
        """Return the next event that fits."""
        for event in self.clients[name].events(timeout=TIMEOUT_S):
            if wanted(event):
                return event
        raise AssertionError(f"{name} did not say what was waited for")

    def connect(self, **attributes) -> tuple[int, int]:
        """Make a QP on each side and bring both to RTS."""
        h1, h2 = (self.clients[name] for name in NAMES)
        ends = h1.call("create_qp", peer="h2", **attributes), h2.call("create_qp", peer="h1", **attributes)
        h1.call("connect_qp", qp=ends[0]["qp"], remote=ends[1])
        h2.call("connect_qp", qp=ends[1]["qp"], remote=ends[0])
        return ends[0]["qp"], ends[1]["qp"]

    def post(self, qp: int, source: Path, target: Path, wr_id: int = 1) -> None:
        """Register a file on both sides and post the write of one to the other."""
        h1, h2 = (self.clients[name] for name in NAMES)
        local = h1.call("reg_mr", path=str(source), access="read")
        remote = h2.call("reg_mr", path=str(target), length=local["length"], access="write")
        h1.call("post_send", qp=qp, wr_id=wr_id, opcode="RDMA_WRITE",
                local={"lkey": local["lkey"], "offset": 0, "length": local["length"]},
                remote={"va": remote["va"], "rkey": remote["rkey"]})  # fmt: skip

    def completion(self, wr_id: int = 1) -> dict[str, Any]:
        """Wait for the completion of a write and take it."""
        self.wait_event("h1", lambda event: event["kind"] == "wr.done" and event["wr_id"] == wr_id)
        (completion,) = self.clients["h1"].call("poll_cq")["completions"]
        return completion

    def check_delivery(self, directory: Path, size: int) -> None:
        """Write a file of this size from h1 to h2; it must arrive bit for bit and complete."""
        source, target = random_file(directory / "source", size), directory / "target"
        qp, _ = self.connect()
        self.post(qp, source, target)
        completion = self.completion()
        assert (completion["wr_id"], completion["status"]) == (1, "SUCCESS")
        assert target.read_bytes() == source.read_bytes()

    def history(self, name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.directory / f"{name}.jsonl").read_text().splitlines()]

    def stop(self) -> dict[str, str]:
        """End both agents by SIGTERM; return what each wrote to stderr."""
        for client in self.clients.values():
            client.close()
        output = {}
        for name, process in self.processes.items():
            process.send_signal(signal.SIGTERM)
            output[name] = process.communicate(timeout=TIMEOUT_S)[1]
        return output

    def remove(self) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
            process.communicate()
        for namespace in self.namespaces.values():
            namespace.remove()


@contextlib.contextmanager
def agent_pair(
    directory: Path, planes: int = 2, rate_pps: float = 4000, delay: float = 0.0005, **transport: Any
) -> Iterator[AgentPair]:
    """Two agents that run, with `transport` over the defaults of their QPs; afterwards nothing of them is left."""
    pair = AgentPair(directory, planes, rate_pps, delay, **transport)
    try:
        pair.start()
        yield pair
    finally:
        pair.remove()
