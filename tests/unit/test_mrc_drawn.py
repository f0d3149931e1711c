"""EV sets that are made late: of few among many paths, and of QPs that have not sent anything."""

import pytest

from mrclab.sim.world import SimWorld
from mrclab.topo.config.nodeconfig import DenyRule
from mrclab.topo.config.transport import TransportSpec
from mrclab.topo.model import Fabric
from mrclab.topo.spec import load

FABRIC = {"planes": 2, "t0s": 2, "t1s": 16, "hosts_per_t0": 1, "link": {"rate": "100 Gb/s", "delay": "600ns"}}
ALLOWED = {11, 12, 13, 14, 15, 16}


@pytest.fixture
def endpoints(tmp_path):
    profile = {"active_per_plane": 4, "backup_per_plane": 4, "ev_min_active": 1}
    transport = TransportSpec.model_validate({"ev_profile": profile})
    world = SimWorld(Fabric(load(FABRIC)), seed=1, transport=transport, mapper=None, files=tmp_path)
    for host in ("h1", "h2"):
        world.call(host, "hello")
    return world, world.hosts["h1"].transport, world.hosts["h2"].transport


def denying(config):
    rules = [DenyRule(element="x", plane=p, uplink=u) for p in (1, 2) for u in range(1, 17) if u not in ALLOWED]
    return config.model_copy(update={"denylist": tuple(rules), "version": config.version + 1})


@pytest.mark.parametrize("made_before", [True, False])
def test_a_denylist_holds_for_paths_that_are_drawn_on_demand(endpoints, made_before):
    _, one, other = endpoints
    address = other.config.host.address
    qp = one.verbs.qp(one.verbs.create_qp(address, 0.0)) if made_before else None
    one.update_config(denying(one.config), 0.0)
    qp = qp or one.verbs.qp(one.verbs.create_qp(address, 0.0))
    for plane in (1, 2):
        used = {qp.evs.select(plane, 0.0).uplink for _ in range(8)}
        assert used
        assert used <= ALLOWED


def write(world, one, other):
    """One write from end to end, until it is over."""
    size = 1 << 16
    local, remote = one.verbs.reg_mr(bytearray(size)), other.verbs.reg_mr(bytearray(size))
    near, far = one.verbs.create_qp(other.config.host.address, 0.0), other.verbs.create_qp(one.config.host.address, 0.0)
    one.verbs.connect(near, other.verbs.local_info(far), 0.0)
    other.verbs.connect(far, one.verbs.local_info(near), 0.0)
    one.verbs.post_send(near, 0, "RDMA_WRITE", local.lkey, 0, size, remote.va, remote.rkey, None, 0.0)
    world.hosts["h1"].nic.serve()
    world.run(until=0.001)
    assert [done.status for done in one.verbs.poll_cq()] == ["SUCCESS"]
    return one.verbs.qp(near), other.verbs.qp(far)


def test_who_only_receives_makes_no_evs(endpoints):
    sender, receiver = write(*endpoints)
    assert len(sender.path_snapshots()) == len(sender.evs.by_value) > 0
    assert receiver.known_evs is None
    assert receiver.path_snapshots() == []
    assert receiver.evs.usable(1)  # whoever asks has them made


def test_evs_that_are_made_late_know_of_ports_that_are_down(endpoints):
    _, one, other = endpoints
    qp = one.verbs.qp(one.verbs.create_qp(other.config.host.address, 0.0))
    one.port_event(2, False, 0.0)
    one.on_timer(1.0)
    assert [qp.evs.usable(plane) for plane in (1, 2)] == [True, False]
