"""The path of one packet through P4 switches: at each its headers, table lookups, registers and output port."""

import json
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from mrclab.controller.provisioning.counters import DROP_REASONS
from mrclab.hosts.rdma.packets import wire
from mrclab.lab.p4 import text
from mrclab.lab.p4.inside import EGRESS, INGRESS, PROGRAM, Lookup, MrcSwitch
from mrclab.topo import srv6
from mrclab.topo.frames import ETHERTYPE_IPV6, IPV6_IN_IPV6, UDP, srv6_frame
from mrclab.topo.model import Fabric, PortRef, mac_bytes
from mrclab.topo.numbers import MRC_UDP_PORT, Dscp

_WRITE = 0x06
_PAYLOAD = bytes(64)
_PARSER = (
    ("ethernet", "", "", 0),
    ("ipv6", "ethernet", "ether_type", ETHERTYPE_IPV6),
    ("inner_ipv6", "ipv6", "next_header", IPV6_IN_IPV6),
    ("udp", "inner_ipv6", "next_header", UDP),
    ("bth", "udp", "dst_port", MRC_UDP_PORT),
)
"""Headers in their order: each follows the one before where that one's field has a value."""

_HIDDEN = {"ethernet": {"ether_type"}, "udp": {"length", "checksum"}, "bth": {"se_m_pad_tver", "pkey", "reserved"}}
"""Fields that are not shown."""

_REASONS = {
    "malformed": "too short, or no IPv6 inside",
    "foreign": "an EtherType that the fabric does not carry",
    "hop limit": "its hop limit is used up",
    "unknown usid": "the uSID in front is not this switch's: my_usid has no entry for it",
    "usid miss": "usid_fib has no entry for the uSID that is next",
    "ipv6 miss": "a plain IPv6 address without a route",
    "wrong source": "its source is not the address of the host at this port",
}
_MAX_HOPS = 12
_LONGEST_NUMBER = 32  # bits; longer fields are addresses


def packet(fabric: Fabric, source: str, target: str, plane: int, uplink: int) -> bytes:
    """A frame of an RDMA write as `source` sends it by this plane and T0 uplink."""
    host, peer = fabric.host(source), fabric.host(target)
    port = host.port(plane)
    own, theirs = (srv6.to_bytes(srv6.from_text(each.address)) for each in (host, peer))
    outer = own + srv6.to_bytes(fabric.outer_address(source, target, srv6.ev(plane, uplink, 0)))
    macs = mac_bytes(port.peer.mac) + mac_bytes(port.mac)
    payload = wire.BTH.pack(_WRITE, 0, wire.P_KEY, 256, 0) + _PAYLOAD
    return srv6_frame(macs, outer, own + theirs, (0xC000, MRC_UDP_PORT), payload, Dscp.TRIMMABLE << 2)


@cache
def _layout() -> dict[str, tuple[tuple[str, int], ...]]:
    """Fields of the program's headers with their widths in bits."""
    program = json.loads(PROGRAM.read_text(encoding="utf-8"))
    kinds = {
        kind["name"]: tuple((name, width) for name, width, *_ in kind["fields"]) for kind in program["header_types"]
    }
    return {each["name"]: kinds[each["header_type"]] for each in program["headers"] if not each["metadata"]}


def headers(frame: bytes) -> dict[str, dict[str, str]]:
    """Headers of a frame, as the program's parser finds them: header → field → text."""
    found: dict[str, dict[str, int]] = {}
    bits, left = int.from_bytes(frame, "big"), 8 * len(frame)
    for name, before, field, expected in _PARSER:
        if before and found[before][field] != expected:
            break
        if left < sum(width for _, width in _layout()[name]):
            break
        found[name] = {}
        for each, width in _layout()[name]:
            left -= width
            found[name][each] = bits >> left & ((1 << width) - 1)
    return {
        name: {
            each: text.value(fields[each], width if width > _LONGEST_NUMBER else 16)
            for each, width in _layout()[name]
            if each not in _HIDDEN.get(name, ())
        }
        for name, fields in found.items()
    }


