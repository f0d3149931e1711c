"""Frames of one path: the bytes before BTH, and the ICRC behind the payload.

The bytes of one path are fixed except traffic class and lengths, so they are built once per (traffic class, length)
and kept, with the ICRC state behind them.
"""

from __future__ import annotations

from typing import Final, NamedTuple
from zlib import crc32

from mrclab.hosts.nic.interface import Frame as Frame  # noqa: PLC0414 - for importers of this module
from mrclab.hosts.rdma.packets import icrc
from mrclab.topo.config.nodeconfig import NicPortConfig

_CACHE_LIMIT: Final = 64
_PADDING: Final = (b"", b"\0\0\0", b"\0\0", b"\0")  # by payload length modulo 4
_IPV6_LEN: Final = 40
_UDP_LEN: Final = 8


class WireFrame(NamedTuple):
    """One frame to send, in up to three pieces for sendmsg."""

    header: bytes
    payload: memoryview | None
    trailer: bytes  # pad and ICRC
    wire_len: int  # bytes of the whole Ethernet frame, without FCS


_new = tuple.__new__  # a third of the time of the constructor that NamedTuple makes


_NOTHING_YET: Final[dict[int, tuple[bytes, int, int, int]]] = {}  # stays empty: paths of virtual time hold no bytes


class Route:
    """A path and its frames. A subclass provides the bytes before BTH, of which the last are IPv6 and UDP."""

    __slots__ = ("_cache",)

    def __init__(self) -> None:
        # by traffic class and UDP length: bytes before BTH, ICRC state behind them, correction, length of the frame
        self._cache: dict[int, tuple[bytes, int, int, int]] = _NOTHING_YET

    def frame(self, traffic_class: int, body: bytes, payload: memoryview | None = None) -> Frame:
        """A whole frame: `body` is BTH and further headers up to the payload; BTH's pad count must already be right."""
        size = len(payload) if payload is not None else 0
        pad = _PADDING[size & 3]
        udp_len = len(body) + size + len(pad) + 12  # and UDP header and ICRC
        found = self._cache.get(traffic_class << 16 | udp_len)
        prefix, state, correction, wire_len = found or self._learn(traffic_class, udp_len)
        state = crc32(body, state)
        if payload is not None:
            state = crc32(payload, state)
        if pad:
            state = crc32(pad, state)
        trailer = pad + (state ^ correction).to_bytes(4, "little")
        return _new(WireFrame, (prefix + body, payload, trailer, wire_len))

    def _prefix(self, traffic_class: int, udp_len: int) -> bytes:
        """The bytes before BTH of packets of this class and length, with a UDP checksum of zero."""
        raise NotImplementedError

    def _learn(self, traffic_class: int, udp_len: int) -> tuple[bytes, int, int, int]:
        prefix = self._prefix(traffic_class, udp_len)
        ipv6, udp = prefix[-_IPV6_LEN - _UDP_LEN : -_UDP_LEN], prefix[-_UDP_LEN:]
        state = crc32(udp, icrc.ipv6_prefix(ipv6[4:7], ipv6[8:]))
        if self._cache is _NOTHING_YET:
            self._cache = {}
        if len(self._cache) >= _CACHE_LIMIT:
            self._cache.clear()
        made = (prefix, state, icrc.mask_correction(udp_len - 4), len(prefix) - _UDP_LEN + udp_len)
        self._cache[traffic_class << 16 | udp_len] = made
        return made


def cable_macs(port: NicPortConfig) -> bytes:
    """Destination and source MAC, twelve bytes, of frames sent by a NIC port."""
    return bytes.fromhex((port.peer_mac + port.mac).replace(":", ""))
