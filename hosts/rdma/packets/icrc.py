"""Invariant CRC of RoCEv2 over IPv6 (InfiniBand annex A17): CRC-32 of the inner packet with every field that a router
may change set to ones.

Covered: eight bytes 0xff in place of the missing LRH, IPv6 header (traffic class, flow label and hop limit as
ones), UDP (checksum as ones), BTH (its fifth byte as ones), everything up to the pad. The value goes out least
significant byte first.

CRC-32 is affine: flipping given bits changes the result by a value that depends only on how many bytes follow them.
So the packet is never copied to mask it: the checksum runs over the real bytes, and one cached XOR accounts for the
three bytes that should have been ones.
"""

from functools import lru_cache
from typing import Final
from zlib import crc32

_ONES_LRH: Final = b"\xff" * 8
_MASKED_FIRST_WORD: Final = b"\x6f\xff\xff\xff"  # version 6; traffic class and flow label as ones
_NEXT_UDP: Final = b"\x11"
_KNOWN_LIMIT: Final = 4096  # (sender, length) pairs
_UDP_LEN: Final = 8
_BTH_LEN: Final = 12
_UDP_CHECKSUM_AT: Final = 6
_BTH_RESERVED_AT: Final = _UDP_LEN + 4


@lru_cache(maxsize=4096)
def ipv6_prefix(length_and_next: bytes, addresses: bytes) -> int:
    """CRC state after the masked IPv6 header with this payload length, next header and pair of addresses."""
    return crc32(_ONES_LRH + _MASKED_FIRST_WORD + length_and_next + b"\xff" + addresses)


@lru_cache(maxsize=16384)
def mask_correction(length: int) -> int:
    """XOR that turns the CRC over `length` bytes from UDP on with zeros in the masked fields into that with ones."""
    masked = bytearray(length)
    plain = crc32(masked)
    masked[_UDP_CHECKSUM_AT : _UDP_CHECKSUM_AT + 2] = b"\xff\xff"
    masked[_BTH_RESERVED_AT] = 0xFF
    return crc32(masked) ^ plain


class Verifier:
    """Checks packets that one host receives. What depends only on sender and length is kept."""

    __slots__ = ("_destination", "_known")

    def __init__(self, destination: bytes) -> None:
        self._destination = destination
        self._known: dict[tuple[bytes, int], tuple[int, int]] = {}

    def verify(self, packet: memoryview, udp_at: int, udp_len: int, source: bytes) -> bool:
        """Return True if the last four bytes of the UDP datagram at `udp_at` are the ICRC of the inner packet."""
        end = udp_at + udp_len - 4
        prefix, correction = self.constants(source, udp_len)
        if (
            packet[udp_at + _UDP_CHECKSUM_AT]
            or packet[udp_at + _UDP_CHECKSUM_AT + 1]
            or packet[udp_at + _BTH_RESERVED_AT]
        ):
            state = _crc_of_masked(packet[udp_at:end], prefix)
        else:
            state = crc32(packet[udp_at:end], prefix)
        return state ^ correction == int.from_bytes(packet[end : end + 4], "little")

    def constants(self, source: bytes, udp_len: int) -> tuple[int, int]:
        """Return CRC state before UDP and final correction of all datagrams of this length from this sender."""
        return self._known.get((source, udp_len)) or self._learn(source, udp_len)

    def _learn(self, source: bytes, udp_len: int) -> tuple[int, int]:
        if len(self._known) >= _KNOWN_LIMIT:
            self._known.clear()
        prefix = ipv6_prefix(udp_len.to_bytes(2, "big") + _NEXT_UDP, source + self._destination)
        known = self._known[source, udp_len] = (prefix, mask_correction(udp_len - 4))
        return known


def _crc_of_masked(covered: memoryview, prefix: int) -> int:
    """Compute slowly, for packets whose masked fields are not zero: count them as zero."""
    head = bytearray(covered[: _UDP_LEN + _BTH_LEN])
    head[_UDP_CHECKSUM_AT : _UDP_CHECKSUM_AT + 2] = b"\0\0"
    head[_BTH_RESERVED_AT] = 0
    return crc32(covered[_UDP_LEN + _BTH_LEN :], crc32(head, prefix))
