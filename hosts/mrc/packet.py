"""A received frame, checked and parsed once.

Order of checks: layout and addresses (is it for this NIC port and host?), lengths, ICRC, then the headers of its
opcode. A trimmed packet has lost its end, and with it the ICRC: nothing in it ever reaches memory.
"""

from __future__ import annotations

import struct

from hosts.mrc import headers as h
from hosts.mrc.icrc import Verifier
from hosts.mrc.psn import PSN_MASK

_TRIMMED = frozenset({int(h.Dscp.TRIMMED), int(h.Dscp.TRIMMED_LASTHOP)})
_TS_BODY_LEN = h.WRITE_TS_BODY.size
_PLAIN_BODY_LEN = h.WRITE_PLAIN_BODY.size


class DiscardError(Exception):
    """A frame that is not taken; the text is the counter it goes to."""


class Packet:
    """One received packet; data fields are set for writes only."""

    __slots__ = (
        "body_at",
        "ce",
        "dma_length",
        "dqpn",
        "dscp",
        "end",
        "entropy",
        "flags",
        "imm",
        "msn",
        "nominal",
        "op",
        "port",
        "psn",
        "rkey",
        "rqmsn",
        "size",
        "source",
        "timestamp",
        "trimmed",
        "va",
        "view",
    )

    view: memoryview
    port: int
    source: bytes
    op: int
    flags: int
    psn: int
    dqpn: int
    dscp: int
    ce: bool
    trimmed: bool
    entropy: int
    nominal: int  # UDP length + 40
    end: int  # offset of the ICRC
    body_at: int  # offset of the payload, or of what follows BTH
    size: int  # payload bytes
    timestamp: int
    dma_length: int
    imm: int
    msn: int
    rqmsn: int
    rkey: int
    va: int

    def payload(self) -> memoryview:
        """The bytes to place."""
        return self.view[self.body_at : self.body_at + self.size]


def parse(view: memoryview, port: int, route: bytes, address: bytes, icrc: Verifier) -> Packet:
    """Parse a frame that came in by `port`, whose outer address must start with `route`, the inner one be `address`."""
    try:
        (
            ethertype, outer_word, outer_len, outer_next, _hops, outer_da,
            word, inner_len, inner_next, source, destination,
            sport, dport, udp_len, _checksum,
            op, pad_byte, p_key, dqpn, flags_psn,
        ) = h.FRAME.unpack_from(view)  # fmt: skip
    except struct.error:
        raise DiscardError("malformed") from None
    if ethertype != h.ETHERTYPE_IPV6 or outer_next != h.NEXT_IPV6 or inner_next != h.NEXT_UDP or dport != h.UDP_PORT:
        raise DiscardError("foreign")
    if outer_da != route or destination != address:
        raise DiscardError("misdelivered")
    end = h.UDP_AT + udp_len - h.ICRC_LEN
    if inner_len != udp_len or outer_len != udp_len + 40 or end < h.BODY_AT or p_key != h.P_KEY:
        raise DiscardError("malformed")
    packet = Packet()
    packet.dscp = dscp = word >> 22 & 0x3F
    packet.trimmed = trimmed = dscp in _TRIMMED or outer_word >> 22 & 0x3F in _TRIMMED
    if trimmed and dscp not in _TRIMMED:
        packet.dscp = outer_word >> 22 & 0x3F
    if trimmed:
        if op not in h.WRITES:
            raise DiscardError("malformed")  # only data is ever trimmed; without its ICRC nothing else is believed
    else:
        if len(view) < end + h.ICRC_LEN:
            raise DiscardError("malformed")
        if not icrc.verify(view, h.UDP_AT, udp_len, source):
            raise DiscardError("icrc_errors")
    packet.view = view
    packet.port = port
    packet.source = source
    packet.ce = word >> 20 & 3 == h.ECN_CE or outer_word >> 20 & 3 == h.ECN_CE
    packet.entropy = (word & 0xFFFF) << 16 | sport
    packet.op = op
    packet.dqpn = dqpn & PSN_MASK
    packet.flags = flags_psn >> 24
    packet.psn = flags_psn & PSN_MASK
    packet.nominal = udp_len + 40
    packet.end = end
    packet.body_at = h.BODY_AT
    packet.timestamp = 0
    packet.size = 0
    if op in h.WRITES:
        _parse_write(packet, pad_byte >> h.PAD_SHIFT & 3)
    return packet


def _parse_write(packet: Packet, pad: int) -> None:
    view = packet.view
    if packet.trimmed:
        if packet.flags & h.FLAG_TS and len(view) >= h.BODY_AT + 8:
            packet.timestamp = h.TSETH.unpack_from(view, h.BODY_AT + 4)[0]
        return
    if packet.flags & h.FLAG_TS:
        at = h.BODY_AT + _TS_BODY_LEN
        if at > packet.end:
            raise DiscardError("malformed")
        packet.rqmsn, packet.msn, packet.timestamp, _unit, packet.va, packet.rkey, packet.dma_length = (
            h.WRITE_TS_BODY.unpack_from(view, h.BODY_AT)
        )
    else:
        at = h.BODY_AT + _PLAIN_BODY_LEN
        if at > packet.end:
            raise DiscardError("malformed")
        packet.rqmsn, packet.msn, packet.va, packet.rkey, packet.dma_length = h.WRITE_PLAIN_BODY.unpack_from(
            view, h.BODY_AT
        )
    if packet.op in h.WITH_IMM:
        if at + 4 > packet.end:
            raise DiscardError("malformed")
        packet.imm = h.IMMEDIATE.unpack_from(view, at)[0]
        at += 4
    packet.body_at = at
    packet.size = packet.end - pad - at
    if packet.size < 0:
        raise DiscardError("malformed")
