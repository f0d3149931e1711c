"""A frame in flight: header fields that switches read as numbers, the rest left as the transport made it.

A frame has one of two forms. Most keep the transport's own objects: path, bytes behind UDP, payload without a copy. A
frame that arrived as bytes, or was corrupted, is bytes (`raw`) and is parsed as such. The header fields are the same
for both; `to_bytes` returns the frame as a capture would show it.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final, Protocol

from mrclab.sim.clock import ScheduledEvent
from mrclab.topo import srv6
from mrclab.topo.numbers import HOP_LIMIT, LINK_CHECK_ETHERTYPE, MRC_UDP_PORT

if TYPE_CHECKING:
    from mypy_extensions import i16, i64, u8

    from mrclab.hosts.mrc.packets.packet import MrcPacket
    from mrclab.hosts.nic import interface
    from mrclab.hosts.roce.telemetry import Hop
    from mrclab.sim.links.cable import HalfLink

MALFORMED, FOREIGN, HOPS_OVER, UNKNOWN_USID, USID_MISS, IPV6_MISS, WRONG_SOURCE = range(1, 8)
"""Drop reasons, the cells of the P4 program's counter `drops`."""

LINK_CHECK: Final = -1
"""In place of a drop reason: a frame for the controller."""

UNCHECKED: Final = -2
"""In place of a drop reason: a good frame that came as bytes, so that a T0 must look at its sources."""

TRIM_BYTES: Final = 140
_ECN_CE: Final = 3
_ETHERTYPE_IPV6: Final = 0x86DD
_IPV6_IN_IPV6, _UDP = 41, 17
_ETHERNET, _IPV6 = 14, 40
_SOURCE: Final = _ETHERNET + 8
_LOCATOR: Final = srv6.LOCATOR
_SHIFTS: Final = tuple(range(80, -1, -16))

Flow = tuple[int, ...]
"""Of plain IPv6: source, destination, flow label, next header, UDP ports where there are any. ECMP hashes it."""


def usids_of(address: int) -> tuple[Any, ...] | None:
    """The uSIDs behind the locator, padded with zeros; None for an address outside the locator."""
    if address >> 96 != _LOCATOR:
        return None
    return (*(word(address >> shift & 0xFFFF) for shift in _SHIFTS), 0, 0)


_words: dict[int, Any] = {}


def word(value: Any) -> Any:
    """Return an equal number, one object for all paths (interning): as `int`, compiled code would make a new one."""
    return _words.setdefault(value, value)


class Packer(Protocol):
    """A path that can encode a frame as bytes."""

    def pack(self, frame: SimFrame) -> interface.Frame:
        """The frame as its host sends it."""


class SimFrame(ScheduledEvent):
    """One frame; in flight it is the event of its arrival. Its holder may change it: copy it to send it twice."""

    __slots__ = (
        "at", "body", "dscp", "ecn", "ev", "fault", "flow", "flushed", "half_link", "hops", "leave", "marked",
        "next_queued", "path", "payload", "raw", "read", "size", "telemetry", "trimmable", "trimmed", "usids",
    )  # fmt: skip

    half_link: HalfLink  # where it is in flight
    leave: i64  # when it leaves the queue it is in
    next_queued: SimFrame | None  # the next in that queue
    size: int  # bytes of the whole Ethernet frame, without FCS
    dscp: u8
    ecn: u8
    at: u8  # uSIDs that switches have shifted out
    hops: u8  # outer hop limit
    fault: i16  # why the first switch drops it, 0 for a good frame
    ev: int  # flow label and UDP source port of the inner packet
    telemetry: list[Hop] | None  # INT records of the switches, written as it leaves their data queues
    usids: tuple[Any, ...] | None  # numbers that paths share, of the outer destination as sent; None: plain IPv6
    trimmable: bool  # an inner IPv6 header and a BTH are there
    trimmed: bool  # the end is cut off
    marked: bool  # with ECN-CE, by a switch
    flushed: bool  # lost in a queue of a switch that was killed
    flow: Flow | None  # None until it is hashed
    path: Packer | None
    body: bytes  # BTH to the payload, where `path` is given and `read` is not
    read: MrcPacket | None  # as its receiver will parse it
    payload: memoryview | None
    raw: bytes | None

    def fire(self) -> None:
        """Arrive at the far end of the half-link."""
        self.half_link.leave(self, self.due)

    @property
    def wire_len(self) -> int:
        """Bytes that a link is busy for."""
        return self.size

    @property
    def opcode(self) -> int:
        """Opcode of a frame that has kept the transport's objects."""
        return self.body[0] if self.read is None else self.read.op

    @property
    def header(self) -> bytes:
        """Everything before the payload, as bytes."""
        return self._packed().header if self.raw is None else self.raw

    @property
    def trailer(self) -> bytes:
        """Everything after the payload, as bytes."""
        return self._packed().trailer if self.raw is None else b""

    def _packed(self) -> interface.Frame:
        assert self.path is not None
        return self.path.pack(self)

    def copy(self) -> SimFrame:
        """Return a copy that is on no half-link yet."""
        made = SimFrame()
        made.path, made.body, made.payload, made.raw = self.path, self.body, self.payload, self.raw
        made.read, made.next_queued = self.read, None
        made.size, made.dscp, made.ecn, made.ev = self.size, self.dscp, self.ecn, self.ev
        made.usids, made.at, made.hops, made.flow = self.usids, self.at, self.hops, self.flow
        made.fault, made.trimmable, made.trimmed = self.fault, self.trimmable, self.trimmed
        made.marked, made.flushed, made.leave = self.marked, self.flushed, self.leave
        made.telemetry = None if self.telemetry is None else list(self.telemetry)
        return made

    def trim(self, dscp: int) -> None:
        """Keep the headers only."""
        self.dscp = dscp
        self.trimmed = True
        self.size = min(self.size, TRIM_BYTES)

    def mark(self) -> None:
        """Set ECN-CE."""
        self.ecn = _ECN_CE
        self.marked = True

    def to_bytes(self) -> bytes:
        """The frame as it is now, from the destination MAC on. MACs are those it was sent with."""
        if self.raw is None:
            made = self._packed()
            data = bytearray(b"".join((made.header, made.payload or b"", made.trailer)))
        else:
            data = bytearray(self.raw)
        if self.fault in {0, HOPS_OVER, UNCHECKED} and len(data) >= _ETHERNET + _IPV6:
            self._write_headers(data)
        return bytes(data[: self.size])

    def _write_headers(self, data: bytearray) -> None:
        """Write the fields that switches change: hop limit, uSIDs, and the class of both headers."""
        data[21] = self.hops
        if self.usids is not None:
            data[42:54] = struct.pack("!6H", *(*self.usids[self.at : self.at + 6], *[0] * self.at)[:6])
        dscp, ecn = self.dscp, self.ecn
        _set_class(data, _ETHERNET, dscp << 2 | ecn)
        inner = _ETHERNET + _IPV6
        if data[20] == _IPV6_IN_IPV6 and (self.trimmed or self.marked):
            old = (data[inner] & 0xF) << 4 | data[inner + 1] >> 4
            _set_class(data, inner, (dscp if self.trimmed else old >> 2) << 2 | (ecn if self.marked else old & 3))


