"""Real cables between real namespaces: carrier, forwarding, and every fault with its count."""

import contextlib
import os
import threading

import pytest
from topo_helpers import END, ETHERTYPE, Port, StandIn, across, ports, run_dir, small_fabric, wait_until_joined

from mrclab.topo import srv6
from mrclab.topo.cables.cablefaults import Corrupt, Drop, Loss, Match, RateLimit, every_nth, exactly
from mrclab.topo.cables.cables import Count
from mrclab.topo.linux import kernel
from mrclab.topo.linux.emulation import Emulation

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces and cables need root"),
]

FRAME = 4 * 1024
DATA_ONLY = Match(min_length=200)  # leaves the end mark alone
NIC, UPLINK = "h1-p1/t0-p1-1", "t0-p1-1/t1-p1-1"


@pytest.fixture(scope="module")
def lab():
    with Emulation(small_fabric(), run_dir("-cables"), StandIn()) as running:
        yield running


@pytest.fixture(autouse=True)
def _mended(lab):
    yield
    cut = [link for link in lab.fabric.links if not lab.cables.is_up(link)]
    lab.cables.clear_all()
    for link in cut:
        with ports(lab, link.a.interface, link.b.interface) as pair:
            wait_until_joined(*pair)


@pytest.fixture
def nic(lab):
    """Both ends of h1's cable: NIC port and T0 port."""
    with ports(lab, "h1-p1", "t0-p1-1-1") as pair:
        yield pair


def numbered(count, size=FRAME):
    return [number.to_bytes(4, "big") + bytes(size - 4) for number in range(count)]


def numbers(payloads):
    return [int.from_bytes(payload[:4], "big") for payload in payloads]


def srv6_packet(address, ev, size=FRAME):
    """Outer IPv6 | inner IPv6 | UDP, only the fields that matter filled in."""
    sport, label = srv6.ev_to_wire(ev)
    outer = (6 << 28).to_bytes(4, "big") + b"\0\0\x29\x40" + bytes(16) + srv6.to_bytes(address)
    inner = (6 << 28 | label).to_bytes(4, "big") + b"\0\0\x11\x40" + bytes(32)
    return (outer + inner + sport.to_bytes(2, "big")).ljust(size, b"\0")


@pytest.mark.parametrize("size", [46, 1500, FRAME, 4096 + 256])
def test_frames_cross_both_ways_unchanged_and_in_order(nic, size):
    one, other = nic
    frames = [os.urandom(size) for _ in range(200)]
    assert across(one, other, frames) == frames
    assert across(other, one, frames) == frames


def test_every_cable_joins_the_ports_that_the_model_says(lab):
    for link in lab.fabric.links:
        with ports(lab, link.a.interface, link.b.interface) as (a, b):
            assert across(a, b, [link.name.encode()]) == [link.name.encode()]
            assert across(b, a, [link.name.encode()]) == [link.name.encode()]


def test_ports_have_the_models_mac_and_mtu_and_no_address(lab):
    for link in lab.fabric.links:
        for end in link.ends:
            listing = (
                lab.popen(end.node, ["ip", "-o", "link", "show", end.interface], stdout=-1).communicate()[0].decode()
            )
            assert end.mac in listing
            assert "mtu 4352" in listing
            assert "NOARP" in listing
            assert "MULTICAST" not in listing
            addresses = lab.popen(end.node, ["ip", "-o", "addr", "show", end.interface], stdout=-1).communicate()[0]
            assert addresses == b""


def test_a_cable_that_goes_down_takes_carrier_at_both_ports_and_disturbs_no_other(lab, nic):
    with ports(lab, *(end.interface for name in (NIC, UPLINK) for end in lab.fabric.link(name).ends)) as (*dead, c, d):
        lab.cables.down(NIC)
        assert [port.has_carrier for port in dead] == [False, False]
        assert [port.has_carrier for port in (c, d)] == [True, True]
        assert not lab.cables.is_up(NIC)
        frames = numbered(100)
        assert across(c, d, frames) == frames  # the other port of the same T0
        assert across(d, c, frames) == frames
        lab.cables.up(NIC)
        assert [port.has_carrier for port in dead] == [True, True]
        assert lab.cables.is_up(NIC)
        wait_until_joined(*dead)
        assert across(*dead, frames) == frames


def test_a_port_loses_carrier_while_it_stays_up_itself(lab):
    lab.cables.down(UPLINK)
    listing = lab.popen("t1-p1-1", ["ip", "-o", "link", "show", "t1-p1-1-1"], stdout=-1).communicate()[0].decode()
    assert "NO-CARRIER" in listing
    assert ",UP" in listing


def test_the_kernel_announces_a_lost_carrier_at_once(lab):
    """Equal interface indexes at both ends of a veth pair would delay the announcement by up to a second."""
    for link in lab.fabric.links:
        for end in link.ends:
            index, peer = (
                int(lab.popen(end.node, ["cat", f"/sys/class/net/{end.interface}/{file}"], stdout=-1).communicate()[0])
                for file in ("ifindex", "iflink")
            )
            assert index != peer


