"""What doing a fault amounts to, whatever its kind: strike, perhaps go on by itself for a while, heal."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

from mrclab.lab.faults.base import Direction
from mrclab.topo.cables import cablefaults
from mrclab.topo.cables.cablefaults import Match
from mrclab.topo.cables.impairment import Impairment
from mrclab.topo.model import Fabric

Counters = Mapping[str, Any]


class Injection(Protocol):
    """Something that happens to packets on some cables, until it is healed."""

    def heal(self) -> tuple[int, int]:
        """No longer; packets that the fault looked at, and those that it took or damaged."""


class Impaired(Protocol):
    """A cable whose frames take a detour, until it is healed."""

    def heal(self) -> tuple[int, int, int]:
        """Frames go straight again; frames that came in, those lost on purpose, and those that left."""


class Sending(Protocol):
    """Other traffic, until it is healed."""

    def heal(self) -> tuple[int, int]:
        """No longer; packets sent, and those that found no carrier."""


class Healed(Protocol):
    """Anything that can be undone."""

    def heal(self) -> None:
        """Undo it."""


class Breakage(Protocol):
    """What can be broken where a run happens, and how. Cables are named as in `Fabric.link`.

    A node is a switch, a host (its agent) or the `controller`.
    """

    def hold_down(self, owner: str, *links: str) -> None:
        """Take the carrier from both ends of cables, all at once, for as long as `owner` holds them."""

    def let_go(self, owner: str) -> None:
        """Give it back, but for cables that somebody else holds."""

    def inject(
        self, places: Sequence[tuple[str, cablefaults.Action]], *, match: Match, direction: Direction
    ) -> Injection:
        """Do something to packets that match, on all these cables from the same moment on."""

    def impair(self, link: str, impairment: Impairment, *, direction: Direction, seed: int) -> Impaired:
        """Delay or reorder the frames of a cable."""

    def swap(self, one: str, other: str) -> None:
        """Two cables lead to each other's far ends; the same again undoes it."""

    def background(
        self, source: str, destination: str, path: tuple[int, int], rate_pps: float, size: int, name: str
    ) -> Sending:
        """Send packets of `size` bytes from host to host along one path (plane, uplink)."""

    def kill(self, node: str) -> None:
        """It ends at once, and that is no trouble of the run's."""

    def terminate(self, node: str) -> None:
        """It ends in good order, and that is no trouble of the run's."""

    def restart(self, node: str) -> None:
        """It starts anew, knowing nothing; hosts and controller serve on return."""

    def freeze(self, node: str) -> None:
        """It stands still: up, and doing nothing."""

    def thaw(self, node: str) -> None:
        """It goes on."""

    def is_alive(self, node: str) -> bool:
        """Whether it runs, or stands still."""

    def cut_control(self, switch: str) -> Healed:
        """Cut the channel between the controller and a switch."""


class Ground(Protocol):
    """What an action needs of where it happens; `mrclab.lab.run.world.World` is more of the same."""

    @property
    def seed(self) -> int:
        """Of all draws."""

    @property
    def fabric(self) -> Fabric:
        """What there is to break."""

    @property
    def breakage(self) -> Breakage:
        """How to break it."""

    @property
    def now(self) -> float:
        """Time on the clock of the history, seconds."""

    def pause(self, seconds: float) -> None:
        """Let time pass."""

    def record(self, kind: str, t: float | None = None, **fields: object) -> float:
        """Write a record into the history, of now where no time is given; returns its time."""

    def call(self, node: str, op: str, /, **arguments: Any) -> dict[str, Any]:
        """Ask a host or the `controller`."""


M = TypeVar("M")


class FaultAction(Generic[M]):
    """One fault that can be done and undone.

    `heal` must be safe after a strike that failed half way, and returns what the fault has done to packets, where
    that can be counted. `due` is the time at which `advance` wants to be called; one that is `finished` is healed at
    once.
    """

    def __init__(self, ground: Ground, fault: M) -> None:
        self.ground = ground
        self.fault = fault
        self.due = math.inf
        self.finished = False

    def strike(self) -> None:
        """Do it."""
        raise NotImplementedError

    def advance(self, now: float) -> list[str]:
        """Do what is due; returns one phrase per thing that a reader of the log wants to know."""
        del now
        return []

    def heal(self) -> Counters | None:
        """Undo it."""
        raise NotImplementedError
