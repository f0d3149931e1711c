"""Load balancing by switches in virtual time: which uplinks data takes, and that what is down is left out."""

import random
from pathlib import Path
from typing import Any

import pytest
from test_sim_world import until_done, write

from mrclab.lab.errors import ScenarioError
from mrclab.lab.run import worlds
from mrclab.lab.scenario import scenario
from mrclab.sim.switches.loadbalancing import Adaptive
from mrclab.sim.world import SimWorld
from mrclab.topo import spec as specs
from mrclab.topo.config.transport import TransportSpec
from mrclab.topo.model import Fabric

FABRIC: dict[str, Any] = {
    "planes": 1, "t0s": 2, "t1s": 4, "hosts_per_t0": 1, "link": {"rate": "100 Gb/s", "delay": "600ns"},
}  # fmt: skip
SELECTIVE = TransportSpec(kind="roce", attributes={"recovery": "selective_repeat", "window_bdps": 1})
ONE_EV = TransportSpec(ev_profile={"active_per_plane": 1, "backup_per_plane": 0})
SIZE = 1 << 20  # 256 full packets


def uplinks(folder: Path, transport: TransportSpec, down: str = "", **changes: Any) -> list[int]:
    """Data packets that each uplink of the sender's T0 sent for one write of 256 packets."""
    world = SimWorld(Fabric(specs.load({**FABRIC, **changes})), seed=1, transport=transport, mapper=None, files=folder)
    if down:
        world.hold_down("cut", down)
    source, target = write(world, "h1", "h2", SIZE)
    until_done(world)
    assert target.read_bytes() == source.read_bytes()
    switch = world.sim.switches["t0-p1-1"]
    return [sum(packets for packets, _ in port.sent()[:3]) for port in list(switch.ports)[1:]]


def test_a_hash_sends_a_queue_pair_by_one_uplink(tmp_path):
    assert sorted(uplinks(tmp_path, SELECTIVE)) == [0, 0, 0, 256]


@pytest.mark.parametrize("balancing", ["spray", "adaptive"])
@pytest.mark.parametrize("transport", [SELECTIVE, ONE_EV], ids=["roce", "mrc"])
def test_packet_by_packet_all_uplinks_are_used_whoever_sends(tmp_path, balancing, transport):
    sent = uplinks(tmp_path, transport, load_balancing=balancing)
    assert 256 <= sum(sent) <= 264  # and of RoCEv2 what came too early and was thought lost
    most = 8 if balancing == "spray" else 40  # rounds are even; a draw among four that are empty is not
    assert max(sent) - min(sent) <= most


def test_the_sender_of_mrc_chooses_where_switches_hash(tmp_path):
    assert sorted(uplinks(tmp_path, ONE_EV)) == [0, 0, 0, 256]


@pytest.mark.parametrize("balancing", ["spray", "adaptive", "flowlet"])
def test_an_uplink_without_carrier_is_left_out(tmp_path, balancing):
    sent = uplinks(tmp_path, SELECTIVE, down="t0-p1-1/t1-p1-2", load_balancing=balancing)
    assert sent[1] == 0
    assert sum(sent) >= 256


def test_a_flowlet_keeps_its_uplink_until_it_pauses(tmp_path):
    assert max(uplinks(tmp_path, SELECTIVE, load_balancing="flowlet")) == 256
    moved = uplinks(tmp_path, SELECTIVE, load_balancing="flowlet", flowlet_gap="0s")
    assert min(moved) > 32


@pytest.mark.sources
def test_adaptive_routing_takes_one_of_the_least_loaded_in_whole_packets():
    unit = 4238

    class Port:
        def __init__(self, depth: int) -> None:
            self.depth = depth
            self.half_link = type("Way", (), {"clear_since": 0})()

        def backlog(self, now: int) -> int:
            return self.depth

    chosen = Adaptive(random.Random(1), unit)
    ports: Any = [Port(9 * unit), Port(unit), Port(unit + 5), Port(3 * unit)]
    assert {chosen.choose(ports, None, 0) for _ in range(50)} == {1, 2}


def test_the_wire_refuses_it_and_a_gap_needs_flowlets():
    said = {
        "name": "s", "fabric": {"load_balancing": "spray"}, "world": "wire",
        "traffic": [{"name": "f", "kind": "write", "from": "h1", "to": "h3", "size": "1 MB"}],
    }  # fmt: skip
    with pytest.raises(ScenarioError, match="load_balancing: spray: switches of the wire hash"):
        worlds.check(scenario.from_data(said, "s"))
    with pytest.raises(specs.SpecError, match="flowlet_gap has no effect with load_balancing spray; leave it out"):
        specs.load({**FABRIC, "load_balancing": "spray", "flowlet_gap": "1us"})
    with pytest.raises(specs.SpecError, match=r"queue\.alpha has no effect without queue\.buffer or queue\.pfc"):
        specs.load({**FABRIC, "queue": {"alpha": 0.125}})
