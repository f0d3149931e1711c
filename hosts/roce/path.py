"""The way of one QP's packets, as bytes: Ethernet, IPv6 and UDP, the same for all of them but for class and length."""

from __future__ import annotations

from typing import Final
from zlib import crc32

from hosts.mrc import icrc
from hosts.mrc.paths import Frame
from hosts.roce import headers as h

_CACHE_LIMIT: Final = 64
_PADDING: Final = (b"", b"\0\0\0", b"\0\0", b"\0")  # by payload length modulo 4


class PlainPath:
    """One 5-tuple out of one NIC port. ECMP in the switches makes it one path."""

    __slots__ = ("_addresses", "_cache", "_macs", "sport")

    def __init__(self, macs: bytes, source: bytes, destination: bytes, sport: int) -> None:
        self._macs = macs  # destination and source
        self._addresses = source + destination
        self.sport = sport
        self._cache: dict[int, tuple[bytes, int, int]] = {}  # by traffic class and UDP length

    def frame(self, traffic_class: int, body: bytes, payload: memoryview | None = None) -> Frame:
        """A whole frame: `body` is BTH and what follows up to the payload; BTH's pad count must already be right."""
        size = len(payload) if payload is not None else 0
        pad = _PADDING[size & 3]
        udp_len = len(body) + size + len(pad) + 12  # and UDP header and ICRC
        found = self._cache.get(traffic_class << 16 | udp_len)
        prefix, state, correction = found or self._build(traffic_class, udp_len)
        state = crc32(body, state)
        if payload is not None:
            state = crc32(payload, state)
        if pad:
            state = crc32(pad, state)
        return Frame(prefix + body, payload, pad + (state ^ correction).to_bytes(4, "little"), h.UDP_AT + udp_len)

    def _build(self, traffic_class: int, udp_len: int) -> tuple[bytes, int, int]:
        """The 62 bytes up to and with UDP, the ICRC state behind them, and the correction for the masked fields."""
        word = 6 << 28 | traffic_class << 20
        ipv6 = h.IPV6.pack(word, udp_len, h.NEXT_UDP, h.HOP_LIMIT, self._addresses[:16], self._addresses[16:])
        udp = h.UDP.pack(self.sport, h.UDP_PORT, udp_len, 0)
        state = crc32(udp, icrc.ipv6_prefix(ipv6[4:7], ipv6[8:]))
        if len(self._cache) >= _CACHE_LIMIT:
            self._cache.clear()
        prefix = self._macs + h.ETHERTYPE_IPV6.to_bytes(2, "big") + ipv6 + udp
        made = self._cache[traffic_class << 16 | udp_len] = (prefix, state, icrc.mask_correction(udp_len - 4))
        return made
