"""The verbs: every refusal with its errno, the state machine, completion queues, flushes."""

import random
from functools import partial
from itertools import pairwise

import pytest
from mrc_sim import FULL_SIZE, Simulation, Transfer, node_config
from roce_sim import Simulation as RoceSimulation

from mrclab.hosts.mrc.endpoint import MrcEndpoint
from mrclab.hosts.rdma.errors import VerbsError
from mrclab.hosts.rdma.memory import Access
from mrclab.hosts.rdma.states import TRANSITIONS, QpState
from mrclab.topo.config.nodeconfig import DenyRule, EvProfileConfig

PEER = "fdcb:bb00:0:2::1"


@pytest.fixture
def host():
    return MrcEndpoint(node_config(1), random.Random(1), lambda _record: None)


def refused(code, call, *args, **kwargs):
    with pytest.raises(VerbsError) as caught:
        call(*args, **kwargs)
    assert caught.value.code == code
    return str(caught.value)


def ready(host, **attributes):
    qp = host.verbs.create_qp(PEER, 0.0, **attributes)
    host.verbs.connect(qp, {"qpn": 0x100, "psn": 1, "mpr": 1, "wimm": 2}, 0.0)
    return qp


# --- memory and protection domains --------------------------------------------------------------


def test_regions_have_bounds_keys_and_permissions(host):
    region = host.verbs.reg_mr(bytearray(100))
    assert region.length == 100
    place, ten = host.memory.place, memoryview(bytes(range(10)))
    assert place(region.rkey, region.va + 90, ten, host.verbs.default_pd) is None
    assert bytes(region.view[90:]) == bytes(ten)
    for rkey, va, pd in [
        (region.rkey, region.va + 91, host.verbs.default_pd),
        (region.rkey, region.va - 1, host.verbs.default_pd),
        (region.rkey ^ 1, region.va, host.verbs.default_pd),
        (region.rkey, region.va, host.verbs.alloc_pd()),
    ]:
        assert "outside the memory" in place(rkey, va, ten, pd).reason
    assert bytes(region.view[:90]) == bytes(90)
    local_only = host.verbs.reg_mr(bytearray(10), Access.LOCAL_WRITE)
    assert place(local_only.rkey, local_only.va, ten, host.verbs.default_pd) is not None


def test_two_regions_never_share_an_address_or_key(host):
    regions = [host.verbs.reg_mr(bytearray(3_000_000)) for _ in range(5)]
    assert len({r.rkey for r in regions}) == 5
    ends = sorted((r.va, r.va + r.length) for r in regions)
    assert all(a[1] < b[0] for a, b in pairwise(ends))


def test_a_read_only_buffer_can_be_sent_from_but_not_written_to(host):
    host.verbs.reg_mr(b"constant", Access(0))
    refused("EINVAL", host.verbs.reg_mr, b"constant", Access.LOCAL_WRITE)
    refused("EINVAL", host.verbs.reg_mr, bytearray(1), Access.REMOTE_WRITE)
    refused("EINVAL", host.verbs.reg_mr, 17)


def test_what_is_in_use_cannot_be_freed(host):
    pd = host.verbs.alloc_pd()
    region = host.verbs.reg_mr(bytearray(10), pd=pd)
    assert "1 users" in refused("EBUSY", host.verbs.dealloc_pd, pd)
    cq = host.verbs.create_cq(4)
    qp = host.verbs.create_qp(PEER, 0.0, pd=pd, send_cq=cq)
    refused("EBUSY", host.verbs.destroy_cq, cq)
    host.verbs.connect(qp, {"qpn": 1, "psn": 1, "mpr": 1, "wimm": 1}, 0.0)
    host.verbs.post_send(qp, 1, "RDMA_WRITE", region.lkey, 0, 10, 0, 1, None, 0.0)
    refused("EBUSY", host.verbs.dereg_mr, region.lkey)
    host.verbs.destroy_qp(qp, 0.0)
    host.verbs.dereg_mr(region.lkey)
    host.verbs.destroy_cq(cq)
    host.verbs.dealloc_pd(pd)
    refused("EINVAL", host.verbs.dealloc_pd, pd)


def test_what_calls_use_that_name_none_stays(host):
    refused("EBUSY", host.verbs.destroy_cq, host.verbs.default_cq)
    refused("EBUSY", host.verbs.dealloc_pd, host.verbs.default_pd)
    ready(host)


