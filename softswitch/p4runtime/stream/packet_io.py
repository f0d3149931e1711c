"""Packet-out and packet-in: controller headers in front of the frame on the CPU port, metadata fields in P4Runtime.

The header has the fields of `controller_packet_metadata` in P4Info, packed without gaps in the order given there; PI
rounds it up to whole bytes.
"""

from __future__ import annotations

from finsy.proto import p4r

from mrclab.softswitch.p4runtime.messages.status import invalid
from mrclab.softswitch.p4runtime.messages.values import all_ones, to_bytes, to_int
from mrclab.softswitch.p4runtime.p4info import P4InfoField


class HeaderCodec:
    """Packs and unpacks one controller header; with `fields` None the program has none, and frames travel bare."""

    def __init__(self, fields: tuple[P4InfoField, ...] | None) -> None:
        self._fields = {field.id: field for field in fields or ()}
        bits = sum(field.width for field in self._fields.values())
        self.length = (bits + 7) // 8  # bytes
        self._layout: list[tuple[P4InfoField, int]] = []  # field, bits to its right
        position = self.length * 8
        for field in self._fields.values():
            position -= field.width
            self._layout.append((field, position))

    def pack(self, packet: p4r.PacketOut) -> bytes:
        """Return header and payload. As in PI, fields that are not given are 0."""
        given = {item.metadata_id: item.value for item in packet.metadata}
        unknown = given.keys() - self._fields.keys()
        if unknown:
            raise invalid(
                "Unknown metadata id in PacketOut message"
                if self._fields
                else "Unexpected metadata in PacketOut message"
            )
        header = 0
        for field, shift in self._layout:
            header |= to_int(given.get(field.id, b""), field.width) << shift
        return header.to_bytes(self.length, "big") + packet.payload

    def unpack(self, data: bytes) -> p4r.PacketIn | None:
        """Return the packet-in for a frame from the CPU port; None if it is shorter than the header."""
        if len(data) < self.length:
            return None
        header = int.from_bytes(data[: self.length], "big")
        packet = p4r.PacketIn(payload=data[self.length :])
        for field, shift in self._layout:
            packet.metadata.add(metadata_id=field.id, value=to_bytes(header >> shift & all_ones(field.width)))
        return packet
