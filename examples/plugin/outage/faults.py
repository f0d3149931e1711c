"""The fault `uplinks_down`: a T0 is cut off from all T1s."""

from typing import ClassVar, Literal

from typing_extensions import override

from mrclab.lab.faults.base import FAULTS, links_of_switch
from mrclab.lab.faults.kinds.carrier import CarrierFault
from mrclab.lab.scenario.names import SwitchName
from mrclab.topo.model import Fabric


@FAULTS.register
class UplinksDown(CarrierFault):
    """All uplinks of a T0 lose carrier at once, and get it back at once."""

    kind: Literal["uplinks_down"]
    switch: SwitchName
    example: ClassVar = {"switch": "t0-p1-1"}

    @override
    def links(self, fabric: Fabric) -> tuple[str, ...]:
        return tuple(link for link in links_of_switch(fabric, self.switch) if "/t1-" in link)

    @override
    def text(self, fabric: Fabric) -> str:
        return f"{self.switch} loses all uplinks"
