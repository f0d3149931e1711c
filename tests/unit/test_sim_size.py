"""Very large fabrics in virtual time: what nobody uses is not there, and what is used works up to the last number."""

import json
import random
import sys
import tracemalloc

import pytest

from mrclab.controller.nodefiles import Configs
from mrclab.sim.world import SimWorld
from mrclab.topo.config.transport import TransportSpec
from mrclab.topo.model import Fabric
from mrclab.topo.spec import load

PAPER = {"planes": 8, "t0s": 512, "t1s": 256, "hosts_per_t0": 256, "link": {"rate": "100 Gb/s", "delay": "600ns"}}


def world(tmp_path, mapper=None, **spec):
    fabric = Fabric(load(spec))
    return SimWorld(fabric, seed=1, transport=TransportSpec(), mapper=mapper, files=tmp_path)


@pytest.fixture
def paper(tmp_path):
    return world(tmp_path, **PAPER)


def test_a_world_of_131072_nics_comes_up_without_a_host_a_switch_or_a_cable(tmp_path):
    tracemalloc.start()
    try:
        made = world(tmp_path, **PAPER)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 4 << 20
    assert not made.hosts
    assert not made.sim.switches.made
    status = made.call("controller", "status")
    assert status["links_verified"] == 2_097_152
    assert set(status["agents"].values()) == {1}
    assert not made.sim.switches.made


def test_the_first_and_the_last_nic_of_the_papers_fabric_reach_each_other_by_its_last_t1s(paper):
    first, last = (paper.call(name, "hello") for name in ("h1", "h131072"))
    assert first["address"] == "fdcb:bb00:0:1::1"
    assert last["address"] == "fdcb:bb00:0:200::100"
    one, other = paper.hosts["h1"].transport, paper.hosts["h131072"].transport
    here, there = one.verbs.create_qp(last["address"], 0.0), other.verbs.create_qp(first["address"], 0.0)
    one.verbs.connect(here, other.verbs.local_info(there), 0.0)
    other.verbs.connect(there, one.verbs.local_info(here), 0.0)
    sent, received = random.Random(1).randbytes(1 << 20), bytearray(1 << 20)
    local, remote = one.verbs.reg_mr(bytearray(sent)), other.verbs.reg_mr(received)
    one.verbs.post_send(here, 0, "RDMA_WRITE", local.lkey, 0, len(sent), remote.va, remote.rkey, None, 0.0)
    paper.hosts["h1"].nic.serve()
    paper.run(until=0.001)
    assert bytes(received) == sent
    evs = one.verbs.qp(here).evs
    assert evs.count == 256
    assert len(evs.by_value) <= 192  # the backups are not made
    assert max(ev.uplink for ev in evs.by_value.values()) > 200
    assert set(paper.hosts) == {"h1", "h131072"}


def test_queues_in_which_nothing_waits_any_more_keep_no_memory_and_a_receiver_has_none(tmp_path):
    made = world(tmp_path, planes=2, t0s=2, t1s=2, hosts_per_t0=2, link={"rate": "100 Gb/s", "delay": "600ns"})
    made.call("h1", "hello"), made.call("h3", "hello")
    one, other = made.hosts["h1"].transport, made.hosts["h3"].transport
    here, there = (end.verbs.create_qp(made.fabric.address(peer), 0.0) for end, peer in ((one, "h3"), (other, "h1")))
    one.verbs.connect(here, other.verbs.local_info(there), 0.0)
    other.verbs.connect(there, one.verbs.local_info(here), 0.0)
    local, remote = one.verbs.reg_mr(bytearray(1 << 16)), other.verbs.reg_mr(bytearray(1 << 16))
    one.verbs.post_send(here, 0, "RDMA_WRITE", local.lkey, 0, 1 << 16, remote.va, remote.rkey, None, 0.0)
    assert len(one.verbs.qp(here).requestor.incomplete) == 1
    made.hosts["h1"].nic.serve()
    made.run(until=0.001)
    ports = [port for switch in made.sim.switches.made for port in switch.used]
    assert sum(packets for port in ports for packets, _bytes in port.sent()) >= 3 * 16
    assert sum(port.depth() for port in ports) == 0
    sender = one.verbs.qp(here).requestor
    assert [sys.getsizeof(queue) for queue in (sender.unsent, sender.incomplete)] == [sys.getsizeof([])] * 2
    assert other.verbs.qp(there).known_requestor is None


