"""The transport's frames as objects: path, header fields as the receiver reads them, and the payload by reference.

The cost of the wire form is left out: packing and parsing, checksums, and a copy of the payload. The receiver reads the
same values, to the last bit of every field; a frame that was turned into bytes on its way is read as bytes.
Packets of MRC are never packed; those of RoCEv2 carry packed headers.
"""

from __future__ import annotations

from typing import Any, Final

from mrclab.hosts.mrc.evs.paths import Ends, EvRoute, content_headers
from mrclab.hosts.mrc.packets import headers as h
from mrclab.hosts.mrc.packets.packet import MrcCodec, MrcPacket, MrcParser
from mrclab.hosts.mrc.recovery.sent import SentPacket
from mrclab.hosts.nic import interface
from mrclab.hosts.rdma.errors import DiscardError
from mrclab.hosts.rdma.packets import wire
from mrclab.hosts.rdma.packets.icrc import Verifier
from mrclab.hosts.rdma.packets.psn import PSN_MASK
from mrclab.hosts.roce import headers as rh
from mrclab.hosts.roce import packets as rp
from mrclab.hosts.roce.packets import PlainPath
from mrclab.hosts.roce.telemetry import BYTES as TELEMETRY_BYTES
from mrclab.hosts.roce.telemetry import Hop
from mrclab.hosts.transports import Codecs
from mrclab.sim.frame import Flow, SimFrame, usids_of, word
from mrclab.topo import srv6
from mrclab.topo.numbers import HOP_LIMIT

_MRC_START: Final = h.BTH_AT  # bytes before BTH
_ROCE_START: Final = rh.BTH_AT
_TRIMMED: Final = int(h.Dscp.TRIMMED)
_TRIMMED_LASTHOP: Final = int(h.Dscp.TRIMMED_LASTHOP)
_BTH_LEN: Final = wire.BTH.size
_WRITE_TS_LEN: Final = h.WRITE_TS.size
_WRITE_PLAIN_LEN: Final = h.WRITE_PLAIN.size
_HOPS: Final = HOP_LIMIT
_NOMINAL_REST: Final = 8 + wire.ICRC_LEN + 40  # UDP header, ICRC, and the inner IPv6 header
_NOTHING: Final = memoryview(b"")
_T1: Final = srv6.usid(srv6.UsidType.T1, 0, 0)
_T1_MASK: Final = srv6.usid(srv6.UsidType.DOWNLINK, 0, 0)  # all bits of a type


def _make_frame(
    path: Any, traffic_class: int, headers: int, payload: memoryview | None, body: bytes, read: MrcPacket | None
) -> SimFrame:
    """Make a frame as it leaves its host; `headers` in bytes."""
    frame = SimFrame()
    frame.path, frame.body, frame.payload, frame.read, frame.raw = path, body, payload, read, None
    frame.next_queued = frame.telemetry = None
    size = headers + wire.ICRC_LEN
    if payload is not None:
        size += len(payload) + 3 & -4
    frame.size = size
    frame.dscp, frame.ecn = traffic_class >> 2, traffic_class & 3
    frame.hops = _HOPS
    frame.at = frame.fault = frame.leave = 0
    frame.trimmed = frame.marked = frame.flushed = False
    return frame


# --- MRC --------------------------------------------------------------------------------------------------------------


