"""Packet sequence numbers: 24 bits on the wire, unbounded inside.

Every part of the transport counts in unwrapped PSNs ("seq", a plain growing int); only the codec's edge wraps and
unwraps them, so no comparison elsewhere has to think of serial arithmetic.
"""

from typing import Final

PSN_BITS: Final = 24
PSN_MASK: Final = (1 << PSN_BITS) - 1
_HALF: Final = 1 << (PSN_BITS - 1)


def wrap(seq: int) -> int:
    """The 24 bits that go on the wire."""
    return seq & PSN_MASK


def unwrap(psn: int, reference: int) -> int:
    """The seq nearest to `reference` whose low 24 bits are `psn`; may be negative right after the start of a QP."""
    return reference + ((psn - reference + _HALF) & PSN_MASK) - _HALF


def unwrap_bits(value: int, reference: int, bits: int) -> int:
    """As `unwrap` for a counter of another width, e.g. 16-bit message numbers and 24-bit byte counts."""
    half = 1 << (bits - 1)
    return reference + ((value - reference + half) & ((1 << bits) - 1)) - half
