"""RCCC: a sender's credit step by step, a receiver that shares its link, and credit that is lost on its way."""

import pytest
from mrc_sim import FULL_SIZE, PLANES, RATE, Simulation, Transfer

import mrclab
from mrclab.bench.sim import load
from mrclab.bench.sim.common import SimLoad
from mrclab.hosts.mrc.cc import PathFacts
from mrclab.hosts.mrc.cc.rccc import Rccc
from mrclab.hosts.mrc.packets import headers as h

MTU = 4096
BDP = 64 * MTU
FACTS = PathFacts(base_rtt=10e-6, bdp=BDP, mtu=MTU, trimming=True)
MAX_CREDIT = 1.5 * BDP


def spent(backlog: float) -> Rccc:
    """A controller that has sent its first window, with so much left."""
    control = Rccc(FACTS, 0.0)
    control.on_post(int(MAX_CREDIT + backlog), 0.0)
    for _ in range(int(MAX_CREDIT / MTU)):
        control.on_send(MTU, 0.0)
    return control


def test_the_first_window_goes_unasked_and_no_more():
    control = spent(10 * MTU)
    assert not control.allows(MTU)
    assert control.starved
    assert control.target == 10 * MTU


def test_what_is_asked_for_is_a_window_at_most_and_what_was_granted_is_not_asked_for_again():
    control = spent(10 * MAX_CREDIT)
    assert control.request(again=False) == MAX_CREDIT
    assert control.request(again=False) == 0
    assert control.request(again=True) == MAX_CREDIT
    assert control.grant(4 * MTU)
    assert not control.grant(4 * MTU)
    assert control.target == MAX_CREDIT  # what is at hand and what is to come
    for _ in range(4):
        control.on_send(MTU, 0.0)
    assert control.target == MAX_CREDIT + 4 * MTU


def test_what_is_left_of_the_first_window_is_forfeited_with_the_first_answer():
    control = Rccc(FACTS, 0.0)
    control.on_post(int(10 * MAX_CREDIT), 0.0)
    control.on_send(MTU, 0.0)
    control.on_sack(MTU, False, None, 0, False, 1e-5)
    assert not control.allows(MTU)
    assert control.request(again=False) == MAX_CREDIT


def test_credit_beyond_a_window_is_forfeited():
    control = spent(10 * MAX_CREDIT)
    control.grant(5 * MAX_CREDIT)
    assert control.credit == MAX_CREDIT


def test_what_is_lost_needs_credit_again():
    control = spent(0)
    assert not control.starved
    control.on_loss(MTU, 1.0)
    assert control.starved
    assert control.request(again=False) == MTU


def test_a_rest_of_a_round_trip_gives_the_first_window_back():
    control = spent(0)
    control.on_sack(int(MAX_CREDIT), False, None, 0, False, 1.0)
    control.on_post(MTU, 1.0 + 5e-6)
    assert not control.allows(MTU)
    rested = spent(0)
    rested.on_sack(int(MAX_CREDIT), False, None, 0, False, 1.0)
    rested.on_post(MTU, 1.0 + 11e-6)
    assert rested.credit == MAX_CREDIT


def test_a_receiver_grants_no_more_than_its_ports_take():
    sim = Simulation((1, 3), cc_profile="rccc")
    one = Transfer(sim, "h1", "h3", 400 * FULL_SIZE)
    told: list[tuple[float, int]] = []

    def watch(name: str, transit) -> None:
        if name == "h3" and transit.op == h.MrcOpcode.ENDPOINT_REQUEST:
            request = h.EndpointRequest.unpack(memoryview(transit.data), h.BODY_AT)
            if request.op == h.EndpointOp.CREDIT_GRANT:
                told.append((sim.now, request.port_mask * h.RCVD_UNIT))

    sim.before_send = watch
    one.write(0, 400 * FULL_SIZE)
    sim.run(done=one.done)
    assert one.target == one.source
    (began, first), (ended, last) = told[0], told[-1]
    assert (last - first) / (ended - began) <= 1.02 * RATE * PLANES * (FULL_SIZE + 88)
    assert one.stats().lost_packets == 0


@pytest.mark.parametrize("lost", [h.EndpointOp.CREDIT_REQUEST, h.EndpointOp.CREDIT_GRANT])
def test_credit_that_is_lost_on_its_way_is_told_again(lost):
    sim = Simulation((1, 3), cc_profile="rccc")
    one = Transfer(sim, "h1", "h3", 300 * FULL_SIZE)
    dropped = 0

    def drop(transit) -> list[float]:
        nonlocal dropped
        if transit.op == h.MrcOpcode.ENDPOINT_REQUEST and transit.data[h.BODY_AT] == lost and dropped < 8:
            dropped += 1
            return []
        return sim.clean(transit)

    sim.network = drop
    one.write(0, 300 * FULL_SIZE)
    sim.run(done=one.done)
    assert dropped
    assert one.target == one.source


