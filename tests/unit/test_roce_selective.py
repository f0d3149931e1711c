"""Selective repeat and the window of a bandwidth-delay product of the RoCEv2 baseline, as IRN has them."""

import pytest
from mrc_sim import FULL_SIZE, Transfer
from roce_sim import PORT_RATE, RTT, Simulation
from test_roce_endpoint import losing, of_kind, transfer

from mrclab.hosts.rdma.errors import VerbsError
from mrclab.hosts.roce import headers as h
from mrclab.hosts.roce.selective import SelectiveRepeat

SELECTIVE = {"recovery": "selective_repeat"}


def test_only_the_lost_packet_is_sent_again():
    sim = Simulation(**SELECTIVE)
    seen = losing(sim, (100, 1))
    one = transfer(sim, 400)
    sim.run(done=one.done)
    assert one.target == one.source
    stats = one.stats()
    assert (stats.retx_packets, stats.lost_nack, stats.timeouts) == (1, 1, 0)
    assert [psn for psn, count in seen.items() if count == 2] == [100]
    responder = sim.hosts["h3"].verbs.qps[one.qb].stats
    assert (responder.placed_packets, responder.duplicate_packets) == (400, 0)
    (lost,), (resent,) = of_kind(sim, "packet.lost"), of_kind(sim, "packet.retx")
    assert (lost["psn"], lost["count"], resent["psn"], resent["count"]) == (100, 1, 100, 1)


def test_several_gaps_of_one_window_are_filled_in_one_recovery():
    sim = Simulation(**SELECTIVE)
    seen = losing(sim, (100, 1), (103, 1), (104, 1), (110, 1))
    one = transfer(sim, 400)
    sim.run(done=one.done)
    assert one.target == one.source
    assert sorted(psn for psn, count in seen.items() if count == 2) == [100, 103, 104, 110]
    assert one.stats().timeouts == 0
    assert (one.stats().lost_packets, one.stats().lost_nack) == (4, 4)
    assert [lost["psn"] for lost in of_kind(sim, "packet.lost")] == [100, 103, 104, 110]


def test_a_gap_that_opens_during_recovery_needs_no_timer():
    sim = Simulation(**SELECTIVE)
    losing(sim, (100, 1), (150, 1), (151, 1))
    one = transfer(sim, 400)
    sim.run(done=one.done)
    assert one.target == one.source
    assert (one.stats().retx_packets, one.stats().timeouts) == (3, 0)


def test_a_retransmission_that_is_lost_waits_for_the_timer():
    sim = Simulation(**SELECTIVE)
    losing(sim, (100, 1), (100, 2))
    one = transfer(sim, 400)
    sim.run(done=one.done)
    assert one.target == one.source
    assert (one.stats().timeouts, one.stats().retx_packets) == (1, 2)
    assert (one.stats().lost_nack, one.stats().lost_timeout) == (1, 1)


def test_the_last_packet_is_found_by_the_timer():
    sim = Simulation(**SELECTIVE)
    losing(sim, (399, 1))
    one = transfer(sim, 400)
    sim.run(done=one.done)
    assert one.target == one.source
    assert one.stats().timeouts == 1
    assert one.stats().retx_packets <= 2  # the one whose ACK was not asked for, and the last


def test_a_retransmission_that_the_rate_limiter_holds_back_does_not_time_out():
    """At a rate whose packets are further apart than eight time-outs, the QP would end without having tried again."""
    sim = Simulation(**SELECTIVE)
    one = transfer(sim, 4)
    requestor = sim.hosts["h1"].verbs.qps[one.qa].requestor
    tries = []

    def network(transit):
        if not transit.is_write or transit.psn != 3:
            return [sim.delay(transit)]
        tries.append(sim.now)
        if len(tries) > 1:
            return [sim.delay(transit)]
        requestor.next_at = sim.now + 20 * requestor.qp.settings.ack_timeout
        return []

    sim.network = network
    sim.run(done=one.done)
    assert one.target == one.source
    assert (len(tries), one.stats().timeouts) == (2, 1)


