"""Received frames, checked and parsed once.

Order of checks: layout and addresses (is it for this NIC port and host?), lengths, ICRC, then the headers of its
opcode. A trimmed packet has lost its end and its ICRC: none of its bytes ever reaches memory.

Up to UDP the packets of one path, class and length are identical. Their meaning is worked out once and then looked up
by the bytes themselves.
"""

from __future__ import annotations

import struct
from typing import Any, Final, NamedTuple
from zlib import crc32

from mrclab.hosts.mrc.evs.paths import EvRoute
from mrclab.hosts.mrc.packets import headers as h
from mrclab.hosts.rdma.errors import DiscardError
from mrclab.hosts.rdma.packets import wire
from mrclab.hosts.rdma.packets.icrc import Verifier
from mrclab.hosts.rdma.packets.psn import PSN_MASK

_TRIMMED: Final = frozenset({int(h.Dscp.TRIMMED), int(h.Dscp.TRIMMED_LASTHOP)})
_TS_BODY_LEN: Final = h.WRITE_TS_BODY.size
_PLAIN_BODY_LEN: Final = h.WRITE_PLAIN_BODY.size
_PAYLOAD_AT: Final = h.BODY_AT + _TS_BODY_LEN
_KNOWN_LIMIT: Final = 1024  # starts of frames that a port caches
_P_KEY: Final = slice(h.BTH_AT + 2, h.BTH_AT + 4)
_ANY_P_KEY: Final = wire.P_KEY.to_bytes(2, "big")
_MOSTLY: Final = h.WRITES - h.WITH_IMM  # most packets; with a timestamp they use the fast path


class MrcPacket:
    """One received packet; data fields are set for writes only."""

    __slots__ = (
        "body_at", "ce", "content", "dma_length", "dqpn", "dscp", "end", "entropy", "flags", "imm", "msn", "nominal",
        "op", "port", "psn", "rkey", "rqmsn", "size", "source", "timestamp", "trimmed", "va", "view",
    )  # fmt: skip

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
    body_at: int  # offset of the payload
    size: int  # payload bytes
    timestamp: int
    content: Any  # of a control packet: the Content of its opcode; None for other opcodes
    dma_length: int
    imm: int
    msn: int
    rqmsn: int
    rkey: int
    va: int


class _Start(NamedTuple):
    """Meaning of a frame's bytes up to UDP."""

    source: bytes
    ce: bool
    dscp: int
    trimmed: bool
    entropy: int
    nominal: int  # UDP length + 40
    end: int  # offset of the ICRC
    crc: int  # state behind UDP
    correction: int


