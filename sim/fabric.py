"""A fabric in virtual time: switches and cables of the pure model, joined port by port, each made on first use.

A cable that was never used or faulted is as the model says; so is a switch that has seen no frame. Lazy creation does
not change a run: a port's random numbers come from the seed and its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from mrclab.sim.clock import SECOND, Clock, ticks
from mrclab.sim.links.cable import Cable, CableEnd, HalfLink
from mrclab.sim.links.linkend import JitteryLinkEnd, LinkEnd
from mrclab.sim.switches.loadbalancing import balancer
from mrclab.sim.switches.port import SimSwitchPort
from mrclab.sim.switches.sharedbuffer import PausablePort, Pause, SwitchBuffer
from mrclab.sim.switches.switch import SimSwitch
from mrclab.topo.config.nodeconfig import NicPortConfig
from mrclab.topo.economy import LazySequence
from mrclab.topo.model import Fabric, Link

if TYPE_CHECKING:
    from mrclab.sim.frame import SimFrame
    from mrclab.sim.nic import SimNic

_EVENTS_PER_PACKET: Final = 8  # of data, with its share of feedback, where all links are full


class SimSwitches(Mapping[str, SimSwitch]):
    """All switches of a fabric by name; `made` are those that exist."""

    def __init__(self, model: Fabric, make: Callable[[int], SimSwitch]) -> None:
        self._model = model
        self._make = make
        self._by_place: dict[int, SimSwitch] = {}

    def __getitem__(self, name: str) -> SimSwitch:
        return self.at(self._model.switch_place(name))

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._model.has_switch(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._model.switch_names)

    def __len__(self) -> int:
        return len(self._model.switches)

    def at(self, place: int) -> SimSwitch:
        """The switch with this index in the model."""
        found = self._by_place.get(place)
        if found is None:
            found = self._by_place[place] = self._make(place)
        return found

    def known(self, name: str) -> SimSwitch | None:
        """Return a switch if it was made; any other is as the model says."""
        return self._by_place.get(self._model.switch_place(name))

    @property
    def made(self) -> list[SimSwitch]:
        """Those that exist, in the model's order."""
        return [self._by_place[place] for place in sorted(self._by_place)]


