"""QPs to one host share a congestion window: none keeps it to itself, and waiting for it costs nothing."""

import random
from typing import Any

import pytest
from mrc_sim import FULL_SIZE, HOP, PLANES, RATE, Simulation, Transfer

from mrclab.hosts.mrc.endpoint import MrcEndpoint
from mrclab.hosts.mrc.requestor import MrcRequestor

RTT = 8 * HOP + 1 / RATE
PACKETS = 100


def keep_busy(sim: Simulation, transfers: list[Transfer]) -> None:
    """Always some messages outstanding on each QP, from now on."""
    host = sim.hosts[transfers[0].a]

    def feed() -> None:
        for transfer in transfers:
            while len(host.verbs.qps[transfer.qa].requestor.incomplete) < 4:
                transfer.write(0, PACKETS * FULL_SIZE)
        host.verbs.poll_cq(most=10_000)
        sim.at(sim.now + RTT, feed)

    sim.at(sim.now, feed)


def acked(transfer: Transfer) -> int:
    return int(transfer.stats().acked_packets)


@pytest.mark.parametrize("cc", ["none", "uet-1.0-nscc"])
def test_a_qp_that_nobody_answers_leaves_the_window_to_its_sibling(cc):
    sim = Simulation(cc_profile=cc)
    dead, healthy = (Transfer(sim, "h1", "h3", PACKETS * FULL_SIZE) for _ in range(2))
    keep_busy(sim, [dead, healthy])
    sim.run(until=0.5)
    sim.hosts["h3"].verbs.destroy_qp(dead.qb, sim.now)
    sim.run(until=1.0)
    before = acked(healthy)
    sim.run(until=3.0)
    assert acked(healthy) - before > 0.97 * PLANES * RATE * 2.0
    assert dead.stats().timeouts > 0  # it goes on asking


def test_qps_of_a_peer_that_started_again_are_not_held_up_by_those_of_its_former_life():
    sim = Simulation()
    old = [Transfer(sim, "h1", "h3", PACKETS * FULL_SIZE, seed=n) for n in range(3)]
    keep_busy(sim, old)
    sim.run(until=0.2)
    sim.hosts["h3"] = MrcEndpoint(sim.configs["h3"], random.Random(5), [].append)
    for port in sim.configs["h3"].ports:
        sim.hosts["h3"].port_event(port.number, True, sim.now)
    new = Transfer(sim, "h1", "h3", PACKETS * FULL_SIZE, seed=9)
    began = sim.now
    new.write(0, PACKETS * FULL_SIZE)
    sim.run(until=5.0, done=lambda: new.target == new.source)
    assert sim.now - began < 12 * RTT + PACKETS / RATE / PLANES


def test_who_was_silent_and_is_heard_again_takes_part_again_and_the_account_ends_at_zero():
    sim = Simulation()
    pair = [Transfer(sim, "h1", "h3", 6 * PACKETS * FULL_SIZE, seed=n) for n in range(2)]
    qpns = [transfer.qb for transfer in pair]
    qps = [sim.hosts["h1"].verbs.qps[transfer.qa] for transfer in pair]

    def network(transit):
        deaf = transit.destination == "h3" and int.from_bytes(transit.data[107:110], "big") == qpns[0]
        return [] if deaf and 0.05 < sim.now < 0.9 else sim.clean(transit)

    sim.network = network
    for transfer in pair:
        for first in range(0, 6 * PACKETS, PACKETS):
            transfer.write(first * FULL_SIZE, PACKETS * FULL_SIZE)
    sim.run(until=0.8)
    assert [qp.requestor.unresponsive for qp in qps] == [True, False]
    assert not qps[1].requestor.in_flight
    assert qps[0].cc.inflight == pytest.approx(0, abs=512)  # in units of 256 bytes
    sim.run(done=lambda: [t.done() for t in pair] == [True, True])
    assert [t.target == t.source for t in pair] == [True, True]
    assert not qps[0].requestor.unresponsive
    assert qps[0].cc.inflight == pytest.approx(0, abs=512)


def test_many_qps_share_a_window_evenly():
    sim = Simulation()
    transfers = [Transfer(sim, "h1", "h3", PACKETS * FULL_SIZE) for _ in range(60)]  # more than packets in the window
    keep_busy(sim, transfers)
    sim.run(until=2.0)
    counts = [acked(transfer) for transfer in transfers]
    assert sum(counts) > 0.95 * 2.0 * PLANES * RATE
    assert min(counts) > 0.5 * max(counts)


def test_qps_that_wait_for_the_window_are_not_looked_at(monkeypatch):
    sim = Simulation(tail_probe_rtts=1000.0)
    looked: list[Any] = []
    send_state = MrcRequestor.send_state

    def count(self: MrcRequestor) -> Any:
        looked.append(self)
        return send_state(self)

    monkeypatch.setattr(MrcRequestor, "send_state", count)
    sim.network = lambda _: []
    for transfer in [Transfer(sim, "h1", "h3", 8 * FULL_SIZE) for _ in range(128)]:
        transfer.write(0, 8 * FULL_SIZE)
    sim.run(until=0.1)  # the window is full and nothing comes back
    looked.clear()
    for port in range(1, PLANES + 1):
        assert not sim.hosts["h1"].has_work(port, sim.now)
        assert sim.hosts["h1"].next_frame(port, sim.now) is None
    assert looked == []
