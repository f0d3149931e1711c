"""Client of a running lab: its fabric, and its agents and controller over their Unix sockets."""

import functools
import select
import time
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from mrclab.events.event import Event as RecordedEvent
from mrclab.lab.errors import Refused, RunError, Stopped, Unreachable, as_run_error
from mrclab.lab.kinds import WorldName
from mrclab.lab.run.wire.watchdog import title_of
from mrclab.lab.run.world import GONE, KINDS, Event
from mrclab.rpc.client import Client
from mrclab.rpc.errors import RpcError, RpcStopped, RpcTimeout, RpcUnavailable
from mrclab.rpc.peers import is_stopped, server_pid, stopped_text
from mrclab.topo import fabricfile
from mrclab.topo.linux.adaptivetimeout import AdaptiveTimeout, MachineSlowness
from mrclab.topo.linux.paths import RUN_DIR
from mrclab.topo.model import Fabric
from mrclab.topo.spec import SpecError

_LEAD, _LEAD_PER_HOST = 0.01, 0.002  # seconds between notifying hosts and their common start time
ANSWER_TIMEOUT = 10.0  # seconds in which a process answers a call that needs no waiting


class LabClients:
    """RPC clients of one running lab, each connected when first needed."""

    def __init__(self, run_dir: Path, fabric: Fabric) -> None:
        self.run_dir = run_dir
        self.fabric = fabric
        self.slowness = MachineSlowness()
        self._clients: dict[str, Client] = {}
        self._pids: dict[str, int] = {}  # of the servers of the sockets

    @property
    def files(self) -> Path:
        """Directory of transfers' files: one folder per host."""
        return self.run_dir / "files"

    @property
    def now(self) -> float:
        """Return the machine's monotonic clock, which the histories of all processes use."""
        return time.monotonic()

    def pause(self, seconds: float) -> None:
        """Sleep."""
        time.sleep(seconds)

    def call(self, node: str, op: str, /, **arguments: Any) -> dict[str, Any]:
        """Call an agent (`h1`) or the `controller`; RunError names the node that refused and why.

        An operation that is given a `timeout` (seconds) may take that long, and then must answer. Raises TooSlow if no
        answer came in time because of the machine, Stopped if a signal has stopped the process.
        """
        if "timeout" in arguments:
            arguments["timeout"] *= self.slowness.stretch
        adaptive = AdaptiveTimeout(ANSWER_TIMEOUT, self.slowness)
        limit = arguments.get("timeout", 0.0) + ANSWER_TIMEOUT * self.slowness.stretch
        try:
            if node not in self._clients:
                path = self.run_dir / f"{node}.sock"
                self._clients[node] = Client(path, may_stop=functools.partial(self._may_stop, node))
            return self._clients[node].call(op, rpc_timeout=limit, **arguments)
        except RpcStopped as error:
            self.forget(node)
            raise Stopped(
                f"{title_of(self.fabric, node)} {stopped_text(error.pid)}; it should have answered {op}"
            ) from None
        except RpcTimeout:
            self.forget(node)
            raise as_run_error(adaptive.error(node, f"answer {op}")) from None
        except RpcError as error:
            self.forget(node)
            kind = Unreachable if isinstance(error, RpcUnavailable) else RunError
            raise kind(f"{node} could not {op}: {error.message}") from None

    # --- as a World, for traffic ------------------------------------------------------------------------------------

    name: WorldName = "wire"
    seed = 1

    def lead(self, hosts: int) -> float:
        """Hosts are notified one after the other."""
        return _LEAD + _LEAD_PER_HOST * hosts

    def subscribe(self, nodes: Iterable[str], kinds: Collection[str] = KINDS) -> "Listener":
        """Connect to some processes for their events."""
        return Listener(self, nodes, kinds)

    def record(self, _event: RecordedEvent, t: float | None = None) -> float:
        """Record nothing: the history is that of another process."""
        return self.now if t is None else t

    def stopped(self) -> dict[str, int]:
        """Return name → pid of the agents, the controller and the switches that a signal has stopped."""
        if not self._pids:
            nodes = ["controller", *(host.name for host in self.fabric.hosts)]
            paths = {node: self.run_dir / f"{node}.sock" for node in nodes}
            paths |= {each.name: self.run_dir / f"{each.name}.p4rt.sock" for each in self.fabric.switches}
            found = {name: server_pid(path) for name, path in paths.items()}
            self._pids = {name: pid for name, pid in found.items() if pid is not None}
        return {name: pid for name, pid in self._pids.items() if is_stopped(pid)}

    def _may_stop(self, node: str) -> bool:
        """Return True if a fault stopped a node on purpose."""
        return False

    def check(self) -> None:
        """Do nothing: from outside, an unexpected end looks like an expected one."""

    def settle(self, node: str) -> None:
        """Do nothing, as `check`, for a node that closed its sockets."""

    def forget(self, node: str) -> None:
        """Close the connection to a node; the next call makes a new one."""
        client = self._clients.pop(node, None)
        if client is not None:
            client.close()

    def disconnect(self) -> None:
        """Close all connections."""
        for node in list(self._clients):
            self.forget(node)