class SimFabric:
    """Switches by name, cables by their index in the model. Equal fabrics, seeds and frames give equal runs.

    `packet_in` is called with frames for the controller, `start_host` when a frame arrives at a host without a NIC.
    `touched` names nodes and cables that had a fault or an operation: all others are as the model says.
    """

    def __init__(self, clock: Clock, model: Fabric, seed: int) -> None:
        self.clock = clock
        self.model = model
        clock.set_event_rate(_EVENTS_PER_PACKET * model.spec.link.rate_pps * len(model.hosts) * model.spec.planes)
        self.packet_in: Callable[[SimSwitch, SimFrame, int], None] | None = None
        self.start_host: Callable[[str], object] | None = None
        self.watched: set[int] = set()  # EVs that every switch counts
        self.touched: dict[str, None] = {}
        self._seed = seed
        self._delay = ticks(model.spec.link.delay)
        self._behind_switch = self._delay + ticks(model.spec.latency)
        self._nic = ticks(model.spec.nic_latency)
        self._cables: dict[int, Cable] = {}
        self._host_ends: dict[int, LinkEnd] = {}
        self._buffers: dict[int, SwitchBuffer] = {}  # by place of the switch, where its ports share one
        self.switches = SimSwitches(model, self._make_switch)

    # --- cables -----------------------------------------------------------------------------------------------------

    def cable(self, link: Link | str) -> Cable:
        """The cable of a link, or of its name."""
        return self.cable_at((self.model.link(link) if isinstance(link, str) else link).index)

    def cable_at(self, index: int) -> Cable:
        """The cable of the link with this index in the model."""
        found = self._cables.get(index)
        if found is None:
            found = self._cables[index] = self._make_cable(index)
        return found

    def _make_cable(self, index: int) -> Cable:
        delay, behind_switch = self._delay, self._behind_switch
        if self.model.spec.links:
            delay = ticks(self.model.link_times(index).delay)
            behind_switch = delay + ticks(self.model.spec.latency)
        made = Cable(self.clock, index, delay)
        for half_link, (far, port) in zip(made.half_links, reversed(self._ends(index)), strict=True):
            half_link.attach(far, port)
        up, down = made.half_links
        if index < self.model.shape.nic_links:
            up.delay += self._nic
            down.delay = behind_switch + self._nic
        else:
            up.delay = down.delay = behind_switch
        return made

    def _ends(self, index: int) -> list[tuple[CableEnd, int]]:
        """Return the receivers of frames at both ends, with the number of the port there."""
        shape = self.model.shape
        plane, *ends = shape.link_ends(index)
        found: list[tuple[CableEnd, int]] = []
        for tier, number, port in ends:
            if tier is None:
                found.append((self._host_end(number), plane))
            else:
                found.append((self.switches.at(shape.switch_index(tier, plane, number)), port))
        return found

    # --- switches ---------------------------------------------------------------------------------------------------

    def _make_switch(self, place: int) -> SimSwitch:
        known = self.model.switches[place]
        ports: LazySequence[SimSwitchPort] = LazySequence(
            len(known.ports), partial(self._make_port, place), len(known.ports)
        )
        return SimSwitch(self.model, known, ports, self, balancer(self.model.spec, f"{self._seed}/{known.name}/lb"))

    def _make_port(self, place: int, number: int) -> SimSwitchPort:
        """Make a port of the switch with this index in the model; ports are numbered from 0 here."""
        model = self.model
        tier, plane, switch = model.shape.switch_at(place)
        to_host = tier == "t0" and number < model.spec.hosts_per_t0
        index = model.shape.link_of_switch(tier, plane, switch, number + 1)
        cable = self.cable_at(index)
        spec = model.spec
        rate = model.link_times(index).rate if spec.links else spec.link.rate
        half_link = cable.half_links[0 if model.shape.is_up(tier, number + 1) else 1]
        seed = f"{self._seed}/{tier}-p{plane}-{switch}-{number + 1}"
        if spec.queue.buffer:
            buffer = self._buffer(place)
            made: SimSwitchPort = PausablePort(self.clock, number + 1, spec, to_host, half_link, seed, buffer, rate)
        else:
            made = SimSwitchPort(self.clock, number + 1, spec, to_host, half_link, seed, rate)
        half_link.port = made
        made.evs = self.switches.at(place).evs
        return made

    def _buffer(self, place: int) -> SwitchBuffer:
        found = self._buffers.get(place)
        if found is None:
            ports = len(self.model.switches[place].ports)
            found = self._buffers[place] = SwitchBuffer(self.clock, self.model.spec, ports, self._pause_of)
        return found

    def _pause_of(self, half_link: HalfLink) -> Pause | None:
        """Return what pauses the port that sends into a half-link: a switch's, or a host's, whichever NIC it has."""
        if isinstance(half_link.port, PausablePort):
            return half_link.port.pause
        for index, cable in self._cables.items():
            if cable.half_links[0] is half_link and index < self.model.shape.nic_links:
                plane, host, _ = self.model.shape.link_ends(index)
                return partial(self._host_end(host.number).pause, plane)
        return None

    def forget_pause(self, half_link: HalfLink) -> None:
        """End the pause of what sends into a half-link, which has another peer now."""
        if self.model.spec.queue.pfc is not None and (pause := self._pause_of(half_link)) is not None:
            pause(False)

    # --- hosts ------------------------------------------------------------------------------------------------------

    def _host_end(self, host: int) -> LinkEnd:
        found = self._host_ends.get(host)
        if found is None:
            found = self._host_ends[host] = self._make_host_end(host)
            if self.start_host is not None:
                found.start_host = partial(self.start_host, f"h{host}")
        return found

    def _make_host_end(self, host: int) -> LinkEnd:
        jitter = self.model.spec.nic_jitter
        return JitteryLinkEnd(self.clock, jitter * SECOND, f"{self._seed}/h{host}/jitter") if jitter else LinkEnd()

    def host_end(self, host: str) -> LinkEnd:
        """Return the link end of a host."""
        return self._host_end(self.model.host(host).number)

    def connect(self, host: str, nic: SimNic) -> None:
        """Connect a NIC to the cables of a host; it replaces the one before."""
        host_end = self.host_end(host)
        before, host_end.nic = host_end.nic, nic
        if before is not None:
            before.disconnect()
        nic.connect()

    def nic_cable(self, port: NicPortConfig) -> tuple[Cable, HalfLink]:
        """Return the cable of a NIC port, and the half-link that begins there."""
        cable = self.cable(port.name)
        return cable, cable.half_links[0]
