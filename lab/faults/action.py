"""What doing a fault amounts to, whatever its kind: strike, perhaps go on by itself for a while, heal."""

import math
from collections.abc import Mapping
from typing import Any, Generic, Protocol, TypeVar

from mrclab.topo.linux.emulation import Emulation
from mrclab.topo.model import Fabric

Counters = Mapping[str, Any]


class Ground(Protocol):
    """What an action needs of the lab it works on; `lab.session.Session` is one."""

    seed: int
    fabric: Fabric
    emulation: Emulation

    def record(self, kind: str, t: float | None = None, **fields: object) -> float:
        """Write a record into the history; returns its time."""

    def call(self, node: str, op: str, /, **arguments: Any) -> dict[str, Any]:
        """Ask an agent or the `controller`."""

    def forget(self, node: str) -> None:
        """Close the connection to a node."""

    def launch(self, process: str) -> None:
        """Start the `controller` or a host's agent (by the host's name) and wait until it serves."""

    def excuse(self, *processes: str) -> None:
        """These may end from now on: it is part of a fault."""

    def expect_alive(self, *processes: str) -> None:
        """These run again and may no longer end."""


M = TypeVar("M")


class Action(Generic[M]):
    """One fault that can be done and undone.

    `heal` must be safe after a strike that failed half way, and returns what the fault has done to packets, where
    that can be counted. `due` is the monotonic time at which `advance` wants to be called; one that is `finished` is
    healed at once.
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