def _set_class(data: bytearray, at: int, traffic_class: int) -> None:
    data[at] = data[at] & 0xF0 | traffic_class >> 4
    data[at + 1] = (traffic_class & 0xF) << 4 | data[at + 1] & 0xF


def of_bytes(raw: bytes) -> SimFrame:
    """Make a frame of bytes, parsed as far as the P4 program does."""
    frame = SimFrame()
    frame.raw, frame.path, frame.body, frame.payload, frame.read = raw, None, b"", None, None
    frame.next_queued = frame.telemetry = None
    frame.size = len(raw)
    frame.dscp = frame.ecn = frame.ev = frame.at = frame.leave = 0
    frame.hops = HOP_LIMIT
    frame.usids, frame.flow = None, None
    frame.trimmable = frame.trimmed = frame.marked = frame.flushed = False
    frame.fault = _read(frame, raw)
    return frame


def is_from(frame: SimFrame, address: bytes) -> bool:
    """Return True if a frame that came as bytes has this source, in the outer header and in an inner one."""
    raw = frame.raw
    assert raw is not None
    encapsulated = raw[_ETHERNET + 6] == _IPV6_IN_IPV6
    return raw[_SOURCE : _SOURCE + 16] == address and (
        not encapsulated or raw[_SOURCE + _IPV6 : _SOURCE + _IPV6 + 16] == address
    )


def _read(frame: SimFrame, raw: bytes) -> int:  # noqa: PLR0911 - one for each header that may be cut off
    """Fill in the header fields; return the drop reason, or UNCHECKED."""
    if len(raw) < _ETHERNET:
        return MALFORMED
    ethertype = raw[12] << 8 | raw[13]
    if ethertype != _ETHERTYPE_IPV6:
        return LINK_CHECK if ethertype == LINK_CHECK_ETHERTYPE else FOREIGN
    at = _ETHERNET
    if not _is_ipv6(raw, at):
        return MALFORMED
    traffic_class = (raw[at] & 0xF) << 4 | raw[at + 1] >> 4
    frame.dscp, frame.ecn = traffic_class >> 2, traffic_class & 3
    label, next_header, frame.hops = int.from_bytes(raw[at + 1 : at + 4], "big") & 0xFFFFF, raw[at + 6], raw[at + 7]
    source, destination = (int.from_bytes(raw[at + n : at + n + 16], "big") for n in (8, 24))
    frame.usids = usids_of(destination)
    ports: tuple[int, ...] = ()
    inner = label
    outer_next = next_header
    at += _IPV6
    encapsulated = next_header == _IPV6_IN_IPV6
    if encapsulated:
        if not _is_ipv6(raw, at):
            return MALFORMED
        inner, next_header = int.from_bytes(raw[at + 1 : at + 4], "big") & 0xFFFFF, raw[at + 6]
        at += _IPV6
    if next_header == _UDP:
        if len(raw) < at + 8:
            return MALFORMED
        ports = raw[at] << 8 | raw[at + 1], raw[at + 2] << 8 | raw[at + 3]
        frame.ev = (inner & 0xFFFF) << 16 | ports[0]
        if ports[-1] == MRC_UDP_PORT:
            if len(raw) < at + 20:
                return MALFORMED
            frame.trimmable = encapsulated
    if frame.usids is None:
        frame.flow = (source, destination, label, outer_next, *ports)
    return UNCHECKED


def _is_ipv6(raw: bytes, at: int) -> bool:
    return len(raw) >= at + _IPV6 and raw[at] >> 4 == 6
