"""A small fabric with real switches, host agents and a controller process, for the controller's tests."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mrclab.rpc.client import Client
from mrclab.rpc.errors import RpcError, RpcUnavailable
from mrclab.topo.linux.emulation import Emulation
from mrclab.topo.model import Fabric
from mrclab.topo.spec import load

TIMEOUT = 30.0  # seconds a test waits for something before it fails
POLL = 0.02  # seconds between two looks at a history file
ROOT = Path(__file__).resolve().parents[2]


class ControlledLab:
    """The emulation, its agents, and controllers by name; `events` reads the history of one."""

    def __init__(self, emulation: Emulation) -> None:
        self.emulation = emulation
        self.fabric = emulation.fabric
        self.run_dir = emulation.run_dir
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._clients: dict[str, Client] = {}

    def start_controller(self, name: str = "controller", *options: str) -> None:
        """Start a controller and wait until its API answers."""
        self._forget(name)
        argv = [
            sys.executable,
            "-m",
            "mrclab.controller",
            "--run-dir",
            str(self.run_dir),
            "--socket",
            str(self._socket(name)),
        ]
        argv += ["--history", str(self._history(name)), *options]
        self.processes[name] = self.emulation.popen(None, argv, log=name, cwd=ROOT)

        def answers() -> bool:
            assert self.processes[name].poll() is None, (self.run_dir / "log" / f"{name}.log").read_text()[-2000:]
            return self.try_call(name, "hello") is not None

        self.wait(answers)

    def start_agents(self) -> None:
        """Start every host's agent; the node configs must be there."""
        for host in self.fabric.hosts:
            self.start_agent(host.name)

    def start_agent(self, host: str) -> None:
        """Start one host's agent, or start it again."""
        self._forget(host)
        argv = [sys.executable, "-m", "mrclab.hosts.agent", "--node-config", str(self.run_dir / f"node/{host}.json")]
        argv += ["--socket", str(self.run_dir / f"{host}.sock"), "--history", str(self._history(host))]
        self.processes[host] = self.emulation.popen(host, argv, log=host, cwd=ROOT)

    def start(self, *options: str) -> None:
        """Controller and agents, up to the last cable."""
        self.start_controller("controller", *options)
        self.start_agents()
        outcome = self.call("controller", "wait_verified", timeout=TIMEOUT)
        assert outcome["verified"], outcome

    def kill(self, name: str) -> float:
        """SIGKILL a controller or agent; returns the monotonic time."""
        now = time.monotonic()
        os.kill(self.processes[name].pid, signal.SIGKILL)
        self.processes[name].wait()
        return now

    def kill_switch(self, name: str) -> float:
        """SIGKILL a switch; returns the monotonic time before it: the controller may see it end before we go on."""
        now = time.monotonic()
        self.emulation.kill(name)
        return now

    def recover(self) -> None:
        """After a test that failed halfway: everything alive, every cable whole, one controller, nothing denied."""
        self.emulation.cables.clear_all()
        for switch in self.fabric.switches:
            self.emulation.restart(switch.name)
        hosts = {host.name for host in self.fabric.hosts}
        for name, process in self.processes.items():
            if name not in hosts and process.poll() is None:
                self.kill(name)
        (self.run_dir / "denylist.json").unlink(missing_ok=True)
        for host in hosts:
            if self.processes[host].poll() is not None:
                self.start_agent(host)
        self.start_controller()
        assert self.call("controller", "wait_verified", timeout=TIMEOUT)["verified"]

    def call(self, node: str, op: str, **arguments: Any) -> dict[str, Any]:
        """Ask a controller or an agent; an operation with a `timeout` gets its time beside ours."""
        if node not in self._clients:
            self._clients[node] = Client(str(self._socket(node)))
        try:
            return self._clients[node].call(op, rpc_timeout=TIMEOUT + arguments.get("timeout", 0.0), **arguments)
        except RpcUnavailable:
            self._forget(node)  # its connection is over; the next call makes a new one
            raise

    def try_call(self, node: str, op: str) -> dict[str, Any] | None:
        """The same; None where nobody answers yet."""
        try:
            return self.call(node, op)
        except RpcError:
            self._forget(node)
            return None

    def events(self, kind: str, since: float = 0.0, node: str = "controller") -> list[dict[str, Any]]:
        """Events of a kind after a moment."""
        lines = self._history(node).read_text().splitlines()
        return [e for e in map(json.loads, lines) if e["kind"] == kind and e["t"] >= since]

    def wait_event(self, kind: str, since: float = 0.0, node: str = "controller", **fields: Any) -> dict[str, Any]:
        """The first event of a kind with these fields after a moment; waits for it."""

        def find() -> dict[str, Any] | None:
            found = (e for e in self.events(kind, since, node) if fields.items() <= e.items())
            return next(found, None)

        found = self.wait(find)
        assert isinstance(found, dict)
        return found

    def wait(self, condition: Callable[[], Any]) -> Any:
        """Return the value of `condition` as soon as it is true."""
        deadline = time.monotonic() + TIMEOUT
        while not (result := condition()):
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {TIMEOUT:g} s: {condition}")
            time.sleep(POLL)
        return result

    def _forget(self, node: str) -> None:
        with contextlib.suppress(KeyError):
            self._clients.pop(node).close()

    def _socket(self, name: str) -> Path:
        return self.run_dir / f"{name}.sock"

    def _history(self, name: str) -> Path:
        return self.run_dir / "history" / f"{name}.jsonl"


@contextlib.contextmanager
def controlled_lab(tag: str, target: str | None = None, **spec: Any) -> Iterator[ControlledLab]:
    """A fabric that is up, without controller and agents yet; all is gone at the end."""
    fabric = Fabric(load({"planes": 2, "t0s": 2, "t1s": 2, "hosts_per_t0": 1} | spec))
    with Emulation(fabric, Path(f"/run/mrct-{os.getpid()}{tag}/lab"), target) as emulation:
        (emulation.run_dir / "fabric.yaml").write_text(json.dumps(fabric.spec.model_dump(mode="json")))
        yield ControlledLab(emulation)
