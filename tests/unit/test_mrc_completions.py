"""Completions: queues that are too small, and immediates that meet the receives meant for them."""

import pytest
from mrc_sim import FULL_SIZE, Simulation, Transfer
from roce_sim import Simulation as RoceSimulation

from mrclab.hosts.rdma.errors import VerbsError
from mrclab.hosts.rdma.states import QpState

LATE = 0.005  # seconds: a quarter of a round trip


def delay_first_write(sim, by):
    """The first write arrives later than those behind it."""
    waiting = [True]

    def network(transit):
        if transit.is_write and waiting:
            waiting.clear()
            return [sim.delay(transit) + by]
        return [sim.delay(transit)]

    sim.network = network


def statuses(sim, name):
    return [(r["wr_id"], r["status"]) for r in sim.records if r["kind"] == "wr.done" and r["node"] == name]


def with_small_queues(sim, depth):
    """A pair of QPs of which the sender's and the receiver's completion queue take `depth` entries."""
    a, b = sim.hosts["h1"], sim.hosts["h3"]
    send, recv = a.verbs.create_cq(depth), b.verbs.create_cq(depth)
    qa = a.verbs.create_qp(sim.configs["h3"].host.address, sim.now, send_cq=send)
    qb = b.verbs.create_qp(sim.configs["h1"].host.address, sim.now, recv_cq=recv)
    a.verbs.connect(qa, b.verbs.local_info(qb), sim.now)
    b.verbs.connect(qb, a.verbs.local_info(qa), sim.now)
    local, remote = a.verbs.reg_mr(bytearray(100)), b.verbs.reg_mr(bytearray(100))

    def write(wr_id, imm=None):
        opcode = "RDMA_WRITE" if imm is None else "RDMA_WRITE_WITH_IMM"
        a.verbs.post_send(qa, wr_id, opcode, local.lkey, 0, 10, remote.va, remote.rkey, imm, sim.now)

    return qa, qb, send, recv, write


def test_a_receive_queue_that_overflows_fails_the_qp_and_nothing_else():
    sim = Simulation()
    _, qb, _, recv, write = with_small_queues(sim, 1)
    b = sim.hosts["h3"]
    for n in range(5):
        b.verbs.post_recv(qb, 100 + n, sim.now)
    delay_first_write(sim, LATE)  # the first packet completes all of them at once
    for n in range(4):
        write(n, imm=n)
    sim.run(until=2.0)
    assert [(done.wr_id, done.status) for done in b.verbs.poll_cq(recv)] == [(100, "SUCCESS")]
    with pytest.raises(VerbsError, match="overflowed"):
        b.verbs.poll_cq(recv)
    assert b.verbs.qp(qb).state is QpState.ERROR
    assert [event["event"] for event in b.events.poll()] == ["CQ_ERR", "QP_FATAL"]


@pytest.mark.parametrize("simulation", [Simulation, RoceSimulation])
def test_a_send_queue_that_overflows_completes_each_request_once(simulation):
    sim = simulation()
    qa, _, _, _, write = with_small_queues(sim, 1)
    # the first acknowledgements are lost, so that the next one completes all of them
    sim.network = lambda transit: [sim.delay(transit)] if transit.is_write or sim.now > 0.02 else []
    for n in range(4):
        write(n)
    sim.run(until=2.0)
    done = statuses(sim, "h1")
    assert [wr_id for wr_id, _ in done] == [0, 1, 2, 3]
    assert done[-1] == (3, "WR_FLUSH_ERR")
    assert sim.hosts["h1"].verbs.qp(qa).state is QpState.ERROR
    assert sim.hosts["h1"].next_deadline() is None


@pytest.mark.parametrize("posted", [1, 2])
def test_an_immediate_takes_the_receive_of_its_turn_whatever_the_order_of_arrival(posted):
    sim = Simulation()
    transfer = Transfer(sim, "h1", "h3", 100)
    b = sim.hosts["h3"]
    delay_first_write(sim, LATE)
    for n in range(posted):
        b.verbs.post_recv(transfer.qb, n, sim.now)
    got = []

    def poll():
        for done in b.verbs.poll_cq():
            got.append(done.imm)
            b.verbs.post_recv(transfer.qb, 10 + len(got), sim.now)
        if len(got) < 2:
            sim.at(sim.now + 0.001, poll)

    sim.at(0.001, poll)
    transfer.write(0, 10, imm=11)
    transfer.write(10, 10, imm=22)
    sim.run(until=2.0, done=transfer.done)
    assert got == [11, 22]
    assert sim.now < 0.1


def test_a_thousand_immediates_find_their_receives_one_by_one_on_a_jittery_network():
    sim = Simulation(wimm=64)
    transfer = Transfer(sim, "h1", "h3", 1000)
    a, b = sim.hosts["h1"], sim.hosts["h3"]
    sim.network = lambda transit: [sim.delay(transit) + transit.serial % 7 * 0.002]
    b.verbs.post_recv(transfer.qb, 0, sim.now)
    got = []

    def work():
        for done in b.verbs.poll_cq():
            got.append(done.imm)
            b.verbs.post_recv(transfer.qb, 0, sim.now)
        while transfer.posted < 1000 and a.verbs.qp(transfer.qa).requestor.wimm_in_flight < 4:
            transfer.write(transfer.posted, 1, imm=transfer.posted)
        sim.at(sim.now + 0.001, work)

    sim.at(0.0, work)
    sim.run(until=60.0, done=lambda: transfer.done() and transfer.posted == 1000)
    assert got == list(range(1000))


def test_one_transport_ack_speaks_for_all_messages_since_the_last_sack():
    sim = Simulation()
    transfer = Transfer(sim, "h1", "h3", 400 * FULL_SIZE)
    for n in range(400):
        transfer.write(n * FULL_SIZE, FULL_SIZE)
    sim.run(until=5.0, done=transfer.done)
    receiver = sim.hosts["h3"].verbs.qp(transfer.qb).stats
    assert receiver.acks_sent <= receiver.sacks_sent <= 110
    assert [done.status for done in transfer.completions] == ["SUCCESS"] * 400


def test_a_lone_message_is_acknowledged_at_once():
    sim = Simulation()
    transfer = Transfer(sim, "h1", "h3", 10)
    transfer.write(0, 10)
    sim.run(until=5.0, done=transfer.done)
    assert sim.now < sim.hosts["h1"].verbs.qp(transfer.qa).settings.base_rtt
    sim.run(until=sim.now + 0.1)
    assert sim.hosts["h1"].verbs.qp(transfer.qa).stats.acks_received == 1
