"""Faults that take carrier away: from a cable, a transceiver, a NIC port, a NIC, a plane; once, or again and again."""

import random
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator
from typing_extensions import override

from mrclab.events.faults import FaultEdge
from mrclab.lab.faults.action import Counters, FaultAction, FaultContext, SteppedAction
from mrclab.lab.faults.base import FAULTS, LastingFault, at_least_one
from mrclab.lab.faults.families import CableFault, Share, between, random_link, random_nic_port, random_plane
from mrclab.lab.faults.probe import CABLE, OTHER, UPLINK, FaultProbe
from mrclab.lab.scenario.names import CableName, CableOrBusiest, HostName, PlaneNumber, fabric_of
from mrclab.lab.scenario.units import Duration, show_seconds
from mrclab.topo.input.sentences import several
from mrclab.topo.model import Fabric

_SHORTEST_SWITCH = 0.02  # seconds: how often a running scenario looks at its faults, where links are as on the wire
_MAX_FLAPS = 20  # per second, there


class CutCables(FaultAction["CarrierFault"]):
    """Take carrier away from some cables, all at once."""

    @override
    def inject(self) -> None:
        self.context.injector.hold_down(self.fault.name, *self.fault.links(self.context.fabric))

    @override
    def clear(self) -> None:
        self.context.injector.release(self.fault.name)


class CarrierFault(LastingFault):
    """Carrier lost at both ends of all cables of the fault, at once."""

    action_class: ClassVar = CutCables
    takes_carrier: ClassVar = True

    @override
    def self_test(self, probe: FaultProbe) -> None:
        """Exactly the ports of the fault's cables lose carrier, and all get it back."""
        dead = probe.ports_of(probe.links)
        probe.inject()
        found = probe.without_carrier()
        probe.clear()
        probe.expect(found == dead, f"without carrier are {found}, not {dead}")
        probe.expect(not probe.without_carrier(), "carrier does not come back")


@FAULTS.register
class LinkDown(CableFault, CarrierFault):
    """Carrier is lost at both ends of a cable, and comes back."""

    kind: Literal["link_down"]
    link: CableOrBusiest
    example: ClassVar = {"link": CABLE}
    draws: ClassVar = {"link": random_link}
    phrase: ClassVar = "{0.link} down"


class FlapCable(SteppedAction["Flap"]):
    """Take carrier away and give it back, edge by edge."""

    def __init__(self, context: FaultContext, fault: "Flap") -> None:
        super().__init__(context, fault)
        self._random = random.Random(f"{context.seed}/{fault.name}")
        self._flaps = 0
        self._up = True

    @override
    def steps(self) -> Iterator[float]:
        fault, due = self.fault, self.context.now
        while True:
            self._edge(up=False)
            self._flaps += 1
            due += fault.down_seconds
            yield due
            self._edge(up=True)
            if self._flaps == fault.count:
                return
            if fault.period is not None:
                due = due + fault.period - fault.down_seconds
            else:
                due += self._random.expovariate(fault.rate or 1.0)
            yield due

    @override
    def clear(self) -> Counters:
        if not self._up:
            self._edge(up=True)
        return {"flaps": self._flaps}

    def _edge(self, *, up: bool) -> None:
        at, injector = self.context.now, self.context.injector
        self._up = up
        if up:
            injector.release(self.fault.name)
        else:
            injector.hold_down(self.fault.name, self.fault.link)
        self.context.record(FaultEdge(fault=self.fault.name, link=self.fault.link, up=up), at)


