"""A fabric in virtual time: every switch and cable of the pure model, joined port by port."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrclab.sim.cable import Cable, CableEnd, Way
from mrclab.sim.clock import Clock, ticks
from mrclab.sim.port import SimSwitchPort
from mrclab.sim.switch import SimSwitch
from mrclab.topo.model import Fabric, Link, PortRef
from mrclab.topo.nodeconfig import NicPortConfig

if TYPE_CHECKING:
    from mrclab.sim.frame import SimFrame
    from mrclab.sim.nic import SimNic


_EVENTS_PER_PACKET = 8  # of data, with its share of feedback, where all links are full


class Plug(CableEnd):
    """Where cables end at a host; frames that come while no NIC is there are lost."""

    __slots__ = ("nic",)

    def __init__(self) -> None:
        self.nic: SimNic | None = None

    def receive(self, frame: SimFrame, port: int) -> None:
        """Hand a frame on."""
        if self.nic is not None:
            self.nic.receive(frame, port)


class SimFabric:
    """Switches by name and cables in the model's order.

    Equal fabrics, seeds and frames give equal runs: what a port draws comes from the seed and its name.
    """

    def __init__(self, clock: Clock, model: Fabric, seed: int) -> None:
        self.clock = clock
        self.model = model
        clock.expect(_EVENTS_PER_PACKET * model.spec.link.rate_pps * len(model.hosts) * model.spec.planes)
        delay = ticks(model.spec.link.delay)
        behind_switch = delay + ticks(model.spec.latency)
        self.cables: list[Cable] = []
        self._ways: dict[tuple[str, int], Way] = {}  # by the node and port that send into them
        for link in model.links:
            made = Cable(clock, link, delay)
            self.cables.append(made)
            for way, end in zip(made.ways, link.ends, strict=True):
                self._ways[end.node, end.number] = way
        self.switches: dict[str, SimSwitch] = {}
        for switch in model.switches:
            ports = []
            for port in switch.ports:
                way = self._ways[switch.name, port.number]
                way.delay = behind_switch
                way.port = SimSwitchPort(clock, port.number, model.spec, port.to_host, way, f"{seed}/{port.interface}")
                ports.append(way.port)
            self.switches[switch.name] = SimSwitch(model, switch, ports)
        self.plugs = {host.name: Plug() for host in model.hosts}
        for link, cable in zip(model.links, self.cables, strict=True):
            for way, far in zip(cable.ways, reversed(link.ends), strict=True):
                node: CableEnd = self.switches.get(far.node) or self.plugs[far.node]
                way.lead_to(node, far.number)

    def cable(self, link: Link | str) -> Cable:
        """The cable of a link, or of what a person calls it."""
        known = self.model.link(link) if isinstance(link, str) else link
        return self.cables[known.index]

    def plug_in(self, host: str, nic: SimNic) -> None:
        """Put a NIC in the place of what was there before."""
        before, self.plugs[host].nic = self.plugs[host].nic, nic
        if before is not None:
            before.unplug()
        nic.plug_in()

    def nic_cable(self, port: NicPortConfig) -> tuple[Cable, Way]:
        """The cable of a NIC port, and the way that begins there."""
        cable = self.cable(port.name)
        return cable, cable.ways[0]

    def way_from(self, end: PortRef) -> Way:
        """The direction that begins at a port."""
        return self._ways[end.node, end.number]