def test_node_configs_share_what_is_kept_of_the_fields_that_were_given(paper):
    configs = Configs(paper.fabric, 1, {}, None, TransportSpec())
    first, last = configs["h1"], configs["h131072"]
    assert first.ports != last.ports
    assert len({id(port.model_fields_set) for config in (first, last) for port in config.ports}) == 1
    assert first.model_fields_set is last.model_fields_set


def test_a_qp_makes_the_evs_that_it_uses(paper):
    transport = (paper.call("h1", "hello"), paper.hosts["h1"].transport)[1]
    evs = transport.verbs.qp(transport.verbs.create_qp("fdcb:bb00:0:200::100", 0.0)).evs
    assert (evs.count, evs.active_count(), len(evs.by_value)) == (256, 192, 8)
    seen = {evs.select(plane, 0.0).value for plane in range(1, 9) for _ in range(24)}
    assert len(seen) == 192
    assert {evs.select(1, 0.0).value for _ in range(24)} == {value for value in seen if value >> 28 == 1}


def test_a_lost_path_is_replaced_by_one_that_was_not_made_yet(paper):
    transport = (paper.call("h1", "hello"), paper.hosts["h1"].transport)[1]
    evs = transport.verbs.qp(transport.verbs.create_qp("fdcb:bb00:0:200::100", 0.0)).evs
    (first,) = evs.planes[3].active
    assert evs.lost(first, 0.0, "timeout")
    assert (evs.active_count(), evs.count) == (192, 256)
    assert first not in evs.planes[3].active
    assert evs.planes[3].usable


def test_few_agents_of_each_t0_that_share_its_t1s_find_a_silent_t1_and_a_dead_t0(tmp_path):
    shape = {"planes": 2, "t0s": 8, "t1s": 8, "hosts_per_t0": 8, "link": {"rate": "100 Gb/s", "delay": "600ns"}}
    made = world(tmp_path, {"cycle": 4e-4, "deny": False, "agents": 3, "t1s": 3}, **shape)
    assert len(made.hosts) == 8 * 3
    made.run(until=1e-3)
    made.freeze("t1-p1-5")
    made.kill("t0-p2-7")
    heard = []
    while made.now < 5e-3:
        heard += [event for _, event in made.run(until=5e-3) if event["kind"] == "verdict"]
    assert {event["element"] for event in heard} == {"t1-p1-5", "t0-p2-7"}
    assert {event["state"] for event in heard} == {"down"}


def test_the_samples_of_a_large_fabric_leave_out_what_is_zero(paper):
    paper.call("h1", "hello")
    paper.run(until=2 * paper.fabric.spec.sample_interval)
    samples = [record for record in map(json.loads, paper.history_since(0)) if record["kind"] == "sample"]
    assert samples
    assert paper.call("h1", "samples") == {"samples": []}
    assert {tuple(port) for sample in samples[1:] for port in sample["ports"]} == {("port", "up")}


def test_of_a_large_fabric_the_cables_are_verified_that_something_was_done_to(paper):
    paper.kill("t1-p1-5")
    paper.restart("t1-p1-5")
    paper.freeze("t1-p2-6")
    paper.thaw("t1-p2-6")
    assert paper.call("controller", "wait_verified", timeout=10.0)["verified"]
    sent = sum(switch.cpu_out for switch in paper.sim.switches.made)
    outcome = paper.call("controller", "verify", timeout=10.0)
    assert (outcome["verified"], outcome["links"], outcome["problems"]) == (True, 2_097_152, [])
    assert sum(switch.cpu_out for switch in paper.sim.switches.made) - sent == 2 * 2 * 512
    assert not paper.hosts
    paper.swap("t0-p3-1/t1-p3-2", "t0-p3-7/t1-p3-4")
    swapped = paper.call("controller", "verify", timeout=0.001)
    assert not swapped["verified"]
    assert swapped["failed"] == ["t0-p3-1/t1-p3-2", "t0-p3-7/t1-p3-4"]


def test_a_host_that_nobody_used_can_be_ended_and_started_again(tmp_path):
    made = world(tmp_path)
    assert made.is_alive("h3")
    assert "h3" not in made.hosts
    made.kill("h3")
    assert not made.is_alive("h3")
    made.restart("h3")
    assert made.call("h3", "hello")["host"] == "h3"
