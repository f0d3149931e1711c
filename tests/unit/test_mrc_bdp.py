"""Recovery takes a few round trips whatever the bandwidth-delay product, though a bitmap shows 64 packets."""

import itertools
import math
import random

import mrc_sim
import pytest
from mrc_sim import FULL_SIZE, HOP, Simulation, Transfer

from mrclab.topo.config.nodeconfig import EvProfileConfig

pytestmark = pytest.mark.once

RTT = 8 * HOP
DIES_AT = 2 * RTT
MESSAGE = 100  # packets


@pytest.fixture
def line_rate(monkeypatch):
    """Set the packets per second of a port."""
    return lambda rate: monkeypatch.setattr(mrc_sim, "RATE", rate)


def keep_posting(sim: Simulation, transfer: Transfer, packets: int) -> None:
    """Post so many packets over the same memory, in messages; run until all have completed."""
    room = 4 * math.ceil(sim.configs["h1"].transport.mpr * 128 / MESSAGE) + 4
    requestor = sim.hosts["h1"].verbs.qps[transfer.qa].requestor
    left = [packets // MESSAGE]

    def feed() -> None:
        while left[0] and len(requestor.incomplete) < room:
            transfer.write(0, MESSAGE * FULL_SIZE)
            left[0] -= 1
        if left[0]:
            sim.at(sim.now + RTT / 8, feed)

    sim.at(0.0, feed)
    sim.run(until=60.0, done=lambda: not left[0] and transfer.done())


@pytest.mark.parametrize(
    ("bdp", "cc"),
    [
        *itertools.product((32, 128, 1024), ("none", "uet-1.0-nscc")),
        (10_000, "uet-1.0-nscc"),
    ],
)
def test_a_dead_link_is_left_within_eight_round_trips_and_no_timeout(bdp, cc, line_rate):
    """One of sixteen paths dies while packets are sent at line rate."""
    planes = 8
    line_rate(bdp / planes / RTT)
    sim = Simulation(planes=planes, cc_profile=cc, mpr=min(255, max(1, math.ceil(16 * bdp / 128))))
    died = set()

    def network(transit):
        return [] if (transit.plane, transit.uplink) in died else sim.clean(transit)

    sim.network = network
    sim.at(DIES_AT, lambda: died.add((3, 1)))
    transfer = Transfer(sim, "h1", "h3", MESSAGE * FULL_SIZE)
    keep_posting(sim, transfer, max(7 * bdp, 800))
    stats = transfer.stats()
    assert transfer.target == transfer.source
    assert 0 < stats.lost_packets == stats.retx_packets
    assert (stats.timeouts, stats.spurious_packets, stats.late_packets) == (0, 0, 0)
    assert max(r["t"] for r in sim.records if r["kind"] == "packet.retx") - DIES_AT < 8 * RTT


def test_random_loss_costs_its_share_and_no_more_at_a_large_product(line_rate):
    """1 % of 9,600 packets per round trip, over paths that are all kept."""
    line_rate(9600 / 4 / RTT)
    keep_all = EvProfileConfig(name="default", active_per_plane=2, backup_per_plane=0, ev_min_active=8)
    sim = Simulation(cc_profile="none", mpr=255, timeout_exponent=20, ev=keep_all)
    rng = random.Random(1)
    arrivals = []
    lost = []

    def network(transit):
        if transit.is_write and rng.random() < 0.01:
            lost.append(sim.now)
            return []
        if transit.is_write:
            arrivals.append(sim.now)
        return sim.clean(transit)

    sim.network = network
    transfer = Transfer(sim, "h1", "h3", MESSAGE * FULL_SIZE)
    packets = 60_000
    keep_posting(sim, transfer, packets)
    stats = transfer.stats()
    assert stats.retx_packets == len(lost)
    assert stats.timeouts == 0
    busy = packets / 9600 * RTT
    assert sum(t < busy for t in arrivals) > 0.93 * packets  # line rate, but for short waits for what is lost twice
