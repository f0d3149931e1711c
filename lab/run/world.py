"""World of a run, as everything above sees it: a clock, nodes with operations, cables that fail, events.

The wire is one world (`mrclab.lab.run.wire.wireworld`): namespaces, processes, the machine's clock. Virtual time
is the other (`mrclab.lab.run.virtual`). Time is seconds of the world's clock, which may begin anywhere, 0 included.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from typing_extensions import TypedDict

from mrclab.events.switches import SwitchCounters
from mrclab.lab.faults.action import FaultContext
from mrclab.lab.kinds import WorldName
from mrclab.lab.scenario.sections.mapper import MapperSpec
from mrclab.topo.config.transport import TransportSpec
from mrclab.topo.economy import CompressedLog

Progress = Callable[[str, int, int], None]  # stage, done, total
Event = tuple[str, Mapping[str, Any]]  # node, fields

KINDS = ("workload.progress", "flow.done", "flow.failed", "flow.received", "iteration", "training.step")
"""Kinds of events on the progress of traffic."""

PROGRESS_KINDS = ("qp.stalled", "qp.resumed")
"""Kinds of events on QPs that make no progress, and on those that resume."""

GONE = "agent.gone"
"""Kind of the event that a host has ended."""


class WorldOptions(TypedDict, total=False):
    """Options of a lab to bring up, all with a default.

    `target`, `run_dir` and `repeatable` apply to the wire only: virtual time is always repeatable. `of_hosts` (hosts
    with a transport of their own) and `keeps_history` apply to virtual time only.
    """

    target: str | None
    seed: int
    run_dir: Path
    mapper: MapperSpec | None
    transport: TransportSpec | None
    of_hosts: Mapping[str, TransportSpec] | None
    repeatable: bool
    keeps_history: bool


class EventQueue(Protocol):
    """Subscription to events of some nodes, in the order in which they came."""

    def join(self, host: str) -> None:
        """Subscribe to a host, again if it was gone; RunError where it does not answer."""

    def is_subscribed(self, host: str) -> bool:
        """Return True if a host is subscribed to and not gone."""

    def taken(self) -> list[Event]:
        """Return the events that came and that `wait` has not returned yet."""

    def wait(self, until: float) -> list[Event]:
        """Let time pass until an event comes, at most until a time; return all that have come."""

    def close(self) -> None:
        """Unsubscribe from all nodes."""


class World(FaultContext, Protocol):
    """A lab that is up."""

    @property
    def greeting(self) -> str:
        """Line to show once it is up."""

    @property
    def name(self) -> WorldName:
        """Name of the world in scenarios."""

    def lead(self, hosts: int) -> float:
        """Seconds to notify this many hosts before a common start time."""

    def subscribe(self, nodes: Iterable[str], kinds: Collection[str] = KINDS) -> EventQueue:
        """Subscribe to events of these kinds of some hosts, or of the `controller`."""

    def on_notice(self, notify: Callable[[str], None]) -> None:
        """Report asynchronously that a signal has stopped a process."""

    def last_output(self, node: str) -> str:
        """Return the last output of a node that ended."""

    def stuck(self) -> list[str]:
        """Return a sentence for each waiting QP, with the reason as far as known."""

    def deadlocked(self) -> bool:
        """Return True if every pending QP is blocked on a fault that nothing will clear (deadlock)."""

    def depths(self) -> Mapping[str, Mapping[str, int]]:
        """Packets in the data queues of switches, by port number, at the last look; empty queues are left out."""

    def realtime(self) -> AbstractContextManager[None]:
        """Return a context in which this process gets a CPU in time, as the nodes do."""

    def stop(self) -> None:
        """Stop it; its files can be collected."""

    def facts(self) -> dict[str, Any]:
        """Return the facts for a report: `world`, `target`, `real_time`, `bring_up_seconds`."""

    def collect(self, directory: Path) -> None:
        """Write inputs and history so far: fabric.yaml, node/, log/, history.jsonl. The world may go on."""

    def hand_over(self) -> CompressedLog:
        """Return the history of a stopped world from memory, unwritten; RunError where it is in files."""


def record_counters(world: FaultContext) -> None:
    """Write the switches' counters into the history."""
    world.record(SwitchCounters(switches=world.call("controller", "counters")["switches"]))
