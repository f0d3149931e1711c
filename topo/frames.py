"""A frame as a NIC puts it together: Ethernet, IPv6 to micro-SIDs, IPv6, UDP. The data path packs its own at once."""

import struct

from mrclab.topo.numbers import HOP_LIMIT

ETHERNET_BYTES, IPV6_BYTES, UDP_BYTES = 14, 40, 8
PAYLOAD_AT = ETHERNET_BYTES + 2 * IPV6_BYTES + UDP_BYTES
"""Offset of UDP's payload."""

ETHERTYPE_IPV6 = 0x86DD
IPV6_IN_IPV6, UDP = 41, 17  # next headers


def srv6_frame(
    macs: bytes, outer: bytes, inner: bytes, ports: tuple[int, int], payload: bytes, traffic_class: int, label: int = 0
) -> bytes:
    """Return a frame: MAC addresses (destination first), addresses of both IPv6 headers (source first), UDP's ports.

    Both IPv6 headers have the same traffic class and flow label. UDP has no checksum.
    """
    datagram = struct.pack("!HHHH", *ports, UDP_BYTES + len(payload), 0) + payload
    first = 6 << 28 | traffic_class << 20 | label
    packet = struct.pack("!IHBB", first, len(datagram), UDP, HOP_LIMIT) + inner + datagram
    head = struct.pack("!IHBB", first, len(packet), IPV6_IN_IPV6, HOP_LIMIT)
    return macs + ETHERTYPE_IPV6.to_bytes(2, "big") + head + outer + packet
