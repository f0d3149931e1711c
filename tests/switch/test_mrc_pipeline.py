"""Frames through the compiled pipeline on either target: uN, ECMP, trimming, ECN, link checks, drop reasons."""

import collections
import socket

import pytest
from bmv2 import TARGETS
from finsy.proto import p4r
from mrc_switch import MrcSwitch
from rig import Rig
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Raw

pytestmark = [pytest.mark.root]

LOCATOR = 0xFCBBBB00
MY_USID, NEXT_USID, LAST_USID, DOWNLINK_USID = 0x2101, 0x1102, 0x2102, 0x3101
SWITCH_MAC, PEER_MAC = 0x020A01010002, 0x020B01020001
DROP_MALFORMED, DROP_FOREIGN, DROP_HOP_LIMIT, DROP_UNKNOWN_USID, DROP_USID_MISS, DROP_IPV6_MISS = range(1, 7)
DROP_WRONG_SOURCE = 7
TRIMMABLE, TRIMMED, TRIMMED_LASTHOP, CONTROL = 4, 12, 16, 46
ECT0, CE = 2, 3
UPLINK, DOWNLINK, INGRESS = 2, 3, 1
QUEUE_RATE_PPS = 50


def locator_usid(usid):
    return LOCATOR << 16 | usid


@pytest.fixture(scope="module", params=TARGETS)
def switch(request, tmp_path_factory):
    """A T0 with one uplink route and one downlink route; its data queues are slow enough to fill."""
    run_dir = tmp_path_factory.mktemp(request.param)
    with Rig(request.param, run_dir, ports=4, queue_rate_pps=QUEUE_RATE_PPS) as rig, MrcSwitch(rig.address) as client:
        client.load()
        client.insert(
            client.exact("MrcIngress.my_usid", [locator_usid(MY_USID)], "MrcIngress.shift_usid"),
            route(client, NEXT_USID, UPLINK),
            route(client, DOWNLINK_USID, DOWNLINK),
        )
        rig.client = client
        yield rig


def route(client, usid, port):
    keys = [locator_usid(usid)]
    return client.exact("MrcIngress.usid_fib", keys, "MrcIngress.forward", port, SWITCH_MAC, PEER_MAC)


def ethernet(**fields):
    """Both addresses are given: scapy would ask the machine's own network for one that is missing."""
    return Ether(src="02:0c:01:00:01:01", dst="02:0a:01:01:00:01", **fields)


def address(*usids):
    words = [LOCATOR >> 16, LOCATOR & 0xFFFF, *usids]
    return ":".join(f"{word:x}" for word in [*words, *[0] * (8 - len(words))])


def mrc_frame(*usids, dscp=CONTROL, ecn=ECT0, payload=b"x" * 200, hop_limit=64, sport=0x8001, label=0x1010):
    traffic_class = dscp << 2 | ecn
    return (
        ethernet()
        / IPv6(src="fdcb:bb00:0:1::1", dst=address(*usids), tc=traffic_class, hlim=hop_limit)
        / IPv6(src="fdcb:bb00:0:1::1", dst="fdcb:bb00:0:2::1", tc=traffic_class, fl=label)
        / UDP(sport=sport, dport=4791, chksum=0)
        / Raw(bytes(range(12)) + payload)
    )


def in_the_name_of(other, frame, inside):
    """A frame that says it came from another host."""
    header = frame[IPv6].payload if inside else frame[IPv6]
    header.src = other
    return bytes(frame)


def with_version(version, frame):
    frame[IPv6].version = version
    return bytes(frame)


def exchange(rig, frame, out):
    rig.send(INGRESS, bytes(frame))
    return Ether(rig.receive(out))


def test_switch_shifts_its_own_usid_away_and_forwards_by_the_next(switch):
    sent = mrc_frame(MY_USID, NEXT_USID, LAST_USID, DOWNLINK_USID)
    got = exchange(switch, sent, UPLINK)
    expected = sent.copy()
    expected.src, expected.dst = "02:0a:01:01:00:02", "02:0b:01:02:00:01"
    expected[IPv6].dst = address(NEXT_USID, LAST_USID, DOWNLINK_USID)
    expected[IPv6].hlim = 63
    assert bytes(got) == bytes(expected)


