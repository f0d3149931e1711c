"""Immediates for which no receive is posted: they wait for an RNR timer, and cost others next to nothing."""

import pytest
from mrc_sim import FULL_SIZE, RATE, Simulation, Transfer

from mrclab.hosts.mrc.packets import headers as h
from mrclab.hosts.mrc.recovery.rnr import RNR_SPACING

BULK = 50 * FULL_SIZE


def keep_busy(sim, bulk, until):
    """Post to a transfer so that it always has something to send."""

    def feed():
        while len(sim.hosts["h1"].verbs.qps[bulk.qa].requestor.incomplete) < 4:
            bulk.write(0, BULK)
        sim.hosts["h1"].verbs.poll_cq(most=1000)
        if sim.now < until:
            sim.at(sim.now + 0.01, feed)

    sim.at(sim.now, feed)


@pytest.mark.parametrize("destination", ["h3", "h4"])
def test_refused_immediates_leave_the_line_to_others(destination):
    sim = Simulation((1, 3, 4))
    wait, bulk = Transfer(sim, "h1", "h3", 128 * FULL_SIZE), Transfer(sim, "h1", destination, BULK)
    keep_busy(sim, bulk, until=1.8)
    sim.run(until=0.3)
    for i in range(128):
        wait.write(i * FULL_SIZE, FULL_SIZE, imm=i)
    sim.run(until=0.7)
    acked, sent = bulk.stats().acked_packets, wait.stats().sent_packets
    sim.run(until=1.7)
    line = 1.0 * 4 * RATE
    assert (bulk.stats().acked_packets - acked) / line > 0.95
    assert (wait.stats().sent_packets - sent) / line < 0.02


def test_many_qps_without_receives_together_keep_to_one_packet_per_spacing():
    sim = Simulation()
    waits = [Transfer(sim, "h1", "h3", FULL_SIZE) for _ in range(64)]
    for wait in waits:
        wait.write(0, FULL_SIZE, imm=1)
    sim.run(until=0.5)
    before = sum(wait.stats().sent_packets for wait in waits)
    sim.run(until=4.5)
    sent = sum(wait.stats().sent_packets for wait in waits) - before
    assert 0 < sent <= 4.0 * 4 * RATE / RNR_SPACING + 1


def test_receives_posted_late_are_found_and_then_all_follow_in_order():
    sim = Simulation()
    wait = Transfer(sim, "h1", "h3", 200 * FULL_SIZE)
    for i in range(100):
        wait.write(2 * i * FULL_SIZE, 2 * FULL_SIZE, imm=i)
    sim.run(until=1.0)
    assert not wait.done()
    refused = wait.stats().nacks_received
    for i in range(100):
        sim.hosts["h3"].verbs.post_recv(wait.qb, i, sim.now)
    sim.run(until=2.0, done=wait.done)
    assert [c.wr_id for c in wait.completions if c.status == "SUCCESS"] == list(range(100))
    assert wait.target == wait.source
    assert [c.imm for c in sim.hosts["h3"].verbs.poll_cq(most=200)] == list(range(100))
    assert wait.stats().nacks_received == refused


def test_receives_posted_one_by_one_cost_few_refusals_each():
    sim = Simulation()
    wait = Transfer(sim, "h1", "h3", 40 * FULL_SIZE)
    for i in range(40):
        wait.write(i * FULL_SIZE, FULL_SIZE, imm=i)
    sim.run(until=0.2)
    refused = wait.stats().nacks_received
    for i in range(40):
        sim.at(0.2 + i * 0.05, lambda i=i: sim.hosts["h3"].verbs.post_recv(wait.qb, i, sim.now))
    sim.run(until=6.0, done=wait.done)
    assert len(wait.completions) == 40
    assert wait.stats().nacks_received - refused <= 4 * 40


def test_no_new_immediate_is_sent_while_the_peer_lacks_receives_but_data_is():
    sim = Simulation()
    transfer = Transfer(sim, "h1", "h3", 40 * FULL_SIZE)
    transfer.write(0, FULL_SIZE, imm=1)
    sim.run(until=0.1)
    sim.keep_sent = True
    transfer.write(FULL_SIZE, 30 * FULL_SIZE)
    transfer.write(31 * FULL_SIZE, 3 * FULL_SIZE, imm=2)
    sim.run(until=1.0)
    sent = [t.op for t in sim.sent if t.source == "h1" and t.is_write]
    assert sent.count(h.MrcOpcode.WRITE_ONLY_IMM) >= 2  # the first one asks again
    assert sent.count(h.MrcOpcode.WRITE_LAST) == 1
    assert h.MrcOpcode.WRITE_LAST_IMM not in sent
    for wr_id in (1, 2):
        sim.hosts["h3"].verbs.post_recv(transfer.qb, wr_id, sim.now)
    sim.run(until=3.0, done=transfer.done)
    assert len(transfer.completions) == 3


def test_a_released_packet_that_is_lost_is_sent_again():
    sim = Simulation(seed=3)
    wait = Transfer(sim, "h1", "h3", 20 * FULL_SIZE)
    for i in range(20):
        wait.write(i * FULL_SIZE, FULL_SIZE, imm=i)
    sim.run(until=0.3)
    rng = sim.hosts["h1"].rng
    sim.network = lambda t: [] if rng.random() < 0.3 else [sim.delay(t)]
    for i in range(20):
        sim.hosts["h3"].verbs.post_recv(wait.qb, i, sim.now)
    sim.run(until=60.0, done=wait.done)
    assert wait.target == wait.source