def test_a_deregistered_buffer_can_be_resized_again():
    sim = Simulation()
    transfer = Transfer(sim, "h1", "h3", 10 * FULL_SIZE)
    transfer.write(0, 10 * FULL_SIZE)
    sim.run(done=transfer.done)
    sim.hosts["h1"].verbs.destroy_qp(transfer.qa, sim.now)
    sim.hosts["h1"].verbs.dereg_mr(transfer.local.lkey)
    transfer.source.extend(b"more")  # BufferError while anything still exports it


# --- queue pairs --------------------------------------------------------------------------------


def test_a_qp_walks_from_reset_to_rts_with_the_attributes_of_each_step(host):
    qp = host.verbs.create_qp(PEER, 0.0)
    host.verbs.modify_qp(qp, "INIT", 0.0)
    assert "needs mpr, psn, wimm" in refused("EINVAL", host.verbs.modify_qp, qp, "RTR", 0.0, qpn=1)
    host.verbs.modify_qp(qp, "RTR", 0.0, qpn=1, psn=2, mpr=3, wimm=4)
    assert "needs psn" in refused("EINVAL", host.verbs.modify_qp, qp, "RTS", 0.0)
    host.verbs.modify_qp(qp, "RTS", 0.0, psn=5)
    assert host.verbs.query_qp(qp)["state"] == "RTS"


@pytest.mark.parametrize("state", list(QpState))
@pytest.mark.parametrize("target", [QpState.INIT, QpState.RTR, QpState.RTS])
def test_every_step_that_is_not_in_the_table_is_refused(host, state, target):
    qp = host.verbs.create_qp(PEER, 0.0)
    host.verbs.qp(qp).state = state
    needed = {"qpn", "psn", "mpr", "wimm"} if target is QpState.RTR else TRANSITIONS.get((state, target), ())
    attributes = dict.fromkeys(needed, 1)
    if (state, target) in TRANSITIONS:
        host.verbs.modify_qp(qp, target, 0.0, **attributes)
    else:
        assert f"from {state.value} to {target.value}" in refused(
            "EINVAL", host.verbs.modify_qp, qp, target, 0.0, **attributes
        )


@pytest.mark.parametrize(
    "attribute",
    [{"qpn": 1 << 24}, {"qpn": "7"}, {"psn": -1}, {"psn": 1.5}, {"psn": None}, {"mpr": 0}, {"mpr": 256}, {"wimm": 0}],
)
def test_attributes_outside_their_range_are_refused_by_name(host, attribute):
    qp = host.verbs.create_qp(PEER, 0.0)
    host.verbs.modify_qp(qp, "INIT", 0.0)
    good = {"qpn": 1, "psn": 1, "mpr": 1, "wimm": 1}
    assert next(iter(attribute)) in refused("EINVAL", host.verbs.modify_qp, qp, "RTR", 0.0, **(good | attribute))
    fresh = host.verbs.create_qp(PEER, 0.0)
    assert next(iter(attribute)) in refused("EINVAL", host.verbs.connect, fresh, good | attribute, 0.0)
    assert host.verbs.qp(fresh).state is QpState.RESET


def test_a_qp_needs_a_peer_that_the_node_config_knows(host):
    refused("EINVAL", host.verbs.create_qp, "fdcb:bb00:0:9::1", 0.0)
    refused("EINVAL", host.verbs.create_qp, "2001:db8::1", 0.0)
    refused("EINVAL", host.verbs.create_qp, "nonsense", 0.0)
    assert "itself" in refused("EINVAL", host.verbs.create_qp, "fdcb:bb00:0:1::1", 0.0)


def test_unknown_attributes_and_profiles_are_named(host):
    assert "'speed'" in refused("EINVAL", host.verbs.create_qp, PEER, 0.0, speed=1)
    assert "'fast'" in refused("EINVAL", host.verbs.create_qp, PEER, 0.0, ev_profile="fast")
    assert "'cubic'" in refused("EINVAL", host.verbs.create_qp, PEER, 0.0, cc_profile="cubic")
    assert "retry_linear 8" in refused("EINVAL", host.verbs.create_qp, PEER, 0.0, retry_linear=8)
    assert not host.verbs.qps
    assert not host.peers.with_qps


