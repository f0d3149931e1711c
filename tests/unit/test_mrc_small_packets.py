"""Packets of a few bytes where links have a rate in bits: their round trip is shorter than a full packet's."""

import pytest
from sim_pair import Sim, Write

from mrclab.hosts.mrc.packets import headers as h


class Swallow:
    """Loses data packets and nothing else, carrier stays."""

    def on_frame(self, frame, half_link):
        return None if frame.read is not None and frame.read.op in h.WRITES else frame


def until(sim, write, step=1e-6, within=1.0):
    """Run until a write is done; return the seconds since the start of the call."""
    began = sim.clock.seconds
    while not write.done():
        assert sim.clock.seconds - began < within, "not done in time"
        sim.run(step)
    return sim.clock.seconds - began


@pytest.mark.parametrize("destination", ["h2", "h3"])
def test_a_small_write_leaves_the_base_rtt_and_the_window_of_full_packets_alone(destination):
    sim = Sim(link={"rate": "10 Gb/s", "delay": "600ns"})
    sim.run(50e-6)  # a timestamp of 0 stands for none
    small = Write(sim, "h1", destination, 8)
    until(sim, small)
    cc = sim.hosts["h1"].transport.verbs.qps[small.qp].cc
    base_rtt = sim.model.spec.base_rtt(2 if destination == "h2" else 4)
    assert cc.base_rtt == pytest.approx(base_rtt, rel=1e-3)
    full = Write(sim, "h1", destination, 4 << 20)
    took = until(sim, full)
    assert (4 << 20) * 8 / took > 0.93 * 4 * 10e9


def test_small_packets_lost_on_a_dead_path_are_true_losses_and_the_path_stays_retired():
    sim = Sim(t0s=1, link={"rate": "10 Gb/s", "delay": "600ns"})
    write = Write(sim, "h1", "h2", 2000 * 8, message=8)
    sim.run(30e-6)
    cable = sim.fabric.cable("h1-p2")
    cable.half_links[0].faults = (Swallow(),)
    until(sim, write)
    assert write.received == write.sent
    assert write.stats.spurious_packets == write.stats.late_packets == 0
    assert 0 < write.stats.lost_packets < 100
    assert sim.hosts["h1"].transport.verbs.qps[write.qp].requestor.recovery.loss.reorder_rtts == 1.5
    changes = [(r["old"], r["new"]) for r in sim.records if r["kind"] == "ev.state" and r["plane"] == 2]
    assert changes == [("GOOD", "ASSUMED_BAD")]
