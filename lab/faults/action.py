"""Fault actions (inject, advance, clear) and the context in which they run, in either world."""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from typing_extensions import override

from mrclab.events.event import Event
from mrclab.topo.cables import cablefaults
from mrclab.topo.cables.cablefaults import Direction, Match
from mrclab.topo.cables.impairment import Impairment
from mrclab.topo.model import Fabric

CONTROLLER = "controller"  # node and process name

Counters = Mapping[str, Any]


class Injection(Protocol):
    """Faults of packets on some cables, or background traffic, until they are cleared."""

    def clear(self) -> tuple[int, int]:
        """End it; return packets matched, and those dropped or damaged; of traffic those sent, and without carrier."""


class Impaired(Protocol):
    """A cable whose frames take a detour, until that is cleared."""

    def clear(self) -> tuple[int, int, int]:
        """End it; return frames that came in, those lost on purpose, and those that left."""


class Clearable(Protocol):
    """A change that can be undone."""

    def clear(self) -> None:
        """Undo it."""


class FaultInjector(Protocol):
    """Fault injector of a world. Cables are named as in `Fabric.link`; a node is a switch, a host or `controller`."""

    def kill(self, node: str) -> None:
        """Kill its process; the run is not INVALID for that."""

    def terminate(self, node: str) -> None:
        """End its process in good order; the run is not INVALID for that."""

    def restart(self, node: str) -> None:
        """Start it with no state; hosts and controller serve on return."""

    def freeze(self, node: str) -> None:
        """Stop its process with all its state."""

    def thaw(self, node: str) -> None:
        """Continue its process."""

    def is_alive(self, node: str) -> bool:
        """Return True while its process exists, stopped or not."""

    def hold_down(self, owner: str, *links: str) -> None:
        """Take the carrier from both ends of cables, all at once, for as long as `owner` holds them."""

    def release(self, owner: str) -> None:
        """Give carrier back, except on cables that another owner holds."""

    def inject(
        self, places: Sequence[tuple[str, cablefaults.Action]], *, match: Match, direction: Direction
    ) -> Injection:
        """Apply actions to packets that match, on all these cables from the same moment on."""

    def impair(self, link: str, impairment: Impairment, *, direction: Direction, seed: int) -> Impaired:
        """Delay or reorder the frames of a cable."""

    def swap(self, one: str, other: str) -> None:
        """Exchange the far ends of two cables; the same call again undoes it."""

    def background(
        self, source: str, destination: str, path: tuple[int, int], rate_pps: float, size: int, name: str
    ) -> Injection:
        """Send packets of `size` bytes from host to host along one path (plane, uplink)."""

    def kill_programs(self, host: str) -> int:
        """Kill the programs on a host, beside its agent; return how many processes these were."""

    def cut_control(self, switch: str) -> Clearable:
        """Cut the channel between the controller and a switch."""


class NodeAccess(Protocol):
    """Clock and nodes of a lab: of this process, or of another."""

    @property
    def now(self) -> float:
        """Time on the clock of the history, seconds."""

    def pause(self, seconds: float) -> None:
        """Let time pass."""

    @property
    def files(self) -> Path:
        """Directory of transfers' files: one folder per host."""

    def call(self, node: str, op: str, /, **arguments: Any) -> dict[str, Any]:
        """Call a host or the `controller`; RunError names the node that refused and why."""


class FaultContext(NodeAccess, Protocol):
    """Context of an action: nodes, the fabric, its fault injector and the history.

    `mrclab.lab.run.world.World` is a larger one.
    """

    @property
    def seed(self) -> int:
        """Seed of all draws."""

    @property
    def fabric(self) -> Fabric:
        """The fabric under test."""

    @property
    def injector(self) -> FaultInjector:
        """The fault injector of this world."""

    def record(self, event: Event, t: float | None = None) -> float:
        """Write a record into the history, at `now` where no time is given; return its time."""


M = TypeVar("M")


class FaultAction(Generic[M]):
    """One fault that can be injected and cleared.

    `clear` must be safe after an injection that failed half way; it returns the fault's counters of packets, where
    that can be counted. `due` is the time at which `advance` is to be called next; an action that is `finished` is
    cleared at once.
    """

    def __init__(self, context: FaultContext, fault: M) -> None:
        self.context = context
        self.fault = fault
        self.due = math.inf
        self.finished = False

    @property
    def pending(self) -> bool:
        """True while the action has steps of its own to do."""
        return self.due < math.inf

    def inject(self) -> None:
        """Begin the fault."""
        raise NotImplementedError

    def advance(self, now: float) -> list[str]:
        """Apply due changes; return one phrase per event for the log."""
        return []

    def clear(self) -> Counters | None:
        """End the fault."""
        raise NotImplementedError


class SteppedAction(FaultAction[M]):
    """An action that goes on by itself: `steps` does its part each time and yields when the next is due."""

    def steps(self) -> Iterator[float]:
        """Begin the fault; yield the time of each further step, until the fault is over."""
        raise NotImplementedError

    @override
    def inject(self) -> None:
        self._steps = self.steps()
        self._go_on()

    @override
    def advance(self, now: float) -> list[str]:
        if now >= self.due and not self.finished:
            self._go_on()
        return []

    def _go_on(self) -> None:
        self.due = next(self._steps, math.inf)
        self.finished = self.due == math.inf
