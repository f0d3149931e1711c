"""Control packets that name what was never sent, or what an earlier connection sent."""

import pytest
from mrc_sim import FULL_SIZE, Simulation, Transfer

from mrclab.hosts.mrc.packets import headers as h
from mrclab.hosts.rdma.packets import wire
from mrclab.hosts.rdma.states import QpState
from mrclab.topo import srv6

FIRST_PSN = 1000


def inject(sim, source, destination, frame, plane):
    """Hand a host what another one would have sent it."""
    raw = bytearray(b"".join((frame.header, frame.payload or b"", frame.trailer)))
    raw[38:54] = srv6.to_bytes(srv6.nic_route(plane, sim.configs[destination].host.downlink) << 80)
    sim.hosts[destination].receive(plane, bytes(raw), sim.now)


def say(sim, transfer, op, psn, body):
    """h3 says something to h1's QP."""
    (peer,) = sim.hosts["h3"].peers.with_qps.values()
    head = wire.BTH.pack(op, wire.MIGRATED, wire.P_KEY, transfer.qa, psn)
    inject(sim, "h3", "h1", peer.control_path(1).frame(h.TC_CONTROL, head + body), 1)


def under_way(packets=100):
    sim = Simulation()
    transfer = Transfer(sim, "h1", "h3", packets * FULL_SIZE, first_psn=FIRST_PSN)
    transfer.write(0, packets * FULL_SIZE)
    sim.run(until=0.03)
    return sim, transfer


@pytest.mark.parametrize("seq", [-1, -2, -300, 1 << 14])
def test_a_sack_whose_trigger_was_never_sent_acknowledges_no_more_than_it_says(seq):
    sim, transfer = under_way()
    before = transfer.stats().acked_packets
    assert before > 2
    sack = h.Sack(0, False, seq - 1, 0, FIRST_PSN + 1, 0, 1, 0, timestamp=1)
    say(sim, transfer, h.MrcOpcode.SACK, 0, sack.pack())
    assert transfer.stats().acked_packets == before
    sim.run(until=2.0, done=transfer.done)
    assert [done.status for done in transfer.completions] == ["SUCCESS"]


def test_a_stale_write_from_before_the_first_psn_harms_neither_end():
    sim, transfer = under_way(10)
    sim.run(until=0.2)
    path = next(iter(sim.hosts["h1"].verbs.qp(transfer.qa).evs.by_value.values())).path
    head = h.WRITE_TS.pack(
        h.MrcOpcode.WRITE_ONLY, wire.MIGRATED, wire.P_KEY, transfer.qb, h.FLAG_TS << 24 | FIRST_PSN - 1,
        0, 0, 7, h.TSETH_WORD, 1, 1, 4,
    )  # fmt: skip
    inject(sim, "h1", "h3", path.frame(0x10, head, memoryview(b"abcd")), path.plane)
    transfer.write(0, FULL_SIZE)
    sim.run(until=1.0)
    transfer.done()
    assert [done.status for done in transfer.completions] == ["SUCCESS"] * 2
    assert transfer.stats().acked_packets == 11


NAK = (h.MrcOpcode.ACK, wire.AETH.pack(wire.Syndrome.NAK_REMOTE_ACCESS << 24))


def unexpected_event(psn):
    return (h.MrcOpcode.NACK, h.Nack(h.Reason.UNEXP_EVENT, 0, psn).pack())


@pytest.mark.parametrize("psn", [FIRST_PSN, FIRST_PSN + 4000, 0x800000])  # acknowledged long ago, not sent, far away
@pytest.mark.parametrize("kind", ["NAK", "UNEXP_EVENT"])
def test_a_fatal_word_about_what_is_not_outstanding_is_not_obeyed(kind, psn):
    sim, transfer = under_way()
    op, body = NAK if kind == "NAK" else unexpected_event(psn)
    say(sim, transfer, op, psn, body)
    assert sim.hosts["h1"].verbs.qp(transfer.qa).state is QpState.RTS
    assert transfer.stats().bogus_control == 1
    sim.run(until=2.0, done=transfer.done)
    assert [done.status for done in transfer.completions] == ["SUCCESS"]