def attach(run_dir: Path = RUN_DIR) -> LabClients | None:
    """Return the running lab, or None. Raises Refused if there is one that is not ready."""
    from mrclab.topo.linux import state  # noqa: PLC0415 - Linux alone has what it needs

    pid = state.running(run_dir.parent)
    if pid is None:
        return None
    fabric_file = run_dir / "fabric.yaml"
    try:
        return LabClients(run_dir, fabricfile.load(fabric_file))
    except OSError:
        pass  # not there yet, or no longer
    except SpecError:
        raise Refused(
            f"{fabric_file} was not written by a lab; end the lab (process {pid}) and bring it up again"
        ) from None
    raise Refused(f"a lab is coming up or going down (process {pid}); try again in a moment")


class Listener:
    """Subscriber to the agents of some hosts; connects when created."""

    def __init__(self, lab: LabClients, hosts: Iterable[str], kinds: Collection[str] = KINDS) -> None:
        self._lab = lab
        self._kinds = list(kinds)
        self._clients: dict[str, Client] = {}
        for host in hosts:
            self.join(host)

    def join(self, host: str) -> None:
        """Subscribe to a host, again if it was gone; RunError where its agent does not answer."""
        self.leave(host)
        try:
            client = Client(self._lab.run_dir / f"{host}.sock")
            client.subscribe(self._kinds)
        except RpcError as error:
            gone = isinstance(error, RpcUnavailable) and not isinstance(error, RpcTimeout)
            kind = Unreachable if gone else RunError
            raise kind(f"{host} refused the subscription to its events: {error.message}") from None
        self._clients[host] = client

    def leave(self, host: str) -> None:
        """Unsubscribe from a host."""
        client = self._clients.pop(host, None)
        if client is not None:
            client.close()

    def is_subscribed(self, host: str) -> bool:
        """Return True if a host is connected."""
        return host in self._clients

    def taken(self) -> list[Event]:
        """Return nothing: `wait` returns what it has read."""
        return []

    def wait(self, until: float) -> list[Event]:
        """Return (host, event) of all that arrived; returns at the first arrivals, or at a monotonic time."""
        found: list[Event] = []
        while not found:
            by_descriptor = {client.fileno(): host for host, client in self._clients.items()}
            left = max(0.0, until - time.monotonic())
            self._lab.check()
            ready, _, _ = select.select(list(by_descriptor), (), (), left)
            for descriptor in ready:
                host = by_descriptor[descriptor]
                found += self._take(host)
            if not ready:
                break
        return found

    def _take(self, host: str) -> list[Event]:
        client = self._clients[host]
        events: list[Event] = [(host, event) for event in client.events(0.0)]
        if client.fileno() < 0:
            self._lab.settle(host)
            self.leave(host)
            events.append((host, {"kind": GONE}))
        return events

    def close(self) -> None:
        """Close all connections."""
        for host in list(self._clients):
            self.leave(host)
