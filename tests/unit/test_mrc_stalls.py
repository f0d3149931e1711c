"""Ports that a peer reported down are asked about, and a QP without progress says so, whatever the reason."""

import functools
import random

import pytest
from mrc_sim import FULL_SIZE, HOP, PLANES, Simulation, Transfer

from mrclab.hosts.mrc.endpoint import MrcEndpoint
from mrclab.hosts.mrc.packets import headers as h
from mrclab.topo import srv6

ALL = (1 << PLANES) - 1
RTT = 8 * HOP + 0.002
SAMPLE = 0.1


def watch(sim, name="h1", until=100.0):
    """Check progress as often as samples are taken."""

    def check():
        sim.hosts[name].check_progress(sim.now)
        if sim.now < until:
            sim.at(sim.now + SAMPLE, check)

    sim.at(sim.now, check)


def told(sim, kind, node="h1"):
    return [record for record in sim.records if record["kind"] == kind and record["node"] == node]


def believed(sim):
    (peer,) = sim.hosts["h1"].peers.with_qps.values()
    return peer.port_mask & ALL


def forge(sim, mask, plane=1, request_id=7):
    """A Port Status Update to h1 in the name of h3, by some plane."""
    h3 = sim.hosts["h3"]
    (peer,) = h3.peers.with_qps.values()
    content = h.EndpointRequest(h.EndpointOp.PORT_STATUS_UPDATE, mask, 1)
    path = peer.control_path(plane, peer.uplinks(plane)[0])
    frame = path.packet(h.TC_CONTROL, h.MrcOpcode.ENDPOINT_REQUEST, h.ENDPOINT_QPN, request_id, content)
    data = bytearray(frame.header + (frame.payload or b"") + frame.trailer)
    data[38:54] = srv6.to_bytes(srv6.nic_route(plane, sim.configs["h1"].host.downlink) << 80)
    sim.hosts["h1"].receive(plane, bytes(data), sim.now)


@pytest.mark.parametrize("restarted", ["qp", "agent"])
def test_a_port_that_came_back_while_nobody_looked_is_used_again(restarted):
    sim = Simulation()
    gone = set()
    sim.network = lambda t: [] if "h3" in {t.source, t.destination} and t.plane in gone else [sim.delay(t)]
    first = Transfer(sim, "h1", "h3", FULL_SIZE)
    first.write(0, FULL_SIZE)
    gone.add(2)
    sim.hosts["h3"].port_event(2, False, 0.0)
    sim.run(until=0.5)
    assert believed(sim) == 0b1101
    gone.discard(2)
    if restarted == "qp":
        sim.hosts["h3"].verbs.destroy_qp(first.qb, sim.now)
        sim.hosts["h3"].port_event(2, True, sim.now)
    else:
        sim.hosts["h3"] = MrcEndpoint(sim.configs["h3"], random.Random(5), sim._logger("h3"))
        for port in sim.configs["h3"].ports:
            sim.hosts["h3"].port_event(port.number, True, sim.now)
    second = Transfer(sim, "h1", "h3", 100 * FULL_SIZE)
    second.write(0, 100 * FULL_SIZE)
    sim.run(until=sim.now + 5 * RTT)
    assert believed(sim) == ALL
    sim.run(until=5.0, done=second.done)
    sent = {ev.plane: ev.sent for ev in sim.hosts["h1"].verbs.qps[second.qa].evs.by_value.values()}
    assert sent[2] > 0


def test_an_update_that_calls_the_port_down_that_it_came_by_is_refused():
    sim = Simulation()
    Transfer(sim, "h1", "h3", FULL_SIZE)
    for mask in (0, 0b1110):
        forge(sim, mask)
    assert believed(sim) == ALL
    assert sim.hosts["h1"].stats()["ports"][1]["malformed"] == 2


def test_a_forged_port_mask_stops_a_qp_for_some_round_trips_only():
    sim = Simulation()
    transfer = Transfer(sim, "h1", "h3", 400 * FULL_SIZE)
    transfer.write(0, 400 * FULL_SIZE)
    dead = {1}  # the only plane that the forgery leaves
    sim.network = lambda t: [] if t.plane in dead else [sim.delay(t)]
    sim.run(until=0.1)
    forge(sim, 0b0001)
    sim.run(until=0.1 + 16 * RTT)
    assert believed(sim) == ALL
    sim.run(until=5.0, done=transfer.done)
    assert transfer.target == transfer.source


def test_a_peer_is_asked_no_more_once_there_is_nothing_to_send():
    sim = Simulation()
    transfer = Transfer(sim, "h1", "h3", 40 * FULL_SIZE)
    sim.hosts["h3"].port_event(2, False, 0.0)
    transfer.write(0, 40 * FULL_SIZE)
    sim.run(until=30.0)
    assert believed(sim) == 0b1101
    assert transfer.done()
    assert sim.hosts["h1"].next_deadline() is None


def test_writes_that_are_each_over_before_a_question_is_due_ask_all_the_same():
    sim = Simulation()
    transfer = Transfer(sim, "h1", "h3", 3 * FULL_SIZE)
    forge(sim, 0b1101)

    def post(turn):
        sim.hosts["h1"].on_timer(sim.now)
        transfer.write(turn * FULL_SIZE, FULL_SIZE)  # takes one round trip

    for turn in range(3):
        sim.at(20 * turn * RTT, functools.partial(post, turn))
    sim.run(until=59 * RTT)
    assert transfer.done()
    assert believed(sim) == ALL


