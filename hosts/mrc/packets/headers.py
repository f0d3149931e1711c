"""Wire format of MRC packets: opcodes, code points and the headers behind UDP, as `struct` layouts.

Facts: docs/mrc-protocol.md §1.5 (offsets), RoCEv2 for BTH and AETH. All fields are big-endian. A frame is always
`Ethernet 14 | outer IPv6 40 | inner IPv6 40 | UDP 8 | BTH 12 | …`, so every offset below is fixed.
Bits that the public record leaves open are zero on sending and ignored on receipt.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from struct import Struct
from typing import ClassVar, Final

from typing_extensions import override

from mrclab.hosts.rdma.packets import wire
from mrclab.topo.numbers import Dscp as Dscp  # noqa: PLC0414 (for importers of this module; the values have one home)

ENDPOINT_QPN: Final = 2  # destination QP of endpoint requests and responses
NEXT_IPV6: Final = 41

OUTER_AT: Final = 14
INNER_AT: Final = 54
UDP_AT: Final = 94
BTH_AT: Final = 102
BODY_AT: Final = 114  # first byte behind BTH


class MrcOpcode(IntEnum):
    """BTH opcodes."""

    WRITE_FIRST = 0xC6
    WRITE_MIDDLE = 0xC7
    WRITE_LAST = 0xC8
    WRITE_LAST_IMM = 0xC9
    WRITE_ONLY = 0xCA
    WRITE_ONLY_IMM = 0xCB
    ACK = 0xD1
    ENDPOINT_REQUEST = 0xD8
    ENDPOINT_RESPONSE = 0xD9
    SACK = 0xDC
    NACK = 0xDD
    PROBE = 0xDE


class Mark(IntEnum):
    """M of a SACK: action for the EV that it reflects."""

    NONE = 0
    SKIP_ONCE = 1
    ALWAYS_SKIP = 2


class Reason(IntEnum):
    """Reason of a NACK."""

    TRIMMED = 0x01
    TRIMMED_LASTHOP = 0x02
    NO_BITMAP = 0x06
    NO_PKT_BUFFER = 0x07
    NO_RESOURCE = 0x0A
    PSN_OOR_WINDOW = 0x0B
    UNEXP_EVENT = 0x19


class EndpointOp(IntEnum):
    """Operation of an endpoint request."""

    PORT_STATUS_UPDATE = 0
    EV_PROBE = 1
    CREDIT_REQUEST = 2  # of this lab: the port mask is a total in units of 256 bytes, and there is no answer
    CREDIT_GRANT = 3


FLAG_RTX: Final = 0x20  # of BTH byte 8, as the next
FLAG_TS: Final = 0x10

FIRST_WRITE: Final = 0xC6  # all writes lie between these two
LAST_WRITE: Final = 0xCB
WRITES: Final[frozenset[int]] = frozenset(range(FIRST_WRITE, LAST_WRITE + 1))
WITH_IMM: Final[frozenset[int]] = frozenset({int(MrcOpcode.WRITE_LAST_IMM), int(MrcOpcode.WRITE_ONLY_IMM)})
ENDS_MESSAGE: Final[frozenset[int]] = frozenset({int(MrcOpcode.WRITE_LAST), int(MrcOpcode.WRITE_ONLY)}) | WITH_IMM

# Ethernet, outer IPv6 (class and flow label word, payload length, next header, hop limit, start of destination),
# inner IPv6 (the same, whole addresses), UDP, BTH (opcode, pad byte, reserved byte and destination QP, flags and PSN)
FRAME: Final[Struct] = Struct(">12xH IHBB16x6s10x IHBx16s16s HHHH BBHII")
METH: Final[Struct] = Struct(">HH")  # RQMSN, MSN
TSETH: Final[Struct] = Struct(">HH")  # timestamp, unit(1) | reserved(11) | type(4)
SETH: Final[Struct] = Struct(">BBhIHHIBBhQ HHI")  # with CC_STATE behind it
NETH: Final[Struct] = Struct(">BxBBIHHIBxH")
PETH: Final[Struct] = Struct(">3xBHxxHHHH")
ERTH: Final[Struct] = Struct(">B3xI4xHH")
EETH: Final[Struct] = Struct(">B3xII16xHHI")

# The data headers in the two layouts that a write can have; BTH to RETH in one call.
WRITE_TS: Final[Struct] = Struct(">BBHII HH HH QII")
WRITE_PLAIN: Final[Struct] = Struct(">BBHII HH QII")
WRITE_TS_BODY: Final[Struct] = Struct(">HH HH QII")
WRITE_PLAIN_BODY: Final[Struct] = Struct(">HH QII")

TSETH_TYPE: Final = 1
TS_MASK: Final = 0xFFFF
TS_UNIT: Final = 1e-6  # seconds; tsr = 1 means 1 µs, 0 means 128 ns
TSETH_WORD: Final = 1 << 15 | TSETH_TYPE  # tsr = 1
SETH_TYPE: Final = 1
RCVD_UNIT: Final = 256  # bytes per unit of rcvd_bytes
BITMAP_BITS: Final = 64

TC_CONTROL: Final = Dscp.CONTROL << 2  # traffic classes
TC_NO_TRIM: Final = Dscp.NO_TRIM << 2 | wire.ECN_ECT


def timestamp(now: float) -> int:
    """Return the 16-bit microsecond clock of TSETH."""
    return int(now * 1e6) & TS_MASK


class Content:
    """The part of a packet behind its BTH, as the transport reads it.

    No tuples: to make a NamedTuple is a call of Python.
    """

    __slots__ = ()

    length: ClassVar[int]  # bytes of the packed form

    def pack(self) -> bytes:
        """Return the packed form, `length` bytes."""
        raise NotImplementedError


class Sack(Content):
    """SETH and CC_STATE. `offset` is the trigger's distance from `cack`, or the probe id where `probe_reply`."""

    length: ClassVar[int] = SETH.size

    __slots__ = (
        "bitmap", "bitmap_offset", "cack", "entropy", "mark", "mpr", "offset", "ooo_count", "penalty",
        "probe_reply", "rcvd_units", "restore", "timestamp",
    )  # fmt: skip

    def __init__(
        self,
        mark: int,
        probe_reply: bool,
        offset: int,
        entropy: int,
        cack: int,
        mpr: int,
        bitmap_offset: int,
        bitmap: int,
        timestamp: int = 0,
        ooo_count: int = 0,
        restore: bool = False,
        penalty: int = 0,
        rcvd_units: int = 0,
    ) -> None:
        self.mark = mark
        self.probe_reply = probe_reply
        self.offset = offset
        self.entropy = entropy
        self.cack = cack  # 24-bit PSN: everything up to it has arrived
        self.mpr = mpr  # units of 128 PSNs; 0 = not dynamic
        self.bitmap_offset = bitmap_offset  # first PSN of the bitmap − cack
        self.bitmap = bitmap  # bit 0 = first PSN
        self.timestamp = timestamp  # of the packet that triggered
        self.ooo_count = ooo_count
        self.restore = restore
        self.penalty = penalty
        self.rcvd_units = rcvd_units  # bytes received in units of 256, 24 bits

    @override
    def pack(self) -> bytes:
        offset = self.offset - 0x10000 if self.probe_reply and self.offset > 0x7FFF else self.offset
        return SETH.pack(
            SETH_TYPE << 4,
            self.mark << 5 | self.probe_reply << 1,
            offset,
            self.entropy,
            0,
            0,
            self.cack,
            0,
            self.mpr,
            self.bitmap_offset,
            self.bitmap,
            self.timestamp,
            self.ooo_count & 0x7FFF,
            self.restore << 31 | (self.penalty & 0x7F) << 24 | self.rcvd_units & 0xFFFFFF,
        )

    @staticmethod
    def unpack(packet: memoryview, at: int) -> Sack:
        """Read SETH and CC_STATE at offset `at`; struct.error where the packet is too short."""
        (_type, flags, offset, entropy, _s, _d, cack, _cc, mpr, bitmap_offset, bitmap, ts, ooo, penalty) = (
            SETH.unpack_from(packet, at)
        )
        reply = bool(flags & 2)
        return Sack(
            flags >> 5 & 3,
            reply,
            offset & 0xFFFF if reply else offset,
            entropy,
            cack & 0xFFFFFF,
            mpr,
            bitmap_offset,
            bitmap,
            ts,
            ooo & 0x7FFF,
            bool(penalty >> 31),
            penalty >> 24 & 0x7F,
            penalty & 0xFFFFFF,
        )


