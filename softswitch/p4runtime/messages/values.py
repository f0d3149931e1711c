"""Byte strings of P4Runtime ("Bytestrings" in its specification) and the integers of the data plane.

A value travels as a big-endian unsigned integer without leading zero bytes, at least one byte long. As in PI, shorter
and longer strings than the canonical one are accepted as long as the number fits; answers are always canonical.
"""

from __future__ import annotations

from mrclab.softswitch.p4runtime.messages.status import invalid


def to_int(data: bytes, width: int) -> int:
    """Return the number that `data` holds; refused (INVALID_ARGUMENT) when it needs more than `width` bits."""
    value = int.from_bytes(data, "big")
    if value >> width:
        raise invalid(f"Bytestring provided does not fit within {width} bits")
    return value


def to_bytes(value: int) -> bytes:
    """Return the canonical byte string of `value`."""
    return value.to_bytes((value.bit_length() + 7) // 8 or 1, "big")


def all_ones(width: int) -> int:
    """Return the largest number of `width` bits."""
    return (1 << width) - 1


def prefix_mask(prefix_len: int, width: int) -> int:
    """Return the mask of `width` bits whose first `prefix_len` bits are set."""
    return all_ones(prefix_len) << (width - prefix_len)
