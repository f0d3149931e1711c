"""Correlated failures: everything on one line card, or one power supply, fails at the same moment."""

import random
from typing import ClassVar, Literal

from pydantic import Field, ValidationInfo, model_validator
from typing_extensions import override

from mrclab.lab.faults.base import FAULTS, FaultBase, LastingFault
from mrclab.lab.faults.composite import CompositeFault
from mrclab.lab.faults.probe import SWITCH
from mrclab.lab.scenario.names import SwitchName, fabric_of
from mrclab.lab.scenario.units import Duration
from mrclab.topo.model import Fabric


class Domain(CompositeFault, LastingFault):
    """Faults of everything in one domain, all at once; which one is drawn from the seed, where it is not named.

    `domain` is the name of the field that has its number, from 1.
    """

    domain: ClassVar[str]

    @override
    def links(self, fabric: Fabric) -> tuple[str, ...]:
        """Cables of a named domain; none where the domain is drawn at run time."""
        if getattr(self, self.domain) is None:
            return ()
        return tuple(dict.fromkeys(link for part in self.parts(fabric, 0) for link in part.links(fabric)))

    def chosen(self, count: int, seed: int) -> int:
        """Return the number of the domain, drawn from the seed where none is named."""
        named: int | None = getattr(self, self.domain)
        return named if named is not None else random.Random(f"{seed}/{self.name}").randint(1, count)


@FAULTS.register
class LineCard(Domain):
    """A line card of a switch dies: all cables of its ports lose carrier. Ports are on cards in order, `ports` each."""

    kind: Literal["line_card"]
    switch: SwitchName
    ports: int = Field(ge=1, le=1024, description="ports of each card")
    domain: ClassVar = "card"
    card: int | None = Field(default=None, ge=1, description="the card, from 1; default: drawn from the seed")
    example: ClassVar = {"switch": SWITCH, "ports": 2, "card": 1}

    @model_validator(mode="after")
    def _there_is_one(self, info: ValidationInfo) -> "LineCard":
        if (fabric := fabric_of(info)) and self.card is not None and self.card > (cards := self._cards(fabric)):
            raise ValueError(f"{self.switch} has {cards} cards of {self.ports} ports; name one of them")
        return self

    def _cards(self, fabric: Fabric) -> int:
        return -(-len(fabric.switch(self.switch).ports) // self.ports)

    @override
    def text(self, fabric: Fabric) -> str:
        which = "a line card" if self.card is None else f"line card {self.card}"
        return f"{which} of {self.switch} dies, with {self.ports} ports"

    @override
    def parts(self, fabric: Fabric, seed: int) -> list[FaultBase]:
        first = (self.chosen(self._cards(fabric), seed) - 1) * self.ports
        ports = list(fabric.switch(self.switch).ports)[first : first + self.ports]
        return [self.part("link_down", fabric, port.number, link=port.link) for port in ports]


@FAULTS.register
class PowerZone(Domain):
    """A power zone goes: its switches lose power, and restart empty. Racks are shared out among zones in order.

    Switches of one tier and number stand in the same rack, in whatever plane they are.
    """

    kind: Literal["power_zone"]
    tier: Literal["t0", "t1", "t2"] = Field(default="t0", description="tier of the switches in its racks")
    zones: int = Field(ge=1, le=1024, description="zones that the racks of that tier are shared out among")
    domain: ClassVar = "zone"
    zone: int | None = Field(default=None, ge=1, description="the zone, from 1; default: drawn from the seed")
    takes: Duration = Field(default=0.5, ge=0, le=600, description="time without power")
    example: ClassVar = {"tier": "t1", "zones": 2, "zone": 1, "takes": 0.1}

    @model_validator(mode="after")
    def _there_is_one(self, info: ValidationInfo) -> "PowerZone":
        if (fabric := fabric_of(info)) and self.zones > (racks := fabric.shape.counts[self.tier]):
            raise ValueError(
                f"there are {racks} racks with a {self.tier.upper()}; share them out among at most as many"
            )
        if self.zone is not None and self.zone > self.zones:
            raise ValueError(f"there is no zone {self.zone}, but 1 to {self.zones}")
        return self

    @override
    def text(self, fabric: Fabric) -> str:
        which = "a power zone" if self.zone is None else f"power zone {self.zone}"
        return f"{which} of {self.zones} goes, with its {self.tier.upper()}s"

    @override
    def parts(self, fabric: Fabric, seed: int) -> list[FaultBase]:
        zone, racks = self.chosen(self.zones, seed), fabric.shape.counts[self.tier]
        numbers = [rack + 1 for rack in range(racks) if rack * self.zones // racks + 1 == zone]
        names = [f"{self.tier}-p{plane}-{number}" for plane in range(1, fabric.planes + 1) for number in numbers]
        return [
            self.part("switch_reboot", fabric, place, switch=name, takes=self.takes)
            for place, name in enumerate(names, 1)
        ]
