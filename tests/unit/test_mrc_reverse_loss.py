"""Control packets keep the data flowing while the reverse path of one plane loses everything."""

import collections
import itertools

import pytest
from mrc_sim import FULL_SIZE, HOP, RATE, Simulation, Transfer

from mrclab.hosts.mrc.packets import headers as h

RTT = 8 * HOP + 1 / RATE
PACKETS = 1200


def transfer_with_a_dead_reverse_plane(plane, seed=1):
    """h3's control packets in `plane` are lost from the start; data passes. Longest time without a new byte at h3."""
    sim = Simulation(seed=seed)
    transfer = Transfer(sim, "h1", "h3", PACKETS * FULL_SIZE)
    arrivals = []

    def network(transit):
        if transit.source == "h3" and transit.plane == plane:
            return []
        if transit.is_write:
            arrivals.append(sim.now + sim.delay(transit))
        return [sim.delay(transit)]

    sim.network = network
    transfer.write(0, PACKETS * FULL_SIZE)
    sim.run(done=transfer.done)
    assert transfer.target == transfer.source
    return max(b - a for a, b in itertools.pairwise(arrivals))


def dscp(transit):
    return int.from_bytes(transit.data[h.OUTER_AT : h.OUTER_AT + 2], "big") >> 6 & 0x3F


@pytest.mark.parametrize("plane", [1, 2, 3, 4])
def test_data_never_pauses_for_more_than_a_few_round_trips(plane):
    assert transfer_with_a_dead_reverse_plane(plane) < 3 * RTT


def test_feedback_is_spread_evenly_over_the_planes():
    sim = Simulation()
    sim.keep_sent = True
    transfer = Transfer(sim, "h1", "h3", PACKETS * FULL_SIZE)
    transfer.write(0, PACKETS * FULL_SIZE)
    sim.run(done=transfer.done)
    planes = collections.Counter(t.plane for t in sim.sent if t.source == "h3" and t.op == h.MrcOpcode.SACK)
    assert set(planes) == {1, 2, 3, 4}
    assert max(planes.values()) - min(planes.values()) <= 0.1 * sum(planes.values())


def test_looking_for_a_reverse_path_takes_no_place_in_the_queues_of_data():
    sim = Simulation()
    sim.keep_sent = True
    transfer = Transfer(sim, "h1", "h3", PACKETS * FULL_SIZE)
    transfer.write(0, PACKETS * FULL_SIZE)
    sim.run(done=transfer.done)
    asked = [t for t in sim.sent if t.source == "h3" and t.op == h.MrcOpcode.ENDPOINT_REQUEST]
    assert len(asked) >= 3
    assert {dscp(t) for t in asked} == {h.Dscp.CONTROL}


def test_questions_about_the_tail_go_out_in_one_plane_after_the_other():
    sim = Simulation()
    transfer = Transfer(sim, "h1", "h3", 8 * FULL_SIZE)
    probes = []

    def network(transit):
        if transit.source == "h3":
            return []
        if transit.op == h.MrcOpcode.PROBE:
            probes.append(transit.plane)
        return [sim.delay(transit)]

    sim.network = network
    transfer.write(0, 8 * FULL_SIZE)
    sim.run(until=1.0)
    assert len(probes) >= 3
    assert len(set(probes[:3])) == 3


@pytest.mark.parametrize("seed", range(8))
def test_where_one_path_is_left_both_ends_find_it(seed):
    """Both directions of all T1s but one die one after the other, in the only plane; nothing tells the receiver."""
    sim = Simulation(seed=seed, planes=1, uplinks=4)
    transfer = Transfer(sim, "h1", "h3", PACKETS * FULL_SIZE)
    dead = set()
    arrivals = []

    def network(transit):
        if transit.uplink in dead:
            return []
        if transit.is_write:
            arrivals.append(sim.now + sim.delay(transit))
        return [sim.delay(transit)]

    sim.network = network
    for number, uplink in enumerate((1, 2, 3)):
        sim.at(20 * RTT * (number + 1), lambda gone=uplink: dead.add(gone))
    transfer.write(0, PACKETS * FULL_SIZE)
    sim.run(done=transfer.done)
    assert transfer.target == transfer.source
    timeout = sim.configs["h1"].transport.ack_timeout
    assert max(b - a for a, b in itertools.pairwise(arrivals)) < 3 * timeout


def test_feedback_goes_by_the_planes_that_data_still_comes_by_though_nobody_told_of_the_others():
    sim = Simulation()
    transfer = Transfer(sim, "h1", "h3", 4 * PACKETS * FULL_SIZE)
    told = []

    def network(transit):
        if transit.plane != 1:  # h1's other NIC links are dead, both ways, and h3 knows nothing of it
            return []
        return [sim.delay(transit)]

    def sent(transit):
        if transit.source == "h3" and transit.op == h.MrcOpcode.SACK and sim.now > 20 * RTT:
            told.append(transit.plane)

    def looked(transit):
        sent(transit)
        return network(transit)

    sim.network = looked
    transfer.write(0, PACKETS * FULL_SIZE)
    sim.run(done=transfer.done)
    assert transfer.target[: PACKETS * FULL_SIZE] == transfer.source[: PACKETS * FULL_SIZE]
    assert told.count(1) >= 0.6 * len(told)
    assert set(told) == {
        1,
        2,
        3,
        4,
    }  # the way back of the one plane might be dead
