import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrclab.topo import srv6
from mrclab.topo.srv6 import UsidType

planes = st.integers(1, srv6.MAX_PLANE)
indexes = st.integers(1, srv6.MAX_INDEX)
tags = st.integers(0, srv6.MAX_TAG)
evs = st.builds(srv6.ev, planes, st.integers(0, srv6.MAX_INDEX), tags)


def ev_from_wire(udp_source_port, flow_label):
    """The upper four bits of the flow label do not count."""
    return (flow_label & 0xFFFF) << 16 | udp_source_port


@given(st.sampled_from(UsidType), st.integers(0, srv6.MAX_PLANE), st.integers(0, srv6.MAX_INDEX))
def test_usid_round_trip(kind, plane, index):
    assert srv6.usid_fields(srv6.usid(kind, plane, index)) == (kind, plane, index)


@given(evs)
def test_ev_survives_the_wire(ev):
    port, label = srv6.ev_to_wire(ev)
    assert 0 <= port <= 0xFFFF
    assert 0 <= label <= 0xFFFFF
    assert ev_from_wire(port, label) == ev


@given(evs, st.integers(0, 0xF))
def test_upper_bits_of_the_flow_label_do_not_count(ev, noise):
    port, label = srv6.ev_to_wire(ev)
    assert ev_from_wire(port, label | noise << 16) == ev


@given(planes, st.integers(0, srv6.MAX_INDEX), st.integers(0, srv6.MAX_TAG_INDEX))
def test_ev_fields_round_trip_and_tags_avoid_well_known_ports(plane, uplink, index):
    ev = srv6.ev(plane, uplink, srv6.ev_tag(index))
    assert srv6.ev_fields(ev) == (plane, uplink, srv6.ev_tag(index))
    assert srv6.ev_to_wire(ev)[0] >= 0x8000


def test_ev_on_the_wire_is_path_in_flow_label_and_tag_in_source_port():
    assert srv6.ev(2, 5, srv6.ev_tag(7)) == 0x2050_8007
    assert srv6.ev_to_wire(0x2050_8007) == (0x8007, 0x2050)


def test_address_of_a_cross_t1_path_as_written_down():
    template = srv6.template_cross(source_t0=1, destination_t0=2, downlink=3)
    assert srv6.text(template) == "fcbb:bb00:2001:1000:2002:3003::"
    assert srv6.text(srv6.address(template, srv6.ev(4, 9, 0))) == "fcbb:bb00:2401:1409:2402:3403::"


def test_the_largest_path_of_the_paper_as_written_down():
    template = srv6.template_cross(source_t0=511, destination_t0=512, downlink=256)
    address = srv6.address(template, srv6.ev(8, 256, srv6.ev_tag(0)))
    assert srv6.text(address) == "fcbb:bb00:68ff:5800:a800:7800::"
    assert srv6.ev(8, 256, srv6.ev_tag(0)) == 0x8001_8000
    assert srv6.text(srv6.host_address(512, 256)) == "fdcb:bb00:0:200::100"


def test_uplinks_and_planes_of_the_paper_have_values_of_their_own():
    evs = {srv6.ev(plane, uplink, 0) for plane in range(1, 9) for uplink in range(257)}
    usids = {
        srv6.usid(kind, plane, index)
        for kind, most in ((UsidType.T0, 512), (UsidType.T1, 256), (UsidType.DOWNLINK, 256))
        for plane in range(1, 9)
        for index in range(1, most + 1)
    }
    assert len(evs) == 8 * 257
    assert len(usids) == 8 * (512 + 256 + 256)
    assert 0 not in usids


def test_address_inside_a_group_as_written_down():
    template = srv6.template_local(5, 2)
    assert srv6.text(srv6.address(template, srv6.ev(1, 0, 0))) == "fcbb:bb00:2105:3102::"


@given(indexes, indexes, indexes, planes, indexes, tags)
def test_a_packet_finds_its_way_by_shifting(source, destination, downlink, plane, uplink, tag):
    address = srv6.address(srv6.template_cross(source, destination, downlink), srv6.ev(plane, uplink, tag))
    assert srv6.ev_of_address(address, tag) == srv6.ev(plane, uplink, tag)
    route = [
        srv6.usid(UsidType.T0, plane, source),
        srv6.usid(UsidType.T1, plane, uplink),
        srv6.usid(UsidType.T0, plane, destination),
    ]
    for usid in route:
        assert address >> 80 == srv6.usid_route(usid)
        address = srv6.shift_usid(address)
    assert address >> 80 == srv6.nic_route(plane, downlink)
    assert srv6.usids(srv6.shift_usid(address)) == ()


@given(indexes, indexes)
def test_host_address_round_trip(group, downlink):
    address = srv6.host_address(group, downlink)
    assert srv6.host_of_address(address) == (group, downlink)
    assert srv6.from_text(srv6.text(address)) == address
    assert srv6.from_bytes(srv6.to_bytes(address)) == address
    assert address & 0xFFFF == downlink
    assert address >> 64 << 64 == srv6.group_prefix(group)


@given(st.integers(0, 2**128 - 1))
def test_foreign_addresses_are_no_hosts(address):
    try:
        group, downlink = srv6.host_of_address(address)
    except ValueError:
        return
    assert srv6.host_address(group, downlink) == address


@pytest.mark.parametrize(
    ("template", "uplink"), [(srv6.template_local(1, 1), 1), (srv6.template_cross(1, 2, 1), 0)], ids=["local", "cross"]
)
def test_template_and_ev_that_do_not_fit_are_refused(template, uplink):
    with pytest.raises(ValueError, match="uplink"):
        srv6.address(template, srv6.ev(1, uplink, 0))


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: srv6.ev(0, 1, 0), "plane 0"),
        (lambda: srv6.ev(16, 1, 0), "plane 16"),
        (lambda: srv6.ev(1, 1024, 0), "uplink 1024"),
        (lambda: srv6.ev(1, 1, 0x10000), "tag 65536"),
        (lambda: srv6.ev_tag(256), "EV index 256"),
        (lambda: srv6.usid(UsidType.T0, 1, 1024), "index 1024"),
        (lambda: srv6.host_address(0, 1), "T0 group 0"),
        (lambda: srv6.host_address(1, 1024), "downlink 1024"),
    ],
)
def test_limits_name_the_field(call, name):
    with pytest.raises(ValueError, match=name):
        call()