@FAULTS.register
class Flap(CableFault):
    """Carrier goes and comes: at a steady `period`, or at random with a mean `rate`, each time down for `down`."""

    kind: Literal["flap"]
    link: CableOrBusiest
    period: Duration | None = Field(default=None, gt=0, description="seconds from one loss of carrier to the next")
    rate: float | None = Field(default=None, gt=0, description="flaps per second, drawn from the seed (Poisson)")
    duty: Share = Field(default=0.5, description="share of the period without carrier")
    down: Duration | None = Field(default=None, gt=0, description="seconds without carrier, instead of duty")
    count: int | None = Field(default=None, ge=1, description="flaps, then the fault is over")
    example: ClassVar = {"link": CABLE, "period": 0.1, "duty": 0.4, "count": 3}
    draws: ClassVar = {"down": between(0.05, 0.3, 3), "link": random_link, "rate": between(0.5, 3, 2)}
    action_class: ClassVar = FlapCable

    @model_validator(mode="after")
    def _one_rhythm(self, info: ValidationInfo) -> "Flap":
        fabric = fabric_of(info)
        scale = fabric.spec.time_scale if fabric is not None else 1.0
        shortest, most = _SHORTEST_SWITCH * scale, _MAX_FLAPS / scale
        if (self.period is None) == (self.rate is None):
            raise ValueError("a flap needs either a period (such as 1s) or a Poisson rate per second (such as 0.2)")
        if self.rate is not None and self.down is None:
            raise ValueError("a flap with a Poisson rate needs down, the time without carrier, such as down: 200ms")
        if self.period is not None and self.down_seconds >= self.period:
            raise ValueError(
                f"a flap of {show_seconds(self.period)} cannot be down for {show_seconds(self.down_seconds)};"
                " lower duty or down"
            )
        if self.down_seconds < shortest:
            raise ValueError(f"a flap is down for at least {show_seconds(shortest)}; raise period, duty or down")
        if self.rate is not None and self.rate > most:
            raise ValueError(f"a cable flaps at most {most:.4g} times a second; lower rate")
        return self

    @property
    @override
    def ends_itself(self) -> bool:
        return self.count is not None

    @property
    def down_seconds(self) -> float:
        """Time without carrier in each flap."""
        return self.down if self.down is not None else self.duty * (self.period or 0.0)

    @override
    def text(self, fabric: Fabric) -> str:
        rhythm = f"every {show_seconds(self.period)}" if self.period else f"{self.rate:g} times a second, at random,"
        times = f", {self.count} times" if self.count else ""
        return f"{self.link} flaps {rhythm} for {show_seconds(self.down_seconds)}{times}"

    @override
    def self_test(self, probe: FaultProbe) -> None:
        probe.inject()
        probe.expect(probe.without_carrier(), "carrier stays")
        probe.wait_until_over()
        edges = [record["up"] for record in probe.records("fault.edge")]
        probe.expect(edges == [False, True] * 3, f"carrier went and came as {edges}")
        probe.expect(not probe.without_carrier(), "carrier does not come back")


@FAULTS.register
class Transceiver(CarrierFault):
    """All cables of one transceiver lose carrier together."""

    kind: Literal["transceiver"]
    cables: Annotated[tuple[CableName, ...], AfterValidator(at_least_one), Field(alias="links")]
    example: ClassVar = {"links": [UPLINK, OTHER]}

    @override
    def links(self, fabric: Fabric) -> tuple[str, ...]:
        return tuple(dict.fromkeys(fabric.link(cable).name for cable in self.cables))

    @override
    def text(self, fabric: Fabric) -> str:
        return f"transceiver of {several(self.links(fabric))} fails"

    @override
    @classmethod
    def draw(cls, draw: random.Random, fabric: Fabric) -> dict[str, Any]:
        """Up to four neighbouring cables of one switch."""
        ports = draw.choice(fabric.switches).ports
        first = draw.randrange(len(ports))
        return {"links": tuple(dict.fromkeys(port.link for port in ports[first : first + draw.randint(2, 4)]))}


@FAULTS.register
class NicPortDown(CarrierFault):
    """One port of a NIC loses carrier."""

    kind: Literal["nic_port_down"]
    port: CableName = Field(description="such as h1-p2")
    example: ClassVar = {"port": "h1-p2"}
    draws: ClassVar = {"port": random_nic_port}

    @field_validator("port")
    @classmethod
    def _of_a_nic(cls, cable: str, info: ValidationInfo) -> str:
        if (fabric := fabric_of(info)) and fabric.link(cable).kind != "nic":
            raise ValueError(f"{cable} is not a NIC port; name one, such as {fabric.hosts[0].ports[0].interface}")
        return cable

    @override
    def links(self, fabric: Fabric) -> tuple[str, ...]:
        return (fabric.link(self.port).name,)

    @override
    def text(self, fabric: Fabric) -> str:
        return f"{fabric.link(self.port).a.interface} down"


@FAULTS.register
class NicDown(CarrierFault):
    """All ports of a NIC lose carrier."""

    kind: Literal["nic_down"]
    host: HostName
    example: ClassVar = {"host": "h2"}
    phrase: ClassVar = "the NIC of {0.host} down"

    @override
    def links(self, fabric: Fabric) -> tuple[str, ...]:
        return tuple(port.link for port in fabric.host(self.host).ports)


@FAULTS.register
class PlaneDown(CarrierFault):
    """All cables of a plane lose carrier."""

    kind: Literal["plane_down"]
    plane: PlaneNumber
    example: ClassVar = {"plane": 2}
    draws: ClassVar = {"plane": random_plane}
    phrase: ClassVar = "plane {0.plane} down"

    @override
    def links(self, fabric: Fabric) -> tuple[str, ...]:
        return tuple(link.name for link in fabric.links if link.plane == self.plane)
