"""Faults of simulated cables: the twins of the nft rules and of the relay."""

import random

import pytest
from sim_pair import Sim, Write, finish

from mrclab.lab.capture.virtual import VirtualTaps
from mrclab.sim.clock import SECOND, Clock, ticks
from mrclab.sim.frame import WRONG_SOURCE, SimFrame
from mrclab.sim.injector import SimFaultInjector
from mrclab.sim.links.crossings import Crossings
from mrclab.sim.links.faults import decider
from mrclab.sim.links.linkend import CapturePoint
from mrclab.topo.cables.cablefaults import (
    EVERY_PACKET,
    Corrupt,
    Drop,
    Loss,
    Match,
    RateLimit,
    SeededLoss,
    every_nth,
    exactly,
)
from mrclab.topo.cables.impairment import Impairer, Impairment


def broken(sim):
    return SimFaultInjector(sim.fabric, 1)


def hits(action, count, clock=None):
    decide = decider(action, "seed", clock or Clock())
    return [number for number in range(count) if decide(number)]


@pytest.mark.parametrize("probability", [0.003, 0.2, 0.9])
def test_a_seeded_loss_hits_the_numbers_that_the_kernel_is_given(probability):
    action = SeededLoss(probability, "1/gray/h1-p1", draws=64)
    cycle, lost = action.numbers()
    assert hits(action, 2 * cycle) == [*lost, *(number + cycle for number in lost)]


def test_every_nth_and_listed_packets_are_counted_from_one():
    assert hits(every_nth(4, first=3), 12) == [2, 6, 10]
    assert hits(exactly((1, 5)), 12) == [0, 4]
    assert hits(SeededLoss(0.0, "s"), 50) == []
    assert hits(SeededLoss(1.0, "s"), 3) == hits(Drop(), 3) == [0, 1, 2]
    assert 150 < len(hits(Loss(0.2), 1000)) < 250