def test_last_hop_shifts_and_forwards_by_downlink_without_decapsulation(switch):
    got = exchange(switch, mrc_frame(MY_USID, DOWNLINK_USID), DOWNLINK)
    assert got[IPv6].dst == "fcbb:bb00:3101::"
    assert got[IPv6].payload.dst == "fdcb:bb00:0:2::1"


def test_largest_frame_of_the_fabric_passes_whole(switch):
    sent = mrc_frame(MY_USID, NEXT_USID, payload=bytes(4140))
    assert len(bytes(exchange(switch, sent, UPLINK))) == len(bytes(sent))


BAD_FRAMES = {
    "an uSID that is not this switch's": (DROP_UNKNOWN_USID, bytes(mrc_frame(LAST_USID, DOWNLINK_USID))),
    "an uSID without a route": (DROP_USID_MISS, bytes(mrc_frame(MY_USID, 0x1F0F))),
    "an uSID list that ends at this switch": (DROP_USID_MISS, bytes(mrc_frame(MY_USID))),
    "an exhausted hop limit": (DROP_HOP_LIMIT, bytes(mrc_frame(MY_USID, NEXT_USID, hop_limit=1))),
    "an IPv6 header cut short": (DROP_MALFORMED, bytes(mrc_frame(MY_USID, NEXT_USID))[:50]),
    "a version other than 6": (DROP_MALFORMED, with_version(4, mrc_frame(MY_USID, NEXT_USID))),
    "an EtherType of another network": (DROP_FOREIGN, bytes(ethernet(type=0x0800) / Raw(bytes(60)))),
    "plain IPv6 without a route": (DROP_IPV6_MISS, bytes(ethernet() / IPv6(dst="2001:db8::1") / UDP())),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD_FRAMES)
def test_drops_are_counted_by_reason_and_leave_other_traffic_alone(switch, what):
    reason, frame = BAD_FRAMES[what]
    before = switch.client.count("MrcIngress.drops", reason)
    switch.send(INGRESS, frame)
    exchange(switch, mrc_frame(MY_USID, NEXT_USID), UPLINK)
    assert switch.client.count("MrcIngress.drops", reason) == before + 1


FORGED = {
    "outside": in_the_name_of("fdcb:bb00:0:1::2", mrc_frame(MY_USID, NEXT_USID), inside=False),
    "inside": in_the_name_of("fdcb:bb00:0:1::2", mrc_frame(MY_USID, NEXT_USID), inside=True),
    "plain": bytes(ethernet() / IPv6(src="fdcb:bb00:0:1::2", dst="2001:db8::1") / UDP()),
}


@pytest.mark.parametrize("where", FORGED)
def test_a_host_sends_in_its_own_name_only_and_a_switch_in_any(switch, where):
    client, host_port = switch.client, 4
    own = int.from_bytes(socket.inet_pton(socket.AF_INET6, "fdcb:bb00:0:1::1"), "big")
    entry = client.exact("MrcIngress.sources", [host_port], "MrcIngress.expect_source", own)
    client.insert(entry)
    before = client.count("MrcIngress.drops", DROP_WRONG_SOURCE)
    switch.send(host_port, FORGED[where])
    switch.send(host_port, bytes(mrc_frame(MY_USID, NEXT_USID)))
    assert Ether(switch.receive(UPLINK))[IPv6].src == "fdcb:bb00:0:1::1"
    assert client.count("MrcIngress.drops", DROP_WRONG_SOURCE) == before + 1
    switch.send(INGRESS, FORGED[where])
    switch.send(INGRESS, bytes(mrc_frame(MY_USID, NEXT_USID)))
    for _ in range(1 if where == "plain" else 2):  # plain ones have no route
        switch.receive(UPLINK)
    assert client.count("MrcIngress.drops", DROP_WRONG_SOURCE) == before + 1
    client.delete(entry)


def test_link_check_goes_to_the_controller_with_its_port(switch):
    frame = bytes(ethernet(type=0x88B5) / Raw(b"who is there" + bytes(48)))
    switch.send(4, frame)
    packet = switch.client.next_packet_in()
    assert packet.payload == frame
    assert packet.metadata[0].value == b"\x04"


def test_packet_out_leaves_by_the_port_it_names(switch):
    frame = bytes(ethernet(type=0x88B5) / Raw(bytes(50)))
    switch.client.send_by(4, frame)
    assert switch.receive(4) == frame