def test_a_receiver_that_starts_again_goes_on_where_its_sender_is():
    sim = Simulation((1, 3), cc_profile="rccc")
    usual = seconds(sim)
    seconds(sim, count=8)
    before = sim.hosts["h3"]
    sim.hosts["h3"] = sim.make_endpoint(sim.configs["h3"], before.rng, lambda _record: None)
    for port in sim.configs["h3"].ports:
        sim.hosts["h3"].port_event(port.number, True, sim.now)
    assert seconds(sim) < 1.5 * usual


def test_a_sender_without_qps_meanwhile_has_no_credit_of_old_ones():
    sim = Simulation((1, 3), cc_profile="rccc")
    seconds(sim, count=8)
    old = sim.hosts["h1"]
    for qp in list(old.verbs.qps):
        old.verbs.destroy_qp(qp, sim.now)
    one = Transfer(sim, "h1", "h3", 400 * FULL_SIZE)
    one.write(0, 400 * FULL_SIZE)
    sim.run(done=one.done)
    (credit,) = (qp.cc for qp in old.verbs.qps.values())
    assert credit.granted <= 2 * 400 * (FULL_SIZE + 88)


def seconds(sim: Simulation, count: int = 1) -> float:
    """Time of some transfers from h1 to h3, one after the other."""
    began = sim.now
    for _ in range(count):
        one = Transfer(sim, "h1", "h3", 400 * FULL_SIZE)
        one.write(0, 400 * FULL_SIZE)
        sim.run(until=sim.now + 60, done=one.done)
        assert one.target == one.source
    return sim.now - began


@pytest.mark.parametrize("length", [0, 1, 1022, FULL_SIZE, 3 * FULL_SIZE - 5])
def test_after_any_messages_nothing_is_left_to_send_or_in_flight(length):
    sim = Simulation((1, 3), cc_profile="rccc")
    one = Transfer(sim, "h1", "h3", 3 * FULL_SIZE)
    for number in range(200):
        sim.hosts["h3"].verbs.post_recv(one.qb, 0, sim.now)
        one.write(0, length, number)
        if number % 8 == 7:
            sim.run(until=sim.now + 20, done=one.done)
    assert one.done()
    control = sim.hosts["h1"].verbs.qps[one.qa].cc
    assert (control.backlog, control.inflight) == (0, 0)


def test_a_transfer_after_a_rest_takes_as_long_as_the_first():
    one = {"kind": "write", "from": "h1", "to": "h2", "size": "500 kB"}
    scenario = mrclab.scenario(
        fabric={"planes": 4, "t0s": 2, "t1s": 2, "hosts_per_t0": 1, "link": {"rate": "400 Gb/s", "delay": "600ns"}},
        transport={"congestion_control": "rccc"},
        traffic=[{"name": "one", **one}, {"name": "other", **one, "start": "after one + 50us"}],
    )
    first, second = mrclab.run(scenario, world="sim", seed=1).flows.column("seconds")
    assert second == pytest.approx(first, rel=0.01)


def test_writes_that_are_flushed_ask_for_no_credit():
    sim = Simulation((1, 3), cc_profile="rccc")
    one, other = (Transfer(sim, "h1", "h3", 400 * FULL_SIZE) for _ in range(2))
    sim.network = lambda transit: [] if transit.is_write and transit.plane == 2 else sim.clean(transit)
    one.write(0, 400 * FULL_SIZE)
    sim.run(until=sim.now + 0.1)  # part of it is sent, some is lost, the rest waits
    sim.hosts["h1"].verbs.destroy_qp(one.qa, sim.now)
    sim.network = sim.clean
    control = sim.hosts["h1"].verbs.qps[other.qa].cc
    assert (control.backlog, control.inflight) == (0, 0)
    other.write(0, 40 * FULL_SIZE)
    sim.run(until=sim.now + 60, done=other.done)
    assert (control.backlog, control.inflight) == (0, 0)


def test_an_incast_shares_its_receiver_evenly():
    spread = {}
    for control in ("nscc", "rccc"):
        cost = load.run(SimLoad(32, "incast", 200_000, control=control))
        spread[control] = cost.completed(1.0) / cost.completed(0.0)
    assert spread["rccc"] < 1.15 < spread["nscc"]
