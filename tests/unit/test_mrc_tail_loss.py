"""Tail loss probes: what is lost at the end of a flow comes again within 3 RTT, in another plane, few packets of it."""

import itertools

import pytest
from mrc_sim import FULL_SIZE, HOP, RATE, Simulation, Transfer

from mrclab.hosts.mrc.evs.evformat import EvFormat
from mrclab.hosts.mrc.evs.evprofile import Mode, ProfileState
from mrclab.hosts.mrc.packets import headers as h
from mrclab.topo import srv6

RTT = 8 * HOP + 1 / RATE


def warm(sim, **attributes):
    """A transfer that knows its round-trip time and has nothing to send; what is sent from now on is kept."""
    transfer = Transfer(sim, "h1", "h3", 400 * FULL_SIZE, **attributes)
    transfer.write(0, 200 * FULL_SIZE)
    sim.run(done=transfer.done)
    sim.run(until=sim.now + 4 * RTT)
    sim.keep_sent = True
    return transfer


def data(sim, flag=None):
    """Data packets of h1 that were sent, with this flag where one is given."""
    found = [t for t in sim.sent if t.source == "h1" and t.is_write]
    return found if flag is None else [t for t in found if t.data[h.BTH_AT + 8] & flag]


def lose(sim, *numbers):
    """Lose data packets by their place among those that are sent from now on."""
    count = itertools.count()
    lost = []

    def network(transit):
        if transit.is_write and next(count) in numbers:
            lost.append(transit)
            return []
        return [sim.delay(transit)]

    sim.network = network
    return lost


@pytest.mark.parametrize("numbers", [(15,), (12, 13, 14, 15), (3, 9, 15), tuple(range(8, 16))])
def test_losses_at_the_end_of_a_flow_cost_three_round_trips_at_most(numbers):
    sim = Simulation(uplinks=8)
    transfer = warm(sim)
    lost = lose(sim, *numbers)
    transfer.write(0, 16 * FULL_SIZE)
    sim.run(until=60.0, done=transfer.done)
    last = max(t.sent_at for t in data(sim)[:16])
    assert sim.now - last <= 3 * RTT
    again = data(sim, h.FLAG_RTX)
    assert sorted(t.psn for t in again) == sorted(t.psn for t in lost)
    planes = {t.psn: t.plane for t in lost}
    assert all(t.plane != planes[t.psn] for t in again)
    retired = [r["ev"] for r in sim.records if r["kind"] == "ev.state" and r["new"] == "ASSUMED_BAD"]
    assert sorted(retired) == sorted(t.entropy for t in lost)


def test_packets_that_are_only_late_cost_few_copies_and_no_path():
    sim = Simulation(uplinks=8)
    transfer = warm(sim)
    sim.network = lambda transit: [sim.delay(transit) + (2.5 * RTT if transit.source == "h1" else 0.0)]
    transfer.write(0, 40 * FULL_SIZE)
    sim.run(until=60.0, done=transfer.done)
    assert 0 < len(data(sim, h.FLAG_RTX)) <= 3 * 8
    states = [r for r in sim.records if r["kind"] == "ev.state" and r["new"] == "ASSUMED_BAD"]
    assert len(states) <= 4  # of 32, by copies that were unanswered themselves


def test_a_peer_that_falls_silent_draws_ever_fewer_copies():
    sim = Simulation(uplinks=8)
    transfer = warm(sim)
    sim.network = lambda _transit: []
    transfer.write(0, 40 * FULL_SIZE)
    began = sim.now
    sim.run(until=began + 6 * RTT)
    assert len(data(sim, h.FLAG_RTX)) <= 3 * 8


def test_where_sacks_may_declare_nothing_lost_the_tail_waits_for_the_timeout():
    sim = Simulation(uplinks=8, sack_loss=False)
    transfer = warm(sim)
    lose(sim, 15)
    transfer.write(0, 16 * FULL_SIZE)
    began = sim.now
    sim.run(until=60.0, done=transfer.done)
    assert sim.now - began >= sim.hosts["h1"].verbs.qps[transfer.qa].settings.ack_timeout


def explicit(sim, order, uplinks):
    """Make an EXPLICIT EV profile at both hosts, with the ports of its entries in this order."""
    for host in sim.hosts.values():
        ctl = host.ctl
        number = ctl.create_ev_profile(Mode.EXPLICIT, EvFormat.STEV, len(order) * len(uplinks), 1)
        for index, (plane, uplink) in enumerate(itertools.product(order, uplinks)):
            ctl.replace_ev(number, index, plane, srv6.ev(plane, uplink, srv6.ev_tag(index)).to_bytes(4, "big"))
        for state in (ProfileState.OFFLINE, ProfileState.ONLINE):
            ctl.modify_ev_profile(number, state)
    return number


@pytest.mark.parametrize("order", [(1, 2, 3, 4), (4, 3, 2, 1)])
@pytest.mark.parametrize("dead", [{4}, {1}, {3, 4}])
def test_a_dead_plane_costs_a_message_the_same_whatever_order_a_profile_has(order, dead):
    sim = Simulation()
    transfer = warm(sim, ev_profile=explicit(sim, order, (1, 2)))
    sim.network = lambda transit: [] if transit.plane in dead else [sim.delay(transit)]
    began = sim.now
    transfer.write(0, 8 * FULL_SIZE)
    sim.run(until=60.0, done=transfer.done)
    assert sim.now - began <= 5 * RTT
    assert transfer.stats().timeouts == 0


@pytest.mark.parametrize("order", [(1, 2, 3, 4), (4, 1, 2, 3)])
def test_questions_about_the_tail_go_through_all_planes_in_turn(order):
    sim = Simulation()
    transfer = warm(sim, ev_profile=explicit(sim, order, (1,)))
    prober = sim.hosts["h1"].verbs.qps[transfer.qa].prober
    planes = []
    for _ in range(8):
        prober.request_sack(sim.now)
        planes += [plane for plane in (1, 2, 3, 4) if prober.has_probe(plane)]
    assert planes == [1, 2, 3, 4] * 2
