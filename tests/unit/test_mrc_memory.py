"""Regions whose memory goes while packets are under way."""

import pytest
from mrc_sim import FULL_SIZE, Simulation, Transfer
from roce_sim import Simulation as RoceSimulation

from mrclab.hosts.rdma.states import QpState


def reasons(sim, name):
    return [event["reason"] for event in sim.hosts[name].events.poll() if event["event"] == "QP_FATAL"]


@pytest.mark.sources
@pytest.mark.parametrize("simulation", [Simulation, RoceSimulation])
@pytest.mark.parametrize("packet", [50, 199])  # in the middle of a message, and the last one
def test_what_is_received_into_goes_and_the_qp_with_it_before_the_message_completes(simulation, packet):
    sim = simulation()
    transfer = Transfer(sim, "h1", "h3", 200 * FULL_SIZE)
    b = sim.hosts["h3"]
    b.verbs.post_recv(transfer.qb, 1, sim.now)
    transfer.write(0, 200 * FULL_SIZE, imm=7)
    qp = b.verbs.qp(transfer.qb)
    place = b.memory.place

    def place_until_it_is_gone(*arguments):
        if qp.stats.placed_packets >= packet:
            transfer.remote.lose("/data/target")
        return place(*arguments)

    b.memory.place = place_until_it_is_gone
    sim.run(until=10.0, done=transfer.done)
    assert [done.status for done in transfer.completions] == ["REM_OP_ERR"]
    assert [done.status for done in b.verbs.poll_cq()] == ["WR_FLUSH_ERR"]
    (reason,) = reasons(sim, "h3")
    assert "/data/target was cut short" in reason
    assert "the peer" in reasons(sim, "h1")[0]


@pytest.mark.parametrize("simulation", [Simulation, RoceSimulation])
def test_what_is_sent_from_goes_and_no_packet_of_it_leaves(simulation):
    sim = simulation()
    transfer = Transfer(sim, "h1", "h3", 200 * FULL_SIZE)
    transfer.write(0, 200 * FULL_SIZE)
    sim.run(until=0.05)
    transfer.local.lose("/data/source")
    after = []
    sim.before_send = lambda name, transit: after.append(transit) if name == "h1" and transit.is_write else None
    sim.run(until=10.0, done=transfer.done)
    assert after == []
    assert [done.status for done in transfer.completions] == ["LOC_PROT_ERR"]
    assert sim.hosts["h1"].verbs.qp(transfer.qa).state is QpState.ERROR
    (reason,) = reasons(sim, "h1")
    assert "/data/source was cut short" in reason
    assert sim.hosts["h1"].next_deadline() is None


def test_qps_that_wait_for_the_window_go_on_if_the_memory_of_the_one_in_turn_goes():
    sim = Simulation(cc_config={"max_cwnd": 20 * 1200})
    transfers = [Transfer(sim, "h1", "h3", 100 * FULL_SIZE) for _ in range(8)]
    for transfer in transfers:
        transfer.write(0, 100 * FULL_SIZE)
    sim.run(until=0.017)
    qps = [sim.hosts["h1"].verbs.qp(transfer.qa) for transfer in transfers]
    waiting = qps[0].qpcc.pending
    assert len(waiting) == 8
    first = waiting[0]
    transfers[qps.index(first)].local.lose("/data/source")
    sim.run(until=60.0)
    assert first.state is QpState.ERROR
    assert [qp.outstanding for qp in qps if qp is not first] == [0] * 7


@pytest.mark.parametrize("simulation", [Simulation, RoceSimulation])
@pytest.mark.parametrize("imm", [None, 5])
def test_a_write_without_data_needs_no_key(simulation, imm):
    sim = simulation()
    transfer = Transfer(sim, "h1", "h3", FULL_SIZE)
    sim.hosts["h3"].verbs.post_recv(transfer.qb, 1, sim.now)
    opcode = "RDMA_WRITE" if imm is None else "RDMA_WRITE_WITH_IMM"
    verbs = sim.hosts["h1"].verbs
    verbs.post_send(transfer.qa, 0, opcode, transfer.local.lkey, 0, 0, 0, 0, imm, sim.now)
    transfer.posted = 1
    sim.run(until=10.0, done=transfer.done)
    assert [done.status for done in transfer.completions] == ["SUCCESS"]
    assert [done.imm for done in sim.hosts["h3"].verbs.poll_cq()] == ([] if imm is None else [imm])
