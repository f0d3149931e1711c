"""A simulated switch: uSID arithmetic on the tables that the controller's intent gives it, as p4src forwards.

Ports, uSIDs and addresses are the pure model's. A switch without entries (it came back empty) drops everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from mrclab.sim.frame import (
    HOPS_OVER,
    IPV6_MISS,
    LINK_CHECK,
    UNCHECKED,
    UNKNOWN_USID,
    USID_MISS,
    WRONG_SOURCE,
    Flow,
    is_from,
    word,
)
from mrclab.sim.links.cable import CableEnd
from mrclab.sim.switches.port import CONTROL, TRIMMED, kind_of
from mrclab.softswitch.objects import hashing
from mrclab.topo import srv6

if TYPE_CHECKING:
    from mrclab.sim.fabric import SimFabric
    from mrclab.sim.frame import SimFrame
    from mrclab.sim.links.cable import HalfLink
    from mrclab.sim.switches.loadbalancing import Balancer
    from mrclab.sim.switches.port import SimSwitchPort
    from mrclab.topo.economy import LazySequence
    from mrclab.topo.model import Fabric, Switch

_hash = hashing.make("crc16")
_NO_USID: Final = -1
_GROUP_SHIFT: Final = 64
_LOW: Final = 0xFF  # of a uSID: the index, up to 255
_KIND: Final = 13  # the bit that distinguishes the uSIDs of a T0's ports: T1s and downlinks
_ALIKE: Final = 0xDF00  # all other bits
_KIND_AT: Final = 12  # where a uSID says of what kind it is
_KINDS: Final = 3
_NEXT: Final = {"t0": srv6.UsidType.DOWNLINK, "t1": srv6.UsidType.T0, "t2": srv6.UsidType.T1}
"""Of the uSIDs that a tier forwards by; the others differ in one bit."""

_FLOW_WIDTHS: Final = (128, 128, 20, 8, 16, 16)


class SimSwitch(CableEnd):
    """One switch of any tier. `ports` are in the model's order, each made when it is first used.

    Intended routes are computed when a frame first needs them; `_near` caches them by an index made of the uSID, and
    `_wrong` has routes that differ from the intended ones: another port's number, or 0 for none.
    """

    __slots__ = (
        "_alike", "_balancer", "_earlier", "_fabric", "_home", "_inputs", "_near", "_plain", "_uplinks", "_wrong",
        "alive", "cpu_in", "cpu_out", "drops", "evs", "frozen", "model", "ports", "usid",
    )  # fmt: skip

    def __init__(
        self,
        fabric: Fabric,
        model: Switch,
        ports: LazySequence[SimSwitchPort],
        home: SimFabric,
        balancer: Balancer | None = None,
    ) -> None:
        self._fabric = fabric
        self._home = home
        self._balancer = balancer
        self._uplinks: tuple[SimSwitchPort, ...] = ()  # of a balancer, made on first use
        self.model = model
        self.ports = ports
        self.alive = True
        self.frozen = False
        self._inputs: dict[int, HalfLink] = {}  # by number of the port that they lead to
        self._clear_counters()
        self.usid = _NO_USID
        self._near: list[SimSwitchPort | None] = []
        self._alike = srv6.usid(_NEXT[model.tier], model.plane, 0) & _ALIKE  # common to all uSIDs that `_near` knows
        self._wrong: dict[int, int] = {}
        self._plain: dict[int, tuple[SimSwitchPort, ...]] | None = None
        self.evs: dict[int, list[int]] = {}  # watched EV → packets and bytes that left
        self.provision()

    # --- tables -----------------------------------------------------------------------------------------------------

    def provision(self) -> None:
        """Write all intended entries."""
        self.usid = self.model.usid
        self._near = []
        self._wrong = {}
        self._plain = None
        self.watch(self._home.watched)

    def erase(self) -> None:
        """Remove all entries."""
        self.usid = _NO_USID
        self._near = []
        self._wrong = {}
        self._plain = {}
        self.evs.clear()

    def watch(self, evs: Iterable[int]) -> None:
        """Count the packets of these EVs; counters that exist continue."""
        for port in self.used:
            port.catch_up()
        for ev in evs:
            self.evs.setdefault(ev, [0, 0])

    @property
    def is_empty(self) -> bool:
        """True if it holds no entries."""
        return self.usid == _NO_USID

    def route(self, usid: int, port: int | None) -> None:
        """Write one uSID route, right or wrong; None removes it."""
        self._near = []
        self._wrong[usid] = port or 0
        if port == self._intended_port(usid):
            del self._wrong[usid]

    def wrong_routes(self) -> dict[int, int]:
        """By uSID: the port of each route that differs from the intended one; 0 for none."""
        return dict(self._wrong)

    def _intended_port(self, usid: int) -> int:
        """The intended port of a uSID; 0 for none."""
        try:
            kind, plane, number = srv6.usid_fields(usid)
        except ValueError:
            return 0
        if plane != self.model.plane:
            return 0
        return self._fabric.shape.port_for(self.model.tier, self.model.number, kind, number)

    def _find(self, usid: int) -> SimSwitchPort | None:
        """Look up the port of a uSID that is not cached yet."""
        if self.is_empty:
            return None
        number = self._wrong.get(usid)
        if number is None:
            number = self._intended_port(usid)
        if not number:
            return None
        found = self.ports[number - 1]
        if usid & _ALIKE == self._alike:
            place = _place(usid)
            self._near += [None] * (place + 1 - len(self._near))
            self._near[place] = found
        return found

    def _plain_routes(self) -> dict[int, tuple[SimSwitchPort, ...]]:
        """Ports by host address, and by the /64 of a group shifted down."""
        model, shape = self.model, self._fabric.shape
        routes: dict[int, tuple[SimSwitchPort, ...]] = {}
        if model.tier == "t0":
            for port in range(1, shape.down + 1):
                routes[srv6.host_address(model.number, port)] = (self.ports[port - 1],)
        for group in range(1, self._fabric.spec.t0s + 1):
            if model.tier != "t0" or group != model.number:
                ports = shape.ports_to_group(model.tier, model.number, group)
                routes[srv6.group_prefix(group) >> _GROUP_SHIFT] = tuple(self.ports[port - 1] for port in ports)
        return routes

    # --- frames -----------------------------------------------------------------------------------------------------

    def attached(self, half_link: HalfLink) -> None:
        """A half-link ends here; it has the port's receive counters, as it is at hand in `receive`."""
        self._inputs[half_link.far_port] = half_link

    def detached(self, half_link: HalfLink) -> None:
        """The half-link ends here no longer; keep its counters."""
        packets, size = self._earlier.get(half_link.far_port, (0, 0))
        self._earlier[half_link.far_port] = packets + half_link.rx_packets, size + half_link.rx_bytes
        half_link.rx_packets = half_link.rx_bytes = 0
        if self._inputs.get(half_link.far_port) is half_link:
            del self._inputs[half_link.far_port]

    def received(self) -> dict[int, tuple[int, int]]:
        """Frames and bytes received, by port number, of ports that received any."""
        found = dict(self._earlier)
        for number, half_link in self._inputs.items():
            if half_link.rx_packets:
                packets, size = found.get(number, (0, 0))
                found[number] = packets + half_link.rx_packets, size + half_link.rx_bytes
        return dict(sorted(found.items()))

    def receive(self, frame: SimFrame, half_link: HalfLink) -> None:
        """Forward a frame that arrived by a port, or drop it."""
        if self.frozen or not self.alive:
            return
        half_link.rx_packets += 1
        half_link.rx_bytes += frame.size
        if frame.fault and self._refuses(frame, half_link.far_port):
            return
        if frame.hops <= 1:
            self.drops[HOPS_OVER] += 1
            return
        usids = frame.usids
        if usids is None:
            self._receive_plain(frame)
            return
        at = frame.at
        here: int = usids[at]
        if here != self.usid:
            self.drops[UNKNOWN_USID] += 1
            return
        frame.at = at = at + 1
        usid: int = usids[at]
        if self._balancer is not None and self._may_balance(frame, usid):
            usid = self._balanced(frame, usids, at)
        near, place = self._near, _place(usid)
        out = near[place] if usid & _ALIKE == self._alike and place < len(near) else None
        if out is None:
            out = self._find(usid)
            if out is None:
                self.drops[USID_MISS] += 1
                return
        frame.hops -= 1
        out.send(frame)

    def _receive_plain(self, frame: SimFrame) -> None:
        assert frame.flow is not None
        destination = frame.flow[1]
        if self._plain is None:
            self._plain = self._plain_routes()
        outs = self._plain.get(destination) or self._plain.get(destination >> _GROUP_SHIFT)
        if outs is None:
            self.drops[IPV6_MISS] += 1
            return
        frame.hops -= 1
        if len(outs) == 1:
            place = 0
        elif self._balancer is not None and not TRIMMED <= kind_of(frame.dscp) <= CONTROL:
            place = self._balancer.choose(outs, frame.flow, outs[0].now)
        else:
            place = flow_hash(frame.flow) % len(outs)
        outs[place].send(frame)

    def _may_balance(self, frame: SimFrame, usid: int) -> bool:
        """Return True for data towards a T1 where the switch chooses the T1."""
        assert self._balancer is not None
        return (
            usid >> _KIND_AT & _KINDS == srv6.UsidType.T1
            and self.model.tier == "t0"
            and self._fabric.spec.pods == 1
            and not self._balancer.flowlets
            and not TRIMMED <= kind_of(frame.dscp) <= CONTROL
        )

    def _balanced(self, frame: SimFrame, usids: tuple[int, ...], at: int) -> int:
        """Replace the sender's T1 by the switch's choice; return its uSID."""
        assert self._balancer is not None
        down = self._fabric.spec.hosts_per_t0
        if not self._uplinks:
            self._uplinks = tuple(self.ports[number] for number in range(down, len(self.ports)))
        place = self._balancer.choose(self._uplinks, None, self._uplinks[0].now)
        chosen = srv6.usid(srv6.UsidType.T1, self.model.plane, place + 1)
        if chosen != usids[at]:
            frame.usids = (*usids[:at], word(chosen), *usids[at + 1 :])
        return chosen

    def _refuses(self, frame: SimFrame, port: int) -> bool:
        """Return True if a frame that is not known to be valid is dropped, or goes to the controller."""
        if frame.fault == LINK_CHECK:
            self.cpu_in += 1
            if self._home.packet_in is not None:
                self._home.packet_in(self, frame, port)
            return True
        if frame.fault != UNCHECKED:
            self.drops[frame.fault] += 1
            return True
        if frame.hops > 1 and not self._has_valid_source(frame, port):
            self.drops[WRONG_SOURCE] += 1
            return True
        frame.fault = 0
        return False

    def _has_valid_source(self, frame: SimFrame, port: int) -> bool:
        """Return False for a frame by a host's port whose source is another; an empty switch does not know."""
        model = self.model
        if model.tier != "t0" or port > self._fabric.spec.hosts_per_t0 or self.is_empty:
            return True
        return is_from(frame, srv6.to_bytes(srv6.host_address(model.number, port)))

    def send_out(self, frame: SimFrame, port: int) -> None:
        """Send a packet-out of the controller out of a port."""
        if self.alive and not self.frozen:
            self.cpu_out += 1
            self.ports[port - 1].send_packet_out(frame)

    # --- life -------------------------------------------------------------------------------------------------------

    @property
    def used(self) -> Iterator[SimSwitchPort]:
        """Ports that were ever used; the others are as they were made."""
        return self.ports.known

    def _clear_counters(self) -> None:
        self.drops = [0] * 16  # by reason
        self._earlier: dict[int, tuple[int, int]] = {}  # counted by half-links that end here no longer
        for half_link in self._inputs.values():
            half_link.rx_packets = half_link.rx_bytes = 0
        self.cpu_in = self.cpu_out = 0  # to the controller, and from it

    def freeze(self) -> None:
        """Freeze: queued frames, and those that arrive meanwhile, are lost."""
        self.frozen = True
        for port in self.used:
            port.lose_waiting()

    def thaw(self) -> None:
        """Continue after `freeze`."""
        self.frozen = False

    def die(self) -> None:
        """End the process: its entries, counters and queued frames are lost."""
        self.alive = False
        self.frozen = False
        self.erase()
        self._clear_counters()
        for port in self.used:
            port.clear()

    def revive(self) -> None:
        """Start a new process, without entries."""
        self.alive = True


def _place(usid: int) -> int:
    """Return the index in `_near` of a uSID of the switch's own plane: downlinks and T1s alternate."""
    return (usid & _LOW) << 1 | usid >> _KIND & 1


def flow_hash(flow: Flow) -> int:
    """The P4 program's ECMP hash: crc16 over the fields, one behind the other, zero bits behind the last."""
    known = _hashes.get(flow)
    if known is None:
        if len(_hashes) >= _HASHES_KEPT:
            _hashes.clear()
        widths = _FLOW_WIDTHS[: len(flow)]
        packed = 0
        for value, width in zip(flow, widths, strict=True):
            packed = packed << width | value
        pad = -sum(widths) % 8
        known = _hashes[flow] = _hash((packed << pad).to_bytes((sum(widths) + pad) // 8, "big"))
    return known


_HASHES_KEPT: Final = 65536
_hashes: dict[Flow, int] = {}
