"""Frames that one host sends in another's name: Port Status Updates which say that none of its ports is up.

Facts: docs/mrc-protocol.md §1.4.4. The frame is whole (addresses, ICRC), as a host inside the fabric can make it that
knows two addresses.
"""

import random
import socket
from pathlib import Path

from mrclab.hosts.mrc.endpoint import MrcEndpoint
from mrclab.hosts.mrc.packets import headers as h
from mrclab.topo import srv6
from mrclab.topo.config import nodeconfig

_ETH_P_IPV6 = 0x86DD


def update(run_dir: Path, sender: str, name: str, victim: str, plane: int, mask: int, request_id: int) -> bytes:
    """A Port Status Update to `victim` in the name of the host `name`, as `sender` puts it on its port of a plane.

    `run_dir` holds the hosts' node configs.
    """
    own, theirs, whose = (nodeconfig.load(run_dir / "node" / f"{host}.json") for host in (sender, name, victim))
    lie = own.model_copy(update={"host": own.host.model_copy(update={"address": theirs.host.address})})
    endpoint = MrcEndpoint(lie, random.Random(1), lambda _record: None)
    peer = endpoint.peers.find(srv6.to_bytes(srv6.from_text(whose.host.address)))
    if peer is None:
        raise ValueError(f"{sender} has no template that leads to {victim}")
    content = h.EndpointRequest(h.EndpointOp.PORT_STATUS_UPDATE, mask, 1)
    path = peer.control_path(plane, peer.uplinks(plane)[0])
    frame = path.packet(h.TC_CONTROL, h.MrcOpcode.ENDPOINT_REQUEST, h.ENDPOINT_QPN, request_id, content)
    return bytes(frame.header) + bytes(frame.payload or b"") + bytes(frame.trailer)


def send(interface: str, frames: list[bytes]) -> None:
    """Send frames by a network interface of this namespace."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as opened:
        opened.bind((interface, _ETH_P_IPV6))
        for frame in frames:
            opened.send(frame)
