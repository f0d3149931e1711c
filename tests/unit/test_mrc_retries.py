"""Retries: which events count as one, and the cost of a peer that is late, refuses or trims."""

import pytest
from mrc_sim import FULL_SIZE, RATE, Simulation, Transfer


def trim_first(sim, count):
    """The first `count` data packets lose their payload."""
    seen = []

    def network(transit):
        if transit.is_write:
            seen.append(transit)
            if len(seen) <= count:
                transit.trim(last_hop=True)
        return [sim.delay(transit)]

    sim.network = network


@pytest.mark.parametrize("trims", [8, 40])
def test_trims_in_a_row_cost_neither_the_qp_nor_its_patience(trims):
    sim = Simulation(trimming=True, retry_linear=7, retry_exponential=0)
    trim_first(sim, trims)
    transfer = Transfer(sim, "h1", "h3", 60 * FULL_SIZE)
    transfer.write(0, 60 * FULL_SIZE)
    qp = sim.hosts["h1"].verbs.qp(transfer.qa)
    longest = []
    sim.before_send = lambda _name, _transit: longest.append(qp.requestor.recovery.loss.timeout)
    sim.run(until=20.0, done=transfer.done)
    assert [done.status for done in transfer.completions] == ["SUCCESS"]
    assert max(longest) == qp.settings.ack_timeout


def test_a_peer_that_only_refuses_costs_a_retry_per_ack_timeout():
    sim = Simulation(retry_linear=2, retry_exponential=0, timeout_exponent=17)
    transfer = Transfer(sim, "h1", "h3", 100)
    transfer.write(0, 10, imm=1)  # no receive is posted
    sim.run(until=20.0, done=transfer.done)
    qp = sim.hosts["h1"].verbs.qp(transfer.qa)
    assert [done.status for done in transfer.completions] == ["RETRY_EXC_ERR"]
    assert 3 * qp.settings.ack_timeout <= sim.now < 4 * qp.settings.ack_timeout


@pytest.mark.parametrize("late", [0.02, 0.1, 0.3])
def test_a_peer_that_is_late_to_rtr_costs_no_ev(late):
    sim = Simulation()
    a, b = sim.hosts["h1"], sim.hosts["h3"]
    qa, qb = (
        a.verbs.create_qp(sim.configs["h3"].host.address, sim.now),
        b.verbs.create_qp(sim.configs["h1"].host.address, sim.now),
    )
    here, there = a.verbs.local_info(qa), b.verbs.local_info(qb)
    local, remote = a.verbs.reg_mr(bytearray(400 * FULL_SIZE)), b.verbs.reg_mr(bytearray(400 * FULL_SIZE))
    a.verbs.connect(qa, there, sim.now)
    sim.at(late, lambda: b.verbs.connect(qb, here, sim.now))
    a.verbs.post_send(qa, 1, "RDMA_WRITE", local.lkey, 0, 400 * FULL_SIZE, remote.va, remote.rkey, None, sim.now)
    done = []
    sim.run(until=10.0, done=lambda: bool(done.extend(a.verbs.poll_cq()) or done))
    assert [completion.status for completion in done] == ["SUCCESS"]
    assert [r for r in sim.records if r["kind"] == "ev.state" and r["new"] == "ASSUMED_BAD"] == []


def test_a_path_that_is_dead_from_the_start_is_retired_once_the_peer_was_heard():
    sim = Simulation()
    transfer = Transfer(sim, "h1", "h3", 400 * FULL_SIZE)
    sim.network = lambda transit: [] if (transit.plane, transit.uplink) == (2, 1) else [sim.delay(transit)]
    transfer.write(0, 400 * FULL_SIZE)
    sim.run(until=10.0, done=transfer.done)
    retired = {(r["plane"], r["uplink"]) for r in sim.records if r["kind"] == "ev.state" and r["new"] == "ASSUMED_BAD"}
    assert retired == {(2, 1)}


def test_an_idle_qp_of_small_packets_leaves_the_window_of_others_alone():
    def goodput(first):
        sim = Simulation()
        if first:
            Transfer(sim, "h1", "h3", 10, path_mtu=first)
        transfer = Transfer(sim, "h1", "h3", 1000 * FULL_SIZE)
        transfer.write(0, 1000 * FULL_SIZE)
        sim.run(until=60.0, done=transfer.done)
        return 1000 / sim.now / (RATE * 4)

    assert goodput(256) == pytest.approx(goodput(None), rel=0.02)
