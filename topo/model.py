"""The fabric as arithmetic: from a `FabricSpec` follow every switch, host, port, MAC, uSID, address, cable and path.

Nothing here touches the machine. Planes, T0s, T1s, uplinks, downlinks and hosts count from 1. A host is attached to the
same T0 number in every plane; T0 port numbers are downlinks first, then uplinks; T1 port g leads to T0 number g. Cables
are named after their ends, the lower one first: `h1-p1/t0-p1-1`, `t0-p1-1/t1-p1-2`.
"""

import functools
import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from mrclab.topo import names, srv6
from mrclab.topo.economy import LazySequence
from mrclab.topo.errors import TopoError
from mrclab.topo.input import sentences
from mrclab.topo.links import LinkRule, LinkTimes
from mrclab.topo.names import Tier
from mrclab.topo.shape import Shape
from mrclab.topo.spec import FabricSpec, SpecError
from mrclab.topo.srv6 import UsidType

MAX_INTERFACE_NAME = 15  # bytes; IFNAMSIZ less the final zero

_NUMBER = re.compile(r"(?<!^t)\d+")  # t0 and t1 are kinds
_KEPT = 4096  # hosts, switches, links of a fabric that are kept once made, of each
_KEPT_PORTS = 64  # ports of a switch, where it has no more
_FEW = 20_000  # names that are all looked through for the one that was meant
_MAC_KIND = {"t0": 0x0A, "t1": 0x0B, "nic": 0x0C, "t2": 0x0D}
_USID_OF: dict[Tier, UsidType] = {"t0": UsidType.T0, "t1": UsidType.T1, "t2": UsidType.T2}


class UnknownName(TopoError, LookupError):  # noqa: N818 - the name others catch says what it is
    """No node or cable has this name; the text offers the nearest one that exists."""

    def __init__(self, kind: str, text: str, candidates: Iterable[str]) -> None:
        super().__init__(kind, text)
        self.kind, self.text = kind, text
        self._known = list(candidates)
        self._whole = not isinstance(candidates, names.Suggestions)

    @functools.cached_property
    def nearest(self) -> str | None:
        """The name that was probably meant; None where none is like it. Computed at first use."""
        return sentences.near(self.text[:100].lower(), self._known, 0.5)

    def __str__(self) -> str:
        return f"{self.plain}; {self._hint()}"

    def _hint(self) -> str:
        shape = _NUMBER.sub("0", self.text[:100].lower())
        alike = [name for name in self._known if _NUMBER.sub("0", name) == shape]
        if self._whole and len(alike) > 1:  # the number is wrong, and none of them was meant more than another
            return f"there are {alike[0]!r} to {alike[-1]!r}"
        if near := self.nearest:
            return f"did you mean {near!r}?"
        return f"a valid one is {self._known[0]!r}" if self._known else "there is none"

    @property
    def plain(self) -> str:
        """The message without the nearest name, which takes a comparison with all names."""
        return f"no {self.kind} is called {self.text!r}"


class PortRef(NamedTuple):
    """One port seen from elsewhere: its node, number there, interface name and MAC."""

    node: str
    number: int
    interface: str
    mac: str


class SwitchPort(NamedTuple):
    """A port of a switch. `usid` is the uSID that leads out of it; `to_host` where a NIC is at the other end."""

    number: int
    interface: str
    mac: str
    link: str
    peer: PortRef
    usid: int
    to_host: bool


class Switch(NamedTuple):
    """A T0 or T1. `device_id` counts from 1 in the order of `Fabric.switches`."""

    name: str
    tier: Tier
    plane: int
    number: int
    device_id: int
    usid: int
    ports: Sequence[SwitchPort]

    def port(self, number: int) -> SwitchPort:
        """The port with this number, counted from 1."""
        if not 1 <= number <= len(self.ports):
            raise UnknownName("port", f"{self.name}-{number}", (p.interface for p in self.ports))
        return self.ports[number - 1]


