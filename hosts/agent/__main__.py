"""The process of one host: its transport on its NIC, driven over a Unix socket.

``python -m mrclab.hosts.agent --node-config node/h1.json --socket h1.sock --history history/h1.jsonl`` in the
host's network namespace. SIGTERM ends it cleanly.
"""

from __future__ import annotations

import argparse
import errno
import gc
import json
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mrclab.hosts.agent.api import CheckedOperations
from mrclab.hosts.agent.host import RunningHost
from mrclab.hosts.agent.provider import SUFFIX
from mrclab.hosts.agent.provider.server import Provider
from mrclab.hosts.memory.regions import Mapped
from mrclab.hosts.nic.interface import Transport
from mrclab.hosts.nic.nic import Nic
from mrclab.hosts.nic.packetsocket import PacketSocketError
from mrclab.hosts.transports import draws
from mrclab.rpc.errors import RpcError
from mrclab.rpc.server import Server
from mrclab.topo.config.nodeconfig import NodeConfig, NodeConfigError, load
from mrclab.topo.process.realtime import DATA_PLANE, use_realtime

log = logging.getLogger("agent")

_FLUSH_S = 0.1  # seconds after which written records are readable for others
INTERVAL_S = 1.0
QUIET_FRAMES = 100
"""A NIC counts as idle if it sent and received fewer frames since the last tick: probes and link checks."""

_NEW_OBJECTS = 10_000  # fewer are not worth a check


class AgentHistory:
    """Appends records to a file and passes each to the listeners.

    A record holds `t` (monotonic seconds), `node`, `kind` and the kind's fields. Lines reach the file at `flush`.
    Raises RpcError where the file cannot be written.
    """

    def __init__(self, path: Path, node: str) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a", encoding="utf-8", buffering=1 << 20)
        except OSError as error:
            code = errno.errorcode.get(error.errno or 0, "EIO")
            text = f"the history {path} cannot be written: {error.strerror}; name another file"
            raise RpcError(code, text) from error
        self._node = node
        self._encode = json.JSONEncoder(separators=(",", ":")).encode

    def write(self, t: float, record: dict[str, Any]) -> dict[str, Any]:
        """Append one record that happened at `t` and return it complete."""
        whole = {"t": round(t, 6), "node": self._node, **record}
        self._file.write(self._encode(whole) + "\n")
        return whole

    def flush(self) -> None:
        """Make all records written so far readable for others."""
        self._file.flush()

    def close(self) -> None:
        """Flush and close."""
        self._file.close()


class Collector:
    """Collects an agent's garbage while its NIC is idle; `tick` is due every INTERVAL_S. `frames`: sent and received.

    A full collection takes a process of this size 50 to 100 ms, and agents with equal work reach it at the same moment,
    so that on few cores all of them are late by several times that. Sending and receiving makes no cycles; garbage of
    other operations, such as refused ones, can wait.
    """

    def __init__(self, frames: Callable[[], int]) -> None:
        self._frames = frames
        self._seen = 0
        gc.collect()
        gc.freeze()
        gc.disable()

    def tick(self, _now: float) -> None:
        """Collect if the NIC is idle and there may be garbage."""
        seen, self._seen = self._seen, self._frames()
        if self._seen - seen < QUIET_FRAMES and gc.get_count()[0] > _NEW_OBJECTS:
            gc.collect()


