"""What every fault of a scenario has: a name, a kind, when it strikes, and perhaps when it is healed.

`links`, `paths` and `processes` say what a fault concerns, so that expectations find its packets and chaos keeps
others whole; `text` is one phrase for plans, logs and the history.
"""

from collections.abc import Iterable
from typing import Literal, TypeVar

from pydantic import Field

from mrclab.lab.scenario.base import Strict
from mrclab.lab.scenario.moments import Trigger
from mrclab.lab.scenario.names import KnownTrigger, NewName
from mrclab.topo.model import Fabric

Direction = Literal["both", "up", "down"]

T = TypeVar("T")
_ARROWS = {"both": "", "up": " upwards", "down": " downwards"}


class FaultBase(Strict):
    """Fields of every kind."""

    name: NewName
    at: KnownTrigger = Field(description="when it strikes: 3s, 25% of NAME, after NAME + 1s")

    @property
    def healed_at(self) -> Trigger | None:
        """When it is healed, where the scenario says so."""
        return None

    @property
    def kind_name(self) -> str:
        """The value of `kind`."""
        return str(getattr(self, "kind", ""))

    def links(self, fabric: Fabric) -> tuple[str, ...]:
        """Names of the cables on which packets suffer; those of a whole switch where it is one that fails."""
        del fabric
        return ()

    def paths(self, fabric: Fabric) -> tuple[tuple[int, int], ...]:
        """(plane, uplink) of the paths that suffer, where they are fewer than those over `links`."""
        del fabric
        return ()

    def processes(self, fabric: Fabric) -> tuple[str, ...]:
        """Processes of the lab that the fault ends on purpose."""
        del fabric
        return ()

    def stops(self, fabric: Fabric) -> tuple[str, ...]:
        """Processes of the lab that the fault ends or makes stand still."""
        return self.processes(fabric)

    def claims(self, fabric: Fabric) -> frozenset[str]:
        """What, in words, no other fault may claim or need while this one is in force."""
        del fabric
        return frozenset()

    def needs(self, fabric: Fabric) -> frozenset[str]:
        """What, in words, no other fault may claim while this one is in force."""
        del fabric
        return frozenset()

    def parts(self, fabric: Fabric, seed: int) -> "list[FaultBase]":
        """The faults of which it consists: itself, or those that it draws."""
        del fabric, seed
        return [self]

    @property
    def lasts(self) -> float | None:
        """Seconds after which it is over by itself at the latest; None where nothing is known of that."""
        return None

    def text(self, fabric: Fabric) -> str:
        """What happens, in one phrase."""
        raise NotImplementedError


class LastingFault(FaultBase):
    """A fault that lasts until it is healed, or is over by itself."""

    until: KnownTrigger | None = Field(default=None, description="when it is healed; else when the run ends")

    @property
    def healed_at(self) -> Trigger | None:
        """When it is healed, where the scenario says so."""
        return self.until


def at_least_one(entries: tuple[T, ...]) -> tuple[T, ...]:
    """The entries; ValueError where there is none. Asked after the entries themselves were found right."""
    if not entries:
        raise ValueError("this list is empty; name at least one")
    return entries


def direction_text(direction: Direction) -> str:
    """The words behind a cable's name: nothing for both directions."""
    return _ARROWS[direction]


def links_of_switch(fabric: Fabric, switch: str) -> tuple[str, ...]:
    """All cables that end at a switch."""
    return tuple(port.link for port in fabric.switch(switch).ports)


def several(names: Iterable[str], most: int = 3) -> str:
    """`a, b, c and 5 more`."""
    listed = list(names)
    more = len(listed) - most
    return ", ".join(listed[:most]) + (f" and {more} more" if more > 0 else "")
