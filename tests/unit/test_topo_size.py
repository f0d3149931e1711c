"""The fabric of arXiv 2605.04333 §2: 8 planes of 512 T0s and 256 T1s, 256 NICs on each T0."""

import tracemalloc

import pytest

from mrclab.topo.model import Fabric, UnknownName, mac_bytes
from mrclab.topo.spec import load

PAPER = {"planes": 8, "t0s": 512, "t1s": 256, "hosts_per_t0": 256}


@pytest.fixture(scope="module")
def paper():
    return Fabric(load(PAPER))


def test_the_papers_fabric_has_its_counts_and_no_part_of_it_is_made_unasked():
    tracemalloc.start()
    try:
        fabric = Fabric(load(PAPER))
        counts = len(fabric.hosts), len(fabric.switches), len(fabric.links)
        fabric.host("h131072"), fabric.switch("t1-p8-256"), fabric.link("t0-p8-512/t1-p8-256")
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert counts == (131_072, 8 * (512 + 256), 8 * 512 * (256 + 256))
    assert most < 1 << 20


def test_the_last_of_everything_is_found_by_name_and_number(paper):
    host = paper.host("h131072")
    assert (host.group, host.downlink, host.address) == (512, 256, "fdcb:bb00:0:200::100")
    assert paper.host_by_address(host.address) == host == paper.hosts[-1]
    t1 = paper.switch("t1-p8-256")
    assert t1 == paper.switches[-1]
    assert (t1.device_id, t1.usid, len(t1.ports)) == (6144, 0x5800, 512)
    link = paper.link("t1-p8-256-512")
    assert (
        link
        == paper.links[-1]
        == paper.link("t0-p8-512/t1-p8-256")
        == paper.link(paper.switch("t0-p8-512").port(512).link)
    )
    assert paper.links[paper.shape.link_of_nic(131_072, 8)].name == "h131072-p8/t0-p8-512"
    assert len(paper.path_links("h1", "h131072", 8, 256)) == 4


def test_every_link_has_the_index_that_its_place_says(paper):
    for index in (0, 7, 8, 1_048_575, 1_048_576, 1_048_831, 1_048_832, 2_097_151):
        link = paper.links[index]
        assert link.index == index
        assert paper.link(link.name) == paper.link(link.a.interface) == paper.link(link.b.interface) == link


def test_macs_differ_where_numbers_pass_eight_and_sixteen_bits(paper):
    hosts = [paper.host(f"h{number}") for number in (1, 256, 257, 65_536, 65_537, 131_072)]
    switches = [paper.switch(f"t0-p{plane}-{number}") for plane in (1, 8) for number in (1, 255, 256, 257, 512)]
    macs = {mac_bytes(port.mac) for host in hosts for port in host.ports}
    macs |= {mac_bytes(switch.port(port).mac) for switch in switches for port in (1, 256, 512)}
    assert len(macs) == 6 * 8 + 10 * 3


@pytest.mark.parametrize(
    ("look", "name", "near"),
    [
        ("host", "h131073", "h131072"),
        ("switch", "t0-p8-513", "t0-p8-512"),
        ("link", "h131072-p9", "h131072-p8"),
        ("link", "t0-p8-512/t1-p8-257", "t0-p8-512/t1-p8-256"),
        ("node", "h0", "h1"),
    ],
)
def test_what_does_not_exist_is_refused_at_once_with_a_name_near_it(paper, look, name, near):
    with pytest.raises(UnknownName, match=f"did you mean '{near}'"):
        getattr(paper, look)(name)


def test_the_wire_says_which_field_gives_its_switches_more_ports_than_p4_numbers(paper):
    assert "hosts_per_t0 256 and t1s 256 together exceed the 509 ports of a T0" in paper.spec.beyond_p4
    assert "t0s 510 exceed the 509 ports of a T1" in load({"t0s": 510, "t1s": 1, "hosts_per_t0": 1}).beyond_p4
    assert not load({"t0s": 509, "t1s": 254, "hosts_per_t0": 255}).beyond_p4