class ObjectPath(EvRoute):
    """One EV towards one peer, as numbers."""

    __slots__ = ("entropy", "flow", "inner", "usids")

    def __init__(self, value: int, port: int, macs: bytes, ends: Ends) -> None:
        super().__init__(value, port, macs, ends)
        self.usids = _usids(ends, self.plane, self.uplink)
        self.entropy = value
        self.flow: Flow | None = None
        self.inner = ends.destination

    def write(
        self, traffic_class: int, packet: SentPacket, qpn: int, psn: int, flags: int, payload: memoryview | None
    ) -> SimFrame:
        """A data packet as its receiver will read it."""
        message, size = packet.message, packet.size
        read = MrcPacket()
        read.source, read.entropy = self.source, self.entropy
        read.op, read.dqpn, read.flags, read.psn = packet.op, qpn, flags, psn
        read.view, read.body_at, read.size = _NOTHING if payload is None else payload, 0, size
        read.rqmsn, read.msn = message.rqmsn, message.msn
        read.va, read.rkey, read.dma_length = message.remote_va + packet.offset, message.rkey, message.length
        if flags & h.FLAG_TS:
            headers, read.timestamp = _WRITE_TS_LEN, packet.ts
        else:
            headers, read.timestamp = _WRITE_PLAIN_LEN, 0
        if message.imm is not None and packet.op in h.WITH_IMM:
            headers += wire.IMMEDIATE.size
            read.imm = message.imm
        read.nominal = headers + (size + 3 & -4) + _NOMINAL_REST
        return self._frame(traffic_class, _MRC_START + headers, payload, read)

    def packet(self, traffic_class: int, op: int, qpn: int, psn: int, content: h.Content, flags: int = 0) -> SimFrame:
        """A packet without data as its receiver will read it."""
        read = MrcPacket()
        read.source, read.entropy = self.source, self.entropy
        read.op, read.dqpn, read.flags, read.psn = op, qpn, flags, psn
        read.view, read.body_at, read.size = _NOTHING, 0, 0
        read.timestamp = 0
        read.content = content
        headers = _BTH_LEN + content.length
        read.nominal = headers + _NOMINAL_REST
        return self._frame(traffic_class, _MRC_START + headers, None, read)

    def _frame(self, traffic_class: int, headers: int, payload: memoryview | None, read: MrcPacket) -> SimFrame:
        frame = _make_frame(self, traffic_class, headers, payload, b"", read)
        frame.usids, frame.flow = self.usids, self.flow
        frame.ev = self.entropy
        frame.trimmable = True
        return frame

    def pack(self, frame: SimFrame) -> interface.Frame:
        """The same frame in bytes."""
        assert frame.read is not None
        return self.frame(frame.dscp << 2 | frame.ecn, _packed(frame.read), frame.payload)


def _usids(ends: Ends, plane: int, uplink: int) -> tuple[Any, ...]:
    """The words of a path's outer address; ValueError where the template and the uplink do not fit.

    All paths of a plane share theirs but the T1's, the second of those that cross one.
    """
    if ends.fan:
        return tuple(
            [word(one) for one in usids_of(srv6.address(ends.template, srv6.ev(plane, uplink, 0), ends.fan)) or ()]
        )
    words = ends.words.get(plane)
    if words is None:
        words = ends.words[plane] = (*[word(value) for value in srv6.template_words(ends.template, plane)], 0, 0)
    second: int = words[1]
    if bool(uplink) != (second & _T1_MASK == _T1):
        srv6.address(ends.template, srv6.ev(plane, uplink, 0))  # says what does not fit
    if not uplink:
        return words
    number = ends.t1_base + uplink
    key = plane << 16 | number
    at_t1 = _t1_words.get(key)
    if at_t1 is None:
        at_t1 = _t1_words[key] = word(srv6.usid(srv6.UsidType.T1, plane, number))
    return (words[0], at_t1, words[2], words[3], words[4], words[5], words[6], words[7])


_t1_words: dict[int, Any] = {}


class ObjectParser(MrcParser):
    """Reads objects, and bytes where a frame became such."""

    __slots__ = ("_usid",)

    def __init__(self, port: int, route: bytes, address: bytes, verifier: Verifier) -> None:
        super().__init__(port, route, address, verifier)
        self._usid = int.from_bytes(route[-2:], "big")

    def parse(self, frame: Any) -> MrcPacket:
        """Parse a frame; DiscardError names the counter where it is not taken."""
        if not isinstance(frame, SimFrame):
            return super().parse(frame)
        path = frame.path
        if not isinstance(path, ObjectPath):
            raise DiscardError("foreign")
        usid: int = path.usids[frame.at]
        if usid != self._usid or path.inner != self._address:
            raise DiscardError("misdelivered")
        packet = frame.read
        assert packet is not None
        packet.source, packet.entropy = path.source, path.entropy
        packet.port = self._port
        packet.ce = frame.ecn == wire.ECN_CE
        packet.dscp = dscp = frame.dscp
        packet.trimmed = trimmed = dscp == _TRIMMED or dscp == _TRIMMED_LASTHOP  # noqa: PLR1714 - quicker, compiled
        if trimmed:
            if packet.op not in h.WRITES:
                raise DiscardError("malformed")
            packet.size = 0
        elif not packet.size and packet.op in h.WRITES:
            packet.size = len(packet.view)  # a copy of this frame was trimmed
        return packet


