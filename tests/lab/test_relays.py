"""A relay in a real cable: what it delays, reorders, duplicates and loses, and that it leaves the cable as it was."""

import os
import time

import pytest
from topo_helpers import END, StandIn, across, ports, run_dir, small_fabric

from mrclab.topo.cables.cablefaults import Drop, Match
from mrclab.topo.cables.helper import impair
from mrclab.topo.cables.impairment import Impairment
from mrclab.topo.linux.emulation import Emulation

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces and cables need root"),
]

NIC = "h1-p1/t0-p1-1"


@pytest.fixture(scope="module")
def lab():
    with Emulation(small_fabric(), run_dir("-relays"), StandIn()) as running:
        yield running


@pytest.fixture
def nic(lab):
    with ports(lab, "h1-p1", "t0-p1-1-1") as pair:
        yield pair


def numbered(count):
    return [number.to_bytes(4, "big") + bytes(4092) for number in range(count)]


def numbers(payloads):
    return [int.from_bytes(payload[:4], "big") for payload in payloads]


def test_a_delay_is_at_least_what_was_asked_and_nothing_is_lost(lab, nic):
    one, other = nic
    relayed = impair(lab, NIC, Impairment(delay=0.05))
    sent = time.monotonic()
    assert numbers(across(one, other, numbered(200))) == list(range(200))
    assert time.monotonic() - sent >= 0.05
    assert numbers(across(other, one, numbered(200))) == list(range(200))
    up, down = relayed.clear()
    assert (up.received, up.sent, up.lost) == (down.received, down.sent, down.lost) == (201, 201, 0)
    assert relayed.clear() == []


def test_listed_frames_are_lost_in_the_asked_direction_only(lab, nic):
    one, other = nic
    relayed = impair(lab, NIC, Impairment(lose=(1, 2, 10)), direction="up")
    assert numbers(across(one, other, numbered(20))) == [n for n in range(20) if n + 1 not in {1, 2, 10}]
    assert numbers(across(other, one, numbered(20))) == list(range(20))
    (counts,) = relayed.clear()
    assert (counts.received, counts.lost) == (21, 3)


def test_the_same_seed_loses_the_same_frames(lab, nic):
    def lost(seed):
        relayed = impair(lab, NIC, Impairment(loss=0.3), direction="up", seed=seed)
        one, other = nic
        for frame in numbered(200):
            one.send(frame)
        relayed.clear()  # lets everything out before the mark goes straight
        one.send(END)
        return set(range(200)) - set(numbers(other.receive_until_end()))

    first = lost(seed=1)
    assert 20 < len(first) < 110
    assert lost(seed=1) == first
    assert lost(seed=2) != first


def test_frames_that_skip_the_delay_overtake(lab, nic):
    one, other = nic
    relayed = impair(lab, NIC, Impairment(delay=0.05, reorder=0.5), direction="up", seed=4)
    for frame in numbered(40):
        one.send(frame)
    (counts,) = relayed.clear()
    one.send(END)
    got = numbers(other.receive_until_end())
    assert sorted(got) == list(range(40))
    assert got != sorted(got)
    assert 0 < counts.overtook < 41


def test_duplicates_arrive_twice(lab, nic):
    one, other = nic
    relayed = impair(lab, NIC, Impairment(duplicate=1.0), direction="up")
    for frame in numbered(5):
        one.send(frame)
    relayed.clear()
    one.send(END)
    assert numbers(other.receive_until_end()) == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]


def test_packet_faults_act_before_the_relay_and_carrier_goes_as_ever(lab, nic):
    one, other = nic
    relayed = impair(lab, NIC, Impairment(), direction="up")
    fault = lab.cables.inject(NIC, Drop(), match=Match(min_length=200), direction="up")
    assert across(one, other, numbered(10)) == []
    lab.cables.clear(fault)
    lab.cables.down(NIC)
    assert not one.has_carrier
    assert not other.has_carrier
    lab.cables.up(NIC)
    assert relayed.alive
    relayed.clear()


def test_clear_all_sends_frames_straight_even_if_the_relay_died(lab, nic):
    relayed = impair(lab, NIC, Impairment(delay=1.0))
    os.kill(lab.processes()["relay-h1-p1-t0-p1-1-both"], 9)
    lab.cables.clear_all()
    assert numbers(across(*nic, numbered(10))) == list(range(10))
    relayed._process.wait()
    assert not relayed.alive