class MrcParser:
    """Parser of a port's frames: the outer address must start with `route`, the inner one be the verifier's."""

    __slots__ = ("_address", "_known", "_port", "_route", "_verifier")

    def __init__(self, port: int, route: bytes, address: bytes, verifier: Verifier) -> None:
        self._port = port
        self._route = route
        self._address = address
        self._verifier = verifier
        self._known: dict[bytes, _Start] = {}

    def parse(self, frame: bytes | bytearray | memoryview) -> MrcPacket:
        """Parse a frame; DiscardError names the counter of a discarded one, struct.error: its headers are cut off."""
        view = memoryview(frame)
        start = view[: h.BTH_AT].tobytes()
        known = self._known.get(start) or self._learn(view, start)
        packet = MrcPacket()
        (
            packet.source, packet.ce, packet.dscp, packet.trimmed, packet.entropy, packet.nominal, packet.end,
            state, correction,
        ) = known  # fmt: skip
        packet.view = view
        packet.port = self._port
        if packet.trimmed:
            _parse_trimmed(packet)
            return packet
        end = packet.end
        if len(view) < end + wire.ICRC_LEN:
            raise DiscardError("malformed")
        if crc32(view[h.BTH_AT : end], state) ^ correction != int.from_bytes(view[end : end + wire.ICRC_LEN], "little"):
            self._verify_masked(packet)
        if view[h.BTH_AT] not in _MOSTLY or end < _PAYLOAD_AT:
            _parse_other(packet)
            return packet
        (
            packet.op, pad_byte, p_key, dqpn, flags_psn,
            packet.rqmsn, packet.msn, packet.timestamp, _unit, packet.va, packet.rkey, packet.dma_length,
        ) = h.WRITE_TS.unpack_from(view, h.BTH_AT)  # fmt: skip
        packet.flags = flags = flags_psn >> 24
        if not flags & h.FLAG_TS or p_key != wire.P_KEY:
            _parse_other(packet)
            return packet
        packet.dqpn = dqpn & PSN_MASK
        packet.psn = flags_psn & PSN_MASK
        packet.body_at = _PAYLOAD_AT
        packet.size = size = end - (pad_byte >> wire.PAD_SHIFT & 3) - _PAYLOAD_AT
        if size < 0:
            raise DiscardError("malformed")
        return packet

    def _learn(self, view: memoryview, start: bytes) -> _Start:
        """Check the bytes up to UDP and cache their meaning."""
        try:
            (
                ethertype, outer_word, outer_len, outer_next, _hops, outer_da,
                word, inner_len, inner_next, source, destination, sport, dport, udp_len, _checksum, *_bth,
            ) = h.FRAME.unpack_from(view)  # fmt: skip
        except struct.error:
            raise DiscardError(wire.fault_of_short(view, h.NEXT_IPV6)) from None
        if (
            ethertype != wire.ETHERTYPE_IPV6
            or outer_next != h.NEXT_IPV6
            or inner_next != wire.NEXT_UDP
            or dport != wire.UDP_PORT
        ):
            raise DiscardError("foreign")
        if outer_da != self._route or destination != self._address:
            raise DiscardError("misdelivered")
        end = h.UDP_AT + udp_len - wire.ICRC_LEN
        if inner_len != udp_len or outer_len != udp_len + 40 or end < h.BODY_AT:
            raise DiscardError("malformed")
        inner, outer = word >> 22 & 0x3F, outer_word >> 22 & 0x3F
        trimmed = inner in _TRIMMED or outer in _TRIMMED
        ce = word >> 20 & 3 == wire.ECN_CE or outer_word >> 20 & 3 == wire.ECN_CE
        prefix, correction = self._verifier.constants(source, udp_len)
        known = _Start(
            source, ce, outer if trimmed and inner not in _TRIMMED else inner, trimmed, (word & 0xFFFF) << 16 | sport,
            udp_len + 40, end, crc32(start[h.UDP_AT : h.UDP_AT + 6] + b"\0\0", prefix), correction,
        )  # fmt: skip
        if len(self._known) >= _KNOWN_LIMIT:
            self._known.clear()
        self._known[start] = known
        return known

    def _verify_masked(self, packet: MrcPacket) -> None:
        """Verify slowly, for packets whose masked fields are not zero; the other checks ignore these."""
        if packet.view[_P_KEY] != _ANY_P_KEY:
            raise DiscardError("malformed")
        if not self._verifier.verify(packet.view, h.UDP_AT, packet.nominal - 40, packet.source):
            raise DiscardError("icrc_errors")


def _parse_bth(packet: MrcPacket) -> int:
    """Parse BTH; return its pad count."""
    packet.op, pad_byte, p_key, dqpn, flags_psn = wire.BTH.unpack_from(packet.view, h.BTH_AT)
    if p_key != wire.P_KEY:
        raise DiscardError("malformed")
    packet.dqpn = dqpn & PSN_MASK
    packet.flags = flags_psn >> 24
    packet.psn = flags_psn & PSN_MASK
    packet.content = None
    packet.timestamp = 0
    packet.size = 0
    return int(pad_byte) >> wire.PAD_SHIFT & 3


def _parse_trimmed(packet: MrcPacket) -> None:
    """Parse headers without ICRC: only data is ever trimmed, and only data is accepted."""
    _parse_bth(packet)
    if packet.op not in h.WRITES:
        raise DiscardError("malformed")
    if packet.flags & h.FLAG_TS and len(packet.view) >= h.BODY_AT + 8:
        packet.timestamp = h.TSETH.unpack_from(packet.view, h.BODY_AT + 4)[0]


def _parse_other(packet: MrcPacket) -> None:
    """Parse any packet but a write with timestamp and without immediate."""
    pad = _parse_bth(packet)
    if packet.op in h.WRITES:
        _parse_write(packet, pad)
        return
    unpack = h.CONTENTS.get(packet.op)
    if unpack is not None:
        packet.content = unpack(packet.view[: packet.end], h.BODY_AT)


def _parse_write(packet: MrcPacket, pad: int) -> None:
    view = packet.view
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
        packet.imm = wire.IMMEDIATE.unpack_from(view, at)[0]
        at += 4
    packet.body_at = at
    packet.size = packet.end - pad - at
    if packet.size < 0:
        raise DiscardError("malformed")


class MrcCodec(NamedTuple):
    """Frame codec: frames of `path`, read by the peer's `parser`; bytes on the wire, objects in simulation."""

    path: type[EvRoute]
    parser: type[MrcParser]


WIRE: Final = MrcCodec(EvRoute, MrcParser)