def test_the_window_is_the_smaller_of_both_sides():
    sim = Simulation()
    qa = sim.hosts["h1"].verbs.create_qp(PEER, sim.now, mpr=4)
    sim.hosts["h1"].verbs.connect(qa, {"qpn": 1, "psn": 1, "mpr": 2, "wimm": 1}, sim.now)
    assert sim.hosts["h1"].verbs.qp(qa).requestor.psn_window == 2 * 128 - 1


@pytest.mark.parametrize("earlier", ["refused post", "reset"])
def test_the_window_is_the_smaller_of_both_sides_whatever_the_qp_did_before(earlier):
    sim = Simulation()
    verbs = sim.hosts["h1"].verbs
    qa = verbs.create_qp(PEER, sim.now, mpr=4)
    region = verbs.reg_mr(bytearray(100))
    post = partial(verbs.post_send, qa, 1, "RDMA_WRITE", region.lkey, 0, 1, 0, 1, None)
    if earlier == "reset":
        verbs.connect(qa, {"qpn": 1, "psn": 1, "mpr": 4, "wimm": 1}, sim.now)
        post(sim.now)
        verbs.modify_qp(qa, "RESET", sim.now)
        sim.run(until=0.1)
    else:
        refused("EINVAL", post, sim.now)
    verbs.connect(qa, {"qpn": 1, "psn": 1, "mpr": 2, "wimm": 1}, sim.now)
    assert verbs.qp(qa).requestor.psn_window == 2 * 128 - 1


# --- work requests ------------------------------------------------------------------------------


def test_bad_work_requests_are_refused(host):
    region = host.verbs.reg_mr(bytearray(100))
    qp = host.verbs.create_qp(PEER, 0.0)
    refused("EINVAL", host.verbs.post_send, qp, 1, "RDMA_WRITE", region.lkey, 0, 1, 0, 1, None, 0.0)  # RESET
    refused("EINVAL", host.verbs.post_recv, qp, 1, 0.0)
    qp = ready(host)
    refused("EOPNOTSUPP", host.verbs.post_send, qp, 1, "RDMA_READ", region.lkey, 0, 1, 0, 1, None, 0.0)
    refused("EINVAL", host.verbs.post_send, qp, 1, "RDMA_WRITE", region.lkey, 0, 1, 0, 1, imm=1, now=0.0)
    refused("EINVAL", host.verbs.post_send, qp, 1, "RDMA_WRITE_WITH_IMM", region.lkey, 0, 1, 0, 1, None, 0.0)
    refused("EINVAL", host.verbs.post_send, qp, 1, "RDMA_WRITE_WITH_IMM", region.lkey, 0, 1, 0, 1, imm=1 << 32, now=0.0)
    refused("EINVAL", host.verbs.post_send, qp, 1, "RDMA_WRITE", region.lkey, 99, 2, 0, 1, None, 0.0)
    refused("EINVAL", host.verbs.post_send, qp, 1, "RDMA_WRITE", region.lkey, -1, 2, 0, 1, None, 0.0)
    refused("EINVAL", host.verbs.post_send, qp, 1, "RDMA_WRITE", 12345, 0, 1, 0, 1, None, 0.0)
    refused("EMSGSIZE", host.verbs.post_send, qp, 1, "RDMA_WRITE", region.lkey, 0, (1 << 31) + 1, 0, 1, None, 0.0)
    for rkey in (-1, 1 << 32):
        refused("EINVAL", host.verbs.post_send, qp, 1, "RDMA_WRITE", region.lkey, 0, 1, 0, rkey, None, 0.0)
    refused("EINVAL", host.verbs.post_send, 999, 1, "RDMA_WRITE", region.lkey, 0, 1, 0, 1, None, 0.0)
    other = host.verbs.reg_mr(bytearray(10), pd=host.verbs.alloc_pd())
    refused("EINVAL", host.verbs.post_send, qp, 1, "RDMA_WRITE", other.lkey, 0, 1, 0, 1, None, 0.0)


