"""Loss that grows with the load of a link: weak optics, a shared buffer, a NIC that cannot keep up."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field
from typing_extensions import override

from mrclab.lab.faults.base import FAULTS
from mrclab.lab.faults.families import LossyFault, PacketFault, Share
from mrclab.lab.faults.probe import CABLE
from mrclab.lab.kinds import WorldName
from mrclab.lab.scenario.units import Duration, Percent
from mrclab.topo.cables import cablefaults
from mrclab.topo.model import Fabric
from mrclab.topo.numbers import FULL_HEADER_BYTES


@FAULTS.register
class LossWithLoad(LossyFault, PacketFault):
    """Packets are lost by chance: none up to a load of the link, from there on ever more, `rate` of them at 100 %."""

    worlds: ClassVar[frozenset[WorldName]] = frozenset({"sim"})  # rules of the kernel know no load

    kind: Literal["load_loss"]
    rate: Share = Field(description="share of packets that is lost at full load, such as 1%")
    above: Annotated[Percent, Field(ge=0, lt=1)] = Field(default=0.5, description="load up to which nothing is lost")
    window: Duration | None = Field(
        default=None, gt=0, le=10, description="time over which load is the mean; default: the longest base RTT"
    )
    example: ClassVar = {"link": CABLE, "rate": 0.5, "direction": "up", "above": 0.0}

    @override
    def on_packet(self, fabric: Fabric, link: str, seed: str, cables: int) -> cablefaults.Action:
        spec = fabric.spec
        bits = 8.0 * spec.link.rate_pps * (spec.path_mtu + FULL_HEADER_BYTES)
        if spec.link.rate is not None:
            bits = fabric.link_times(fabric.link(link).index).rate
        window = spec.base_rtt(spec.longest) if self.window is None else self.window
        return cablefaults.LoadLoss(self.rate, self.above, bits, window, seed)

    @override
    def text(self, fabric: Fabric) -> str:
        return f"{self.where} loses up to {self.rate * 100:g}% of packets above {self.above * 100:g}% of load"