def test_frames_sent_into_a_dead_cable_are_lost_and_later_ones_arrive(lab, nic):
    one, other = nic
    lab.cables.down(NIC)
    for frame in numbered(3):
        with contextlib.suppress(OSError):  # whether the kernel says so is its affair
            one.send(frame)
    lab.cables.up(NIC)
    wait_until_joined(one, other)
    assert across(one, other, [b"after"]) == [b"after"]


def test_many_cables_go_down_together(lab):
    lab.cables.down(*lab.fabric.links)
    with ports(lab, *(end.interface for link in lab.fabric.links for end in link.ends)) as every:
        assert not any(port.has_carrier for port in every)
        lab.cables.clear_all()
        assert all(port.has_carrier for port in every)


def test_an_interface_that_is_not_there_is_an_error_and_the_others_are_set(lab):
    with kernel.LinkSocket(lab.namespace("t1-p1-1")) as links:
        index = links.indexes()["t1-p1-1-1"]
        with pytest.raises(OSError, match="No such device"):
            links.set_flags([(99, 0, kernel.IFF_UP), (index, kernel.IFF_NOARP, kernel.IFF_NOARP)])
        links.set_flags((index, kernel.IFF_NOARP, kernel.IFF_NOARP) for _ in range(3000))


def test_threads_may_flap_different_cables(lab):
    def flap(link):
        for _ in range(20):
            lab.cables.down(link)
            lab.cables.up(link)

    threads = [threading.Thread(target=flap, args=(link,)) for link in lab.fabric.links]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(lab.cables.is_up(link) for link in lab.fabric.links)
    with ports(lab, "h1-p1", "t0-p1-1-1") as (one, other):
        wait_until_joined(one, other)
        assert across(one, other, [b"still there"]) == [b"still there"]


# --- faults on packets ------------------------------------------------------------------------------------------------


def test_drop_loses_everything_in_its_direction_only_with_carrier_up(lab, nic):
    one, other = nic
    fault = lab.cables.inject(NIC, Drop(), match=DATA_ONLY, direction="up")
    assert across(one, other, numbered(50)) == []
    assert numbers(across(other, one, numbered(50))) == list(range(50))
    assert one.has_carrier
    assert other.has_carrier
    assert lab.cables.count(fault) == Count(seen=50, hit=50)
    assert lab.cables.clear(fault) == Count(seen=50, hit=50)
    assert numbers(across(one, other, numbered(50))) == list(range(50))
    assert lab.cables.clear(fault) == Count(0, 0)


def test_every_nth_loses_exactly_those_in_each_direction(lab, nic):
    one, other = nic
    fault = lab.cables.inject(NIC, every_nth(10, first=3), match=DATA_ONLY)
    survivors = [number for number in range(100) if number % 10 != 2]
    assert numbers(across(one, other, numbered(100))) == survivors
    assert numbers(across(other, one, numbered(100))) == survivors
    assert lab.cables.clear(fault) == Count(seen=200, hit=20)


def test_every_first_is_everything(lab, nic):
    lab.cables.inject(NIC, every_nth(1), match=DATA_ONLY)
    assert across(*nic, numbered(10)) == []


def test_a_list_of_packets_is_lost_and_nothing_else(lab, nic):
    fault = lab.cables.inject(NIC, exactly((1, 5, 6, 40)), match=DATA_ONLY, direction="up")
    got = numbers(across(*nic, numbered(60)))
    assert got == [number for number in range(60) if number + 1 not in {1, 5, 6, 40}]
    assert lab.cables.clear(fault).hit == 4


def test_gray_loss_is_near_its_probability_and_counted_exactly(lab, nic):
    fault = lab.cables.inject(NIC, Loss(0.2), match=DATA_ONLY, direction="up")
    got = across(*nic, numbered(4000, size=256))
    count = lab.cables.clear(fault)
    assert count == Count(seen=4000, hit=4000 - len(got))
    assert 600 < count.hit < 1000  # 800 expected; eight standard deviations either way


def test_loss_of_zero_and_one_are_nothing_and_everything(lab, nic):
    fault = lab.cables.inject(NIC, Loss(0), match=DATA_ONLY)
    assert len(across(*nic, numbered(100))) == 100
    lab.cables.clear(fault)
    lab.cables.inject(NIC, Loss(1), match=DATA_ONLY)
    assert across(*nic, numbered(100)) == []


def test_corruption_flips_one_byte_and_leaves_the_rest(lab, nic):
    fault = lab.cables.inject(NIC, Corrupt(offset=101, flip=0x81), match=DATA_ONLY, direction="up")
    frame = os.urandom(FRAME)
    (got,) = across(*nic, [frame])
    assert [(place, a ^ b) for place, (a, b) in enumerate(zip(frame, got, strict=True)) if a != b] == [(101, 0x81)]
    assert lab.cables.clear(fault).hit == 1


