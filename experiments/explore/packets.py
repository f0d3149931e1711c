"""Frames in flight, and their fields that count when states are compared: neither absolute times nor absolute ids."""

from __future__ import annotations

from dataclasses import dataclass
from struct import unpack_from
from typing import Final

from mrclab.hosts.mrc.packets import headers as h
from mrclab.hosts.rdma.packets.psn import PSN_MASK
from mrclab.sim.frame import of_bytes
from mrclab.topo import srv6

_ICRC: Final = 4
_FLAGS_AT: Final = h.BTH_AT + 8
_NAMES: Final = {int(op): op.name for op in h.MrcOpcode}
_STAMP_AT: Final = {
    int(h.MrcOpcode.SACK): h.BODY_AT + 28,
    int(h.MrcOpcode.NACK): h.BODY_AT + 18,
    int(h.MrcOpcode.PROBE): h.BODY_AT + 12,
    int(h.MrcOpcode.ENDPOINT_REQUEST): h.BODY_AT + 12,
    int(h.MrcOpcode.ENDPOINT_RESPONSE): h.BODY_AT + 28,
} | dict.fromkeys(h.WRITES, h.BODY_AT + 4)
_PROBE_ID_AT: Final = h.BODY_AT + 4
_REPLY_ID_AT: Final = h.BODY_AT + 2
_PSN_AT: Final = h.BTH_AT + 9


@dataclass(frozen=True)
class Flight:
    """A frame on its way. It is the same as another one that differs only in `serial`."""

    serial: int
    source: int  # hosts by number from 0
    destination: int
    plane: int
    port: int  # that it comes in by
    data: bytes  # as it comes in
    due: float  # seconds; it comes then or, where another went first, later
    content: bytes  # without ICRC, timestamp and id
    stamp: int  # µs, 16 bits; 0: none
    id_kind: str  # "probe", "reply", "request", "update" or ""
    id: int

    @property
    def op(self) -> int:
        """BTH opcode."""
        return self.data[h.BTH_AT]

    @property
    def is_write(self) -> bool:
        """True if it carries data, or did before it was trimmed."""
        return self.op in h.WRITES

    @property
    def psn(self) -> int:
        """BTH PSN."""
        return int.from_bytes(self.data[_PSN_AT : _PSN_AT + 3], "big")

    @property
    def subject(self) -> int:
        """PSN of the data packet that it is or answers; -1: none."""
        if self.is_write:
            return self.psn
        view = memoryview(self.data)
        if self.op == h.MrcOpcode.SACK and not self.id_kind:
            sack = h.Sack.unpack(view, h.BODY_AT)
            return sack.cack + sack.offset & PSN_MASK
        return h.Nack.unpack(view, h.BODY_AT).psn if self.op == h.MrcOpcode.NACK else -1

    @property
    def dscp(self) -> int:
        """DSCP of the inner header."""
        return (self.data[h.INNER_AT] & 0xF) << 2 | self.data[h.INNER_AT + 1] >> 6

    @property
    def marked(self) -> bool:
        """True if it carries ECN-CE."""
        return self.data[h.INNER_AT + 1] >> 4 & 3 == 3

    def changed(self, serial: int, data: bytes) -> Flight:
        """Return the frame with other bytes, as a switch changes it, or the same ones."""
        return flight(serial, self.source, self.destination, self.plane, self.port, data, self.due)

    def __str__(self) -> str:
        name = _NAMES.get(self.op, f"{self.op:#x}")
        shown = f"#{self.serial} h{self.source + 1}→h{self.destination + 1} plane {self.plane} {name}"
        if self.is_write:
            again = " again" if self.data[_FLAGS_AT] & h.FLAG_RTX else ""
            shown += f" {self.psn:#x}{again}"
        elif self.op == h.MrcOpcode.SACK:
            sack = h.Sack.unpack(memoryview(self.data), h.BODY_AT)
            shown += f" cack {sack.cack:#x} +{sack.bitmap_offset} {sack.bitmap:b}"
            shown += f" reply {sack.offset}" if sack.probe_reply else ""
        elif self.op == h.MrcOpcode.NACK:
            nack = h.Nack.unpack(memoryview(self.data), h.BODY_AT)
            shown += f" {h.Reason(nack.reason).name} {nack.psn:#x}"
        elif self.id_kind:
            shown += f" {self.id_kind} {self.id}"
        trimmed = " trimmed" if self.dscp in {h.Dscp.TRIMMED, h.Dscp.TRIMMED_LASTHOP} else ""
        return shown + (" marked" if self.marked else "") + trimmed


def flight(serial: int, source: int, destination: int, plane: int, port: int, data: bytes, due: float) -> Flight:
    """A frame with its parsed fields."""
    op, content = data[h.BTH_AT], bytearray(data[h.OUTER_AT : len(data) - _ICRC])
    stamp = 0
    at = _STAMP_AT.get(op)
    if at is not None and (op not in h.WRITES or data[_FLAGS_AT] & h.FLAG_TS):
        stamp = unpack_from(">H", data, at)[0]
        content[at - h.OUTER_AT : at - h.OUTER_AT + 2] = b"\0\0"
    kind, id_at, size = _id_of(op, data)
    number = 0
    if kind:
        number = int.from_bytes(data[id_at : id_at + size], "big")
        content[id_at - h.OUTER_AT : id_at - h.OUTER_AT + size] = bytes(size)
    return Flight(serial, source, destination, plane, port, data, due, bytes(content), stamp, kind, number)


def _id_of(op: int, data: bytes) -> tuple[str, int, int]:
    """Return the kind, offset and bytes of the id that a frame carries."""
    if op == h.MrcOpcode.PROBE:
        return "probe", _PROBE_ID_AT, 2
    if op == h.MrcOpcode.SACK and data[h.BODY_AT + 1] & 2:
        return "reply", _REPLY_ID_AT, 2
    if op in {h.MrcOpcode.ENDPOINT_REQUEST, h.MrcOpcode.ENDPOINT_RESPONSE}:
        update = data[h.BODY_AT] == h.EndpointOp.PORT_STATUS_UPDATE
        is_request = op == h.MrcOpcode.ENDPOINT_REQUEST
        return ("update" if update else "request") + ("" if is_request else " answer"), _PSN_AT, 3
    return "", 0, 0


def plane_of(data: bytes) -> int:
    """The plane that a frame's outer address names."""
    return srv6.ev_fields(srv6.ev_of_address(srv6.from_bytes(data[38:54]))).plane


def marked(data: bytes) -> bytes:
    """Return the frame with ECN-CE in both headers."""
    frame = of_bytes(data)
    frame.mark()
    return frame.to_bytes()


def trimmed(data: bytes, last_hop: bool) -> bytes:
    """Return the part of a data packet that a trimming switch forwards."""
    frame = of_bytes(data)
    frame.trim(h.Dscp.TRIMMED_LASTHOP if last_hop else h.Dscp.TRIMMED)
    return frame.to_bytes()