class NicPort(NamedTuple):
    """One port of a host's NIC; its number is the plane it is in."""

    number: int
    interface: str
    mac: str
    plane: int
    link: str
    peer: PortRef


class Host(NamedTuple):
    """A host: `group` is its T0's number in every plane, `downlink` that T0's port. `address` is IPv6 text."""

    name: str
    number: int
    group: int
    downlink: int
    address: str
    ports: tuple[NicPort, ...]

    def port(self, number: int) -> NicPort:
        """The port in this plane, counted from 1."""
        if not 1 <= number <= len(self.ports):
            raise UnknownName("port", f"{self.name}-p{number}", (p.interface for p in self.ports))
        return self.ports[number - 1]


@dataclass(frozen=True)
class Link:
    """A cable; `a` is the lower end (NIC or T0). `index` counts from 0 in the order of `Fabric.links`."""

    name: str
    index: int
    plane: int
    kind: Literal["nic", "fabric"]
    a: PortRef
    b: PortRef

    @property
    def ends(self) -> tuple[PortRef, PortRef]:
        """Both ports."""
        return self.a, self.b


class Fabric:
    """Everything that follows from a spec. Immutable; equal specs give equal fabrics.

    Hosts, switches and links are created on first use: a fabric of 131,072 NICs costs no more than a small one.
    """

    def __init__(self, spec: FabricSpec) -> None:
        self.spec = spec
        self.shape = shape = Shape(spec)
        switches, links = spec.planes * shape.of_plane, shape.links
        self.hosts: Sequence[Host] = LazySequence(spec.t0s * spec.hosts_per_t0, self._host, _KEPT)
        self.switches: Sequence[Switch] = LazySequence(switches, self._switch, _KEPT)
        self.links: Sequence[Link] = LazySequence(links, self._link, _KEPT)
        last = _switch_ref("t0", spec.planes, spec.t0s, spec.hosts_per_t0 + spec.t1s).interface
        also = _switch_ref("t1", spec.planes, shape.t1s, shape.ports["t1"]).interface
        self._cable_rules = self._rules_of_cables()
        for name in (last, also, f"{self.hosts[-1].name}-p{spec.planes}"):
            if len(name) > MAX_INTERFACE_NAME:
                raise SpecError(f"interface {name} exceeds {MAX_INTERFACE_NAME} bytes; lower planes or t0s")

    @property
    def uplinks(self) -> int:
        """Uplinks of each T0, which is the number of T1s per plane, or per pod."""
        return self.spec.t1s

    @property
    def servers(self) -> int:
        """Servers, each with as many hosts (NICs) as there are rails."""
        return len(self.hosts) // self.spec.rails

    def of_server(self, server: int) -> list[str]:
        """Names of a server's NICs, which are hosts, by rail; UnknownName where there is no such server."""
        if not 1 <= server <= self.servers:
            raise UnknownName("server", f"s{server}", (f"s{n}" for n in (1, self.servers)))
        down, rails = self.spec.hosts_per_t0, self.spec.rails
        block, place = divmod(server - 1, down)
        return [f"h{(block * rails + rail) * down + place + 1}" for rail in range(rails)]

    def of_rail(self, rail: int) -> list[str]:
        """Names of the hosts (NICs) of a rail, by server; UnknownName where there is no such rail."""
        if not 1 <= rail <= self.spec.rails:
            raise UnknownName("rail", f"r{rail}", (f"r{n}" for n in (1, self.spec.rails)))
        return [self.of_server(server)[rail - 1] for server in range(1, self.servers + 1)]

    @property
    def most_paths(self) -> int:
        """Paths of a plane between the hosts that are furthest apart: EVs number them from 1."""
        return max(self.spec.t1s, self.spec.t2s)

    @property
    def planes(self) -> int:
        """Planes, which is the number of ports of each NIC."""
        return self.spec.planes

    def _rules_of_cables(self) -> dict[int, list[LinkRule]]:
        """Rules for cables that are named one by one, by place in `links`; SpecError if there is none of a name."""
        found: dict[int, list[LinkRule]] = {}
        for number, rule in enumerate(self.spec.links, 1):
            for name in rule.cables:
                try:
                    found.setdefault(self.link(name).index, []).append(rule)
                except UnknownName as error:
                    raise SpecError(f"links.{number}.cables: {error}") from None
        return found

    def link_times(self, index: int) -> LinkTimes:
        """Rate (bits per second) and delay of the link at this place in `links`; with a rate in bits only."""
        plane, _, _ = self.shape.link_ends(index)
        found = self.spec.times(self.shape.tier_of(index), plane)
        for rule in self._cable_rules.get(index, ()):
            found = rule.apply(found)
        return found

    # --- look-up ----------------------------------------------------------------------------------------------------

    @property
    def host_names(self) -> Sequence[str]:
        """Names of all hosts."""
        return LazySequence(len(self.hosts), lambda index: f"h{index + 1}")

    @property
    def switch_names(self) -> Sequence[str]:
        """Names of all switches."""
        return LazySequence(len(self.switches), lambda index: names.of_switch(*self.shape.switch_at(index)))

    def switch_place(self, name: str) -> int:
        """Index of a switch in `switches`; UnknownName where there is none of this name."""
        found = names.switch(name)
        if found is None or not self.shape.has_switch(*found):
            raise UnknownName("switch", name, self.near(name, "switch"))
        return self.shape.switch_index(*found)

    def group(self, host: str) -> int:
        """The T0 group of a host."""
        return self._host_place(host) // self.spec.hosts_per_t0 + 1

    def address(self, host: str) -> str:
        """The inner address of a host, as text."""
        group, downlink = divmod(self._host_place(host), self.spec.hosts_per_t0)
        return srv6.text(srv6.host_address(group + 1, downlink + 1))

    def has_host(self, name: str) -> bool:
        """Return True if a host has this name."""
        found = names.host(name)
        return found is not None and found <= len(self.hosts)

    def has_switch(self, name: str) -> bool:
        """Return True if a switch has this name."""
        found = names.switch(name)
        return found is not None and self.shape.has_switch(*found)

    def switch(self, name: str) -> Switch:
        """The switch with this name; UnknownName otherwise."""
        return self.switches[self.switch_place(name)]

    def host(self, name: str) -> Host:
        """The host with this name; UnknownName otherwise."""
        return self.hosts[self._host_place(name)]

    def _host_place(self, name: str) -> int:
        found = names.host(name)
        if found is None or found > len(self.hosts):
            raise UnknownName("host", name, self.near(name, "host"))
        return found - 1

    def host_by_address(self, address: str) -> Host:
        """The host with this inner IPv6 address; UnknownName otherwise."""
        try:
            group, downlink = srv6.host_of_address(srv6.from_text(address))
        except ValueError:
            group = downlink = 0
        if not (1 <= group <= self.spec.t0s and 1 <= downlink <= self.spec.hosts_per_t0):
            raise UnknownName("host", address, (self.hosts[0].address, self.hosts[-1].address))
        return self.hosts[(group - 1) * self.spec.hosts_per_t0 + downlink - 1]

    def node(self, name: str) -> Switch | Host:
        """The switch or host with this name; UnknownName otherwise."""
        if self.has_switch(name):
            return self.switch(name)
        if self.has_host(name):
            return self.host(name)
        raise UnknownName("node", name, self.near(name, "switch", "host"))

    def link(self, text: str) -> Link:
        """The cable that a person means: both ends in either order, one port's interface, or a host and a plane.

        `t1-p1-2/t0-p1-1`, `t0-p1-1 t1-p1-2`, `h1-p2`, `t0-p1-1-3`, `h1 2` and `h1/p2` are all understood.
        """
        found = names.cable(self, text)
        if found is None:
            raise UnknownName("cable", text, self.near(text, "link", "port"))
        return found

    def near(self, text: str, *kinds: names.Kind) -> Iterable[str]:
        """Names that may have been meant: all of these kinds, or in a large fabric those with the numbers in `text`."""
        if len(self.switches) + len(self.hosts) + len(self.links) <= _FEW:
            every: dict[names.Kind, Iterable[str]] = {
                "switch": (switch.name for switch in self.switches),
                "host": (host.name for host in self.hosts),
                "link": (link.name for link in self.links),
                "port": (end.interface for link in self.links for end in link.ends),
            }
            return dict.fromkeys(itertools.chain.from_iterable(every[kind] for kind in kinds))
        return names.suggestions(text, self.spec, kinds)

    # --- paths ------------------------------------------------------------------------------------------------------

    def links_between(self, source: str, destination: str) -> int:
        """Links of a path from one host to another: 2 within a T0 group, 4 within a pod, else 6."""
        return self.links_between_groups(self.group(source), self.group(destination))

    def links_between_groups(self, one: int, other: int) -> int:
        """Links of a path between hosts of two T0 groups."""
        if one == other:
            return 2
        return 4 if self.shape.pod("t0", one) == self.shape.pod("t0", other) else 6

    def uplinks_between(self, one: int, other: int) -> int:
        """Paths of a plane between hosts of two T0 groups, by which EVs number them; 0 within a group."""
        links = self.links_between_groups(one, other)
        return 0 if links == 2 else self.spec.t1s if links == 4 else self.spec.t2s

    def base_rtt(self, source: str, destination: str) -> float:
        """Round-trip time of an idle fabric between two hosts, seconds; see `FabricSpec.base_rtt`."""
        return self.spec.base_rtt(self.links_between(source, destination))

    def paths(self, source: str, destination: str) -> list[tuple[int, int]]:
        """All paths between two hosts as (plane, uplink) pairs; uplink 0 within a T0 group."""
        found = self.uplinks_between(self.group(source), self.group(destination))
        uplinks = range(1, found + 1) if found else [0]
        return [(plane, uplink) for plane in range(1, self.planes + 1) for uplink in uplinks]

    def path_links(self, source: str, destination: str, plane: int, uplink: int) -> tuple[Link, ...]:
        """The cables of one path in the order a packet crosses them; uplink 0 is the path without a T1."""
        src, dst = self.host(source), self.host(destination)
        if (plane, uplink) not in self.paths(source, destination):
            raise UnknownName("path", f"{source} to {destination} by plane {plane}, uplink {uplink}", ())
        ends = [self.links[self.shape.link_of_nic(host.number, plane)] for host in (src, dst)]
        if not uplink:
            return ends[0], ends[1]
        shape, far = self.shape, self.links_between(source, destination) == 6
        rail = (uplink - 1) // shape.t2s_per_t1 + 1 if far else uplink
        low = [shape.link_of_switch("t0", plane, host.group, shape.down + rail) for host in (src, dst)]
        high = []
        if far:
            port = shape.t0s_of_pod + (uplink - 1) % shape.t2s_per_t1 + 1
            t1s = [shape.t1_base(host.group) + rail for host in (src, dst)]
            high = [shape.link_of_switch("t1", plane, t1, port) for t1 in t1s]
        places = [low[0], *high, low[1]]
        return ends[0], *(self.links[place] for place in places), ends[1]

    def template(self, one: int, other: int, downlink: int) -> int:
        """The address template from hosts of one T0 group to a downlink of another or the same."""
        links, base = self.links_between_groups(one, other), self.shape.t1_base
        if links == 2:
            return srv6.template_local(other, downlink)
        if links == 4:
            return srv6.template_cross(one, other, downlink, base(one))
        return srv6.template_far(one, other, downlink, (base(one), base(other)))

    def fan_between(self, one: int, other: int) -> int:
        """T2s above each T1 where paths between two T0 groups cross one, else 0."""
        return self.spec.t2s_per_t1 if self.links_between_groups(one, other) == 6 else 0

    def outer_address(self, source: str, destination: str, entropy: int) -> int:
        """Destination address on the wire between two hosts for an EV, as a 128-bit integer."""
        src, dst = self.host(source), self.host(destination)
        template = self.template(src.group, dst.group, dst.downlink)
        return srv6.address(template, entropy, self.fan_between(src.group, dst.group))

    # --- construction -----------------------------------------------------------------------------------------------

    def _host(self, index: int) -> Host:
        number = index + 1
        group, downlink = index // self.spec.hosts_per_t0 + 1, index % self.spec.hosts_per_t0 + 1
        ports = []
        for plane in range(1, self.spec.planes + 1):
            me, peer = _nic_ref(number, plane), _switch_ref("t0", plane, group, downlink)
            ports.append(NicPort(plane, me.interface, me.mac, plane, _link_name(me, peer), peer))
        address = srv6.text(srv6.host_address(group, downlink))
        return Host(f"h{number}", number, group, downlink, address, tuple(ports))

    def _switch(self, index: int) -> Switch:
        tier, plane, number = self.shape.switch_at(index)
        count = self.shape.ports[tier]
        make = functools.partial(self._port, tier, plane, number)
        ports = LazySequence(count, make, count if count <= _KEPT_PORTS else 0)
        own = srv6.usid(_USID_OF[tier], plane, number)
        return Switch(names.of_switch(tier, plane, number), tier, plane, number, index + 1, own, ports)

    def _port(self, tier: Tier, plane: int, number: int, index: int) -> SwitchPort:
        me = _switch_ref(tier, plane, number, index + 1)
        far = self.shape.far(tier, number, index + 1)
        if far.tier is None:
            peer = _nic_ref(far.number, plane)
            usid = srv6.usid(UsidType.DOWNLINK, plane, index + 1)
        else:
            peer = _switch_ref(far.tier, plane, far.number, far.port)
            usid = srv6.usid(_USID_OF[far.tier], plane, far.number)
        ends = (me, peer) if self.shape.is_up(tier, index + 1) else (peer, me)
        return SwitchPort(me.number, me.interface, me.mac, _link_name(*ends), peer, usid, far.tier is None)

    def _link(self, index: int) -> Link:
        plane, lower, upper = self.shape.link_ends(index)
        assert upper.tier is not None
        peer = _switch_ref(upper.tier, plane, upper.number, upper.port)
        if lower.tier is None:
            me = _nic_ref(lower.number, plane)
            return Link(_link_name(me, peer), index, plane, "nic", me, peer)
        me = _switch_ref(lower.tier, plane, lower.number, lower.port)
        return Link(_link_name(me, peer), index, plane, "fabric", me, peer)


def mac_bytes(mac: str) -> bytes:
    """Six bytes of `02:0a:…`."""
    return bytes.fromhex(mac.replace(":", ""))


def _switch_ref(tier: Tier, plane: int, number: int, port: int) -> PortRef:
    name = names.of_switch(tier, plane, number)
    mac = _mac(_MAC_KIND[tier], number >> 8 << 4 | plane, number & 0xFF, port >> 8, port & 0xFF)
    return PortRef(name, port, f"{name}-{port}", mac)


def _nic_ref(host: int, plane: int) -> PortRef:
    mac = _mac(_MAC_KIND["nic"], host >> 16 << 4 | plane, host >> 8 & 0xFF, host & 0xFF, 1)
    return PortRef(f"h{host}", plane, f"h{host}-p{plane}", mac)


def _mac(*octets: int) -> str:
    """02 (locally administered), kind, the rest of the number above its plane, its low bits, and the port."""
    return bytes((0x02, *octets)).hex(":")


def _link_name(lower: PortRef, upper: PortRef) -> str:
    """A NIC end is named with its port, a switch end by its node: between two switches there is one cable only."""
    left = lower.interface if lower.node.startswith("h") else lower.node
    return f"{left}/{upper.node}"
