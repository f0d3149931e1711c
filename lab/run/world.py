"""Where a run happens, as everything above sees it: a clock, nodes that take operations, cables that break, events.

The wire is one world (`mrclab.lab.run.wire.session`): namespaces, processes, the machine's clock. Virtual time
is the other (`mrclab.lab.run.virtual`). Time is seconds of the world's clock, which may begin anywhere, 0 included.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from mrclab.lab.faults.action import FaultContext
from mrclab.lab.faults.base import WorldName

Progress = Callable[[str, int, int], None]  # stage, done, total
Event = tuple[str, Mapping[str, Any]]  # node, what it told

KINDS = ("workload.progress", "flow.done", "flow.failed", "flow.received", "iteration", "training.step")
"""Kinds of events that tell how a traffic goes on."""

PROGRESS_KINDS = ("qp.stalled", "qp.resumed")
"""Kinds of events of QPs that make no progress, and of those that go on again."""

GONE = "agent.gone"
"""Kind of the event that stands for a host that ended."""


class Hearing(Protocol):
    """The events of some nodes, in the order in which they came."""

    def join(self, host: str) -> None:
        """Hear a host, again if it was gone; RunError where it does not answer."""

    def hears(self, host: str) -> bool:
        """Whether a host is heard: it joined and is not gone."""

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
        """Where transfers keep their files: one folder per host."""

    def call(self, node: str, op: str, /, **arguments: Any) -> dict[str, Any]:
        """Ask a host or the `controller`; RunError says which of them refused what."""


class World(FaultContext, Protocol):
    """A lab that is up."""

    @property
    def files(self) -> Path:
        """Where transfers keep their files: one folder per host."""

    @property
    def greeting(self) -> str:
        """What a person is told once it is up."""

    @property
    def name(self) -> WorldName:
        """Its name in scenarios."""

    def lead(self, hosts: int) -> float:
        """Seconds that so many hosts need between being told to begin and the moment at which they all do."""

    def hear(self, nodes: Iterable[str], kinds: Collection[str] = KINDS) -> Hearing:
        """Hear what some hosts, or the `controller`, tell of these kinds from now on."""

    def on_notice(self, say: Callable[[str], None]) -> None:
        """Have said what nobody asked for, as it happens: a process that a signal has stopped."""

    def last_words(self, node: str) -> str:
        """What a node that ended said last."""

    def stuck(self) -> list[str]:
        """What waits for what, a sentence each, as far as this world can tell."""

    def hopeless(self) -> bool:
        """Whether QPs wait, and each of them for ever unless somebody heals what is broken, as far as it can tell."""

    def depths(self) -> Mapping[str, Mapping[str, int]]:
        """Packets in the data queues of switches, by port number, as last looked at; what is empty is left out."""

    def stop(self) -> None:
        """End it; what it left behind can be collected."""

    def facts(self) -> dict[str, Any]:
        """What a report says of it: `world`, `target`, `real_time`, `bring_up_seconds`."""

    def collect(self, directory: Path) -> None:
        """Write what it was made of and what happened: fabric.yaml, node/, log/, history.jsonl."""

    def snapshot(self, directory: Path) -> None:
        """Write the same of a world that goes on."""


def record_counters(world: FaultContext) -> None:
    """Write the switches' counters into the history."""
    world.record("counters", switches=world.call("controller", "counters")["switches"])
