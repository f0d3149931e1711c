"""Frames for lessons that program a switch: IPv6 to a list of uSIDs, with IPv6 inside."""

import struct

from mrclab.topo import srv6

_DESTINATION = slice(38, 54)  # of the outer IPv6 header


def frame(to: int, hops: int = 64) -> bytes:
    """An Ethernet frame with an IPv6 packet to this address and IPv6, without payload, inside."""
    inner = struct.pack(">IHBB", 6 << 28, 0, 59, 64) + bytes(32)
    outer = struct.pack(">IHBB", 6 << 28, len(inner), 41, hops) + bytes(16) + to.to_bytes(16, "big")
    return bytes(12) + b"\x86\xdd" + outer + inner


def address(*usids: int) -> int:
    """An IPv6 address of the locator and these uSIDs."""
    area = b"".join(usid.to_bytes(2, "big") for usid in usids).ljust(12, b"\0")
    return int.from_bytes(srv6.LOCATOR.to_bytes(4, "big") + area, "big")


def destination(data: bytes) -> int:
    """The outer destination address of a frame."""
    return int.from_bytes(data[_DESTINATION], "big")