def test_plain_ipv6_spreads_over_the_group_and_keeps_a_flow_on_one_port(switch):
    client = switch.client
    members = [(UPLINK, SWITCH_MAC, PEER_MAC), (4, SWITCH_MAC, PEER_MAC)]
    prefix = 0xFDCB_BB00_0000_0002 << 64
    for message in client.route(prefix, 64, members):
        client.insert(message)
    taken = collections.defaultdict(set)
    for flow in range(32):
        for _ in range(2):
            frame = (ethernet() / IPv6(src="fdcb:bb00:0:1::1", dst="fdcb:bb00:0:2::1", tc=CONTROL << 2)
                     / UDP(sport=0xC000 + flow, dport=4791) / Raw(bytes(40)))  # fmt: skip
            switch.send(INGRESS, bytes(frame))
            taken[flow].add(_which(switch, frame, (UPLINK, 4)))
    assert all(len(ports) == 1 for ports in taken.values())
    spread = collections.Counter(port for ports in taken.values() for port in ports)
    assert set(spread) == {UPLINK, 4}
    assert min(spread.values()) >= 4


def _which(switch, frame, ports):
    """The one of two ports that a frame left by: whichever far end has it first."""
    for _ in range(200):
        for port in ports:
            try:
                got = Ether(switch.receive(port, timeout=0.01))
            except TimeoutError:
                continue
            assert got[UDP].sport == frame[UDP].sport
            return port
    raise AssertionError("the frame left by neither port")


def test_packets_without_entropy_of_their_own_all_take_one_port(switch):
    """Only the UDP source port spreads packets above: with it fixed, no other field changes the uplink."""
    members = [(UPLINK, SWITCH_MAC, PEER_MAC), (4, SWITCH_MAC, PEER_MAC)]
    for message in switch.client.route(0xFDCB_BB00_0000_0003 << 64, 64, members, 3):
        switch.client.insert(message)
    taken = collections.Counter()
    for number in range(12):
        frame = (ethernet() / IPv6(src="fdcb:bb00:0:1::1", dst="fdcb:bb00:0:3::1", tc=number, hlim=64 - number)
                 / UDP(sport=0xC001, dport=4791, chksum=number) / Raw(bytes([number]) * (40 + number)))  # fmt: skip
        switch.send(INGRESS, bytes(frame))
        taken[_which(switch, frame, (UPLINK, 4))] += 1
    assert len(taken) == 1


def burst(rig, *usids, count, **fields):
    """Let `count` data frames arrive at once; the queues serve QUEUE_RATE_PPS."""
    frame = bytes(
        mrc_frame(*usids, dscp=TRIMMABLE, payload=bytes(1000), **fields)
    )  # made once: that takes milliseconds
    for _ in range(count):
        rig.send(INGRESS, frame)


def drain(rig, out, count):
    return [Ether(rig.receive(out)) for _ in range(count)]


def fill_queue(rig, *usids, out, count, **fields):
    burst(rig, *usids, count=count, **fields)
    return drain(rig, out, count)


@pytest.mark.parametrize(("next_usid", "out", "last_hop", "dscp"), [
    (NEXT_USID, UPLINK, 0, TRIMMED),
    (DOWNLINK_USID, DOWNLINK, 1, TRIMMED_LASTHOP),
])  # fmt: skip
def test_full_queue_trims_instead_of_dropping(switch, next_usid, out, last_hop, dscp):
    client = switch.client
    entry = client.exact("MrcIngress.trim_policy", [out], "MrcIngress.set_trim", 8, last_hop)
    client.insert(entry)
    sent, got = 0, []
    while sent < 320 and not client.count("MrcIngress.trims", out):  # a slow machine empties the queue between bursts
        burst(switch, MY_USID, next_usid, count=16)
        sent += 16
        got += drain(switch, out, 2)  # the depth is known from a dequeue on
    got += drain(switch, out, sent - len(got))
    client.delete(entry)
    trimmed = [frame for frame in got if frame[IPv6].tc >> 2 == dscp]
    whole = [frame for frame in got if frame[IPv6].tc >> 2 == TRIMMABLE]
    assert len(trimmed) + len(whole) == sent
    assert len(trimmed) == client.count("MrcIngress.trims", out)
    assert trimmed, "nothing was trimmed"
    for frame in trimmed:
        assert len(bytes(frame)) == 140
        assert frame[IPv6].payload.tc >> 2 == dscp
        assert frame[IPv6].plen == 40 + 8 + 12 + 1000