def walk(
    fabric: Fabric, switch: Callable[[str], MrcSwitch], frame: bytes, source: str, plane: int
) -> Iterator[dict[str, Any]]:
    """Yield one hop per switch, and at last the host that received the frame, if any.

    `switch` gives the switch of a name. A hop: node, port, headers, tables, registers, counters, and either `to` with
    `leaves` and the headers then, or `dropped` with the reason.
    """
    at: PortRef | None = fabric.host(source).port(plane).peer
    for _ in range(_MAX_HOPS):
        if at is None:
            return
        if not at.node.startswith("t"):
            yield {"node": at.node, "port": at.number, "headers": headers(frame)}
            return
        hop, out = _through(fabric, switch(at.node), at, frame)
        yield hop
        if out is None:
            return
        number, frame = out
        ports = fabric.switch(at.node).ports
        at = ports[number - 1].peer if 1 <= number <= len(ports) else None


def _through(
    fabric: Fabric, switch: MrcSwitch, at: PortRef, frame: bytes
) -> tuple[dict[str, Any], tuple[int, bytes] | None]:
    instance = switch.runtime.program()
    switch.lookups.clear()
    before = {name: list(cells) for name, cells in instance.registers.items()}
    outcome = switch.arrive(switch.now_ns + 1000, at.number, frame)
    switch.run()
    counted = [*outcome.counted, *(each for copy in outcome.copies for each in copy.counted)]
    hop: dict[str, Any] = {
        "node": at.node,
        "port": at.number,
        "headers": headers(frame),
        "tables": [_looked_up(switch, lookup) for lookup in switch.lookups],
        "registers": [
            {"name": name, "index": index, "before": old, "after": new}
            for name, cells in before.items()
            for index, (old, new) in enumerate(zip(cells, instance.registers[name], strict=True))
            if old != new or index in {copy.port for copy in outcome.copies}
        ],
        "counters": [{"name": text.short(name), "index": index, "now": instance.packets[name][index]}
                     for name, index in counted],
    }  # fmt: skip
    reason = next((index for name, index in counted if name == f"{INGRESS}.drops"), None)
    sent = next((copy for copy in outcome.copies if copy.data is not None), None)
    if sent is None or sent.data is None:
        why = DROP_REASONS.get(reason or 0, "no port").replace("_", " ")
        return {**hop, "dropped": _REASONS.get(why, why)}, None
    ports = fabric.switch(at.node).ports
    peer = ports[sent.port - 1].peer.node if 1 <= sent.port <= len(ports) else ""
    hop |= {"leaves": sent.port, "to": peer, "after": headers(sent.data)}
    hop["trimmed"] = any(name == f"{INGRESS}.trims" for name, _ in counted)
    hop["marked"] = any(name == f"{EGRESS}.ecn_marks" for name, _ in counted)
    if not peer:
        hop["dropped"] = f"port {sent.port} leads nowhere"
    return hop, (sent.port, sent.data)


def _looked_up(switch: MrcSwitch, lookup: Lookup) -> dict[str, Any]:
    """A table lookup, in text."""
    table = switch.runtime.table(lookup.table)
    fields = table.table.key
    entry = next((each for each in text.longest_first(table) if text.matches(fields, each.match, lookup.key)), None)
    shown = entry if lookup.hit else table.default_entry()
    key = [
        f"{each.name} = {text.value(value, each.width, each.name)}"
        for each, value in zip(fields, lookup.key, strict=False)
    ]
    return {
        "table": text.short(lookup.table),
        "key": key,
        "hit": lookup.hit,
        "entry": text.match(fields, entry.match) if entry is not None and lookup.hit else "",
        "action": text.action(table, shown.action) if shown is not None else "nothing",
    }