def test_no_more_immediates_are_in_flight_than_the_peer_takes(host):
    region = host.verbs.reg_mr(bytearray(100))
    qp = ready(host)  # the peer said 2
    for wr_id in range(2):
        host.verbs.post_send(qp, wr_id, "RDMA_WRITE_WITH_IMM", region.lkey, 0, 1, 0, 1, imm=0, now=0.0)
    refused("ENOMEM", host.verbs.post_send, qp, 3, "RDMA_WRITE_WITH_IMM", region.lkey, 0, 1, 0, 1, imm=0, now=0.0)
    host.verbs.post_send(qp, 4, "RDMA_WRITE", region.lkey, 0, 1, 0, 1, None, 0.0)


def test_an_error_flushes_what_is_outstanding_in_order(host):
    region = host.verbs.reg_mr(bytearray(100))
    qp = ready(host)
    for wr_id in range(3):
        host.verbs.post_send(qp, wr_id, "RDMA_WRITE", region.lkey, 0, 1, 0, 1, None, 0.0)
    host.verbs.post_recv(qp, 77, 0.0)
    host.verbs.modify_qp(qp, "ERROR", 0.0)
    assert [(c.wr_id, c.status) for c in host.verbs.poll_cq()] == [(n, "WR_FLUSH_ERR") for n in (0, 1, 2, 77)]
    host.verbs.post_send(qp, 9, "RDMA_WRITE", region.lkey, 0, 1, 0, 1, None, 0.0)
    assert [(c.wr_id, c.status) for c in host.verbs.poll_cq()] == [(9, "WR_FLUSH_ERR")]
    assert region.users == 0
    assert host.events.poll() == [{"event": "QP_FATAL", "qp": qp, "reason": "set by the application"}]
    assert host.events.poll() == []


def test_a_full_completion_queue_says_so_and_stops_the_qp():
    sim = Simulation()
    a, b = sim.hosts["h1"], sim.hosts["h3"]
    cq = a.verbs.create_cq(2)
    qa = a.verbs.create_qp(PEER, sim.now, send_cq=cq)
    qb = b.verbs.create_qp("fdcb:bb00:0:1::1", sim.now)
    a.verbs.connect(qa, b.verbs.local_info(qb), sim.now)
    b.verbs.connect(qb, a.verbs.local_info(qa), sim.now)
    local, remote = a.verbs.reg_mr(bytearray(10)), b.verbs.reg_mr(bytearray(10))
    for wr_id in range(3):
        a.verbs.post_send(qa, wr_id, "RDMA_WRITE", local.lkey, 0, 10, remote.va, remote.rkey, None, sim.now)
    sim.run(until=1.0)
    assert [c.wr_id for c in a.verbs.poll_cq(cq)] == [0, 1]
    assert "deeper than 2" in refused("EOVERFLOW", a.verbs.poll_cq, cq)
    assert {e["event"] for e in a.events.poll()} == {"CQ_ERR", "QP_FATAL"}


def test_a_reset_qp_can_be_connected_again():
    sim = Simulation()
    transfer = Transfer(sim, "h1", "h3", 20 * FULL_SIZE)
    transfer.write(0, 20 * FULL_SIZE)
    sim.run(until=0.01)
    a, b = sim.hosts["h1"], sim.hosts["h3"]
    a.verbs.modify_qp(transfer.qa, "RESET", sim.now)
    b.verbs.modify_qp(transfer.qb, "RESET", sim.now)
    sim.run(until=0.2)
    info_a, info_b = a.verbs.local_info(transfer.qa), b.verbs.local_info(transfer.qb)
    a.verbs.connect(transfer.qa, info_b, sim.now)
    b.verbs.connect(transfer.qb, info_a, sim.now)
    transfer.posted = 0
    transfer.write(0, 20 * FULL_SIZE)
    sim.run(until=5.0, done=transfer.done)
    assert transfer.done()
    assert transfer.target == transfer.source


@pytest.mark.parametrize("simulation", [Simulation, RoceSimulation])
def test_a_reset_is_no_gap_between_packets(simulation):
    sim = simulation()
    transfer = Transfer(sim, "h1", "h3", FULL_SIZE)
    transfer.write(0, FULL_SIZE)
    sim.run(until=5.0)
    ends = ((sim.hosts["h1"].verbs, transfer.qa), (sim.hosts["h3"].verbs, transfer.qb))
    for verbs, qp in ends:
        verbs.modify_qp(qp, "RESET", sim.now)
    infos = [verbs.local_info(qp) for verbs, qp in ends]
    for (verbs, qp), info in zip(ends, reversed(infos), strict=True):
        verbs.connect(qp, info, sim.now)
    transfer.write(0, FULL_SIZE)
    sim.run(until=10.0, done=transfer.done)
    responder = sim.hosts["h3"].verbs.qp(transfer.qb).responder
    assert responder.last_placed > 5.0
    assert responder.max_gap == 0.0


