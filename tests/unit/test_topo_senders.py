"""Packets of background traffic: as long and of the same class as data, along the path that was asked for."""

import pytest

from mrclab.topo import srv6
from mrclab.topo.cables.background import DISCARD_PORT, packet
from mrclab.topo.model import Fabric
from mrclab.topo.numbers import FULL_HEADER_BYTES, HOP_LIMIT
from mrclab.topo.spec import load

FABRIC = Fabric(load({"planes": 2, "t0s": 2, "t1s": 2, "hosts_per_t0": 2}))


@pytest.mark.parametrize(("destination", "path"), [("h3", (2, 1)), ("h2", (1, 0))])
def test_a_frame_follows_its_path_and_is_as_long_as_a_full_data_packet(destination, path):
    frame = packet(FABRIC, "h1", destination, path, FABRIC.spec.path_mtu)
    assert len(frame) == FULL_HEADER_BYTES + FABRIC.spec.path_mtu
    outer, inner, udp = frame[14:54], frame[54:94], frame[94:102]
    address = srv6.from_bytes(outer[24:])
    assert address == FABRIC.outer_address("h1", destination, srv6.ev(*path, srv6.TAG_FLAG))
    assert srv6.from_bytes(inner[24:]) == srv6.from_text(FABRIC.host(destination).address)
    assert int.from_bytes(udp[2:4], "big") == DISCARD_PORT
    for header, length in ((outer, len(frame) - 54), (inner, len(frame) - 94)):
        assert int.from_bytes(header[4:6], "big") == length
        assert header[7] == HOP_LIMIT
        assert (int.from_bytes(header[:4], "big") >> 20) & 0xFF == 2  # data that is not to be trimmed, ECN-capable
