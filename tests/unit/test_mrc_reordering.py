"""A sender that was wrong about a loss learns from it, and from nothing else."""

import random

from mrc_sim import FULL_SIZE, HOP, PLANES, RATE, Simulation, Transfer

RTT = 8 * HOP + 1 / RATE
MESSAGE = 100  # packets


def transfer_in(sim, network, packets):
    """A transfer that has run to its end, everything in place; its QP and the share of line rate it had."""
    sim.network = network
    transfer = Transfer(sim, "h1", "h3", packets * FULL_SIZE)
    for first in range(0, packets, MESSAGE):
        transfer.write(first * FULL_SIZE, MESSAGE * FULL_SIZE)
    sim.run(done=transfer.done)
    assert transfer.target == transfer.source
    return sim.hosts["h1"].verbs.qps[transfer.qa], packets / RATE / PLANES / sim.now


def test_packets_sent_again_for_a_port_that_went_down_teach_nothing_though_the_first_copies_arrived():
    sim = Simulation(cc_profile="none")

    def port(up):
        return lambda: sim.hosts["h1"].port_event(1, up, sim.now)

    sim.at(0.3, port(up=False))  # what is on the wire arrives all the same
    sim.at(0.5, port(up=True))
    qp, _ = transfer_in(sim, sim.clean, 1500)
    assert qp.stats.lost_port > 0
    assert qp.stats.spurious_packets > 0
    assert qp.requestor.recovery.loss.reorder_rtts == qp.settings.reorder_rtts
    assert qp.requestor.recovery.loss.grace_rtts == 0.25


def test_a_plane_that_is_five_round_trips_slower_is_learnt_from_originals_that_come_after_their_retransmission():
    sim = Simulation(cc_profile="none", mpr=16)

    def network(transit):
        return [sim.delay(transit) + (5 * RTT if transit.plane == 4 and transit.is_write else 0)]

    qp, share = transfer_in(sim, network, 4000)
    assert share > 0.9
    assert qp.requestor.recovery.loss.reorder_rtts >= 5.0
    assert qp.stats.retx_packets < 40
    assert max(r["t"] for r in sim.records if r["kind"] == "packet.lost") < 20 * RTT


def test_where_paths_do_not_keep_order_the_same_ev_rule_switches_itself_off():
    sim = Simulation(cc_profile="none", mpr=16)
    rng = random.Random(3)

    def network(transit):
        return [sim.delay(transit) + (rng.random() * 5 * RTT if transit.is_write else 0)]

    _, share = transfer_in(sim, network, 4000)
    assert share > 0.85
    blamed = [r["t"] for r in sim.records if r["kind"] == "packet.lost" and r["reason"] == "same-ev"]
    assert blamed
    assert len(blamed) < 100
    assert max(blamed) < 0.5 * sim.now
