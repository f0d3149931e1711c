"""World of a run, as everything above sees it: a clock, nodes with operations, cables that break, events.

The wire is one world (`mrclab.lab.run.wire.wireworld`): namespaces, processes, the machine's clock. Virtual time
is the other (`mrclab.lab.run.virtual`). Time is seconds of the world's clock, which may begin anywhere, 0 included.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from mrclab.events.switches import SwitchCounters
from mrclab.lab.faults.action import FaultContext
from mrclab.lab.kinds import WorldName
from mrclab.topo.economy import CompressedLog

Progress = Callable[[str, int, int], None]  # stage, done, total
Event = tuple[str, Mapping[str, Any]]  # node, fields

KINDS = ("workload.progress", "flow.done", "flow.failed", "flow.received", "iteration", "training.step")
"""Kinds of events that tell how a traffic goes on."""

PROGRESS_KINDS = ("qp.stalled", "qp.resumed")
"""Kinds of events of QPs that make no progress, and of those that go on again."""

GONE = "agent.gone"
"""Kind of the event that stands for a host that ended."""


class EventQueue(Protocol):
    """The events of some nodes, in the order in which they came."""

    def join(self, host: str) -> None:
        """Hear a host, again if it was gone; RunError where it does not answer."""

    def hears(self, host: str) -> bool:
        """Return True if a host is heard: it joined and is not gone."""

    def wait(self, until: float) -> list[Event]:
        """Let time pass until something comes, at most until a time; everything that has come."""

    def close(self) -> None:
        """Hear nobody any more."""


class NodeAccess(Protocol):
    """A world for who only calls nodes: a lab of this process, or of another."""

    @property
    def now(self) -> float:
        """Time on the clock of the history, seconds."""

    def pause(self, seconds: float) -> None:
        """Let time pass."""

    @property
    def files(self) -> Path:
        """Directory of transfers' files: one folder per host."""

    def call(self, node: str, op: str, /, **arguments: Any) -> dict[str, Any]:
        """Ask a host or the `controller`; RunError says which of them refused what."""


class World(FaultContext, Protocol):
    """A lab that is up."""

    @property
    def files(self) -> Path:
        """Directory of transfers' files: one folder per host."""

    @property
    def greeting(self) -> str:
        """Line for people once it is up."""

    @property
    def name(self) -> WorldName:
        """Its name in scenarios."""

    def lead(self, hosts: int) -> float:
        """Seconds to notify this many hosts before a common start time."""

    def subscribe(self, nodes: Iterable[str], kinds: Collection[str] = KINDS) -> EventQueue:
        """Hear what some hosts, or the `controller`, tell of these kinds from now on."""

    def on_notice(self, say: Callable[[str], None]) -> None:
        """Have said what nobody asked for, as it happens: a process that a signal has stopped."""

    def last_output(self, node: str) -> str:
        """Return the last output of a node that ended."""

    def stuck(self) -> list[str]:
        """Return what waits for what, a sentence each, as far as this world can tell."""

    def deadlocked(self) -> bool:
        """Return True if every pending QP is blocked on a fault that nothing will clear (deadlock)."""

    def depths(self) -> Mapping[str, Mapping[str, int]]:
        """Packets in the data queues of switches, by port number, as last looked at; what is empty is left out."""

    def realtime(self) -> AbstractContextManager[None]:
        """Return a context in which this process gets a CPU when something is due, as the nodes do."""

    def stop(self) -> None:
        """End it; what it left behind can be collected."""

    def facts(self) -> dict[str, Any]:
        """Return the facts for a report: `world`, `target`, `real_time`, `bring_up_seconds`."""

    def collect(self, directory: Path) -> None:
        """Write what it was made of and what happened: fabric.yaml, node/, log/, history.jsonl."""

    def hand_over(self) -> CompressedLog:
        """Give up what happened, unwritten, of a world that was stopped; RunError where files have it."""

    def snapshot(self, directory: Path) -> None:
        """Write the same of a world that goes on."""


def record_counters(world: FaultContext) -> None:
    """Write the switches' counters into the history."""
    world.record(SwitchCounters(switches=world.call("controller", "counters")["switches"]))
