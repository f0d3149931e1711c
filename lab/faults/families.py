"""Base classes and field types that several kinds of faults share, and random places in a fabric."""

import random
from typing import Annotated, ClassVar

from pydantic import Field
from typing_extensions import override

from mrclab.lab.faults.action import CONTROLLER, Counters, FaultAction, FaultContext, Injection
from mrclab.lab.faults.base import FaultBase, FieldDraw, LastingFault, direction_text, links_of_switch
from mrclab.lab.scenario.names import BUSIEST, CableName, SwitchName
from mrclab.lab.scenario.units import Percent
from mrclab.topo.cables import cablefaults
from mrclab.topo.cables.cablefaults import EVERY_PACKET, Direction, Match
from mrclab.topo.errors import TopoError
from mrclab.topo.model import Fabric

Share = Annotated[Percent, Field(gt=0, le=1)]  # 1% or 0.01
MinLength = Annotated[int, Field(ge=0, le=65535, description="frames shorter than this many bytes are left alone")]

_DIRECTIONS: tuple[Direction, ...] = ("up", "down")


class CableFault(LastingFault):
    """A fault of one cable."""

    link: CableName

    @override
    def resolved(self, context: FaultContext) -> FaultBase:
        if self.link != BUSIEST:
            return self
        return self.model_copy(update={"link": busiest(context)})

    @override
    def links(self, fabric: Fabric) -> tuple[str, ...]:
        return () if self.link == BUSIEST else (fabric.link(self.link).name,)


class PacketFault(CableFault):
    """A fault of packets; carrier stays. `up` is from the lower end of the cable (NIC, T0) to the upper."""

    direction: Direction = "both"

    @property
    def where(self) -> str:
        """Cable and direction in words."""
        return self.link + direction_text(self.direction)


def busiest(context: FaultContext) -> str:
    """Return the name of the cable between switches that has carried most bytes, both directions together."""
    counters = context.call(CONTROLLER, "counters")["switches"]
    carried: dict[str, int] = {}
    for switch in context.fabric.switches:
        ports = counters.get(switch.name, {}).get("ports", {})
        for port in switch.ports:
            if not port.to_host and (row := ports.get(str(port.number))):
                carried[port.link] = carried.get(port.link, 0) + row["tx_bytes"]
    if not carried:
        raise TopoError("no switch reports what its cables carried, so the busiest is unknown; name a cable")
    return max(carried, key=lambda link: carried[link])


class SwitchFault(LastingFault):
    """A fault of one switch."""

    switch: SwitchName

    @override
    def links(self, fabric: Fabric) -> tuple[str, ...]:
        return links_of_switch(fabric, self.switch)


class ActOnPackets(FaultAction["LossyFault"]):
    """Apply an action to packets on the fault's cables, from the same moment on."""

    _injected: Injection | None = None

    @override
    def inject(self) -> None:
        fault, fabric = self.fault, self.context.fabric
        links = fault.links(fabric)
        seeds = {link: f"{self.context.seed}/{fault.name}/{link}" for link in links}
        places = [(link, fault.on_packet(fabric, link, seeds[link], len(links))) for link in links]
        self._injected = self.context.injector.inject(places, match=fault.match, direction=fault.affected)

    @override
    def clear(self) -> Counters:
        seen, hit = self._injected.clear() if self._injected is not None else (0, 0)
        self._injected = None
        return {"seen": seen, self.fault.counter: hit}


class LossyFault(LastingFault):
    """A fault that drops or damages packets of its cables; `min_length` and `direction` count where a kind has them.

    `counter` is the name of the count of packets that it hit.
    """

    action_class: ClassVar = ActOnPackets
    counter: ClassVar[str] = "dropped"

    def on_packet(self, fabric: Fabric, link: str, seed: str, cables: int) -> cablefaults.Action:
        """Return the action on one of `cables` cables; its draws are of `seed`."""
        raise NotImplementedError

    @property
    def match(self) -> Match:
        """The packets concerned."""
        shortest = getattr(self, "min_length", 0)
        return Match(min_length=shortest) if shortest else EVERY_PACKET

    @property
    def affected(self) -> Direction:
        """The direction concerned."""
        return getattr(self, "direction", "both")


def frames_of(link: str, direction: Direction = "both") -> frozenset[str]:
    """Return, in words, the frames of a cable in a direction or both: the claims of a fault that redirects them."""
    directions = _DIRECTIONS if direction == "both" else (direction,)
    return frozenset(f"the frames of {link}{direction_text(each)}" for each in directions)


def random_link(draw: random.Random, fabric: Fabric) -> str:
    """Return the name of any cable."""
    return draw.choice(fabric.links).name


def random_switch(draw: random.Random, fabric: Fabric) -> str:
    """Return the name of any switch."""
    return draw.choice(fabric.switches).name


def random_nic_port(draw: random.Random, fabric: Fabric) -> str:
    """Return the name of any port of a NIC."""
    return draw.choice([port.interface for host in fabric.hosts for port in host.ports])


def random_plane(draw: random.Random, fabric: Fabric) -> int:
    """Return the number of any plane."""
    return draw.randint(1, fabric.planes)


def random_direction(draw: random.Random, _fabric: Fabric) -> Direction:
    """Return one direction of a cable, or both."""
    return draw.choice(("both", "up", "down"))


def random_bool(draw: random.Random, _fabric: Fabric) -> bool:
    """Return True or False, either as often."""
    return draw.random() < 0.5


def between(least: float, most: float, digits: int = 4) -> FieldDraw:
    """Return a draw of a number in a range, rounded."""
    return lambda draw, _fabric: round(draw.uniform(least, most), digits)


class KillProcess(FaultAction[FaultBase]):
    """Kill the process that the fault names; start another, which knows nothing."""

    @property
    def _node(self) -> str:
        return self.fault.processes(self.context.fabric)[0]

    @override
    def inject(self) -> None:
        self.context.injector.kill(self._node)

    @override
    def clear(self) -> None:
        self.context.injector.restart(self._node)