@pytest.mark.parametrize("target", ["ERROR", "RESET"])
def test_what_was_flushed_is_no_backlog(target):
    sim = Simulation()
    transfer = Transfer(sim, "h1", "h3", 400 * FULL_SIZE)
    transfer.write(0, 400 * FULL_SIZE)
    sim.run(until=0.05)
    verbs = sim.hosts["h1"].verbs
    qp = verbs.qp(transfer.qa)
    assert 0 < qp.backlog < 400 * FULL_SIZE
    verbs.modify_qp(transfer.qa, target, sim.now)
    assert qp.backlog == 0


def test_the_device_tells_its_limits(host):
    device = host.verbs.query_device()
    assert device["ports"] == 4
    assert device["opcodes"] == ["RDMA_WRITE", "RDMA_WRITE_WITH_IMM"]
    assert "TRIM_NACK" in device["capabilities"]


@pytest.mark.parametrize("target", ["RTS", "RESET", "ERROR"])
def test_a_step_takes_no_attribute_that_it_would_ignore(host, target):
    qp = ready(host)
    message = refused("EINVAL", host.verbs.modify_qp, qp, target, 0.0, timeout_exponent=12)
    assert "'timeout_exponent'" in message
    assert host.verbs.qp(qp).state is QpState.RTS
    assert host.verbs.qp(qp).settings.timeout_exponent == 18


def test_a_set_of_more_evs_than_a_qp_has_is_refused_and_nothing_is_made():
    wide = EvProfileConfig(name="default", active_per_plane=40, backup_per_plane=8, ev_min_active=1)
    host = MrcEndpoint(node_config(1, ev=wide, planes=8, uplinks=64), random.Random(1), lambda _record: None)
    assert "make 384, but a QP has at most 256" in refused("E2BIG", host.verbs.create_qp, PEER, 0.0)
    assert not host.verbs.qps
    assert not host.peers.with_qps
    widest = EvProfileConfig(name="default", active_per_plane=28, backup_per_plane=4, ev_min_active=1)
    host = MrcEndpoint(node_config(1, ev=widest, planes=8, uplinks=64), random.Random(1), lambda _record: None)
    assert host.verbs.qp(host.verbs.create_qp(PEER, 0.0)).evs.count == 256


def test_keys_and_first_psns_are_drawn_from_the_secrets_and_paths_from_the_seed():
    def drawn(secrets):
        host = MrcEndpoint(node_config(1), random.Random(1), lambda _record: None, random.Random(secrets))
        keys = [host.verbs.reg_mr(bytearray(1)).rkey for _ in range(3)]
        numbers = [host.verbs.create_qp(PEER, 0.0) for _ in range(3)]
        evs = [[ev.value for ev in host.verbs.qp(number).evs.by_value.values()] for number in numbers]
        return keys, [host.verbs.local_info(number)["psn"] for number in numbers], evs

    keys, psns, evs = drawn(1)
    other_keys, other_psns, other_evs = drawn(2)
    assert not {*keys} & {*other_keys}
    assert not {*psns} & {*other_psns}
    assert evs == other_evs
    assert drawn(1) == (keys, psns, evs)


@pytest.mark.parametrize("denied", [False, True])
def test_a_second_qp_to_a_peer_draws_what_a_first_one_draws_and_makes_no_other_peer(denied):
    config = node_config(1)
    if denied:
        rules = [DenyRule(element="x", plane=1, uplink=config.uplinks(1)[0])]
        config = config.model_copy(update={"denylist": tuple(rules)})
    drawn = []
    for knows in (True, False):
        host = MrcEndpoint(config, random.Random(1), lambda _record: None)
        host.verbs.create_qp(PEER, 0.0)
        if not knows:
            host.config = config.model_copy()
        host.verbs.create_qp(PEER, 0.0)
        assert [peer.qps for peer in host.peers.with_qps.values()] == [2]
        drawn.append(host.rng.getstate())
    assert drawn[0] == drawn[1]
