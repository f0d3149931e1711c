"""RoCEv2 packets: the frames of one path, and a received frame, checked and parsed once."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NamedTuple

from typing_extensions import override

from mrclab.hosts.rdma.errors import DiscardError
from mrclab.hosts.rdma.packets import wire
from mrclab.hosts.rdma.packets.icrc import Verifier
from mrclab.hosts.rdma.packets.path import Frame, Route
from mrclab.hosts.rdma.packets.psn import PSN_MASK
from mrclab.hosts.roce import headers as h
from mrclab.hosts.roce.telemetry import Hop


class PlainPath(Route):
    """One 5-tuple out of one NIC port. ECMP in the switches makes it one path."""

    __slots__ = ("_macs", "destination", "source", "sport")

    def __init__(self, macs: bytes, source: bytes, destination: bytes, sport: int) -> None:
        super().__init__()
        self._macs = macs  # destination and source
        self.source, self.destination = source, destination
        self.sport = sport

    def with_telemetry(self, frame: Frame, hops: list[Hop]) -> Frame:
        """Return the frame with room for telemetry, or with telemetry; byte frames have none."""
        return frame

    @override
    def _prefix(self, traffic_class: int, udp_len: int) -> bytes:
        word = 6 << 28 | traffic_class << 20
        ipv6 = wire.IPV6.pack(word, udp_len, wire.NEXT_UDP, wire.HOP_LIMIT, self.source, self.destination)
        udp = wire.UDP.pack(self.sport, wire.UDP_PORT, udp_len, 0)
        return self._macs + wire.ETHERTYPE_IPV6.to_bytes(2, "big") + ipv6 + udp


class RocePacket:
    """One received packet. `payload_at` and `size` delimit a write's payload; RETH fields are set if there is one."""

    __slots__ = (
        "ack_request", "body_at", "ce", "dma_length", "dqpn", "end", "imm", "op", "payload_at", "port", "psn", "rkey",
        "size", "source", "telemetry", "va", "view",
    )  # fmt: skip

    view: memoryview
    port: int
    source: bytes
    op: int
    psn: int
    dqpn: int
    ack_request: bool
    ce: bool
    body_at: int
    end: int  # offset of the ICRC
    payload_at: int
    size: int
    imm: int
    va: int
    rkey: int
    dma_length: int
    telemetry: list[Hop] | None  # written by switches into it, or into the packet that it acknowledges


def parse(frame: bytes | bytearray | memoryview, port: int, address: bytes, icrc: Verifier) -> RocePacket:
    """Parse a frame that came in by `port` for the host with this address; DiscardError names the counter."""
    view = memoryview(frame)
    try:
        (
            ethertype, word, length, next_header, source, destination,
            _sport, dport, udp_len, _checksum,
            op, pad_byte, p_key, dqpn, flags_psn,
        ) = h.FRAME.unpack_from(view)  # fmt: skip
    except struct.error:
        raise DiscardError(wire.fault_of_short(view, wire.NEXT_UDP)) from None
    if ethertype != wire.ETHERTYPE_IPV6 or next_header != wire.NEXT_UDP or dport != wire.UDP_PORT:
        raise DiscardError("foreign")
    if destination != address:
        raise DiscardError("misdelivered")
    end = h.UDP_AT + udp_len - wire.ICRC_LEN
    if length != udp_len or end < h.BODY_AT or len(view) < end + wire.ICRC_LEN or p_key != wire.P_KEY:
        raise DiscardError("malformed")
    if not icrc.verify(view, h.UDP_AT, udp_len, source):
        raise DiscardError("icrc_errors")
    packet = RocePacket()
    packet.view = view
    packet.telemetry = None
    packet.port = port
    packet.source = source
    packet.op = op
    packet.dqpn = dqpn & PSN_MASK
    packet.psn = flags_psn & PSN_MASK
    packet.ack_request = bool(flags_psn >> 31)
    packet.ce = word >> 20 & 3 == wire.ECN_CE
    packet.body_at = h.BODY_AT
    packet.end = end
    if op in h.WRITES:
        _parse_write(packet, pad_byte >> wire.PAD_SHIFT & 3)
    elif op == h.RoceOpcode.ACK and end < h.BODY_AT + wire.AETH.size:
        raise DiscardError("malformed")
    return packet


def _parse_write(packet: RocePacket, pad: int) -> None:
    at = h.BODY_AT
    try:
        if packet.op in h.STARTS_MESSAGE:
            packet.va, packet.rkey, packet.dma_length = wire.RETH.unpack_from(packet.view, at)
            at += wire.RETH.size
        if packet.op in h.WITH_IMM:
            packet.imm = wire.IMMEDIATE.unpack_from(packet.view, at)[0]
            at += wire.IMMEDIATE.size
    except struct.error:
        raise DiscardError("malformed") from None
    packet.payload_at = at
    packet.size = packet.end - pad - at
    if packet.size < 0:
        raise DiscardError("malformed")


Parse = Callable[[bytes | bytearray | memoryview, int, bytes, Verifier], RocePacket]


class RoceCodec(NamedTuple):
    """Codec of byte frames: `path.frame` makes frames, the peer's `parse` reads them."""

    path: type[PlainPath]
    parse: Parse


WIRE = RoceCodec(PlainPath, parse)
