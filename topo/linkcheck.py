"""Link-check frames: how the controller sees that a cable joins the two ports it should.

A switch sends a probe out of one port (packet-out). A switch that receives one hands it to its CPU port (packet-in); a
NIC answers it out of the port it came in by, with its own name and port number filled in, and that answer reaches the
CPU port of the switch that asked. Layout after the Ethernet header, big-endian, sizes in bytes:

    magic "MRCL" 4 | version 1 | kind 1 | nonce 4 | origin port 2 | origin name 16 | answer port 2 | answer name 16

Names are ASCII, padded with zero bytes. EtherType 0x88B5 is IEEE 802's local experimental one.
"""

import struct
from enum import IntEnum
from typing import NamedTuple

from mrclab.topo.numbers import LINK_CHECK_ETHERTYPE

MAGIC = b"MRCL"
VERSION = 1
MAX_NAME = 16  # bytes

_LAYOUT = struct.Struct("!6s6sH4sBBIH16sH16s")
FRAME_LENGTH = _LAYOUT.size  # 60: no padding needed on Ethernet


class LinkCheckError(ValueError):
    """The frame is not a link check, or one we cannot read."""


class Kind(IntEnum):
    """Direction of a link-check frame."""

    PROBE = 1
    ANSWER = 2


class LinkCheck(NamedTuple):
    """A link-check frame, taken apart. `answer_name` is empty and `answer_port` 0 in a probe."""

    kind: Kind
    nonce: int
    origin: str
    origin_port: int
    answer_name: str = ""
    answer_port: int = 0
    source_mac: bytes = bytes(6)
    destination_mac: bytes = b"\xff" * 6

    def encode(self) -> bytes:
        """The whole Ethernet frame."""
        return _LAYOUT.pack(
            self.destination_mac,
            self.source_mac,
            LINK_CHECK_ETHERTYPE,
            MAGIC,
            VERSION,
            self.kind,
            self.nonce & 0xFFFF_FFFF,
            self.origin_port,
            _name(self.origin),
            self.answer_port,
            _name(self.answer_name),
        )


def probe(origin: str, origin_port: int, nonce: int, source_mac: bytes, destination_mac: bytes = b"\xff" * 6) -> bytes:
    """Frame of a probe that `origin` sends out of `origin_port`."""
    return LinkCheck(
        Kind.PROBE, nonce, origin, origin_port, source_mac=source_mac, destination_mac=destination_mac
    ).encode()


def answer(frame: bytes | memoryview, name: str, port: int, mac: bytes) -> bytes:
    """Frame that a NIC port sends back for a probe. LinkCheckError where `frame` is no probe."""
    probe = parse(frame)
    if probe.kind is not Kind.PROBE:
        raise LinkCheckError("a link-check answer is not answered")
    return LinkCheck(
        Kind.ANSWER, probe.nonce, probe.origin, probe.origin_port, name, port, mac, probe.source_mac
    ).encode()


def parse(frame: bytes | memoryview) -> LinkCheck:
    """Take a frame apart; LinkCheckError where it is too short, foreign or damaged."""
    if len(frame) < FRAME_LENGTH:
        raise LinkCheckError(f"{len(frame)} bytes are too few for a link check of {FRAME_LENGTH}")
    to, source, ethertype, magic, version, kind, nonce, port, origin, answer_port, name = _LAYOUT.unpack_from(frame)
    if ethertype != LINK_CHECK_ETHERTYPE or magic != MAGIC or version != VERSION:
        raise LinkCheckError("frame is not a link check of this version")
    try:
        return LinkCheck(Kind(kind), nonce, _text(origin), port, _text(name), answer_port, source, to)
    except ValueError as error:
        raise LinkCheckError(f"damaged link check: {error}") from error


def _name(name: str) -> bytes:
    raw = name.encode("ascii")
    if len(raw) > MAX_NAME:
        raise ValueError(f"name {name!r} is longer than the {MAX_NAME} bytes of a link check")
    return raw


def _text(raw: bytes) -> str:
    return raw.rstrip(b"\0").decode("ascii")