def test_a_qp_that_its_peers_mask_strands_asks_and_says_why_it_waits():
    sim = Simulation()
    transfer = Transfer(sim, "h1", "h3", 40 * FULL_SIZE)
    forge(sim, 0b0001)
    sim.hosts["h1"].port_event(1, False, 0.0)
    asked = []

    def network(transit):
        if transit.source == "h1" and transit.op == h.MrcOpcode.ENDPOINT_REQUEST:
            asked.append(transit.plane)
        return [] if sim.now < 3.0 else [sim.delay(transit)]

    sim.network = network
    transfer.write(0, 40 * FULL_SIZE)
    watch(sim)
    sim.run(until=3.0)
    (stall,) = told(sim, "qp.stalled")
    assert stall["reason"] == "the peer reported that its ports are down"
    assert 64 * RTT <= stall["t"] - stall["since"] <= 64 * RTT + 2 * SAMPLE
    assert set(asked) == {2, 3, 4}
    sim.run(until=10.0, done=transfer.done)
    assert transfer.target == transfer.source
    sim.run(until=sim.now + 2 * SAMPLE)
    assert [record["qp"] for record in told(sim, "qp.resumed")] == [transfer.qa]


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        ("ports", "no NIC port is up"),
        ("silence", "the peer does not answer"),
        ("receives", "the peer has no receive posted"),
        ("refused", "what is sent is lost or refused"),
    ],
)
def test_a_stall_names_its_reason_once(spoil, reason):
    sim = Simulation(trimming=True)
    transfer = Transfer(sim, "h1", "h3", 40 * FULL_SIZE)
    imm = 1 if spoil == "receives" else None

    def network(transit):
        if spoil == "silence":
            return []
        if spoil == "refused" and transit.is_write:
            transit.trim()
        return [sim.delay(transit)]

    sim.network = network
    transfer.write(0, 40 * FULL_SIZE, imm)
    if spoil == "ports":
        for port in range(1, PLANES + 1):
            sim.hosts["h1"].port_event(port, False, 0.0)
    watch(sim, until=4.0)
    sim.run(until=4.0)
    assert [record["reason"] for record in told(sim, "qp.stalled")] == [reason]
    assert not told(sim, "qp.resumed")


def test_an_idle_qp_does_not_stall():
    sim = Simulation()
    transfer = Transfer(sim, "h1", "h3", 40 * FULL_SIZE)
    transfer.write(0, 40 * FULL_SIZE)
    watch(sim, until=9.0)
    sim.run(until=5.0)
    transfer.write(0, 40 * FULL_SIZE)
    sim.run(until=9.0)
    assert transfer.done()
    assert not told(sim, "qp.stalled")


def test_control_packets_do_not_pile_up_while_all_ports_are_down():
    sim = Simulation((1, 3, 4))
    transfers = [Transfer(sim, "h1", peer, 40 * FULL_SIZE) for peer in ("h3", "h4")]
    for port in range(1, PLANES + 1):
        sim.hosts["h1"].port_event(port, False, 0.0)
    for transfer in transfers:
        transfer.write(0, 40 * FULL_SIZE)
    sim.run(until=600.0)
    waiting = sum(len(port.control) for port in sim.hosts["h1"].ports.by_number.values())
    assert waiting <= 2  # an update for each peer
    sim.keep_sent = True
    for port in range(1, PLANES + 1):
        sim.hosts["h1"].port_event(port, True, sim.now)
    sim.run(until=sim.now + 0.5)
    updates = [t for t in sim.sent if t.source == "h1" and t.op == h.MrcOpcode.ENDPOINT_REQUEST]
    assert len(updates) <= 4
    sim.hosts["h1"].verbs.poll_cq()
    assert [bytes(transfer.target) == transfer.source for transfer in transfers] == [True, True]


def test_a_probe_of_a_path_whose_port_is_down_is_lost_and_takes_no_other():
    sim = Simulation()
    Transfer(sim, "h1", "h3", FULL_SIZE)
    h1 = sim.hosts["h1"]
    h1.port_event(1, False, 0.0)
    sim.run(until=0.1)
    (peer,) = h1.peers.with_qps.values()
    results = []
    sim.keep_sent = True
    h1.ops.probe(peer, peer.control_path(1, 1), 0.1, results.append, sim.now)
    sim.run(until=1.0)
    assert [result.rtt for result in results] == [None]
    assert not [t for t in sim.sent if t.source == "h1"]


def test_a_probe_whose_id_comes_round_while_it_waits_is_answered_all_the_same():
    sim = Simulation()
    Transfer(sim, "h1", "h3", FULL_SIZE)
    h1 = sim.hosts["h1"]
    (peer,) = h1.peers.with_qps.values()
    path = peer.control_path(1, 1)
    sim.network = lambda _transit: []
    results = []
    h1.ops.probe(peer, path, 10.0, lambda result: results.append(("long", result.rtt)), 0.0)
    for _ in range(1 << 16):
        h1.ops.probe(peer, path, 0.00005, lambda _result: None, sim.now)
        h1.ports.by_number[1].control.clear()
        sim.now += 0.0001
        h1.on_timer(sim.now)
    h1.on_timer(11.0)
    assert results == [("long", None)]


def test_probes_of_a_peer_that_is_given_up_end_without_an_answer():
    sim = Simulation()
    transfer = Transfer(sim, "h1", "h3", FULL_SIZE)
    h1 = sim.hosts["h1"]
    (peer,) = h1.peers.with_qps.values()
    results = []
    h1.ops.probe(peer, peer.control_path(1, 1), 1.0, results.append, 0.0)
    h1.verbs.destroy_qp(transfer.qa, sim.now)
    assert [result.rtt for result in results] == [None]
