"""A frame of background traffic, as a NIC would send it. Pure."""

from mrclab.topo import srv6
from mrclab.topo.frames import PAYLOAD_AT, srv6_frame
from mrclab.topo.model import Fabric, mac_bytes
from mrclab.topo.numbers import Dscp

DISCARD_PORT = 9  # UDP, RFC 863: no transport of the lab listens there
NUMBER_AT = PAYLOAD_AT
"""Place at which a sender may number its frames."""

_ECT0 = 2
_TRANSPORT_BYTES = 40  # BTH, METH, TSETH, RETH, ICRC of a full data packet: for the same serialization delay


def packet(fabric: Fabric, source: str, destination: str, path: tuple[int, int], size: int) -> bytes:
    """A frame as the NIC sends it: SRv6 along the path, ECN-capable data that is not to be trimmed, port discard."""
    sender, receiver = fabric.host(source), fabric.host(destination)
    port = sender.port(path[0])
    entropy = srv6.ev(*path, srv6.TAG_FLAG)
    udp_port, label = srv6.ev_to_wire(entropy)
    own, peer = (srv6.to_bytes(srv6.from_text(host.address)) for host in (sender, receiver))
    outer = own + srv6.to_bytes(fabric.outer_address(source, destination, entropy))
    macs, payload = mac_bytes(port.peer.mac) + mac_bytes(port.mac), bytes(size + _TRANSPORT_BYTES)
    return srv6_frame(macs, outer, own + peer, (udp_port, DISCARD_PORT), payload, Dscp.NO_TRIM << 2 | _ECT0, label)