def test_rate_limit_lets_a_burst_through_and_drops_the_rest(lab, nic):
    fault = lab.cables.inject(NIC, RateLimit(1, burst=10), match=DATA_ONLY, direction="up")
    got = numbers(across(*nic, numbered(200)))
    count = lab.cables.clear(fault)
    assert got[:10] == list(range(10))
    assert count.seen == 200
    assert count.hit == 200 - len(got) > 0


def test_faults_on_one_cable_add_up_and_heal_one_by_one(lab, nic):
    every_second = lab.cables.inject(NIC, every_nth(2), match=DATA_ONLY, direction="up")
    every_third = lab.cables.inject(NIC, every_nth(3), match=DATA_ONLY, direction="up")
    assert len(across(*nic, numbered(60))) == 20  # 30 survive the first, 20 of these the second
    assert lab.cables.clear(every_second) == Count(60, 30)
    assert len(across(*nic, numbered(60))) == 40
    assert lab.cables.clear(every_third) == Count(90, 30)
    assert len(across(*nic, numbered(60))) == 60


@pytest.fixture
def ipv6(lab):
    """The same cable for IPv6 frames."""
    with ports(lab, "h1-p1", "t0-p1-1-1") as (one, other):
        other.socket.bind((other.interface, 0x86DD))
        yield one, other


def survivors(ipv6, packets):
    one, other = ipv6
    for packet in packets:
        one.send(packet, 0x86DD)
    one.send(END, 0x86DD)
    got = other.receive_until_end()
    return [number for number, packet in enumerate(packets) if packet in got]


def test_only_packets_with_a_listed_usid_ahead_are_lost(lab, ipv6):
    addresses = ["fcbb:bb00:2101:1101:2102:3101::", "fcbb:bb00:2101:1102:2102:3101::", "fcbb:bb00:2102:3101::"]
    packets = [srv6_packet(srv6.from_text(address), srv6.ev(1, 1, 0x8001)) for address in addresses]
    fault = lab.cables.inject(NIC, Drop(), match=Match(usids=(0x1101,)))
    assert survivors(ipv6, packets) == [1, 2]
    lab.cables.clear(fault)
    lab.cables.inject(NIC, Drop(), match=Match(usids=(0x1101, 0x2102)))
    assert survivors(ipv6, packets) == []


def test_only_packets_of_a_listed_ev_or_path_are_lost(lab, ipv6):
    evs = [srv6.ev(plane, uplink, srv6.ev_tag(tag)) for plane in (1, 2) for uplink in (1, 2) for tag in (0, 1)]
    packets = [srv6_packet(srv6.from_text("fcbb:bb00:2101:1101::"), ev) for ev in evs]
    fault = lab.cables.inject(NIC, Drop(), match=Match(evs=(evs[0], evs[5])))
    assert survivors(ipv6, packets) == [1, 2, 3, 4, 6, 7]
    assert lab.cables.clear(fault) == Count(seen=2, hit=2)
    lab.cables.inject(NIC, Drop(), match=Match(paths=((2, 1),)))
    assert survivors(ipv6, packets) == [0, 1, 2, 3, 6, 7]


def test_swapped_cables_lead_to_each_others_far_ends_until_mended(lab):
    first, second = "h1-p1", "h2-p1"
    with ports(lab, "h1-p1", "t0-p1-1-1", "h2-p1", "t0-p1-2-1") as (h1, t1, h2, t2):
        lab.cables.swap(first, second)
        assert across(h1, t2, [b"one"]) == [b"one"]
        assert across(t2, h1, [b"two"]) == [b"two"]
        assert across(h2, t1, [b"three"]) == [b"three"]
        assert across(t1, h2, [b"four"]) == [b"four"]
        lab.cables.swap(first, second)
        assert across(h1, t1, [b"five"]) == [b"five"]
        assert across(t2, h2, [b"six"]) == [b"six"]


def test_clear_all_ends_everything(lab, nic):
    lab.cables.inject(NIC, Drop())
    lab.cables.inject(UPLINK, Loss(0.5), direction="down")
    lab.cables.swap("h1-p1", "h2-p1")
    lab.cables.down(UPLINK)
    lab.cables.clear_all()
    frames = numbered(20)
    assert across(*nic, frames) == frames
    assert lab.cables.is_up(UPLINK)


def test_forwarded_counts_both_directions(lab, nic):
    one, other = nic
    up, down = lab.cables.forwarded(NIC)
    across(one, other, numbered(9))
    across(other, one, numbered(4))
    assert lab.cables.forwarded(NIC) == (up + 10, down + 5)  # the end mark counts


def test_port_class_receives_only_its_own_ethertype(lab):
    """Guards the helper: a foreign EtherType must not end up in the assertions above."""
    with ports(lab, "h1-p1", "t0-p1-1-1") as (one, other):
        one.send(b"foreign", ETHERTYPE + 1)
        assert across(one, other, [b"own"]) == [b"own"]
    assert isinstance(one, Port)
