"""From the fabric to the table entries that each switch must hold. Pure: no switch, no P4Runtime, no I/O.

An `IntendedEntry` uses the names of the P4 program (p4src/) and plain integers. Forwarding is static, as in
production (arXiv 2605.04333 §2.2): one entry for the switch's own uSID, one /48 route per neighbour; and plain IPv6
routes with ECMP for the RoCEv2 baseline.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from ipaddress import IPv6Address

from mrclab.topo import srv6
from mrclab.topo.model import Fabric, Switch, SwitchPort
from mrclab.topo.spec import FabricSpec

GROUP_PREFIX_BITS = 64
ADDRESS_BITS = 128

Key = int | tuple[int, int]
"""An exact value, or (value, prefix length)."""


@dataclass(frozen=True, order=True)
class EntryAction:
    """An action with its parameters in the program's order."""

    name: str
    params: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        return f"{self.name}({', '.join(f'{name}={value:#x}' for name, value in self.params)})"


@dataclass(frozen=True, order=True)
class IntendedEntry:
    """One table entry. `actions`: one, or with `one_shot` the equally weighted members of an action selector."""

    table: str
    match: tuple[tuple[str, Key], ...]
    actions: tuple[EntryAction, ...]
    one_shot: bool = False

    @property
    def key(self) -> tuple[str, tuple[tuple[str, Key], ...]]:
        """Key of the entry on a switch: table and match."""
        return self.table, self.match

    def __str__(self) -> str:
        keys = ", ".join(f"{name}={_show(value)}" for name, value in self.match)
        return f"{self.table}[{keys}] -> {' | '.join(map(str, self.actions))}"


def entries(fabric: Fabric, switch: Switch) -> tuple[IntendedEntry, ...]:
    """Everything that `switch` must hold, in the order of writing: sources, routes, the entry that uses them."""
    return (
        *_source_checks(switch),
        *(usid_route(port) for port in switch.ports),
        *_plain_routes(fabric, switch),
        *_queue_policies(fabric.spec, switch),
        IntendedEntry("my_usid", (("locator_usid", srv6.usid_route(switch.usid)),), (EntryAction("shift_usid"),)),
    )


def forward(port: SwitchPort) -> EntryAction:
    """Return the action that sends a packet out of `port` to its peer."""
    return EntryAction("forward", (("port", port.number), ("src_mac", mac(port.mac)), ("dst_mac", mac(port.peer.mac))))


def mac(text: str) -> int:
    """`02:0a:…` as a number."""
    return int(text.replace(":", ""), 16)


def _source_checks(switch: Switch) -> Iterator[IntendedEntry]:
    """Per port towards a host: the only valid source address of its packets."""
    for port in switch.ports:
        if port.to_host:
            expected = EntryAction("expect_source", (("address", srv6.host_address(switch.number, port.number)),))
            yield IntendedEntry("sources", (("std.ingress_port", port.number),), (expected,))


def usid_route(port: SwitchPort) -> IntendedEntry:
    """Return the /48 of the neighbour at a port: a T1's uSID, a T0's, or that of a downlink."""
    return IntendedEntry("usid_fib", (("locator_usid", srv6.usid_route(port.usid)),), (forward(port),))


def misdirected(switch: Switch, port: int, to: int) -> IntendedEntry:
    """Return the route of a port's neighbour, wrongly out of port `to`."""
    return replace(usid_route(switch.port(port)), actions=(forward(switch.port(to)),))


def ev_counter(ev: int) -> IntendedEntry:
    """Return the entry that counts an EV; it matches the inner header, so that every switch on the way sees it."""
    port, label = srv6.ev_to_wire(ev)
    match = (("hdr.inner_ipv6.flow_label", label), ("hdr.udp.src_port", port))
    return IntendedEntry("ev_watch", match, (EntryAction("count_ev"),))


def _plain_routes(fabric: Fabric, switch: Switch) -> Iterator[IntendedEntry]:
    """Plain IPv6: a host route per downlink, and a prefix per T0 group, by all uplinks or the port that leads there."""
    for port in switch.ports:
        if port.to_host:
            yield _plain(srv6.host_address(switch.number, port.number), ADDRESS_BITS, [port])
    for group in range(1, fabric.spec.t0s + 1):
        if switch.tier != "t0" or group != switch.number:
            numbers = fabric.shape.ports_to_group(switch.tier, switch.number, group)
            yield _plain(srv6.group_prefix(group), GROUP_PREFIX_BITS, [switch.port(number) for number in numbers])


def _plain(address: int, prefix: int, ports: list[SwitchPort]) -> IntendedEntry:
    actions = tuple(forward(port) for port in ports)
    return IntendedEntry("ipv6_fib", (("hdr.ipv6.dst", (address, prefix)),), actions, one_shot=True)


def _queue_policies(spec: FabricSpec, switch: Switch) -> Iterator[IntendedEntry]:
    """Per port: when to trim, and between switches when to mark; a port towards a NIC marks only if configured."""
    queue = spec.queue
    for port in switch.ports:
        if spec.trimming:
            threshold = queue.last_hop_trim_threshold if port.to_host else queue.trim_threshold
            params = (("threshold", threshold), ("last_hop", int(port.to_host)))
            yield IntendedEntry("trim_policy", (("std.egress_spec", port.number),), (EntryAction("set_trim", params),))
        if not port.to_host or spec.last_hop_ecn:
            span = queue.ecn_max - queue.ecn_min
            params = (("min_depth", queue.ecn_min), ("last", span - 1))
            yield IntendedEntry(
                "ecn_policy", (("std.egress_port", port.number),), (EntryAction("mark_between", params),)
            )


def usid_name(key: int) -> str:
    """A 48-bit locator-and-uSID key in text form: `fcbb:bb00:1102::/48`."""
    return f"{IPv6Address(key << 80)}/48"


def describe(fabric: Fabric, switch: Switch, entry: IntendedEntry) -> str:
    """An entry in the fabric's words: `fcbb:bb00:1102::/48 by port 4 to t1-p1-2`."""
    ports = [dict(act.params)["port"] for act in entry.actions if act.name == "forward"]
    if not ports:
        return str(entry)
    what = usid_name(_first_key(entry)) if entry.table == "usid_fib" else _show(entry.match[0][1])
    return f"{what} by " + " or ".join(_towards(fabric, switch, port) for port in ports)


def _towards(fabric: Fabric, switch: Switch, number: int) -> str:
    """`port 4 to t1-p1-2`, or only the port where the switch has none with this number."""
    known = fabric.switch(switch.name).ports
    return f"port {number} to {known[number - 1].peer.node}" if 1 <= number <= len(known) else f"port {number}"


def _first_key(entry: IntendedEntry) -> int:
    value = entry.match[0][1]
    return value if isinstance(value, int) else value[0]


def _show(value: Key) -> str:
    if isinstance(value, int):
        return f"{value:#x}"
    address, prefix = value
    return f"{IPv6Address(address)}/{prefix}"