class Nack(Content):
    """NACK: the NACK extended transport header (NETH)."""

    length: ClassVar[int] = NETH.size

    __slots__ = ("entropy", "psn", "reason", "timestamp")

    def __init__(self, reason: int, entropy: int, psn: int, timestamp: int = 0) -> None:
        self.reason = reason
        self.entropy = entropy
        self.psn = psn
        self.timestamp = timestamp

    @override
    def pack(self) -> bytes:
        return NETH.pack(0, self.reason, 0, self.entropy, 0, 0, self.psn, 0, self.timestamp)

    @staticmethod
    def unpack(packet: memoryview, at: int) -> Nack:
        """Read NETH at offset `at`; struct.error where the packet is too short."""
        _type, reason, _vendor, entropy, _s, _d, psn, _cc, ts = NETH.unpack_from(packet, at)
        return Nack(reason, entropy, psn & 0xFFFFFF, ts)


class Ack(Content):
    """AETH of a Transport ACK or NAK: syndrome, and the number of messages received completely."""

    length: ClassVar[int] = wire.AETH.size

    __slots__ = ("msn", "syndrome")

    def __init__(self, syndrome: int, msn: int) -> None:
        self.syndrome = syndrome
        self.msn = msn

    @override
    def pack(self) -> bytes:
        return wire.AETH.pack(self.syndrome << 24 | self.msn & 0xFFFFFF)

    @staticmethod
    def unpack(packet: memoryview, at: int) -> Ack:
        """Read AETH at offset `at`; struct.error where the packet is too short."""
        word: int = wire.AETH.unpack_from(packet, at)[0]
        return Ack(word >> 24, word & 0xFFFFFF)


