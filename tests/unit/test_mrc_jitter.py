"""Jitter without any queue: what it costs NSCC, and the setting that gives it back (docs/mrc-protocol.md §3.1)."""

import random

import pytest
from mrc_sim import FULL_SIZE, HOP, PLANES, RATE, Simulation, Transfer, Transit

SIZE = 2_000_000
MESSAGE = 100_000
JITTER = 0.010  # seconds, uniform, on top of a round trip of 8 links
WINDOW = 2.5 * PLANES * RATE * 8 * HOP * (FULL_SIZE + 142)  # bytes; the default is 1.5 of it


def goodput(profile: str, **config: float) -> float:
    """Share of the payload line rate of one transfer through a fabric that jitters and keeps order per path."""
    sim = Simulation()
    rng = random.Random(5)
    latest: dict[tuple[str, int, int], float] = {}

    def jitter(transit: Transit) -> list[float]:
        path = transit.source, transit.plane, transit.uplink
        latest[path] = max(sim.now + sim.delay(transit) + rng.uniform(0, JITTER), latest.get(path, 0.0))
        return [latest[path] - sim.now]

    sim.network = jitter
    profiles = {host.ctl.create_cc_profile(profile, **config) for host in sim.hosts.values()}
    transfer = Transfer(sim, "h1", "h3", SIZE, cc_profile=profiles.pop())
    for offset in range(0, SIZE, MESSAGE):
        transfer.write(offset, MESSAGE)
    sim.run(done=transfer.done)
    assert bytes(transfer.target) == bytes(transfer.source)
    assert transfer.stats().lost_packets == 0
    return SIZE / sim.now / (PLANES * RATE * FULL_SIZE)


def test_a_larger_max_cwnd_gives_back_what_jitter_costs_nscc():
    without = goodput("none")
    default = goodput("uet-1.0-nscc")
    assert default < 0.95 * without
    assert goodput("uet-1.0-nscc", max_cwnd=WINDOW) == pytest.approx(without, rel=0.01)
