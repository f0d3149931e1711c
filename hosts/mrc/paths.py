"""From (peer, EV) to the first 102 bytes of a frame: Ethernet, outer IPv6 with the uSID list, inner IPv6, UDP.

A path's bytes are fixed but for traffic class and lengths, so they are built once per (traffic class, length) and
kept.
"""

from __future__ import annotations

from typing import Final, NamedTuple
from zlib import crc32

from hosts.mrc import headers as h
from hosts.mrc import icrc
from topo import srv6

_CACHE_LIMIT: Final = 64
_PADDING: Final = (b"", b"\0\0\0", b"\0\0", b"\0")  # by payload length modulo 4


class Frame(NamedTuple):
    """One frame to send, in up to three pieces for sendmsg."""

    header: bytes
    payload: memoryview | None
    trailer: bytes  # pad and ICRC
    wire_len: int  # bytes of the whole Ethernet frame, without FCS


_new = tuple.__new__  # a third of the time of the constructor that NamedTuple makes


class Path:
    """One EV towards one peer, as bytes."""

    __slots__ = (
        "_addresses",
        "_cache",
        "_flow",
        "_macs",
        "_sport",
        "destination",
        "plane",
        "port",
        "source",
        "uplink",
        "value",
    )

    def __init__(self, value: int, port: int, macs: bytes, template: int, source: int, destination: int) -> None:
        self.value = value
        self.plane, self.uplink, _ = srv6.ev_fields(value)
        self.port = port
        self.source = srv6.to_bytes(source)
        self._macs = macs  # destination and source
        self.destination = srv6.address(template, value)  # of the outer header
        self._addresses = self.source + srv6.to_bytes(destination)
        self._sport, self._flow = srv6.ev_to_wire(value)
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
        trailer = pad + (state ^ correction).to_bytes(4, "little")
        return _new(Frame, (prefix + body, payload, trailer, h.UDP_AT + udp_len))

    def _build(self, traffic_class: int, udp_len: int) -> tuple[bytes, int, int]:
        """The 102 bytes up to and with UDP, the ICRC state behind them, and the correction for the masked fields."""
        word = 6 << 28 | traffic_class << 20 | self._flow
        inner = h.IPV6.pack(word, udp_len, h.NEXT_UDP, h.HOP_LIMIT, self._addresses[:16], self._addresses[16:])
        outer = h.IPV6.pack(word, udp_len + 40, h.NEXT_IPV6, h.HOP_LIMIT, self.source, srv6.to_bytes(self.destination))
        udp = h.UDP.pack(self._sport, h.UDP_PORT, udp_len, 0)
        state = crc32(udp, icrc.ipv6_prefix(inner[4:7], inner[8:]))
        prefix = self._macs + h.ETHERTYPE_IPV6.to_bytes(2, "big") + outer + inner + udp
        if len(self._cache) >= _CACHE_LIMIT:
            self._cache.clear()
        made = self._cache[traffic_class << 16 | udp_len] = (prefix, state, icrc.mask_correction(udp_len - 4))
        return made
