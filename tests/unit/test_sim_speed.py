"""Links at their true speed: rates in bits per second, bytes that take their time."""

import pytest
from sim_pair import Sim, Write, finish

from mrclab.lab.errors import ScenarioError
from mrclab.lab.run import worlds
from mrclab.lab.scenario import scenario
from mrclab.sim.clock import SECOND
from mrclab.topo.spec import FabricSpec, SpecError, load

FAST = {"rate": "100 Gb/s", "delay": "600ns"}
FULL = 4096 + 142
SCENARIO = """
name: fast
fabric: {link: {rate: 100 Gb/s, delay: 600ns}}
traffic: [{name: file, kind: write, from: h1, to: h3, size: 1 MiB}]
expect: [{kind: integrity, traffic: file}]
"""


def test_packets_per_second_follow_from_the_rate():
    spec = load({"link": FAST})
    assert spec.link.rate == 100e9
    assert spec.link.rate_pps == round(100e9 / 8 / FULL)
    assert spec.latency == 500e-9
    assert load({}).latency == 300e-6
    assert spec.time_scale < 0.001 < load({}).time_scale == 1.0


def test_a_description_that_was_stored_is_read_again():
    spec = load({"link": FAST})
    assert FabricSpec.model_validate(spec.model_dump(mode="json")) == spec


def test_two_rates_that_differ_and_one_without_unit_are_refused_by_name():
    with pytest.raises(SpecError, match=r"link.rate 100 Gb/s is .* not link.rate_pps 500; leave one of them out"):
        load({"link": {**FAST, "rate_pps": 500}})
    with pytest.raises(SpecError, match=r"link.rate: '100 G' is not a link rate; write, for example, 100 Gb/s"):
        load({"link": {"rate": "100 G"}})


@pytest.mark.sources
def test_a_packet_takes_every_link_for_its_bytes_and_every_switch_for_its_latency():
    sim = Sim(planes=1, t1s=1, link=FAST)
    arrived = []
    receive = sim.hosts["h3"].transport.receive
    sim.hosts["h3"].transport.receive = lambda *about: arrived.append(sim.clock.now) or receive(*about)
    write = Write(sim, "h1", "h3", 4096)
    began = sim.clock.now
    finish(sim, write, within=0.1)
    links, switches = 4, 3
    wanted = links * (600_000 + FULL * 8 * SECOND // round(100e9)) + switches * 500_000
    assert arrived[0] - began == wanted


@pytest.mark.parametrize("rate", ["25 Gb/s", "400 Gb/s", "800 Gb/s"])
def test_a_transfer_fills_the_link(rate):
    sim = Sim(link={"rate": rate, "delay": "600ns"})
    write = Write(sim, "h1", "h3", 16 << 20, message=1 << 20)
    while not write.done():
        sim.run(1e-6)
        assert sim.clock.seconds < 0.1
    spec = sim.model.spec
    line = 4 * spec.link.rate / 8 * 4096 / FULL
    assert write.received == write.sent
    assert sim.clock.seconds < 1.05 * (16 << 20) / line + 2 * spec.base_rtt(4)


def test_packing_each_frame_gives_the_same_run_at_true_speed_too():
    digests = []
    for wire_format in (False, True):
        sim = Sim(wire_format, link=FAST)
        writes = [Write(sim, name, "h4", 1 << 20) for name in ("h1", "h2", "h3")]
        sim.run(30e-6)
        sim.fabric.cable("h4-p2").set_carrier(False)
        sim.run(2e-3)
        assert all(write.received == write.sent for write in writes)
        digests.append(sim.digest())
    assert digests[0] == digests[1]


def test_the_wire_says_how_much_it_could(tmp_path):
    path = tmp_path / "fast.yaml"
    path.write_text(SCENARIO)
    loaded = scenario.load(path)
    with pytest.raises(
        ScenarioError, match=r"2949504 packets/s are more than the 100000 \(3390 Mb/s at this path_mtu\)"
    ):
        worlds.check(scenario.in_world(loaded, "wire"))
    worlds.check(scenario.in_world(loaded, "sim"))
