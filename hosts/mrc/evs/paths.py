"""Headers of an EV's path: the first 102 bytes of a frame (Ethernet, outer and inner IPv6, uSID list, UDP)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mrclab.hosts.mrc.packets import headers as h
from mrclab.hosts.rdma.packets import wire
from mrclab.hosts.rdma.packets.path import Frame, Route
from mrclab.topo import srv6

if TYPE_CHECKING:
    from mrclab.hosts.mrc.recovery.sent import SentPacket


# from other modules, as local names: used once per packet
_MIGRATED, _PAD_SHIFT, _P_KEY = wire.MIGRATED, wire.PAD_SHIFT, wire.P_KEY
_FLAG_TS, _TSETH_WORD, _WITH_IMM = h.FLAG_TS, h.TSETH_WORD, h.WITH_IMM
_pack_with_time = h.WRITE_TS.pack


def write_headers(packet: SentPacket, qpn: int, psn: int, flags: int) -> bytes:
    """Return BTH to RETH, with a timestamp if `flags` say so, and the immediate if there is one."""
    message = packet.message
    op = packet.op
    padding = _MIGRATED | (-packet.size & 3) << _PAD_SHIFT
    va = message.remote_va + packet.offset
    if flags & _FLAG_TS:
        body = _pack_with_time(
            op, padding, _P_KEY, qpn, flags << 24 | psn,
            message.rqmsn, message.msn, packet.ts, _TSETH_WORD, va, message.rkey, message.length,
        )  # fmt: skip
    else:
        body = h.WRITE_PLAIN.pack(
            op, padding, _P_KEY, qpn, flags << 24 | psn, message.rqmsn, message.msn, va, message.rkey, message.length
        )
    return body + wire.IMMEDIATE.pack(message.imm) if op in _WITH_IMM else body


def content_headers(op: int, qpn: int, psn: int, flags: int, content: h.Content) -> bytes:
    """Return BTH and the part behind it of a packet without data."""
    return wire.BTH.pack(op, _MIGRATED, _P_KEY, qpn, flags << 24 | psn) + content.pack()


class Ends:
    """Common part of all paths between two hosts: the outer header's template and the inner addresses."""

    __slots__ = ("destination", "fan", "source", "t1_base", "template", "words")

    def __init__(self, template: int, source: int, destination: int, fan: int = 0) -> None:
        self.template = template
        self.fan = fan  # T2s above each T1 where the path crosses one
        self.t1_base = srv6.t1_base(template)
        self.source = srv6.to_bytes(source)
        self.destination = srv6.to_bytes(destination)
        self.words: dict[int, tuple[Any, ...]] = {}  # uSIDs by plane, for codecs that cache them


class EvRoute(Route):
    """Path of one EV to one peer, as bytes."""

    __slots__ = ("_macs", "ends", "plane", "port", "source", "uplink", "value")

    def __init__(self, value: int, port: int, macs: bytes, ends: Ends) -> None:
        super().__init__()
        self.value = value
        self.plane, self.uplink = srv6.ev_plane(value), srv6.ev_uplink(value)
        self.port = port
        self.source = ends.source
        self._macs = macs  # destination and source
        self.ends = ends

    @property
    def destination(self) -> int:
        """Destination address of the outer header."""
        return srv6.address(self.ends.template, self.value, self.ends.fan)

    def write(
        self, traffic_class: int, packet: SentPacket, qpn: int, psn: int, flags: int, payload: memoryview | None
    ) -> Frame:
        """A data packet of the requestor's, with BTH's `flags` and PSN."""
        return self.frame(traffic_class, write_headers(packet, qpn, psn, flags), payload)

    def packet(self, traffic_class: int, op: int, qpn: int, psn: int, content: h.Content, flags: int = 0) -> Frame:
        """A packet without data, with BTH's `flags` and PSN."""
        return self.frame(traffic_class, content_headers(op, qpn, psn, flags, content))

    def _prefix(self, traffic_class: int, udp_len: int) -> bytes:
        sport, flow = srv6.ev_to_wire(self.value)
        word = 6 << 28 | traffic_class << 20 | flow
        inner = wire.IPV6.pack(word, udp_len, wire.NEXT_UDP, wire.HOP_LIMIT, self.source, self.ends.destination)
        outer = wire.IPV6.pack(
            word, udp_len + 40, h.NEXT_IPV6, wire.HOP_LIMIT, self.source, srv6.to_bytes(self.destination)
        )
        udp = wire.UDP.pack(sport, wire.UDP_PORT, udp_len, 0)
        return self._macs + wire.ETHERTYPE_IPV6.to_bytes(2, "big") + outer + inner + udp
