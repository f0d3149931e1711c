"""Traffic of kind `mirror`: the first host sends to the last, the second to the last but one, and so on."""

from typing import Literal

from mrclab.lab.traffic.base import TRAFFIC, Flow
from mrclab.lab.traffic.families import BoundedTraffic
from mrclab.topo.model import Fabric


@TRAFFIC.register
class Mirror(BoundedTraffic):
    """Every host sends to its mirror image in the order of hosts."""

    kind: Literal["mirror"]

    def flows(self, fabric: Fabric, seed: int) -> list[Flow]:
        """One flow per host; the middle one of an odd number has no image."""
        hosts = fabric.host_names
        pairs = zip(hosts, reversed(hosts), strict=True)
        return [Flow(self.name, source, image, self.size) for source, image in pairs if source != image]