def _packed(packet: MrcPacket) -> bytes:
    """BTH and further headers up to the payload."""
    if packet.op not in h.WRITES:
        assert packet.content is not None
        return content_headers(packet.op, packet.dqpn, packet.psn, packet.flags, packet.content)
    start = packet.op, wire.MIGRATED | (-len(packet.view) & 3) << wire.PAD_SHIFT, wire.P_KEY, packet.dqpn
    flags_psn, reth = packet.flags << 24 | packet.psn, (packet.va, packet.rkey, packet.dma_length)
    if packet.flags & h.FLAG_TS:
        time = packet.timestamp, h.TSETH_WORD
        body = h.WRITE_TS.pack(*start, flags_psn, packet.rqmsn, packet.msn, *time, *reth)
    else:
        body = h.WRITE_PLAIN.pack(*start, flags_psn, packet.rqmsn, packet.msn, *reth)
    return body + wire.IMMEDIATE.pack(packet.imm) if packet.op in h.WITH_IMM else body


# --- RoCEv2 -----------------------------------------------------------------------------------------------------------


class ObjectPlainPath(PlainPath):
    """One 5-tuple out of one NIC port, as numbers."""

    __slots__ = ("entropy", "flow")

    def __init__(self, macs: bytes, source: bytes, destination: bytes, sport: int) -> None:
        super().__init__(macs, source, destination, sport)
        self.entropy = sport
        numbers = word(int.from_bytes(source, "big")), word(int.from_bytes(destination, "big"))
        self.flow: Flow | None = (*numbers, 0, wire.NEXT_UDP, sport, wire.UDP_PORT)

    def frame(self, traffic_class: int, body: bytes, payload: memoryview | None = None) -> SimFrame:
        """A frame as an object."""
        frame = _make_frame(self, traffic_class, _ROCE_START + len(body), payload, body, None)
        frame.usids, frame.flow = None, self.flow
        frame.ev = self.entropy
        frame.trimmable = False
        return frame

    def with_telemetry(self, frame: interface.Frame, hops: list[Hop]) -> interface.Frame:
        """The frame with room for telemetry, or with telemetry."""
        assert isinstance(frame, SimFrame)
        frame.telemetry = hops
        frame.size += TELEMETRY_BYTES
        return frame

    def pack(self, frame: SimFrame) -> interface.Frame:
        """The same frame in bytes."""
        return super().frame(frame.dscp << 2 | frame.ecn, frame.body, frame.payload)


def parse(frame: Any, port: int, address: bytes, icrc: Verifier) -> rp.RocePacket:
    """Read an object, or bytes where a frame became such; DiscardError names the counter."""
    if frame.__class__ is not SimFrame:
        return rp.parse(frame, port, address, icrc)
    path, body, payload = frame.path, frame.body, frame.payload
    if path.__class__ is not ObjectPlainPath:
        raise DiscardError("foreign")
    if path.destination != address:
        raise DiscardError("misdelivered")
    packet = rp.RocePacket()
    packet.port = port
    packet.source = path.source
    packet.telemetry = frame.telemetry
    packet.op, _, _, packet.dqpn, flags_psn = wire.BTH.unpack_from(body)
    packet.psn = flags_psn & PSN_MASK
    packet.ack_request = bool(flags_psn >> 31)
    packet.ce = frame.ecn == wire.ECN_CE
    if packet.op not in rh.WRITES:
        packet.view, packet.body_at, packet.end = memoryview(body), _BTH_LEN, len(body)
        return packet
    at = _BTH_LEN
    if packet.op in rh.STARTS_MESSAGE:
        packet.va, packet.rkey, packet.dma_length = wire.RETH.unpack_from(body, at)
        at += wire.RETH.size
    if packet.op in rh.WITH_IMM:
        packet.imm = wire.IMMEDIATE.unpack_from(body, at)[0]
    packet.view, packet.payload_at = _NOTHING if payload is None else payload, 0
    packet.size = 0 if payload is None else len(payload)
    return packet


OBJECTS: Final = Codecs(MrcCodec(ObjectPath, ObjectParser), rp.RoceCodec(ObjectPlainPath, parse))
