"""The hash algorithms of behavioral-model (calculations.cpp), over bytes; results are unsigned integers."""

from __future__ import annotations

import binascii
import zlib
from collections.abc import Callable

Hash = Callable[[bytes], int]


def _reflect(value: int, width: int) -> int:
    return int(f"{value:0{width}b}"[::-1], 2)


def crc_table(polynomial: int, width: int) -> list[int]:
    """Return the table of a CRC that shifts to the left."""
    top, mask = 1 << (width - 1), (1 << width) - 1
    table = []
    for dividend in range(256):
        remainder = dividend << (width - 8)
        for _ in range(8):
            remainder = (remainder << 1 ^ polynomial if remainder & top else remainder << 1) & mask
        table.append(remainder)
    return table


def crc(polynomial: int, width: int, start: int, final: int, reflected: bool) -> Hash:
    """Return a CRC function. Reflected ones run on the mirrored table, which gives the same result byte by byte."""
    mask = (1 << width) - 1
    if not reflected:
        table = crc_table(polynomial, width)
        shift = width - 8

        def straight(data: bytes) -> int:
            remainder = start
            for byte in data:
                remainder = (remainder << 8 & mask) ^ table[byte ^ remainder >> shift]
            return remainder ^ final

        return straight
    plain = crc_table(polynomial, width)
    mirrored = [_reflect(plain[_reflect(byte, 8)], width) for byte in range(256)]
    first = _reflect(start, width)

    def mirror(data: bytes) -> int:
        remainder = first
        for byte in data:
            remainder = remainder >> 8 ^ mirrored[(remainder ^ byte) & 0xFF]
        return remainder ^ final

    return mirror


def csum16(data: bytes) -> int:
    """Return the Internet checksum (RFC 1071) of `data`, an odd last byte padded with zero."""
    if len(data) & 1:
        data = bytes(data) + b"\0"
    total = int.from_bytes(data, "big") % 0xFFFF
    if total == 0 and any(data):
        total = 0xFFFF
    return total ^ 0xFFFF


def identity(data: bytes) -> int:
    """Return the first 8 bytes as a number."""
    return int.from_bytes(data[:8], "big")


def xor(width: int) -> Hash:
    """Return the function that folds the input by exclusive or, the last word padded with zero behind."""
    size = width // 8

    def fold(data: bytes) -> int:
        result = 0
        for start in range(0, len(data), size):
            result ^= int.from_bytes(bytes(data[start : start + size]).ljust(size, b"\0"), "big")
        return result

    return fold


def round_robin() -> Hash:
    """Return a function that counts its calls."""
    calls = iter(range(1 << 62))
    return lambda _data: next(calls)


def round_robin_consistent() -> Hash:
    """Return a function that numbers different inputs in the order they first come."""
    seen: dict[bytes, int] = {}
    return lambda data: seen.setdefault(bytes(data), len(seen))


_P64 = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
_M64 = (1 << 64) - 1


def _rotate(value: int, count: int) -> int:
    return (value << count | value >> (64 - count)) & _M64


def _round(total: int, lane: int) -> int:
    return _rotate((total + lane * _P64[1]) & _M64, 31) * _P64[0] & _M64


def xxh64(data: bytes) -> int:
    """Return the XXH64 hash with seed 0 (specification: xxHash, doc/xxhash_spec.md)."""
    length, position = len(data), 0
    if length >= 32:
        sums = [(_P64[0] + _P64[1]) & _M64, _P64[1], 0, -_P64[0] & _M64]
        while position + 32 <= length:
            for lane in range(4):
                sums[lane] = _round(sums[lane], int.from_bytes(data[position : position + 8], "little"))
                position += 8
        result = sum(_rotate(total, count) for total, count in zip(sums, (1, 7, 12, 18), strict=True)) & _M64
        for total in sums:
            result = ((result ^ _round(0, total)) * _P64[0] + _P64[3]) & _M64
    else:
        result = _P64[4]
    return _xxh64_tail((result + length) & _M64, data, position)


def _xxh64_tail(result: int, data: bytes, position: int) -> int:
    length = len(data)
    while position + 8 <= length:
        result ^= _round(0, int.from_bytes(data[position : position + 8], "little"))
        result = (_rotate(result, 27) * _P64[0] + _P64[3]) & _M64
        position += 8
    if position + 4 <= length:
        result ^= int.from_bytes(data[position : position + 4], "little") * _P64[0] & _M64
        result = (_rotate(result, 23) * _P64[1] + _P64[2]) & _M64
        position += 4
    for byte in data[position:]:
        result = _rotate(result ^ byte * _P64[4] & _M64, 11) * _P64[0] & _M64
    for shift, factor in ((33, _P64[1]), (29, _P64[2]), (32, 1)):
        result = (result ^ result >> shift) * factor & _M64
    return result


ALGORITHMS: dict[str, tuple[int, Callable[[], Hash]]] = {
    "crc8_custom": (8, lambda: crc(0x07, 8, 0, 0, reflected=False)),
    "crc16": (16, lambda: crc(0x8005, 16, 0, 0, reflected=True)),
    "crc16_custom": (16, lambda: crc(0x8005, 16, 0, 0, reflected=True)),
    "crcCCITT": (16, lambda: lambda data: binascii.crc_hqx(data, 0xFFFF)),
    "crc32": (32, lambda: zlib.crc32),
    "crc32_custom": (32, lambda: zlib.crc32),
    "crc64_custom": (64, lambda: crc(0x1B, 64, 0, 0, reflected=True)),
    "csum16": (16, lambda: csum16),
    "cksum16": (16, lambda: csum16),
    "identity": (64, lambda: identity),
    "xor16": (16, lambda: xor(16)),
    "xor32": (32, lambda: xor(32)),
    "xxh64": (64, lambda: xxh64),
    "toeplitz": (32, lambda: lambda _data: 0),  # its key is zero until a target-specific call sets one
    "round_robin": (64, round_robin),
    "round_robin_consistent": (64, round_robin_consistent),
}
"""By name: bits of the result, and maker."""


def make(algorithm: str) -> Hash:
    """Return a new instance of a hash algorithm (some keep state)."""
    return ALGORITHMS[algorithm][1]()
