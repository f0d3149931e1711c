"""Switch ports where links have a rate in bits: depths in bytes, trims by the depth at arrival, control queues end."""

import pytest
from sim_pair import Sim, Write

from mrclab.hosts.mrc.packets import headers as h
from mrclab.sim.codec import ObjectPath
from mrclab.topo.numbers import FULL_HEADER_BYTES, SACK_BYTES, Dscp
from mrclab.topo.spec import FabricSpec

FULL = 4096
LINK = {"rate": "100 Gb/s", "delay": "600ns"}
QUEUE = {"ecn_min": 2, "ecn_max": 4, "trim_threshold": 8, "last_hop_trim_threshold": 8, "depth": 16}


class Burst:
    """Frames of any size that come to one port of a T0 at one moment."""

    def __init__(self, **spec):
        self.sim = Sim(planes=1, t0s=1, t1s=1, hosts_per_t0=2, link=LINK, queue=QUEUE, **spec)
        self.write = Write(self.sim, "h1", "h2", 64)
        while not self.write.done():
            self.sim.run(1e-6)
        self.sim.run(1e-4)
        qp = self.sim.hosts["h1"].transport.verbs.qps[self.write.qp]
        (ev,) = qp.evs.by_value.values()
        assert isinstance(ev.path, ObjectPath)
        self.path = ev.path
        self.port = self.sim.fabric.switches["t0-p1-1"].ports[1]
        self.before = self.port.trims, self.port.dropped

    def send(self, count, size, dscp=Dscp.TRIMMABLE):
        for _ in range(count):
            frame = self.path.packet(dscp << 2 | 2, h.MrcOpcode.PROBE, 0, 0, h.Ack(0, 0))
            frame.size = max(size, frame.size)
            frame.at = 1
            self.port.send(frame)

    @property
    def trims(self):
        return self.port.trims - self.before[0]

    @property
    def dropped(self):
        return self.port.dropped - self.before[1]


def test_packets_that_come_at_once_are_trimmed_by_the_depth_that_they_find_and_none_is_dropped():
    burst = Burst()
    burst.send(100, FULL + FULL_HEADER_BYTES)
    assert burst.dropped == 0
    assert 100 - 11 <= burst.trims <= 100 - 6  # the threshold is 8, drawn from three quarters to five of it


def test_small_packets_count_for_their_bytes():
    burst = Burst()
    burst.send(80, 200)  # 16 kB: less than four full packets
    assert (burst.trims, burst.dropped) == (0, 0)
    burst.send(200, 200)
    assert burst.trims > 0


def test_the_control_queue_has_a_limit():
    burst = Burst()
    burst.send(400, SACK_BYTES, Dscp.CONTROL)
    assert burst.dropped == 400 - 256


@pytest.mark.parametrize("nic_latency", ["0s", "1ms"])
def test_a_fabric_without_any_delay_has_the_round_trip_of_a_packet_time(nic_latency):
    link = {"rate_pps": 2000, "delay": "0s"}
    spec = {"planes": 2, "link": link, "switch_latency": "0s", "nic_latency": nic_latency}
    assert FabricSpec.model_validate(spec).base_rtt(4) == (4e-3 if nic_latency == "1ms" else 1 / 2000)
    sim = Sim(**spec)
    write = Write(sim, "h1", "h3", 1 << 16)
    sim.run(1.0)
    assert write.done()
    assert write.received == write.sent


def test_a_queue_that_does_not_trim_ends_at_its_depth():
    burst = Burst()
    burst.send(40, FULL + FULL_HEADER_BYTES, Dscp.NO_TRIM)
    assert burst.dropped == 40 - QUEUE["depth"]


def test_a_frame_takes_the_link_for_its_bytes():
    burst = Burst()
    burst.send(10, 500, Dscp.NO_TRIM)  # 40 ns each, a full packet 340
    burst.sim.run(0.39e-6)
    assert burst.port.depth() == 1
    burst.sim.run(0.02e-6)
    assert burst.port.depth() == 0


def test_nothing_is_marked_that_leaves_a_queue_no_longer_than_the_least():
    burst = Burst(last_hop_ecn=True)
    before = burst.port.marks
    for _ in range(200):
        burst.send(2, FULL + FULL_HEADER_BYTES, Dscp.NO_TRIM)
        burst.sim.run(1e-6)
    assert burst.port.marks == before
    burst.send(12, FULL + FULL_HEADER_BYTES, Dscp.NO_TRIM)
    burst.sim.run(1e-5)
    assert burst.port.marks > before
