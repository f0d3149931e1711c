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
