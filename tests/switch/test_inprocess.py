"""The compiled program run by calls on a clock that the test sets: times, queues, and what is told about each frame."""

import pytest
from mrc_inside import Drop, MrcInside, dropped, lost_in_queue, marked, trimmed
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from mrclab.topo import srv6
from mrclab.topo.model import Fabric
from mrclab.topo.numbers import Dscp
from mrclab.topo.spec import FabricSpec, LinkSpec, QueueSpec

RATE_PPS = 3000
INTERVAL_NS = 1e9 / RATE_PPS
QUEUE = QueueSpec(depth=12, ecn_min=2, ecn_max=4, trim_threshold=6, last_hop_trim_threshold=9)
FABRIC = Fabric(FabricSpec(planes=1, t0s=2, t1s=1, hosts_per_t0=2, link=LinkSpec(rate_pps=RATE_PPS), queue=QUEUE))
T0 = FABRIC.switch("t0-p1-1")
DOWN, UP = 1, 3
OTHER = FABRIC.hosts[1].address


def frame(*usids, dscp=Dscp.TRIMMABLE, bytes_behind=400):
    words = [*usids, *[0] * (6 - len(usids))]
    address = "fcbb:bb00:" + ":".join(f"{word:x}" for word in words)
    outer = IPv6(src="fdcb:bb00:0:1::1", dst=address, tc=dscp << 2 | 2)
    inner = IPv6(src="fdcb:bb00:0:1::1", dst="fdcb:bb00:0:2::1", tc=dscp << 2 | 2)
    ether = Ether(src="02:0c:01:00:01:01", dst="02:0a:01:01:00:01")
    return bytes(ether / outer / inner / UDP(sport=0x8001, dport=4791, chksum=0) / Raw(bytes(bytes_behind)))


def up(**more):
    return frame(T0.usid, T0.ports[UP - 1].usid, **more)


def plain():
    ether = Ether(src="02:0c:01:00:01:01", dst="02:0a:01:01:00:01")
    return bytes(ether / IPv6(src="fdcb:bb00:0:1::1", dst="fdcb:bb00:0:2::1") / UDP(sport=1, dport=9))


def named(data, outside=None, inside=None):
    """A frame in another's name: with another source address in the outer or the inner header."""
    data = bytearray(data)
    for at, address in ((22, outside), (62, inside)):
        if address is not None:
            data[at : at + 16] = srv6.to_bytes(srv6.from_text(address))
    return bytes(data)


@pytest.fixture
def switch():
    made = MrcInside(FABRIC, T0.name, seed=1)
    yield made
    made.close()


def test_a_queue_sends_at_its_rate_to_the_nanosecond(switch):
    outcomes = [switch.arrive(0, DOWN, up(dscp=Dscp.NO_TRIM)) for _ in range(10)]
    switch.run()
    left = [outcome.copies[0].left_ns for outcome in outcomes]
    assert left == [round(number * INTERVAL_NS) for number in range(10)]
    assert [outcome.copies[0].port for outcome in outcomes] == [UP] * 10


def test_a_packet_waits_for_the_one_before_it_and_for_no_other(switch):
    first, second = (switch.arrive(at, DOWN, up()) for at in (1_000_000, 1_000_100))
    down = switch.arrive(1_000_100, UP, frame(T0.usid, T0.ports[DOWN - 1].usid))
    switch.run()
    assert first.copies[0].left_ns == 1_000_000
    assert second.copies[0].left_ns == round(1_000_000 + INTERVAL_NS)
    assert down.copies[0].left_ns == 1_000_100


def test_frames_come_out_as_the_program_makes_them(switch):
    sent = up()
    outcome = switch.arrive(5, DOWN, sent)
    out = outcome.copies[0].data
    assert out is not None
    assert len(out) == len(sent)
    assert out[38:44] == bytes.fromhex("fcbbbb00") + T0.ports[UP - 1].usid.to_bytes(2, "big")
    assert out[21] == sent[21] - 1


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (frame(T0.ports[UP - 1].usid, T0.usid), Drop.UNKNOWN_USID),
        (frame(T0.usid), Drop.USID_MISS),
        (up()[:40], Drop.MALFORMED),
        (bytes(12) + b"\x08\x00" + bytes(40), Drop.FOREIGN),
        (named(up(), outside=OTHER), Drop.WRONG_SOURCE),
        (named(up(), inside=OTHER), Drop.WRONG_SOURCE),
        (named(plain(), outside=OTHER), Drop.WRONG_SOURCE),
        (named(up(), inside=OTHER)[:70], Drop.MALFORMED),
    ],
)
def test_a_drop_is_told_with_its_reason_and_its_frame(switch, data, reason):
    before, bad, after = (switch.arrive(0, DOWN, one) for one in (up(), data, up()))
    assert [dropped(outcome) for outcome in (before, bad, after)] == [None, reason, None]
    assert bad.copies == []


def test_a_t0_takes_any_source_from_its_uplinks_and_only_the_hosts_own_from_a_downlink(switch):
    down = frame(T0.usid, T0.ports[DOWN - 1].usid)
    taken = [switch.arrive(0, UP, one) for one in (down, named(down, OTHER, OTHER), named(down, inside="fd00::1"))]
    own = [switch.arrive(0, DOWN, one) for one in (up(), plain())]
    assert [dropped(outcome) for outcome in (*taken, *own)] == [None] * 5


def test_a_full_queue_loses_what_comes_and_says_which(switch):
    outcomes = [switch.arrive(0, DOWN, up(dscp=Dscp.NO_TRIM)) for _ in range(20)]
    switch.run()
    lost = [number for number, outcome in enumerate(outcomes) if lost_in_queue(outcome)]
    assert lost == list(range(1 + QUEUE.depth, 20))  # one left at once
    assert all(outcomes[number].copies[0].data is None for number in lost)


def test_trims_and_marks_are_told_with_the_packet_they_happened_to(switch):
    step = round(INTERVAL_NS / 2)  # twice the rate
    outcomes = [switch.arrive(number * step, DOWN, up()) for number in range(100)]
    switch.run()
    for outcome in outcomes:
        [copy] = outcome.copies
        out = Ether(copy.data)
        assert trimmed(outcome) == (out[IPv6].tc >> 2 == Dscp.TRIMMED) == (len(copy.data) == 140)
        assert marked(outcome) == (out[IPv6].tc & 3 == 3)
    assert 20 < sum(map(trimmed, outcomes)) < 80
    assert 20 < sum(map(marked, outcomes)) < 80


def test_the_same_seed_gives_the_same_draws():
    def draws(seed):
        switch = MrcInside(FABRIC, T0.name, seed)
        outcomes = [switch.arrive(number * 200_000, DOWN, up()) for number in range(200)]
        switch.run()
        switch.close()
        return [(trimmed(outcome), marked(outcome)) for outcome in outcomes]

    assert draws(1) == draws(1) != draws(2)


def test_time_does_not_go_back(switch):
    switch.run(10)
    with pytest.raises(ValueError, match="time 9 ns has gone by: it is 10 ns"):
        switch.arrive(9, DOWN, up())