class Probe(Content):
    """PETH of a reliability probe."""

    length: ClassVar[int] = PETH.size

    __slots__ = ("probe_id", "timestamp")

    def __init__(self, probe_id: int, timestamp: int = 0) -> None:
        self.probe_id = probe_id
        self.timestamp = timestamp

    @override
    def pack(self) -> bytes:
        return PETH.pack(0, self.probe_id, 0, 0, self.timestamp, TSETH_WORD)

    @staticmethod
    def unpack(packet: memoryview, at: int) -> Probe:
        """Read PETH at offset `at`; struct.error where the packet is too short."""
        _vendor, probe_id, _s, _d, ts, _unit = PETH.unpack_from(packet, at)
        return Probe(probe_id, ts)


class EndpointRequest(Content):
    """ERTH; the request id is in the PSN field of the BTH. Bit n−1 of the mask: port n is up."""

    length: ClassVar[int] = ERTH.size

    __slots__ = ("op", "port_mask", "timestamp")

    def __init__(self, op: int, port_mask: int = 0, timestamp: int = 0) -> None:
        self.op = op
        self.port_mask = port_mask
        self.timestamp = timestamp

    @override
    def pack(self) -> bytes:
        return ERTH.pack(self.op, self.port_mask, self.timestamp, TSETH_WORD)

    @staticmethod
    def unpack(packet: memoryview, at: int) -> EndpointRequest:
        """Read ERTH at offset `at`; struct.error where the packet is too short."""
        op, mask, ts, _unit = ERTH.unpack_from(packet, at)
        return EndpointRequest(op, mask, ts)


class EndpointResponse(Content):
    """EETH: the EV of the request, and the time that the responder needed, in ns."""

    length: ClassVar[int] = EETH.size

    __slots__ = ("entropy", "op", "port_mask", "service_time", "timestamp")

    def __init__(self, op: int, entropy: int, port_mask: int = 0, timestamp: int = 0, service_time: int = 0) -> None:
        self.op = op
        self.entropy = entropy
        self.port_mask = port_mask
        self.timestamp = timestamp
        self.service_time = service_time

    @override
    def pack(self) -> bytes:
        return EETH.pack(self.op, self.entropy, self.port_mask, self.timestamp, TSETH_WORD, self.service_time)

    @staticmethod
    def unpack(packet: memoryview, at: int) -> EndpointResponse:
        """Read EETH at offset `at`; struct.error where the packet is too short."""
        op, entropy, mask, ts, _unit, service = EETH.unpack_from(packet, at)
        return EndpointResponse(op, entropy, mask, ts, service)


CONTENTS: Final[dict[int, Callable[[memoryview, int], Content]]] = {
    MrcOpcode.ACK: Ack.unpack,
    MrcOpcode.ENDPOINT_REQUEST: EndpointRequest.unpack,
    MrcOpcode.ENDPOINT_RESPONSE: EndpointResponse.unpack,
    MrcOpcode.SACK: Sack.unpack,
    MrcOpcode.NACK: Nack.unpack,
    MrcOpcode.PROBE: Probe.unpack,
}
"""Readers of control packets by opcode."""