@pytest.mark.parametrize("kind", ["NAK", "UNEXP_EVENT"])
def test_a_fatal_word_about_what_is_outstanding_ends_the_qp(kind):
    sim, transfer = under_way()
    requestor = sim.hosts["h1"].verbs.qp(transfer.qa).requestor
    psn = FIRST_PSN + requestor.recovery.window.next - 1
    op, body = NAK if kind == "NAK" else unexpected_event(psn)
    say(sim, transfer, op, psn, body)
    assert sim.hosts["h1"].verbs.qp(transfer.qa).state is QpState.ERROR


def test_a_nak_of_the_connection_before_a_reset_does_not_end_the_next_one():
    sim = Simulation()
    transfer = Transfer(sim, "h1", "h3", 100 * FULL_SIZE)
    a, b = sim.hosts["h1"], sim.hosts["h3"]
    naks = []

    def network(transit):
        if transit.op == h.MrcOpcode.ACK and b.verbs.qp(transfer.qb).state is QpState.ERROR:
            naks.append(transit)
            return [sim.delay(transit) + (0.04 if len(naks) == 2 else 0)]  # two round trips late
        return [sim.delay(transit)]

    sim.network = network
    transfer.write(0, 100 * FULL_SIZE)
    sim.at(0.02, lambda: b.verbs.modify_qp(transfer.qb, "ERROR", sim.now))

    def again():
        assert a.verbs.qp(transfer.qa).state is QpState.ERROR
        a.verbs.modify_qp(transfer.qa, "RESET", sim.now)
        b.verbs.modify_qp(transfer.qb, "RESET", sim.now)
        here, there = a.verbs.local_info(transfer.qa), b.verbs.local_info(transfer.qb)
        a.verbs.connect(transfer.qa, there, sim.now)
        b.verbs.connect(transfer.qb, here, sim.now)
        a.verbs.poll_cq()
        transfer.write(0, 100 * FULL_SIZE)

    sim.at(0.055, again)
    sim.run(until=3.0)
    transfer.done()
    assert len(naks) > 1
    assert [done.status for done in transfer.completions] == ["SUCCESS"]
    assert a.verbs.qp(transfer.qa).state is QpState.RTS


def test_a_peer_that_counts_its_immediates_wrongly_is_told_that_this_is_the_end():
    sim, transfer = under_way(4)
    b = sim.hosts["h3"]
    b.verbs.post_recv(transfer.qb, 1, sim.now)
    sim.run(until=0.2)
    path = next(iter(sim.hosts["h1"].verbs.qp(transfer.qa).evs.by_value.values())).path
    region = transfer.remote
    head = h.WRITE_TS.pack(
        h.MrcOpcode.WRITE_ONLY_IMM, wire.MIGRATED, wire.P_KEY, transfer.qb, h.FLAG_TS << 24 | FIRST_PSN + 4,
        0, 2, 7, h.TSETH_WORD, region.va, region.rkey, 4,
    ) + wire.IMMEDIATE.pack(9)  # fmt: skip
    inject(sim, "h1", "h3", path.frame(0x10, head, memoryview(b"abcd")), path.plane)
    assert b.verbs.qp(transfer.qb).state is QpState.ERROR
    assert [done.status for done in b.verbs.poll_cq()] == ["WR_FLUSH_ERR"]
    said = []
    sim.network = lambda transit: said.append(transit) or []
    sim.run(until=0.3)
    (nack,) = (h.Nack.unpack(memoryview(t.data), h.BODY_AT) for t in said if t.op == h.MrcOpcode.NACK)
    assert (nack.reason, nack.psn) == (h.Reason.UNEXP_EVENT, FIRST_PSN + 4)
