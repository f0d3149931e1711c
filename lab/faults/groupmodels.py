"""Faults of several cables at once: a transceiver, NIC ports, NICs, planes, and loss at all hosts."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator

from mrclab.lab.faults.base import FaultBase, LastingFault, at_least_one, several
from mrclab.lab.faults.cablemodels import Share
from mrclab.lab.scenario.names import CableName, HostName, PlaneNumber
from mrclab.topo.model import Fabric


class Transceiver(LastingFault):
    """All cables of one transceiver lose carrier together."""

    kind: Literal["transceiver"]
    cables: Annotated[tuple[CableName, ...], AfterValidator(at_least_one), Field(alias="links")]

    def links(self, fabric: Fabric) -> tuple[str, ...]:
        """The cables."""
        return tuple(dict.fromkeys(fabric.link(cable).name for cable in self.cables))

    def text(self, fabric: Fabric) -> str:
        """What happens."""
        return f"transceiver of {several(self.links(fabric))} fails"


class NicPortDown(LastingFault):
    """One port of a NIC loses carrier."""

    kind: Literal["nic_port_down"]
    port: CableName = Field(description="such as h1-p2")

    @field_validator("port")
    @classmethod
    def _of_a_nic(cls, cable: str, info: ValidationInfo) -> str:
        fabric = (info.context or {}).get("fabric")
        if isinstance(fabric, Fabric) and fabric.link(cable).kind != "nic":
            raise ValueError(f"{cable} is no port of a NIC; name one such as {fabric.hosts[0].ports[0].interface}")
        return cable

    def links(self, fabric: Fabric) -> tuple[str, ...]:
        """The port's cable."""
        return (fabric.link(self.port).name,)

    def text(self, fabric: Fabric) -> str:
        """What happens."""
        return f"{fabric.link(self.port).a.interface} down"


class NicDown(LastingFault):
    """All ports of a NIC lose carrier."""

    kind: Literal["nic_down"]
    host: HostName

    def links(self, fabric: Fabric) -> tuple[str, ...]:
        """The cables of all its ports."""
        return tuple(port.link for port in fabric.host(self.host).ports)

    def text(self, fabric: Fabric) -> str:
        """What happens."""
        del fabric
        return f"the NIC of {self.host} down"


class PlaneDown(LastingFault):
    """All cables of a plane lose carrier."""

    kind: Literal["plane_down"]
    plane: PlaneNumber

    def links(self, fabric: Fabric) -> tuple[str, ...]:
        """All cables of the plane."""
        return tuple(link.name for link in fabric.links if link.plane == self.plane)

    def text(self, fabric: Fabric) -> str:
        """What happens."""
        del fabric
        return f"plane {self.plane} down"


class HostLoss(LastingFault):
    """Packets towards hosts are lost on the last cable, in all planes: what a congested or faulty NIC does."""

    kind: Literal["host_loss"]
    rate: Share | None = None
    every: int | None = Field(default=None, ge=1, description="lose every n-th packet of each port instead")
    hosts: Literal["all"] | Annotated[tuple[HostName, ...], AfterValidator(at_least_one)] = "all"
    planes: Literal["all"] | Annotated[tuple[PlaneNumber, ...], AfterValidator(at_least_one)] = "all"
    seeded: bool = Field(default=True, description="the same packets with the same seed; false: drawn by the kernel")
    min_length: int = Field(default=0, ge=0, le=65535, description="shorter frames, in bytes, are left alone")

    @model_validator(mode="after")
    def _one_measure(self) -> "HostLoss":
        if (self.rate is None) == (self.every is None):
            raise ValueError("a host_loss needs either a rate (such as 0.1%) or every (such as 1000)")
        return self

    def links(self, fabric: Fabric) -> tuple[str, ...]:
        """The hosts' cables in the planes."""
        names = [host.name for host in fabric.hosts] if self.hosts == "all" else self.hosts
        return tuple(
            port.link
            for name in dict.fromkeys(names)
            for port in fabric.host(name).ports
            if self.planes == "all" or port.plane in self.planes
        )

    def text(self, fabric: Fabric) -> str:
        """What happens."""
        del fabric
        who = "all hosts" if self.hosts == "all" else several(self.hosts)
        where = "" if self.planes == "all" else f" in plane {several(map(str, self.planes))}"
        share = f"{self.rate * 100:g}% of packets" if self.rate else f"every {self.every}. packet"
        return f"{who} lose {share} on arrival{where}"


GROUP_KINDS: tuple[type[FaultBase], ...] = (Transceiver, NicPortDown, NicDown, PlaneDown, HostLoss)
