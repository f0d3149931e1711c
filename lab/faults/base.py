"""Base classes of faults: name, kind, when a fault begins and, for those that last, when it ends.

A kind is one class in one module of `mrclab.lab.faults.kinds` (or of another package, by the entry point group
`mrclab.faults`), registered with `@FAULTS.register`. `links`, `paths` and `processes` tell which parts of the lab a
fault concerns: expectations find its packets by them, and chaos keeps other paths whole. `text` is one phrase for
plans, logs and the history.
"""

import random
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar

from pydantic import Field
from typing_extensions import override

from mrclab.lab.faults.action import FaultAction, FaultContext
from mrclab.lab.faults.probe import FaultProbe
from mrclab.lab.kinds import Kinds, WorldName, unsupported
from mrclab.lab.scenario.base import OfKind
from mrclab.lab.scenario.names import KnownTrigger, NewName
from mrclab.lab.scenario.triggers import Trigger
from mrclab.topo.cables.cablefaults import Direction
from mrclab.topo.model import Fabric

T = TypeVar("T")
FieldDraw = Callable[[random.Random, Fabric], Any]
_ARROWS = {"both": "", "up": " upwards", "down": " downwards"}


class FaultBase(OfKind):
    """Fields of every kind.

    `action_class` is the class of its action. `worlds` names the worlds that support the kind; `example` holds the
    fields with which `self_test` is called in the lab of the self-test (`FABRIC` of `mrclab.lab.faults.selftest`);
    `draws` has a draw for each field that chaos chooses, drawn in this order. `takes_carrier` is True where its cables
    have no carrier while it is in force, `needs_controller` where the controller has to act on it.

    `phrase`, `killed`, `stopped`, `claimed` and `needed` are what `text`, `processes`, `stops`, `claims` and `needs`
    return, with the fault's fields filled in: `"{0.switch} crashes"`. A kind for which that is too little overrides the
    method.
    """

    action_class: ClassVar[type[FaultAction[Any]]]
    worlds: ClassVar[frozenset[WorldName]] = frozenset({"wire", "sim"})
    example: ClassVar[dict[str, Any]] = {}
    draws: ClassVar[Mapping[str, FieldDraw]] = {}
    takes_carrier: ClassVar[bool] = False
    needs_controller: ClassVar[bool] = False
    phrase: ClassVar[str]
    killed: ClassVar[tuple[str, ...]] = ()
    stopped: ClassVar[tuple[str, ...]] = ()
    claimed: ClassVar[tuple[str, ...]] = ()
    needed: ClassVar[tuple[str, ...]] = ()

    name: NewName
    at: KnownTrigger = Field(description="when it begins: 3s, 25% of NAME, after NAME + 1s")

    @classmethod
    def missing(cls) -> list[str]:
        """Return the class variables that a kind needs and this class lacks; `text` takes the place of `phrase`."""
        needed = ["action_class", *(["phrase"] if cls.text is FaultBase.text else [])]
        return [name for name in needed if not hasattr(cls, name)]

    def action(self, context: FaultContext) -> FaultAction[Any]:
        """Return the action that injects and clears this fault; nothing happens yet."""
        return self.action_class(context, self)

    def self_test(self, probe: FaultProbe) -> None:
        """Inject and clear the fault in a small real lab; `probe.expect` raises TopoError where it does not hold."""
        raise NotImplementedError

    @classmethod
    def draw(cls, draw: random.Random, fabric: Fabric) -> dict[str, Any] | None:
        """Return random fields for chaos, without name and times; None where chaos cannot draw this kind."""
        return {name: field(draw, fabric) for name, field in cls.draws.items()} or None

    @property
    def ends_at(self) -> Trigger | None:
        """Trigger that ends the fault, where the scenario names one."""
        return None

    @property
    def ends_itself(self) -> bool:
        """True if it ends without being cleared: a run waits for that."""
        return True

    def resolved(self, context: FaultContext) -> "FaultBase":
        """Return the fault with all that is only known when it begins."""
        return self

    def links(self, fabric: Fabric) -> tuple[str, ...]:
        """Return the names of the cables on which packets suffer; all cables of a switch where a switch fails."""
        return ()

    def paths(self, fabric: Fabric) -> tuple[tuple[int, int], ...]:
        """Return (plane, uplink) of the paths that suffer, where they are fewer than those over `links`."""
        return ()

    def processes(self, fabric: Fabric) -> tuple[str, ...]:
        """Return the processes of the lab that the fault ends on purpose."""
        return tuple(self._filled(self.killed))

    def stops(self, fabric: Fabric) -> tuple[str, ...]:
        """Return the processes of the lab that the fault ends or stops."""
        return tuple(dict.fromkeys([*self.processes(fabric), *self._filled(self.stopped)]))

    def claims(self, fabric: Fabric) -> frozenset[str]:
        """Return the resources, in words, that no other fault may claim or need while this one is in force."""
        return frozenset(self._filled(self.claimed))

    def needs(self, fabric: Fabric) -> frozenset[str]:
        """Return the resources, in words, that no other fault may claim while this one is in force."""
        return frozenset(self._filled(self.needed))

    def parts(self, fabric: Fabric, seed: int) -> "list[FaultBase]":
        """Return the faults of which this one consists: itself, or those that it draws, with times relative to its
        own."""
        return [self]

    @property
    def prefix(self) -> str | None:
        """Start of the names of its parts, before a dash and a number; None where it is its only part."""
        return None

    @property
    def lasts(self) -> float | None:
        """Upper limit of the seconds after which it ends without being cleared; None where unknown."""
        return None

    def text(self, fabric: Fabric) -> str:
        """Describe the fault in one phrase."""
        return self.phrase.format(self)

    def _filled(self, templates: tuple[str, ...]) -> list[str]:
        return [template.format(self) for template in templates]


# chaos draws from all other kinds, and a population has parts of another
FAULTS: Kinds[FaultBase] = Kinds("fault", "mrclab.faults", "mrclab.lab.faults.kinds", "mrclab.lab.faults.chaos")
"""All kinds of faults."""

if TYPE_CHECKING:
    Fault: TypeAlias = FaultBase
else:
    Fault = FAULTS.union()


class LastingFault(FaultBase):
    """A fault that lasts until it is cleared; a kind that can end without that overrides `ends_itself`."""

    until: KnownTrigger | None = Field(default=None, description="when it ends; left out: when the run ends")

    @property
    @override
    def ends_at(self) -> Trigger | None:
        return self.until

    @property
    @override
    def ends_itself(self) -> bool:
        return False


def unsupported_text(fault: FaultBase, world: WorldName) -> str:
    """Return one phrase: the fault's kind is not supported in a world."""
    return unsupported(fault.kind_name, fault.worlds, world)


def at_least_one(entries: tuple[T, ...]) -> tuple[T, ...]:
    """Return the entries; ValueError if there is none. Called after the entries themselves were found valid."""
    if not entries:
        raise ValueError("this list is empty; name at least one")
    return entries


def direction_text(direction: Direction) -> str:
    """Return the words behind a cable's name: nothing for both directions."""
    return _ARROWS[direction]


def links_of_switch(fabric: Fabric, switch: str) -> tuple[str, ...]:
    """Return all cables that end at a switch."""
    return tuple(port.link for port in fabric.switch(switch).ports)