def test_what_the_receiver_dropped_after_all_is_sent_again():
    """It drops early packets with an RNR NAK, and that NAK is lost; the receive is posted before the timer fires."""
    sim = Simulation(**SELECTIVE)
    one = Transfer(sim, "h1", "h3", 20 * FULL_SIZE, first_psn=0)
    fates = {"first": True, "rnr": True}

    def network(transit):
        if transit.is_write and transit.psn == 0 and fates.pop("first", False):
            return []
        if not transit.is_write and transit.data[h.BTH_AT + 12] >> 5 == 1 and fates.pop("rnr", False):
            sim.hosts["h3"].verbs.post_recv(one.qb, 1, sim.now)
            return []
        return [sim.delay(transit)]

    sim.network = network
    one.write(0, FULL_SIZE, imm=1)
    one.write(FULL_SIZE, 19 * FULL_SIZE)
    sim.run(done=one.done)
    assert not fates
    assert [completion.status for completion in one.completions] == ["SUCCESS"] * 2
    assert one.target == one.source


def test_a_packet_beyond_the_receivers_window_is_not_said_to_have_come():
    sim = Simulation(**SELECTIVE)
    here, there = sim.hosts["h1"].verbs, sim.hosts["h3"].verbs
    one = here.create_qp(sim.configs["h3"].host.address, 0.0, mpr=16)
    other = there.create_qp(sim.configs["h1"].host.address, 0.0, mpr=1)
    here.qps[one].first_psn = 0
    here.connect(one, there.local_info(other), 0.0)
    there.connect(other, here.local_info(one), 0.0)
    losing(sim, (0, 1))
    source, target = bytearray(range(256)) * 4 * 200, bytearray(200 * FULL_SIZE)
    local, remote = here.reg_mr(source), there.reg_mr(target)
    here.post_send(one, 1, "RDMA_WRITE", local.lkey, 0, len(source), remote.va, remote.rkey, None, 0.0)
    sim.run(done=lambda: len(here.poll_cq()) == 1)
    assert here.qps[one].stats.timeouts == 0
    assert target == source


@pytest.mark.parametrize("seed", range(4))
def test_random_loss_and_reordering_lose_nothing(seed):
    sim = Simulation(seed=seed, **SELECTIVE)
    rng = sim.hosts["h1"].rng
    sim.network = lambda transit: [] if rng.random() < 0.05 else [sim.delay(transit) * rng.choice((1, 1, 1, 1.3))]
    one = transfer(sim, 300)
    sim.run(done=one.done)
    assert one.target == one.source


def test_no_more_than_a_bandwidth_delay_product_is_in_flight():
    sim = Simulation(window_bdps=1.0)
    one = transfer(sim, 400)
    most = 0

    def network(transit):
        nonlocal most
        requestor = sim.hosts["h1"].verbs.qps[one.qa].requestor
        most = max(most, requestor.next - requestor.una)
        return [sim.delay(transit)]

    sim.network = network
    sim.run(done=one.done)
    assert RTT * PORT_RATE - 2 <= most <= RTT * PORT_RATE


def test_wrong_attributes_are_refused():
    sim = Simulation()
    host, address = sim.hosts["h1"], sim.hosts["h3"].config.host.address
    with pytest.raises(VerbsError, match="recovery 'irn': Input should be 'go_back_n' or 'selective_repeat'"):
        host.verbs.create_qp(address, sim.now, recovery="irn")
    with pytest.raises(VerbsError, match="window_bdps -1: this must be at least 0"):
        host.verbs.create_qp(address, sim.now, window_bdps=-1)


def test_what_came_is_not_lost():
    recovery = SelectiveRepeat()
    assert recovery.on_sack(12, 10, 20)
    assert not recovery.on_sack(14, 10, 21)
    found = []
    while (seq := recovery.lost()) is not None:
        found.append(seq)
        recovery.sent()
    assert found == [10, 11, 13]
    recovery.acknowledged(20, 22)
    assert recovery.until == -1


def test_with_a_reordering_window_a_packet_that_is_only_late_is_not_sent_again():
    recovery = SelectiveRepeat(reorder=3)
    assert not recovery.on_sack(13, una=10, high=20)
    assert recovery.lost() is None
    assert recovery.on_sack(14, una=10, high=20)
    assert recovery.lost() == 10