class Agent:
    """One host as a process. `run` serves until SIGTERM or the `shutdown` operation."""

    def __init__(
        self,
        config_path: Path,
        socket_path: Path,
        history_path: Path,
        seed: int,
        transport: str | None = None,
        repeatable: bool = False,
    ) -> None:
        config = load(config_path)
        self._history = AgentHistory(history_path, config.host.name)
        self._server: Server | None = None
        rng, secrets = draws(seed, config.host.name, repeatable)
        host = RunningHost(
            config, rng, self._make_nic, Mapped(), self._record, self._publish, transport, time.monotonic(), secrets
        )
        self._waker = _stop_on_signals(self._nic)
        process = ProcessOperations(host, config_path, self._nic.stop)
        served = {**host.operations, **CheckedOperations(process)}
        self._server = Server(socket_path, served)
        self._nic.watch(self._server.fileno(), self._server.service)
        self._provider = Provider(socket_path.with_suffix(SUFFIX), host.transport, self._nic)
        self._nic.watch(self._provider.fileno(), self._provider.service)
        self._nic.every(_FLUSH_S, lambda _now: self._history.flush())
        host.record({"kind": "agent.start", "pid": os.getpid(), "config_version": config.version, "seed": seed})
        self._host = host

    def run(self) -> None:
        """Serve until stopped, then leave nothing behind."""
        assert self._server is not None
        self._nic.every(INTERVAL_S, Collector(self._frames).tick)
        try:
            self._nic.run()
        finally:
            self._host.record({"kind": "agent.stop"})
            signal.set_wakeup_fd(-1)
            self._waker.close()
            self._server.service()
            self._server.close()
            self._provider.close()
            self._nic.close()
            self._history.close()

    def _make_nic(self, config: NodeConfig, transport: Transport) -> Nic:
        self._nic = Nic(config, transport)
        return self._nic

    def _frames(self) -> int:
        return sum(port.tx_packets + port.rx_packets for port in self._nic.ports)

    def _record(self, now: float, record: dict[str, Any]) -> dict[str, Any]:
        whole = self._history.write(now, record)
        if self._server is not None and self._server.has_subscribers:
            self._server.publish(whole)
        return whole

    def _publish(self, now: float, event: dict[str, Any]) -> None:
        if self._server is not None and self._server.has_subscribers:
            self._server.publish({"t": round(now, 6), **event})


def _stop_on_signals(nic: Nic) -> socket.socket:
    """Stop the loop on SIGTERM and SIGINT, also while it sleeps; return the socket that wakes it."""
    reader, writer = socket.socketpair()
    reader.setblocking(False)
    writer.setblocking(False)
    signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: nic.stop())

    def drain() -> None:
        reader.recv(64)

    nic.watch(reader.fileno(), drain)
    return writer


def main(argv: Sequence[str] | None = None) -> int:
    """Run an agent; return the exit status."""
    parser = argparse.ArgumentParser(prog="mrclab.hosts.agent", description="The MRC transport of one host")
    parser.add_argument("--node-config", type=Path, required=True, help="file that the controller wrote for this host")
    parser.add_argument("--socket", type=Path, required=True, help="Unix socket to serve")
    parser.add_argument("--history", type=Path, required=True, help="JSON lines to append events and samples to")
    parser.add_argument("--seed", type=int, default=0, help="of the EV draws")
    parser.add_argument("--repeatable", action="store_true", help="draw keys and first PSNs from the seed as well")
    parser.add_argument("--transport", choices=["mrc", "roce"], help="overrides the node config")
    parser.add_argument("--log-level", default="INFO", choices=["DEBUG", "INFO", "WARNING", "ERROR"])
    options = parser.parse_args(argv)
    logging.basicConfig(level=options.log_level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    use_realtime(DATA_PLANE, inherited=False)
    try:
        Agent(
            options.node_config, options.socket, options.history, options.seed, options.transport, options.repeatable
        ).run()
    except (NodeConfigError, PacketSocketError, RpcError) as error:
        log.error("%s", error)
        return 1
    return 0


class ProcessOperations:
    """Methods without underscore are operations."""

    def __init__(self, host: RunningHost, config_path: Path, stop: Callable[[], None]) -> None:
        self._host = host
        self._hello = host.operations["hello"]
        self._config_path = config_path
        self._stop = stop

    def hello(self) -> dict[str, Any]:
        """Return the host's name, the state of its ports, and `pid`, which changes with every restart."""
        return {**self._hello(), "pid": os.getpid()}

    def configure(self, path: str | None = None) -> dict[str, int]:
        """Read the node config file again, or another one, and apply it if it is newer."""
        return self._host.update(lambda: load(Path(path) if path else self._config_path))

    def shutdown(self) -> None:
        """End the agent after this response."""
        self._stop()


if __name__ == "__main__":
    sys.exit(main())
