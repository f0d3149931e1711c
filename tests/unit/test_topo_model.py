import itertools
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrclab.topo import srv6
from mrclab.topo.model import MAX_INTERFACE_NAME, Fabric, UnknownName, mac_bytes
from mrclab.topo.spec import load

specs = st.fixed_dictionaries(
    {
        "planes": st.integers(1, 15),
        "t0s": st.integers(1, 5),
        "t1s": st.integers(1, 5),
        "hosts_per_t0": st.integers(1, 5),
    }
).map(load)


def ports_of(fabric):
    return list(chain.from_iterable(node.ports for node in (*fabric.switches, *fabric.hosts)))


@pytest.fixture(scope="module")
def demo():
    return Fabric(load({}))


@given(specs)
def test_names_macs_addresses_and_device_ids_are_unique(spec):
    fabric = Fabric(spec)
    ports = ports_of(fabric)
    assert len({port.interface for port in ports}) == len(ports)
    assert len({port.mac for port in ports}) == len(ports)
    assert all(len(port.interface) <= MAX_INTERFACE_NAME for port in ports)
    assert len({host.address for host in fabric.hosts}) == len(fabric.hosts)
    assert [switch.device_id for switch in fabric.switches] == list(range(1, len(fabric.switches) + 1))
    assert len({link.name for link in fabric.links}) == len(fabric.links)
    assert [link.index for link in fabric.links] == list(range(len(fabric.links)))


@given(specs)
def test_usids_are_unique_where_they_have_to_be(spec):
    fabric = Fabric(spec)
    assert len({switch.usid for switch in fabric.switches}) == len(fabric.switches)
    for switch in fabric.switches:
        assert len({port.usid for port in switch.ports} | {switch.usid}) == len(switch.ports) + 1


@given(specs)
def test_every_port_has_one_cable_and_both_ends_agree(spec):
    fabric = Fabric(spec)
    ends = list(chain.from_iterable(link.ends for link in fabric.links))
    assert sorted(end.interface for end in ends) == sorted(port.interface for port in ports_of(fabric))
    for port in ports_of(fabric):
        link = fabric.link(port.link)
        mine, peer = link.ends if link.a.interface == port.interface else link.ends[::-1]
        assert (mine.number, mine.mac) == (port.number, port.mac)
        assert peer == port.peer


@given(specs, st.data())
def test_an_outer_address_names_the_switches_of_the_path_it_takes(spec, data):
    fabric = Fabric(spec)
    source, destination = (data.draw(st.sampled_from(fabric.hosts)) for _ in "ab")
    plane, uplink = data.draw(st.sampled_from(fabric.paths(source.name, destination.name)))
    address = fabric.outer_address(source.name, destination.name, srv6.ev(plane, uplink, 0x8001))
    at = source.port(plane).peer.node
    taken = [source.port(plane).link]
    for _ in range(fabric.links_between(source.name, destination.name) - 1):
        switch = fabric.switch(at)
        assert address >> 80 == srv6.usid_route(switch.usid)
        address = srv6.shift_usid(address)
        (out,) = [port for port in switch.ports if srv6.usid_route(port.usid) == address >> 80]
        taken.append(out.link)
        at = out.peer.node
    assert at == destination.name
    assert taken == [link.name for link in fabric.path_links(source.name, destination.name, plane, uplink)]


