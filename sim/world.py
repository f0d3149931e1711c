"""A whole lab in virtual time: fabric, hosts, controller and fault injector. The same seed gives the same run.

world = SimWorld(fabric, seed=1, transport=TransportSpec(), mapper=None, files=directory)
world.call("h1", "create_qp", peer="h3")
events = world.run(until=2.5)
world.collect(results)
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mrclab.controller.operations import by_name
from mrclab.events.event import Event
from mrclab.events.processes import ProcessEnded
from mrclab.events.run import LabUp
from mrclab.events.switches import QueueDepthSample
from mrclab.hosts.agent.host import RunningHost
from mrclab.hosts.agent.sampling import KEPT
from mrclab.hosts.memory.memory import local_memory
from mrclab.hosts.mrc.qp import MrcQueuePair
from mrclab.hosts.mrc.settings import RETRY_ENDLESS
from mrclab.hosts.transports import draws
from mrclab.hosts.workloads.digests import SharedDigests
from mrclab.rpc.errors import RpcError, RpcUnavailable
from mrclab.sim.clock import Clock, ticks
from mrclab.sim.codec import OBJECTS
from mrclab.sim.controller import SimController
from mrclab.sim.fabric import SimFabric
from mrclab.sim.fleet import MAX_SHOWN
from mrclab.sim.injector import SimFaultInjector
from mrclab.sim.nic import SimNic
from mrclab.sim.openloop import Arrival, OpenFlow, SimOpenLoop
from mrclab.topo import fabricfile
from mrclab.topo.config import nodeconfig
from mrclab.topo.config.transport import TransportSpec
from mrclab.topo.economy import CompressedLog
from mrclab.topo.model import Fabric

if TYPE_CHECKING:
    from mrclab.hosts.roce.qp import RoceQueuePair

CONTROLLER: Final = "controller"
LAB: Final = "lab"
GONE: Final = "agent.gone"
"""Kind of the event of a host that ended."""

PUBLISHED: Final = frozenset({
    "workload.progress", "flow.done", "flow.failed", "flow.received", "iteration", "training.step", "qp.stalled",
    "qp.resumed", "verdict", "denied", GONE,
})  # fmt: skip
"""Kinds of events that `run` hands over."""

FREQUENT: Final = frozenset({"agent.start", "agent.stop", "mapper.report", "port.state", "probe.lost", "probe.reply"})
"""Kinds of records that every host writes for every port or cycle: the history of a large fabric leaves them out."""

KEPT_WITHOUT_HISTORY: Final = frozenset({"messages", "pingpong", "process.died", "qp.state", "training.step"})
"""Kinds of records, beside the lab's own, that are kept where no history is kept; of `qp.state` those to ERROR."""

DEPTHS_S: Final = 0.25
MAX_CONFIGS: Final = 64
"""Node configs that a result keeps: of all hosts, or in a larger fabric of the first that had something to do."""

_DIGITS: Final = 9  # of the seconds in the history


