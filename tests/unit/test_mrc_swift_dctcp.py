"""Swift and DCTCP, feedback by feedback with literal times, and each of them with an incast in virtual time."""

import math

import pytest

from mrclab.bench.sim import load
from mrclab.bench.sim.common import SimLoad
from mrclab.hosts.mrc.cc import PathFacts, controller

RTT = 10e-6
MTU = 4096
BDP = 64 * MTU
FACTS = PathFacts(base_rtt=RTT, bdp=BDP, mtu=MTU, trimming=True)


def swift(**settings):
    return controller("swift", FACTS, 0.0, max_cwnd=100 * MTU, **settings)


def test_swift_begins_with_its_largest_window():
    assert controller("swift", FACTS, 0.0).snapshot()["cwnd"] == 96 * MTU  # 1.5 BDP


def test_swift_scales_its_target_by_the_window():
    cc = swift(base_target=20e-6)
    assert cc.target() == pytest.approx(20e-6)  # 100 packets and more: nothing is added
    cc.set_window(MTU)
    alpha = 100e-6 / (1 / math.sqrt(0.1) - 1 / math.sqrt(100))
    assert cc.target() == pytest.approx(20e-6 + alpha - alpha / 10)


def test_swift_adds_a_packet_per_window_below_its_target():
    cc = swift()
    cc.set_window(50 * MTU)
    for _ in range(50):
        cc.on_sack(MTU, False, RTT, 0, False, 1.0)
    assert cc.cwnd == pytest.approx(51 * MTU, rel=1e-3)


def test_swift_decreases_in_proportion_once_per_rtt_and_at_most_by_half():
    cc = swift(base_target=20e-6, fs_range=0.0)
    cc.on_sack(MTU, False, 40e-6, 0, False, 1.0)
    assert cc.cwnd == pytest.approx(100 * MTU * (1 - 0.8 * 0.5))
    cc.on_sack(MTU, False, 40e-6, 0, False, 1.0 + 30e-6)  # within an RTT
    assert cc.cwnd == pytest.approx(60 * MTU)
    cc.on_sack(MTU, False, 1e-3, 0, False, 1.0 + 2e-3)
    assert cc.cwnd == pytest.approx(30 * MTU)
    cc.on_loss(MTU, 1.1)
    assert cc.cwnd == pytest.approx(15 * MTU)


def test_dctcp_halves_a_window_that_is_marked_throughout_and_hardly_one_with_few_marks():
    cc = controller("dctcp", FACTS, 0.0, max_cwnd=100 * MTU)
    cc.on_sack(MTU, True, RTT, 0, False, 1.0)
    assert cc.cwnd == pytest.approx(50 * MTU)
    cc.on_sack(MTU, True, RTT, 0, False, 1.0 + RTT / 2)  # the same RTT
    assert cc.cwnd == pytest.approx(50 * MTU)
    for step in range(1, 200):
        cc.on_sack(MTU, False, RTT, 0, False, 1.0 + 1.5 * step * RTT)
    assert cc.alpha < 1e-3
    before = cc.cwnd
    cc.on_sack(MTU, True, RTT, 0, False, 2.0)
    assert cc.alpha == pytest.approx(1 / 16, rel=0.01)  # the first share of one
    assert cc.cwnd == pytest.approx(before * (1 - cc.alpha / 2), rel=1e-3)


def test_dctcp_adds_a_packet_per_window_without_marks():
    cc = controller("dctcp", FACTS, 0.0, max_cwnd=100 * MTU)
    cc.set_window(50 * MTU)
    for _ in range(50):
        cc.on_sack(MTU, False, None, 0, False, 1e-7)
    assert cc.cwnd == pytest.approx(51 * MTU, rel=1e-3)


@pytest.mark.parametrize("name", ["swift", "dctcp"])
def test_bytes_in_flight_are_those_sent_and_not_yet_answered(name):
    cc = controller(name, FACTS, 0.0)
    for _ in range(4):
        cc.on_send(MTU, 0.0)
    cc.on_sack(MTU, False, RTT, 0, False, 1.0)
    cc.on_nack(MTU, True, None, 1.0)
    cc.on_loss(MTU, 1.0)
    cc.on_requeue(MTU)
    assert cc.snapshot()["cc_inflight"] == 0
    cc.set_window(0.0)
    assert cc.cwnd == MTU
    assert cc.allows(MTU)


@pytest.mark.parametrize("name", ["swift", "dctcp"])
def test_an_incast_ends_near_the_line_rate(name):
    done = load.simulate(SimLoad(32, "incast", 400_000, control=name))
    least = 16 * 400_000 * 8 / 100e9  # at line rate
    assert least < done["completions"][-1] < 1.25 * least
