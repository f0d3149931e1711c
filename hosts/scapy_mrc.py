"""MRC headers as scapy layers, for tests and tools; the data path needs microseconds where scapy takes milliseconds.

`dissect` reads a whole frame; what it returns builds the same bytes again. UDP port 4791 also is RoCEv2's, so nothing
is bound to it: `dissect` looks at the opcode. Facts: docs/mrc-protocol.md §1.5.
"""

from __future__ import annotations

import struct
from zlib import crc32

from scapy.fields import (
    BitEnumField,
    BitField,
    ByteEnumField,
    ByteField,
    ConditionalField,
    FCSField,
    IntField,
    LongField,
    ShortField,
    SignedShortField,
    XBitField,
    XIntField,
    XLongField,
    XShortField,
)
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from mrclab.hosts.mrc.packets.headers import BTH_AT, WITH_IMM, WRITES, Mark, MrcOpcode, Reason
from mrclab.hosts.rdma.packets.wire import UDP_PORT

_OPCODES = {int(op): op.name for op in MrcOpcode}


class MrcBTH(Packet):
    """Base transport header, and the ICRC at the end of the packet.

    An `icrc` of None is computed on building.
    """

    name = "MRC BTH"
    fields_desc = [  # noqa: RUF012  scapy's way
        ByteEnumField("opcode", MrcOpcode.WRITE_ONLY, _OPCODES),
        BitField("solicited", 0, 1),
        BitField("migreq", 1, 1),
        BitField("padcount", 0, 2),
        BitField("version", 0, 4),
        XShortField("pkey", 0xFFFF),
        XBitField("reserved", 0, 8),
        XBitField("dqpn", 0, 24),
        BitField("ackreq", 0, 1),
        BitField("r", 0, 1),
        BitField("rtx", 0, 1),
        BitField("ts", 0, 1),
        BitField("inv_res", 0, 4),
        XBitField("psn", 0, 24),
        FCSField("icrc", None, fmt="!I"),
    ]

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
    fields_desc = [ShortField("rqmsn", 0), ShortField("msn", 0)]  # noqa: RUF012

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        """TSETH where the BTH announces one."""
        return TSETH if _bth(self).ts else RETH


class TSETH(Packet):
    """Timestamp."""

    name = "TSETH"
    fields_desc = [  # noqa: RUF012
        ShortField("tx_timestamp", 0),
        BitField("tsr", 1, 1),
        BitField("reserved", 0, 11),
        BitField("ftype", 1, 4),
    ]

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        """A write goes on with RETH."""
        return RETH


class RETH(Packet):
    """RDMA extended transport header; the immediate follows in it where the opcode has one."""

    name = "RETH"
    fields_desc = [  # noqa: RUF012
        XLongField("va", 0),
        XIntField("rkey", 0),
        IntField("length", 0),
        ConditionalField(XIntField("immediate", 0), lambda pkt: _bth(pkt).opcode in WITH_IMM),
    ]


class SETH(Packet):
    """Selective acknowledgement with congestion state."""

    name = "SETH"
    fields_desc = [  # noqa: RUF012
        BitField("type", 1, 4),
        BitField("next_header", 0, 5),
        BitEnumField("m", 0, 2, {int(mark): mark.name for mark in Mark}),
        BitField("reserved1", 0, 3),
        BitField("pr", 0, 1),
        BitField("reserved2", 0, 1),
        ConditionalField(SignedShortField("ack_psn_offset", 0), lambda pkt: not pkt.pr),
        ConditionalField(ShortField("probe_id", 0), lambda pkt: bool(pkt.pr)),
        XIntField("entropy", 0),
        ShortField("spdcid", 0),
        ShortField("dpdcid", 0),
        XBitField("reserved3", 0, 8),
        XBitField("cack_psn", 0, 24),
        BitField("cc_type", 0, 4),
        BitField("cc_fl", 0, 4),
        ByteField("mpr", 0),
        SignedShortField("sack_offset", 1),
        XLongField("bitmap", 0),
        ShortField("tx_timestamp", 0),
        BitField("reserved4", 0, 1),
        BitField("ooo_count", 0, 15),
        BitField("restore_cwnd", 0, 1),
        BitField("rcv_cwnd_pen", 0, 7),
        BitField("rcvd_bytes", 0, 24),
    ]


class NETH(Packet):
    """Negative acknowledgement."""

    name = "NETH"
    fields_desc = [  # noqa: RUF012
        ByteField("type", 0),
        ByteField("reserved1", 0),
        ByteEnumField("reason", Reason.TRIMMED, {int(reason): reason.name for reason in Reason}),
        ByteField("vendor", 0),
        XIntField("entropy", 0),
        ShortField("spdcid", 0),
        ShortField("dpdcid", 0),
        XBitField("reserved2", 0, 8),
        XBitField("nack_psn", 0, 24),
        BitField("cc_type", 0, 4),
        BitField("reserved3", 0, 12),
        ShortField("tx_timestamp", 0),
    ]


class PETH(Packet):
    """Reliability probe."""

    name = "PETH"
    fields_desc = [  # noqa: RUF012
        XBitField("reserved1", 0, 24),
        ByteField("vendor", 0),
        ShortField("probe_id", 0),
        ShortField("reserved2", 0),
        ShortField("spdcid", 0),
        ShortField("dpdcid", 0),
        ShortField("tx_timestamp", 0),
        BitField("tsr", 1, 1),
        BitField("reserved3", 0, 11),
        BitField("ftype", 1, 4),
    ]


class ERTH(Packet):
    """Endpoint request."""

    name = "ERTH"
    fields_desc = [  # noqa: RUF012
        ByteEnumField("op", 0, {0: "PORT_STATUS_UPDATE", 1: "EV_PROBE"}),
        XBitField("reserved1", 0, 24),
        XIntField("port_status_mask", 0),
        XIntField("reserved2", 0),
        ShortField("tx_timestamp", 0),
        BitField("tsr", 1, 1),
        BitField("reserved3", 0, 11),
        BitField("ftype", 1, 4),
    ]


class EETH(Packet):
    """Endpoint response."""

    name = "EETH"
    fields_desc = [  # noqa: RUF012
        ByteEnumField("op", 0, {0: "PORT_STATUS_UPDATE", 1: "EV_PROBE"}),
        XBitField("reserved1", 0, 24),
        XIntField("entropy", 0),
        XIntField("port_status_mask", 0),
        LongField("reserved2", 0),
        LongField("reserved3", 0),
        ShortField("tx_timestamp", 0),
        BitField("tsr", 1, 1),
        BitField("reserved4", 0, 11),
        BitField("ftype", 1, 4),
        IntField("service_time", 0),
    ]


class AETH(Packet):
    """Transport acknowledgement."""

    name = "AETH"
    fields_desc = [ByteField("syndrome", 0x1F), BitField("msn", 0, 24)]  # noqa: RUF012


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
    """A whole Ethernet frame as scapy packet; what is not MRC stays as scapy reads it."""
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