def test_control_packets_do_not_hide_a_full_data_queue_from_the_trim_decision(switch):
    client = switch.client
    burst(switch, MY_USID, NEXT_USID, count=24)
    drain(switch, UPLINK, 2)  # the depth is known from a dequeue on
    entry = client.exact("MrcIngress.trim_policy", [UPLINK], "MrcIngress.set_trim", 8, 0)
    client.insert(entry)
    before = client.count("MrcIngress.trims", UPLINK)
    for _ in range(6):  # the control queue is empty, the data queue far above the threshold
        switch.send(INGRESS, bytes(mrc_frame(MY_USID, NEXT_USID, dscp=CONTROL)))
        burst(switch, MY_USID, NEXT_USID, count=1)
    got = drain(switch, UPLINK, 22 + 12)
    client.delete(entry)
    assert collections.Counter(frame[IPv6].tc >> 2 for frame in got) == {TRIMMABLE: 22, CONTROL: 6, TRIMMED: 6}
    assert client.count("MrcIngress.trims", UPLINK) == before + 6


def test_ecn_marks_both_headers_only_above_the_threshold_and_only_where_asked(switch):
    client = switch.client
    entry = client.exact("MrcEgress.ecn_policy", [UPLINK], "MrcEgress.mark_between", 4, 0)
    client.insert(entry)
    marked = fill_queue(switch, MY_USID, NEXT_USID, out=UPLINK, count=20)
    client.delete(entry)
    assert any(frame[IPv6].tc & 3 == CE for frame in marked)
    assert marked[-1][IPv6].tc & 3 == ECT0, "an empty queue never marks"
    for frame in marked:
        assert frame[IPv6].tc & 3 == frame[IPv6].payload.tc & 3
    assert all(
        frame[IPv6].tc & 3 == ECT0 for frame in fill_queue(switch, MY_USID, DOWNLINK_USID, out=DOWNLINK, count=20)
    )


def test_plain_ipv6_is_marked_like_mrc_and_at_the_last_hop_where_asked(switch):
    """RoCEv2's data towards a host: the port has an entry of its own, as the controller gives it for DCQCN."""
    client = switch.client
    for message in client.route(0xFDCB_BB00_0000_0009 << 64, 64, [(DOWNLINK, SWITCH_MAC, PEER_MAC)], 9):
        client.insert(message)
    entry = client.exact("MrcEgress.ecn_policy", [DOWNLINK], "MrcEgress.mark_between", 4, 0)
    client.insert(entry)
    data = (ethernet() / IPv6(src="fdcb:bb00:0:1::1", dst="fdcb:bb00:0:9::1", tc=ECT0)
            / UDP(sport=0xC001, dport=4791, chksum=0) / Raw(bytes(1000)))  # fmt: skip
    before = client.count("MrcEgress.ecn_marks", DOWNLINK)
    for _ in range(20):
        switch.send(INGRESS, bytes(data))
    got = drain(switch, DOWNLINK, 20)
    client.delete(entry)
    marked = [frame for frame in got if frame[IPv6].tc & 3 == CE]
    assert 0 < len(marked) < 20
    assert client.count("MrcEgress.ecn_marks", DOWNLINK) - before == len(marked)
    assert all(bytes(frame[UDP]) == bytes(data[UDP]) for frame in got)


def test_traffic_that_is_not_ecn_capable_is_never_marked(switch):
    client = switch.client
    entry = client.exact("MrcEgress.ecn_policy", [UPLINK], "MrcEgress.mark_between", 1, 0)
    client.insert(entry)
    frames = fill_queue(switch, MY_USID, NEXT_USID, out=UPLINK, count=12, ecn=0)
    client.delete(entry)
    assert all(frame[IPv6].tc & 3 == 0 for frame in frames)


def test_watched_entropy_value_is_counted(switch):
    client = switch.client
    entry = client.exact("MrcEgress.ev_watch", [0x1010, 0x8001], "MrcEgress.count_ev")
    client.insert(entry)
    for sport in (0x8001, 0x8002, 0x8001):
        exchange(switch, mrc_frame(MY_USID, NEXT_USID, sport=sport), UPLINK)
    [cell] = client.read(p4r.DirectCounterEntry(table_entry=entry))
    assert cell.data.packet_count == 2