def test_the_demo_fabric_as_written_down(demo):
    assert (len(demo.switches), len(demo.hosts), len(demo.links)) == (16, 4, 32)
    assert [switch.name for switch in demo.switches[:5]] == ["t0-p1-1", "t0-p1-2", "t1-p1-1", "t1-p1-2", "t0-p2-1"]
    h3 = demo.host("h3")
    assert (h3.group, h3.downlink, h3.address, h3.port(2).mac) == (2, 1, "fdcb:bb00:0:2::1", "02:0c:02:00:03:01")
    t0 = demo.switch("t0-p1-2")
    assert [port.peer.interface for port in t0.ports] == ["h3-p1", "h4-p1", "t1-p1-1-2", "t1-p1-2-2"]
    assert (f"{t0.usid:#x}", t0.port(3).mac) == ("0x2102", "02:0a:01:02:00:03")
    assert demo.base_rtt("h1", "h3") == pytest.approx(0.016)
    assert demo.base_rtt("h1", "h2") == pytest.approx(0.008)
    assert demo.paths("h1", "h2") == [(1, 0), (2, 0), (3, 0), (4, 0)]
    assert len(demo.paths("h1", "h4")) == 8


def test_mac_of_a_port_beyond_255_uses_two_octets():
    fabric = Fabric(load({"planes": 1, "t0s": 1, "t1s": 200, "hosts_per_t0": 100}))
    assert mac_bytes(fabric.switch("t0-p1-1").port(300).mac).hex() == "020a0101012c"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("h1-p1/t0-p1-1", "h1-p1/t0-p1-1"),
        ("t0-p1-1/h1-p1", "h1-p1/t0-p1-1"),
        ("h1-p3", "h1-p3/t0-p3-1"),
        ("h1 3", "h1-p3/t0-p3-1"),
        ("3/h1", "h1-p3/t0-p3-1"),
        ("H1 plane3", "h1-p3/t0-p3-1"),
        ("h1/t0-p3-1", "h1-p3/t0-p3-1"),
        ("t1-p1-2 <-> t0-p1-1", "t0-p1-1/t1-p1-2"),
        ("t0-p1-1, t1-p1-2", "t0-p1-1/t1-p1-2"),
        ("t0-p1-1-4", "t0-p1-1/t1-p1-2"),
        ("t1-p1-2-1", "t0-p1-1/t1-p1-2"),
    ],
)
def test_cables_are_found_by_what_people_write(demo, text, name):
    assert demo.link(text).name == name


@pytest.mark.parametrize("text", ["h1", "h9-p1", "h1 7", "t0-p1-1", "t0-p1-1/t1-p2-1", "", "t0-p1-1/t0-p1-1", "a/b/c"])
def test_cables_that_do_not_exist_are_refused_with_a_valid_name(demo, text):
    with pytest.raises(UnknownName) as caught:
        demo.link(text)
    assert repr(text) in str(caught.value)
    assert caught.value.nearest is None or demo.link(caught.value.nearest)


def test_two_words_find_a_cable_exactly_where_each_names_another_end_of_it():
    small = Fabric(load({"planes": 2, "t0s": 2, "t1s": 1, "hosts_per_t0": 1}))

    def expected(first, second):
        for link in small.links:
            a, b = ({end.node, end.interface} for end in link.ends)
            if (first in a and second in b) or (first in b and second in a):
                return link.name
        return None

    names = sorted({word for link in small.links for end in link.ends for word in (end.node, end.interface)})
    for first, second in itertools.product(names, names):
        try:
            found = small.link(f"{first} {second}").name
        except UnknownName:
            found = None
        assert found == expected(first, second), (first, second)


def test_near_misses_are_offered(demo):
    with pytest.raises(UnknownName, match=r"no switch is called 't0-p1-3'; there are 't0-p1-1' to 't0-p4-2'"):
        demo.switch("t0-p1-3")
    with pytest.raises(UnknownName, match="no host is called 'h44'; there are 'h1' to 'h4'"):
        demo.host("h44")
    with pytest.raises(UnknownName, match="no node is called"):
        demo.node("x")
    with pytest.raises(UnknownName, match="no port is called 'h1-p5'"):
        demo.host("h1").port(5)
    assert demo.host_by_address("fdcb:bb00:0:2::1").name == "h3"


def test_a_path_that_does_not_exist_is_refused(demo):
    with pytest.raises(UnknownName, match="h1 to h2 by plane 1, uplink 1"):
        demo.path_links("h1", "h2", 1, 1)