def test_a_rate_limit_lets_a_burst_and_then_the_rate_through():
    clock = Clock()
    decide = decider(RateLimit(100, burst=5), "", clock)
    passed = []
    for number in range(1000):  # 500 per second for two seconds
        clock.run(number * SECOND // 500)
        if not decide(number):
            passed.append(clock.seconds)
    assert len(passed) == pytest.approx(5 + 2 * 100, abs=1)
    assert sum(at < 0.0125 for at in passed) == 6


def test_both_directions_of_a_cable_lose_the_same_numbers_each_counting_its_own():
    sim = Sim(planes=1, t1s=1)
    write = Write(sim, "h1", "h3", 1 << 20)
    action = every_nth(10)
    made = broken(sim).inject([("h1-p1", action)], match=EVERY_PACKET, direction="both")
    finish(sim, write)
    assert write.received == write.sent
    up, down = (half_link.faults[0] for half_link in sim.fabric.cable("h1-p1").half_links)
    assert up.seen > 250
    assert down.seen > 30
    assert up.hit == -(-up.seen // 10)
    assert down.hit == -(-down.seen // 10)
    seen, hit = made.clear()
    assert (seen, hit) == (up.seen + down.seen, up.hit + down.hit)
    assert sim.fabric.cable("h1-p1").half_links[0].faults == ()
    assert made.clear() == (0, 0)


def test_a_fault_that_names_evs_meets_those_and_no_others():
    sim = Sim()
    write = Write(sim, "h1", "h3", 2 << 20)
    t1 = sim.model.switch("t1-p2-1")
    by_usid, by_path = (
        broken(sim).inject([("h1-p2", Drop())], match=match, direction="up")
        for match in (Match(usids=(t1.usid,)), Match(paths=((2, 2),)))
    )
    finish(sim, write)
    assert write.received == write.sent
    faults = sim.fabric.cable("h1-p2").half_links[0].faults
    assert all(fault.seen == fault.hit > 0 for fault in faults)  # both paths of the plane are dead
    for made in (by_usid, by_path):
        made.clear()
    lost = {r["ev"] >> 20 for r in sim.records if r["kind"] == "packet.lost"}
    assert lost == {2 << 8 | 1, 2 << 8 | 2}


def test_a_damaged_packet_is_not_believed_and_the_file_arrives_whole():
    sim = Sim()
    write = Write(sim, "h1", "h3", 2 << 20)
    made = broken(sim).inject([("h1-p1", Corrupt(0.1))], match=Match(min_length=300), direction="both")
    finish(sim, write)
    seen, hit = made.clear()
    assert 0 < hit < seen
    assert write.received == write.sent
    assert sim.hosts["h3"].transport.stats()["ports"][1]["icrc_errors"] == hit


def test_a_packet_with_telemetry_has_no_byte_of_it_to_damage():
    sim = Sim(transport="roce", link={"rate": "100 Gb/s", "delay": 6e-7})
    one = Write(sim, "h1", "h3", 1 << 18, cc_profile="hpcc")
    made = broken(sim).inject(
        [("h1-p1", Corrupt(0.2, offset=90)), ("h1-p2", Corrupt(0.2, offset=90))], match=EVERY_PACKET, direction="both"
    )
    finish(sim, one)
    assert one.received == one.sent
    assert made.clear()[1] > 0


def test_a_flipped_byte_of_the_outer_header_sends_a_frame_astray():
    sim = Sim()
    broken(sim).inject([("h1-p1", Corrupt(1.0, offset=29))], match=EVERY_PACKET, direction="up")
    write = Write(sim, "h1", "h3", 1 << 20)
    finish(sim, write)
    assert write.received == write.sent
    assert sim.fabric.switches["t0-p1-1"].drops[4] > 0  # unknown_usid


def test_a_delay_is_added_to_every_frame_and_healing_lets_the_held_ones_arrive():
    sim = Sim(planes=1, t1s=1)
    write = Write(sim, "h1", "h3", 1 << 19)
    finish(sim, write)
    base = write.source.transport.verbs.qps[write.qp].requestor.recovery.rtt.srtt
    made = broken(sim).impair("h1-p1", Impairment(delay=0.05), direction="up", seed=3)
    write = Write(sim, "h1", "h3", 1 << 18)
    sim.run(0.5)
    rtt = write.source.transport.verbs.qps[write.qp].requestor.recovery.rtt.srtt
    assert rtt - base == pytest.approx(0.05, rel=0.2)
    made.clear()
    finish(sim, write)
    assert write.received == write.sent
    assert write.stats.retx_packets == 0


def test_the_detour_draws_what_the_relay_would():
    impairment = Impairment(delay=0.01, jitter=0.01, ordered=False, duplicate=0.2, loss=0.1)
    sim = Sim(planes=1, t1s=1)
    made = broken(sim).impair("h1-p1", impairment, direction="both", seed=9)
    write = Write(sim, "h1", "h3", 1 << 19)
    finish(sim, write)
    assert write.received == write.sent
    received, lost, left = made.clear()
    twins = [Impairer(impairment, f"9/{number}") for number in (0, 1)]
    assert all(half_link.detour is None for half_link in sim.fabric.cable("h1-p1").half_links)
    counts = [detour.impairer.counts for detour in made.detours]
    for twin, count in zip(twins, counts, strict=True):
        for _ in range(count.received):
            twin.departures(0.0)
        assert (twin.counts.lost, twin.counts.duplicated) == (count.lost, count.duplicated)
    assert received == sum(count.received for count in counts) > left - received
    assert lost > 0


def test_damaged_frames_may_be_duplicated_too():
    sim = Sim()
    write = Write(sim, "h1", "h3", 1 << 19)
    faults = broken(sim)
    faults.inject([("h1-p1", Corrupt(0.3))], match=Match(min_length=300), direction="both")
    detoured = faults.impair("h1-p1", Impairment(duplicate=0.5), direction="both", seed=3)
    finish(sim, write)
    detoured.clear()
    assert write.received == write.sent
    assert sum(detour.impairer.counts.duplicated for detour in detoured.detours) > 0


def test_frames_on_a_cable_that_is_cut_are_lost_also_when_it_comes_back_before_they_would_arrive():
    sim = Sim(planes=1, t1s=1, link={"rate_pps": 500, "delay": 0.1})
    cable = sim.fabric.cable("h1-p1")
    seen = Crossings(sim.fabric, [cable.index])
    write = Write(sim, "h1", "h3", 4096)
    sim.run(0.05)
    cable.set_carrier(False)
    sim.run(0.01)
    cable.set_carrier(True)
    sim.run(0.1)
    assert not all(crossing.arrived for crossing in seen.taken())
    seen.close()
    assert write.received != write.sent
    finish(sim, write)
    assert write.received == write.sent


def test_swapped_cables_lead_to_each_others_ends_and_back():
    sim = Sim()
    injector = broken(sim)
    one, other = (sim.fabric.cable(name) for name in ("t0-p1-1/t1-p1-1", "t0-p1-1/t1-p1-2"))
    before = one.half_links[0].end, other.half_links[1].end
    injector.swap("t0-p1-1/t1-p1-1", "t0-p1-1/t1-p1-2")
    write = Write(sim, "h1", "h3", 1 << 20)
    finish(sim, write)
    assert write.received == write.sent
    assert sum(sim.fabric.switches[f"t1-p1-{n}"].drops[4] for n in (1, 2)) > 0
    injector.swap("t0-p1-1/t1-p1-1", "t0-p1-1/t1-p1-2")
    assert (one.half_links[0].end, other.half_links[1].end) == before


def test_a_t0_drops_what_comes_by_the_cable_of_another_host():
    sim = Sim(hosts_per_t0=2)
    injector = broken(sim)
    injector.swap("h1-p1", "h2-p1")
    write = Write(sim, "h1", "h3", 1 << 20)
    finish(sim, write)
    assert write.received == write.sent
    assert sim.fabric.switches["t0-p1-1"].drops[WRONG_SOURCE] > 0
    dropped = sim.fabric.switches["t0-p1-1"].drops[WRONG_SOURCE]
    injector.swap("h1-p1", "h2-p1")
    assert sim.fabric.cable("h1-p1").half_links[0].faults == ()
    finish(sim, Write(sim, "h1", "h3", 1 << 20))
    assert sim.fabric.switches["t0-p1-1"].drops[WRONG_SOURCE] == dropped


def test_background_traffic_takes_its_rate_and_says_how_many():
    sim = Sim(planes=1, t1s=1)
    sender = broken(sim).background("h1", "h3", (1, 1), 100.0, 1000, "noise")
    sim.run(1.0)
    sim.fabric.cable("h1-p1").set_carrier(False)
    sim.run(0.5)
    sent, refused = sender.clear()
    sim.run(1.0)
    assert sent == pytest.approx(100, abs=1)
    assert refused == pytest.approx(50, abs=1)
    assert sim.hosts["h3"].transport.stats()["ports"][1]["foreign"] == pytest.approx(sent, abs=2)


def test_a_switch_that_stood_still_does_not_trim_by_the_queue_that_it_lost():
    """The depth that was seen last is of packets that are gone: by it each packet would be trimmed, forever."""
    sim = Sim(planes=1, t1s=1, link={"rate_pps": 500, "delay": 0.002})
    noise = broken(sim).background("h2", "h3", (1, 1), 1500.0, 1000, "noise")
    sim.run(0.2)
    switch = sim.fabric.switches["t0-p1-1"]
    port = next(port for port in switch.used if port.register > 10)
    switch.freeze()
    noise.clear()
    sim.run(0.1)
    switch.thaw()
    write = Write(sim, "h1", "h3", 100 * 4096)
    finish(sim, write)
    assert port.trims == 0
    assert write.stats.lost_packets == 0


@pytest.mark.parametrize("transport", ["mrc", "roce"])
@pytest.mark.parametrize("seed", [1, 2])
def test_under_faults_of_every_kind_packing_each_frame_still_gives_the_same_run(transport, seed):
    digests = []
    for wire_format in (False, True):
        draw = random.Random(seed)
        sim = Sim(wire_format, seed, transport)
        injector = broken(sim)
        links = [link.name for link in sim.model.links]
        actions = [
            Corrupt(0.05, offset=draw.randrange(0, 200)), SeededLoss(0.02, "x"), every_nth(30), Loss(0.02),
            exactly((3, 9)), RateLimit(300),
        ]  # fmt: skip
        for action in actions:
            injector.inject([(draw.choice(links), action)], match=EVERY_PACKET, direction="both")
        impairments = (Impairment(0.004, 0.004, False), Impairment(0.01, reorder=0.2), Impairment(duplicate=0.1))
        for number, impairment in enumerate(impairments):
            injector.impair(links[5 * number], impairment, direction="both", seed=number)
        injector.swap("t0-p4-1/t1-p4-1", "t0-p4-1/t1-p4-2")
        injector.background("h2", "h4", (3, 1), 200, 900, "noise")
        for name, far in (("h1", "h3"), ("h2", "h4"), ("h3", "h2")):
            Write(sim, name, far, 1 << 19)
        sim.run(0.3)
        injector.hold_down("cut", "h4-p1", "t0-p2-1/t1-p2-2")
        sim.fabric.switches["t1-p3-1"].freeze()
        sim.run(0.5)
        injector.release("cut")
        sim.fabric.switches["t1-p3-1"].thaw()
        sim.run(2)
        assert sim.clock.now >= ticks(2.8)
        digests.append(sim.digest())
    assert digests[0] == digests[1]


@pytest.mark.sources
def test_a_copy_of_a_frame_is_like_it_in_everything():
    frame = SimFrame.__new__(SimFrame)
    for number, name in enumerate(SimFrame.__slots__):
        setattr(frame, name, [number] if name == "telemetry" else number)
    copy = frame.copy()
    assert copy.telemetry is not frame.telemetry  # which its hops add to
    assert copy.next_queued is None  # it stands in no queue
    assert not hasattr(copy, "half_link")
    names = [name for name in SimFrame.__slots__ if name not in ("next_queued", "half_link")]
    assert [getattr(copy, name) for name in names] == [getattr(frame, name) for name in names]


def test_a_switch_counts_what_came_in_by_a_port_whoever_looks_at_its_cable_and_wherever_that_led_before():
    sim = Sim(planes=1, t1s=1)
    write = Write(sim, "h1", "h3", 100_000)
    finish(sim, write)
    t0 = sim.fabric.switches["t0-p1-1"]
    before = t0.received()
    assert before[1][0] >= 100_000 // 4096
    assert before[1][1] > 100_000
    half_link, seen = sim.fabric.cable("h1-p1").half_links[0], []
    far, port = half_link.end
    half_link.attach(CapturePoint(far, seen.append), port)
    assert t0.received() == before
    finish(sim, Write(sim, "h1", "h3", 100_000))
    half_link.attach(far, port)
    assert t0.received()[1][0] == before[1][0] + len(seen)
    assert len(seen) > 20
    t0.die()
    assert t0.received() == {}


@pytest.mark.parametrize("other", ["swap", "tap"])
def test_taps_that_are_removed_while_something_else_holds_the_cable_see_no_more(other):
    sim = Sim(planes=1)
    ends = [half_link.end for half_link in sim.fabric.cable("h1-p1").half_links]
    taps = VirtualTaps(sim.fabric, [sim.model.link("h1-p1")])
    if other == "swap":
        broken(sim).swap("h1-p1", "h2-p1")
        taps.remove()
        broken(sim).swap("h1-p1", "h2-p1")
    else:
        more = VirtualTaps(sim.fabric, [sim.model.link("h1-p1")])
        taps.remove()
    finish(sim, Write(sim, "h1", "h3", 100_000))
    assert taps.frames == []
    if other == "tap":
        assert len(more.frames) > 20
        more.remove()
    assert [half_link.end for half_link in sim.fabric.cable("h1-p1").half_links] == ends


def test_a_switch_that_died_has_counted_nothing_when_it_is_back():
    sim = Sim()
    write = Write(sim, "h1", "h3", 1 << 16)
    finish(sim, write)
    switch = next(one for name, one in sim.fabric.switches.items() if name.startswith("t1") and _received(one))
    switch.drops[4] = 3
    switch.cpu_in = 2
    switch.die()
    switch.revive()
    assert (_received(switch), sum(switch.drops), switch.cpu_in) == (0, 0, 0)
    assert sum(packets for port in switch.used for packets, _ in port.sent()) == 0


def _received(switch):
    return sum(half_link.rx_packets for half_link in switch._inputs.values())
