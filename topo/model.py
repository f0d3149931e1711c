"""The fabric as arithmetic: from a `FabricSpec` follow every switch, host, port, MAC, uSID, address, cable and path.

Nothing here touches the machine. Planes, T0s, T1s, uplinks, downlinks and hosts count from 1. Host h hangs on the same
T0 number of every plane; T0 port numbers are downlinks first, then uplinks; T1 port g leads to T0 number g. Cables are
named after their ends, the lower one first: `h1-p1/t0-p1-1`, `t0-p1-1/t1-p1-2`.
"""

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NoReturn

from mrclab.topo import srv6
from mrclab.topo.errors import TopoError
from mrclab.topo.spec import FabricSpec, SpecError
from mrclab.topo.srv6 import UsidType

MAX_INTERFACE_NAME = 15  # bytes; IFNAMSIZ less the final zero

_SEPARATOR = re.compile(r"\s*(?:/|,|<->|--|–|\s)\s*")
_PLANE_WORD = re.compile(r"(?:p|plane)?(\d+)")
_MAC_KIND = {"t0": 0x0A, "t1": 0x0B, "nic": 0x0C}

Tier = Literal["t0", "t1"]


class UnknownName(TopoError, LookupError):  # noqa: N818 - the name others catch says what it is
    """No node or cable has this name; the text offers the nearest one that exists."""

    def __init__(self, kind: str, text: str, candidates: Iterable[str]) -> None:
        names = list(candidates)
        near = difflib.get_close_matches(text.lower(), names, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"a valid one is {names[0]!r}" if names else "there is none"
        super().__init__(f"no {kind} is called {text!r}; {hint}")
        self.kind, self.text, self.nearest = kind, text, near[0] if near else None


@dataclass(frozen=True)
class PortRef:
    """One port seen from elsewhere: its node, number there, interface name and MAC."""

    node: str
    number: int
    interface: str
    mac: str


@dataclass(frozen=True)
class SwitchPort:
    """A port of a switch. `usid` is the uSID that leads out of it; `to_host` where a NIC is at the other end."""

    number: int
    interface: str
    mac: str
    link: str
    peer: PortRef
    usid: int
    to_host: bool


@dataclass(frozen=True)
class Switch:
    """A T0 or T1. `device_id` counts from 1 in the order of `Fabric.switches`."""

    name: str
    tier: Tier
    plane: int
    number: int
    device_id: int
    usid: int
    ports: tuple[SwitchPort, ...]

    def port(self, number: int) -> SwitchPort:
        """The port with this number, counted from 1."""
        if not 1 <= number <= len(self.ports):
            raise UnknownName("port", f"{self.name}-{number}", (p.interface for p in self.ports))
        return self.ports[number - 1]


@dataclass(frozen=True)
class NicPort:
    """One port of a host's NIC; its number is the plane it is in."""

    number: int
    interface: str
    mac: str
    plane: int
    link: str
    peer: PortRef


@dataclass(frozen=True)
class Host:
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
    """Everything that follows from a spec. Immutable; equal specs give equal fabrics."""

    def __init__(self, spec: FabricSpec) -> None:
        self.spec = spec
        self.hosts: tuple[Host, ...] = tuple(self._host(n) for n in range(1, spec.t0s * spec.hosts_per_t0 + 1))
        self.switches: tuple[Switch, ...] = tuple(self._all_switches())
        self.links: tuple[Link, ...] = tuple(self._all_links())
        for end in (end for link in self.links for end in link.ends):
            if len(end.interface) > MAX_INTERFACE_NAME:
                raise SpecError(f"interface {end.interface} exceeds {MAX_INTERFACE_NAME} bytes; lower planes or t0s")

    @property
    def uplinks(self) -> int:
        """Uplinks of each T0, which is the number of T1s per plane."""
        return self.spec.t1s

    @property
    def planes(self) -> int:
        """Planes, which is the number of ports of each NIC."""
        return self.spec.planes

    # --- look-up ----------------------------------------------------------------------------------------------------

    def switch(self, name: str) -> Switch:
        """The switch with this name; UnknownName otherwise."""
        return self._switches_by_name.get(name) or self._fail("switch", name, self._switches_by_name)

    def host(self, name: str) -> Host:
        """The host with this name; UnknownName otherwise."""
        return self._hosts_by_name.get(name) or self._fail("host", name, self._hosts_by_name)

    def host_by_address(self, address: str) -> Host:
        """The host with this inner IPv6 address; UnknownName otherwise."""
        by_address = {h.address: h for h in self.hosts}
        return by_address.get(address) or self._fail("host", address, by_address)

    def node(self, name: str) -> Switch | Host:
        """The switch or host with this name; UnknownName otherwise."""
        nodes: dict[str, Switch | Host] = {**self._switches_by_name, **self._hosts_by_name}
        return nodes.get(name) or self._fail("node", name, nodes)

    def link(self, text: str) -> Link:
        """The cable that a person means: both ends in either order, one port's interface, or a host and a plane.

        `t1-p1-2/t0-p1-1`, `t0-p1-1 t1-p1-2`, `h1-p2`, `t0-p1-1-3`, `h1 2` and `h1/p2` are all understood.
        """
        words = [word for word in _SEPARATOR.split(text.strip().lower()) if word]
        found = self._links_by_word.get(words[0]) if len(words) == 1 else None
        if len(words) == 2:
            found = self._link_between(*words)
        return found or self._fail("cable", text, (*(link.name for link in self.links), *self._links_by_word))

    # --- paths ------------------------------------------------------------------------------------------------------

    def links_between(self, source: str, destination: str) -> int:
        """Links on the way from one host to another: 2 within a T0 group, else 4."""
        return 2 if self.host(source).group == self.host(destination).group else 4

    def base_rtt(self, source: str, destination: str) -> float:
        """Round-trip time of an idle fabric between two hosts, seconds; see `FabricSpec.base_rtt`."""
        return self.spec.base_rtt(self.links_between(source, destination))

    def paths(self, source: str, destination: str) -> list[tuple[int, int]]:
        """All paths between two hosts as (plane, uplink) pairs; uplink 0 within a T0 group."""
        uplinks = [0] if self.links_between(source, destination) == 2 else range(1, self.uplinks + 1)
        return [(plane, uplink) for plane in range(1, self.planes + 1) for uplink in uplinks]

    def path_links(self, source: str, destination: str, plane: int, uplink: int) -> tuple[Link, ...]:
        """The cables of one path in the order a packet crosses them; uplink 0 is the path without a T1."""
        src, dst = self.host(source), self.host(destination)
        if (plane, uplink) not in self.paths(source, destination):
            raise UnknownName("path", f"{source} to {destination} by plane {plane}, uplink {uplink}", ())
        first, last = self.link(src.port(plane).link), self.link(dst.port(plane).link)
        if not uplink:
            return first, last
        t1 = f"t1-p{plane}-{uplink}"
        return first, self.link(f"t0-p{plane}-{src.group}/{t1}"), self.link(f"t0-p{plane}-{dst.group}/{t1}"), last

    def outer_address(self, source: str, destination: str, entropy: int) -> int:
        """Destination address on the wire between two hosts for an EV, as a 128-bit integer."""
        src, dst = self.host(source), self.host(destination)
        return srv6.address(srv6.template_for(src.group, dst.group, dst.downlink), entropy)

    # --- construction -----------------------------------------------------------------------------------------------

    def _host(self, number: int) -> Host:
        group, downlink = (number - 1) // self.spec.hosts_per_t0 + 1, (number - 1) % self.spec.hosts_per_t0 + 1
        ports = []
        for plane in range(1, self.spec.planes + 1):
            me, peer = _nic_ref(number, plane), _switch_ref("t0", plane, group, downlink)
            ports.append(NicPort(plane, me.interface, me.mac, plane, _link_name(me, peer), peer))
        address = srv6.text(srv6.host_address(group, downlink))
        return Host(f"h{number}", number, group, downlink, address, tuple(ports))

    def _all_switches(self) -> Iterable[Switch]:
        device_id = 0
        for plane in range(1, self.spec.planes + 1):
            for tier, count in (("t0", self.spec.t0s), ("t1", self.spec.t1s)):
                for number in range(1, count + 1):
                    device_id += 1
                    yield self._t0(plane, number, device_id) if tier == "t0" else self._t1(plane, number, device_id)

    def _t0(self, plane: int, number: int, device_id: int) -> Switch:
        downlinks = self.spec.hosts_per_t0
        ports = []
        for down in range(1, downlinks + 1):
            host = (number - 1) * downlinks + down
            me, peer = _switch_ref("t0", plane, number, down), _nic_ref(host, plane)
            ports.append(_port(me, peer, _link_name(peer, me), srv6.usid(UsidType.DOWNLINK, plane, down), True))
        for up in range(1, self.spec.t1s + 1):
            me, peer = _switch_ref("t0", plane, number, downlinks + up), _switch_ref("t1", plane, up, number)
            ports.append(_port(me, peer, _link_name(me, peer), srv6.usid(UsidType.T1, plane, up), False))
        own = srv6.usid(UsidType.T0, plane, number)
        return Switch(_switch_name("t0", plane, number), "t0", plane, number, device_id, own, tuple(ports))

    def _t1(self, plane: int, number: int, device_id: int) -> Switch:
        ports = []
        for t0 in range(1, self.spec.t0s + 1):
            me = _switch_ref("t1", plane, number, t0)
            peer = _switch_ref("t0", plane, t0, self.spec.hosts_per_t0 + number)
            ports.append(_port(me, peer, _link_name(peer, me), srv6.usid(UsidType.T0, plane, t0), False))
        own = srv6.usid(UsidType.T1, plane, number)
        return Switch(_switch_name("t1", plane, number), "t1", plane, number, device_id, own, tuple(ports))

    def _all_links(self) -> Iterable[Link]:
        index = 0
        for host in self.hosts:
            for port in host.ports:
                me = PortRef(host.name, port.number, port.interface, port.mac)
                yield Link(port.link, index, port.plane, "nic", me, port.peer)
                index += 1
        for switch in self.switches:
            for up in switch.ports if switch.tier == "t0" else ():
                if not up.to_host:
                    me = PortRef(switch.name, up.number, up.interface, up.mac)
                    yield Link(up.link, index, switch.plane, "fabric", me, up.peer)
                    index += 1

    @cached_property
    def _switches_by_name(self) -> dict[str, Switch]:
        return {switch.name: switch for switch in self.switches}

    @cached_property
    def _hosts_by_name(self) -> dict[str, Host]:
        return {host.name: host for host in self.hosts}

    @cached_property
    def _links_by_word(self) -> dict[str, Link]:
        return {end.interface: link for link in self.links for end in link.ends}

    @cached_property
    def _links_by_name(self) -> dict[str, Link]:
        return {link.name: link for link in self.links}

    def _link_between(self, first: str, second: str) -> Link | None:
        for name, other in ((first, second), (second, first)):
            host, plane = self._hosts_by_name.get(name), _PLANE_WORD.fullmatch(other)
            if host and plane and 1 <= int(plane[1]) <= self.planes:
                return self._links_by_word[host.ports[int(plane[1]) - 1].interface]
            found = self._links_by_word.get(name) or self._links_by_name.get(f"{name}/{other}")
            if found is None and host:
                found = next((self._links_by_word[p.interface] for p in host.ports if p.peer.node == other), None)
            if found and _joins(found, name, other):
                return found
        return None

    @staticmethod
    def _fail(kind: str, text: str, candidates: Iterable[str]) -> NoReturn:
        raise UnknownName(kind, text, candidates)


def mac_bytes(mac: str) -> bytes:
    """Six bytes of `02:0a:…`."""
    return bytes.fromhex(mac.replace(":", ""))


def _joins(link: Link, first: str, second: str) -> bool:
    """Whether each of two words, node or interface, names another end of a cable."""
    a, b = ({end.node, end.interface} for end in link.ends)
    return (first in a and second in b) or (first in b and second in a)


def _port(me: PortRef, peer: PortRef, link: str, usid: int, to_host: bool) -> SwitchPort:
    return SwitchPort(me.number, me.interface, me.mac, link, peer, usid, to_host)


def _switch_name(tier: Tier, plane: int, number: int) -> str:
    return f"{tier}-p{plane}-{number}"


def _switch_ref(tier: Tier, plane: int, number: int, port: int) -> PortRef:
    name = _switch_name(tier, plane, number)
    mac = _mac(_MAC_KIND[tier], plane, number, port >> 8, port & 0xFF)
    return PortRef(name, port, f"{name}-{port}", mac)


def _nic_ref(host: int, plane: int) -> PortRef:
    return PortRef(f"h{host}", plane, f"h{host}-p{plane}", _mac(_MAC_KIND["nic"], plane, host >> 8, host & 0xFF, 1))


def _mac(*octets: int) -> str:
    return ":".join(f"{octet:02x}" for octet in (0x02, *octets))


def _link_name(lower: PortRef, upper: PortRef) -> str:
    """A NIC end is named with its port, a switch end by its node: between two switches there is one cable only."""
    left = lower.interface if lower.node.startswith("h") else lower.node
    return f"{left}/{upper.node}"
