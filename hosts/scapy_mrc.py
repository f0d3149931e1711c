"""MRC headers as scapy layers, for tests and tools; the data path needs microseconds where scapy takes milliseconds.

`dissect` reads a whole frame; what it returns builds the same bytes again. UDP port 4791 also is RoCEv2's, so nothing
is bound to it: `dissect` looks at the opcode. Facts: docs/mrc-protocol.md §1.5.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any
from zlib import crc32

from scapy.fields import BitEnumField, BitField, ConditionalField, FCSField, SignedShortField, XBitField
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from mrclab.hosts import wireformat
from mrclab.hosts.mrc.packets.headers import BTH_AT, WITH_IMM, WRITES, MrcOpcode
from mrclab.hosts.rdma.packets.wire import UDP_PORT
from mrclab.hosts.wireformat import WireField

_CONDITIONS: dict[str, Callable[[Packet], bool]] = {
    "immediate": lambda packet: _bth(packet).opcode in WITH_IMM,
    "pr": lambda packet: bool(packet.pr),
    "not pr": lambda packet: not packet.pr,
}


def _fields(header: str) -> list[Any]:
    """Return scapy's fields of a header of the wire format."""
    return [_conditional(_field(each), each.when) for each in wireformat.FIELDS[header]]


def _conditional(field: Any, when: str) -> Any:
    return ConditionalField(field, _CONDITIONS[when]) if when else field


def _field(each: WireField) -> Any:
    if each.name == "icrc":
        return FCSField(each.name, None, fmt="!I")
    if each.signed:
        return SignedShortField(each.name, each.default)
    if each.values:
        return BitEnumField(each.name, each.default, each.bits, dict(each.values))
    return (XBitField if each.hexadecimal else BitField)(each.name, each.default, each.bits)


class MrcBTH(Packet):
    """Base transport header, and the ICRC at the end of the packet.

    An `icrc` of None is computed on building.
    """

    name = "MRC BTH"
    fields_desc = _fields("MrcBTH")

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        """The header that the opcode calls for."""
        if self.opcode in WRITES:
            return METH
        return _BODIES.get(self.opcode, Raw)

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        """Put the payload before the ICRC, and compute that where it is not given."""
        built = pkt + pay
        if self.icrc is None:
            built = built[:-4] + self._compute(built[:-4])
        return built

    def _compute(self, built: bytes) -> bytes:
        udp = self.underlayer
        ip = udp.underlayer if udp is not None else None
        if not isinstance(udp, UDP) or not isinstance(ip, IPv6):
            return bytes(4)
        length = 8 + len(built) + 4
        header = struct.pack("!IHBB", 0x6FFFFFFF, length, 17, 0xFF) + ip.self_build()[8:40]
        ports = struct.pack("!HHHH", udp.sport, udp.dport, length, 0xFFFF)
        masked = built[:4] + b"\xff" + built[5:]
        return struct.pack("<I", crc32(b"\xff" * 8 + header + ports + masked))


class METH(Packet):
    """Message extended transport header of a write."""

    name = "METH"
    fields_desc = _fields("METH")

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        """TSETH where the BTH announces one."""
        return TSETH if _bth(self).ts else RETH


class TSETH(Packet):
    """Timestamp."""

    name = "TSETH"
    fields_desc = _fields("TSETH")

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        """A write goes on with RETH."""
        return RETH


def _header(name: str, about: str) -> type[Packet]:
    """Return the layer of a header that no other one follows."""
    return type(name, (Packet,), {"__doc__": about, "__module__": __name__, "name": name, "fields_desc": _fields(name)})


RETH = _header("RETH", "RDMA extended transport header; the immediate follows in it where the opcode has one.")
SETH = _header("SETH", "Selective acknowledgement with congestion state.")
NETH = _header("NETH", "Negative acknowledgement.")
PETH = _header("PETH", "Reliability probe.")
ERTH = _header("ERTH", "Endpoint request.")
EETH = _header("EETH", "Endpoint response.")
AETH = _header("AETH", "Transport acknowledgement.")

_BODIES: dict[int, type[Packet]] = {
    MrcOpcode.ACK: AETH,
    MrcOpcode.SACK: SETH,
    MrcOpcode.NACK: NETH,
    MrcOpcode.PROBE: PETH,
    MrcOpcode.ENDPOINT_REQUEST: ERTH,
    MrcOpcode.ENDPOINT_RESPONSE: EETH,
}

_MRC_OPCODES = 0b110  # the upper three bits


def dissect(frame: bytes) -> Packet:
    """Parse a whole Ethernet frame; anything but MRC is left to scapy's own layers."""
    packet = Ether(frame)
    udp = packet.getlayer(UDP)
    if udp is not None and udp.dport == UDP_PORT:
        raw = frame[BTH_AT:] if IPv6 in packet[IPv6].payload else bytes(udp.payload)
        if raw and raw[0] >> 5 == _MRC_OPCODES:
            udp.remove_payload()
            udp.add_payload(MrcBTH(raw))
    return packet


def _bth(layer: Packet) -> MrcBTH:
    """The BTH above a layer; a default one where there is none."""
    found = layer.underlayer
    while found is not None and not isinstance(found, MrcBTH):
        found = found.underlayer
    return found if found is not None else MrcBTH()