class SimWorld(SimFaultInjector):
    """A lab that is up, and its own fault injector. Hosts' regions are files below `files`; some hosts may have a
    transport of their own.

    Without `history` no host is sampled, and only the records for completion times and errors are kept.
    """

    def __init__(
        self,
        fabric: Fabric,
        *,
        seed: int,
        transport: TransportSpec,
        mapper: Mapping[str, Any] | None,
        files: Path,
        of_hosts: Mapping[str, TransportSpec] | None = None,
        history: bool = True,
    ) -> None:
        self._clock = Clock()
        self.sim = SimFabric(self._clock, fabric, seed)
        super().__init__(self.sim, seed)
        self._has_history = history
        self.fabric = fabric
        self.files = files
        self.check_interrupt: Callable[[], object] = lambda: None  # raises where time must not pass any more
        self._depths_every = ticks(DEPTHS_S * fabric.spec.display_scale)
        self._is_large = len(fabric.links) > MAX_SHOWN
        self._keeps_qps = history and not self._is_large
        self._open_loops: list[SimOpenLoop] = []
        self._lines = CompressedLog()
        self._encode = json.JSONEncoder(separators=(",", ":")).encode
        self._events: list[tuple[str, dict[str, Any]]] = []
        record = functools.partial(self._write_now, CONTROLLER)
        self._controller = SimController(self.sim, transport, mapper, record, self._advance, of_hosts or {})
        self._operations = by_name(self._controller.core, asynchronous=False)
        self._operations["metrics"] = lambda: {"url": self._controller.metrics_url()}
        self.hosts: dict[str, RunningHost] = {}
        self._shared_digests = SharedDigests()
        self._gone: set[str] = set()  # hosts that were ended
        self._used: list[str] = []  # hosts that were ever started
        self._controller.nodes.gone = self._gone
        self.sim.start_host = self._controller.nodes.start_host = self._start_if_new
        for name in self._controller.probing:
            self._start_host(name)
        if history:
            self._clock.call_at(0, self._record_depths)
        self._controller.begin()
        self.record(LabUp(seconds=self.now))

    # --- time ---------------------------------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        """Seconds since the world began."""
        return self._clock.seconds

    def run(self, until: float) -> list[tuple[str, dict[str, Any]]]:
        """Let time pass until a host publishes something, at most until a time; return (host, event) pairs."""
        at = self._clock.not_before(until)
        if not self._events:
            self._clock.run(at)
        return self.published()

    def published(self) -> list[tuple[str, dict[str, Any]]]:
        """Return the (host, event) pairs that were published since the last call."""
        events, self._events = self._events, []
        return events

    def _advance(self, seconds: float) -> None:
        """Let time pass, and collect the events published meanwhile."""
        until = self._clock.now + max(1, ticks(seconds))
        while self._clock.now < until:
            self.check_interrupt()
            self._clock.run(until)

    def halt(self) -> None:
        """End the current slice of time at once: `run` returns, the controller calls `check_interrupt`."""
        self._clock.halted = True

    # --- nodes --------------------------------------------------------------------------------------------------------

    def call(self, node: str, op: str, /, **arguments: Any) -> dict[str, Any]:
        """Call an operation of a host or the `controller`; RpcError where it refuses, or is not there."""
        if node == CONTROLLER:
            return self._call_controller(op, arguments)
        self._start_if_new(node)
        host = self.hosts.get(node)
        if host is None:
            raise RpcUnavailable(
                "ENOTCONN", f"the agent of {node} is down" if node in self._gone else f"{node} is not there"
            )
        answer = host.call(op, **arguments)
        _nic(host).serve()
        return answer or {}

    def _call_controller(self, op: str, arguments: dict[str, Any]) -> dict[str, Any]:
        if not self._controller.alive:
            raise RpcUnavailable("ENOTCONN", "the controller is down")
        found = self._operations.get(op)
        if found is None:
            raise RpcError("EINVAL", f"the controller has no operation {op!r} in virtual time")
        return dict(found(**arguments))

    def open_loop(
        self,
        arrivals: Iterator[Arrival],
        attributes: dict[str, Any],
        done: Callable[[OpenFlow, float, str], None],
    ) -> SimOpenLoop:
        """Make a driver of flows that arrive by themselves. From now on the history leaves out QPs that come and go."""
        self._keeps_qps = False
        for host in self.hosts.values():
            host.transport.events.logs_states = False
        made = SimOpenLoop(self._clock, self._host_of, arrivals, attributes, done)
        self._open_loops.append(made)
        return made

    def _host_of(self, name: str) -> RunningHost | None:
        self._start_if_new(name)
        return self.hosts.get(name)

    def _start_if_new(self, name: str) -> None:
        """Create a host on first use: it has existed all the time, idle."""
        if name not in self.hosts and name not in self._gone and self.fabric.has_host(name):
            self._start_host(name)

    def _start_host(self, name: str) -> None:
        config = self._controller.nodes.configs[name]
        rng, secrets = draws(self._seed, name, repeatable=True)
        host = RunningHost(
            config,
            rng,
            functools.partial(SimNic, self._clock, self.sim.nic_cable, False),
            local_memory(),
            functools.partial(self._host_record, name),
            functools.partial(self._on_event, name),
            began=self.now,
            secrets=secrets,
            codecs=OBJECTS,
            samples=0 if self._is_large else KEPT,
            sampled=self._has_history,
            shared_digests=self._shared_digests,
        )
        host.transport.events.logs_states = self._keeps_qps
        self.hosts[name] = host
        self._controller.nodes.running[name] = host
        self._used.append(name)
        host.record({"kind": "agent.start", "config_version": config.version, "seed": self._seed})
        self.sim.connect(name, _nic(host))

    def last_output(self, node: str) -> str:
        """Return the last output of a node that ended."""
        return "it was ended on purpose" if node in self._gone else "it printed nothing"

    def stuck(self) -> list[str]:
        """Return one sentence per QP with unfinished work, with its reason to wait."""
        found = []
        for name, host in self.hosts.items():
            for number, qp in host.transport.verbs.qps.items():
                if waiting := qp.outstanding:
                    writes = "1 write" if waiting == 1 else f"{waiting} writes"
                    found.append(f"{name} QP {number} ({qp.state.value}) has {writes} without acknowledgement")
        return found

    def deadlocked(self) -> bool:
        """Return True if every pending QP is blocked on a fault that nothing will clear (deadlock)."""
        waits = False
        for host in self.hosts.values():
            for qp in host.transport.verbs.qps.values():
                if qp.outstanding:
                    waits = True
                    if not self._is_deadlocked(host, qp):
                        return False
        return waits

    def _is_deadlocked(self, host: RunningHost, qp: MrcQueuePair | RoceQueuePair) -> bool:
        """Return True if it retries without end, and no plane of its EVs has carrier at both hosts."""
        if not isinstance(qp, MrcQueuePair) or qp.settings.retry_exponential < RETRY_ENDLESS:
            return False
        peer = self.hosts.get(self.fabric.host_by_address(qp.peer_text).name)
        own = {plane.number for plane in qp.known_evs.plane_list} if qp.known_evs is not None else _planes(host)
        return peer is None or not own & _planes(host) & _planes(peer)

    def kill(self, node: str) -> None:
        """End a node at once."""
        self._end(node)

    def terminate(self, node: str) -> None:
        """End a node in good order."""
        if node in self.hosts:
            self.hosts[node].record({"kind": "agent.stop"})
        self._end(node)

    def _end(self, node: str) -> None:
        self.sim.touched[node] = None
        if node == CONTROLLER:
            self._controller.end()
        elif node in self.sim.switches:
            self.sim.switches[node].die()
            self._controller.fleet.lost(node)
        elif self.fabric.has_host(node) and node not in self._gone:
            self._start_if_new(node)
            host = self.hosts.pop(node)
            self._gone.add(node)
            self._controller.nodes.running.pop(node, None)
            _nic(host).disconnect()
            self.sim.host_end(node).nic = None
            for open_loop in self._open_loops:
                open_loop.lost(node)
            self._on_event(node, self.now, {"kind": GONE})
        self.record(ProcessEnded(process=node))

    def restart(self, node: str) -> None:
        """Start a node again, without its state."""
        if node == CONTROLLER:
            self._controller.begin_again()
        elif node in self.sim.switches:
            switch = self.sim.switches[node]
            switch.revive()
            self._controller.fleet.provision(switch)
        elif node not in self.hosts:
            self._gone.discard(node)
            self._start_host(node)

    def freeze(self, node: str) -> None:
        """Stop a switch; hosts and the controller cannot be stopped."""
        self.sim.touched[node] = None
        self.sim.switches[node].freeze()

    def thaw(self, node: str) -> None:
        """Continue a switch after `freeze`."""
        switch = self.sim.switches[node]
        switch.thaw()
        if switch.is_empty:
            self._controller.fleet.provision(switch)

    def is_alive(self, node: str) -> bool:
        """Return True if a node is there, even if stopped."""
        if node == CONTROLLER:
            return self._controller.alive
        if node in self.sim.switches:
            return self.sim.switches[node].alive
        return self.fabric.has_host(node) and node not in self._gone

    # --- the history --------------------------------------------------------------------------------------------------

    def record(self, event: Event, t: float | None = None) -> float:
        """Write a record of the lab itself, at `now` where no time is given; return its time."""
        return self._write(LAB, self.now if t is None else t, event.to_record())["t"]  # type: ignore[no-any-return]

    def _write_now(self, node: str, event: Event) -> None:
        whole = self._write(node, self.now, event.to_record())
        if event.kind in PUBLISHED:
            self._publish(node, whole)

    def _write(self, node: str, t: float, record: dict[str, Any]) -> dict[str, Any]:
        whole = {"t": round(t, _DIGITS), "node": node, **record}
        if self._has_history or node == LAB or _is_always_kept(record):
            self._lines.append(whole["t"], self._encode(whole))
        return whole

    def _host_record(self, name: str, t: float, record: dict[str, Any]) -> dict[str, Any]:
        if self._is_large and record["kind"] in FREQUENT:
            whole = {"t": round(t, _DIGITS), "node": name, **record}
        else:
            if self._is_large and record["kind"] == "sample":
                record = {**record, "ports": [_counted(port) for port in record["ports"]]}
            whole = self._write(name, t, record)
        self._controller.on_host_record(name, whole)
        if whole["kind"] in PUBLISHED:
            self._publish(name, whole)
        return whole

    def _on_event(self, name: str, t: float, event: dict[str, Any]) -> None:
        if event["kind"] in PUBLISHED:
            self._publish(name, {"t": round(t, _DIGITS), **event})

    def _publish(self, name: str, event: dict[str, Any]) -> None:
        self._events.append((name, event))
        self._clock.halted = True

    def _record_depths(self, _argument: object) -> None:
        self._clock.call_at(self._clock.now + self._depths_every, self._record_depths)
        waiting, silent = self.depths()
        self.record(QueueDepthSample(switches=waiting, silent=silent))

    def depths(self) -> tuple[dict[str, dict[str, int]], list[str]]:
        """Packets in data queues by switch and port number, where there are any; switches that do not answer."""
        waiting: dict[str, dict[str, int]] = {}
        silent = []
        for switch in self.sim.switches.made:
            name = switch.model.name
            if switch.frozen or not switch.alive:
                silent.append(name)
                continue
            found = {str(port.number): port.depth() for port in switch.used if port.waiting}
            if busy := {number: depth for number, depth in found.items() if depth}:
                waiting[name] = busy
        return waiting, silent

    # --- the end ------------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """End the world: every host stops, and scheduled events are cancelled."""
        for host in self.hosts.values():
            host.record({"kind": "agent.stop"})
            _nic(host).disconnect()
        self.hosts.clear()
        self._controller.close()
        self._clock.clear()

    def history_since(self, number: int) -> list[str]:
        """The records that were written after the first `number`, as JSON lines, in the order of writing."""
        return self._lines.since(number)

    def hand_over(self) -> CompressedLog:
        """Return the history without writing it; it is dropped from memory here."""
        lines, self._lines = self._lines, CompressedLog()
        return lines

    def collect(self, directory: Path) -> None:
        """Write inputs and history so far: fabric.yaml, node/, log/, history.jsonl."""
        for folder in ("node", "log"):
            (directory / folder).mkdir(exist_ok=True)
        fabricfile.store(self.fabric.spec, directory / "fabric.yaml")
        few = len(self.fabric.hosts) <= MAX_CONFIGS
        for name in self.fabric.host_names if few else self._used[:MAX_CONFIGS]:
            nodeconfig.store(self._controller.nodes.configs[name], directory / "node" / f"{name}.json")
        if self._has_history:
            with (directory / "history.jsonl").open("w", encoding="utf-8") as history:
                history.writelines(line + "\n" for line in self._lines.by_time())


def _is_always_kept(record: Mapping[str, Any]) -> bool:
    return record["kind"] in KEPT_WITHOUT_HISTORY and record.get("state", "ERROR") == "ERROR"


def _counted(port: dict[str, Any]) -> dict[str, Any]:
    """A row of a NIC port without the counters that are 0: in a large fabric they were most of the history."""
    return {name: value for name, value in port.items() if value or name == "up"}


def _planes(host: RunningHost) -> set[int]:
    """Planes whose port has carrier."""
    return {port.number for port in _nic(host).ports if port.up}


def _nic(host: RunningHost) -> SimNic:
    assert isinstance(host.nic, SimNic)
    return host.nic
