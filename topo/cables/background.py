"""A frame of background traffic, as a NIC would send it. Pure."""

import struct

from mrclab.topo import srv6
from mrclab.topo.model import Fabric, mac_bytes
from mrclab.topo.numbers import HOP_LIMIT, Dscp

DISCARD_PORT = 9  # UDP, RFC 863: no transport of the lab listens there
_ECT0 = 2
_IPV6, _UDP = 41, 17
_UDP_BYTES, _IPV6_BYTES, _ETHERNET_BYTES = 8, 40, 14
_TRANSPORT_BYTES = 40  # BTH, METH, TSETH, RETH, ICRC of a full data packet: for the same serialization delay

NUMBER_AT = _ETHERNET_BYTES + 2 * _IPV6_BYTES + _UDP_BYTES
"""Places at which a sender may number its frames."""


def packet(fabric: Fabric, source: str, destination: str, path: tuple[int, int], size: int) -> bytes:
    """A frame as the NIC sends it: SRv6 along the path, ECN-capable data that is not to be trimmed, port discard."""
    sender, receiver = fabric.host(source), fabric.host(destination)
    port = sender.port(path[0])
    entropy = srv6.ev(*path, srv6.TAG_FLAG)
    udp_port, label = srv6.ev_to_wire(entropy)
    own, peer = (srv6.to_bytes(srv6.from_text(host.address)) for host in (sender, receiver))
    payload = bytes(size + _TRANSPORT_BYTES)
    udp = struct.pack("!HHHH", udp_port, DISCARD_PORT, _UDP_BYTES + len(payload), 0) + payload
    inner = _ipv6(label, len(udp), _UDP) + own + peer + udp
    outer = srv6.to_bytes(fabric.outer_address(source, destination, entropy))
    ethernet = mac_bytes(port.peer.mac) + mac_bytes(port.mac) + b"\x86\xdd"
    return ethernet + _ipv6(label, len(inner), _IPV6) + own + outer + inner


def _ipv6(label: int, length: int, next_header: int) -> bytes:
    """The first eight bytes of a header."""
    traffic_class = Dscp.NO_TRIM << 2 | _ECT0
    return struct.pack("!IHBB", 6 << 28 | traffic_class << 20 | label, length, next_header, HOP_LIMIT)
