"""The control interface: EV formats and profiles, EV states and events, congestion profiles, EV probes, ports."""

import random

import pytest
from mrc_sim import FULL_SIZE, HOP, Simulation, Transfer, node_config

from mrclab.hosts.mrc.endpoint import MrcEndpoint
from mrclab.hosts.mrc.evs.evformat import EvField, EvFormat, Expansion, uplink_of, value_of
from mrclab.hosts.mrc.evs.evprofile import MAX_EVENTS, ApiState, Mode, ProfileState
from mrclab.hosts.rdma.errors import VerbsError
from mrclab.topo import srv6

PEER = "fdcb:bb00:0:2::1"
STEV_FIELDS = (
    EvField(4, minimum=1, maximum=4, mask=0xF),  # plane
    EvField(8, minimum=1, maximum=2, mask=0x3),  # uplink
    EvField(4),
    EvField(16, init_val=0x8000, mask=0xFF),  # tag
)


@pytest.fixture
def host():
    made = MrcEndpoint(node_config(1), random.Random(1), lambda _record: None)
    for port in (1, 2, 3, 4):
        made.port_event(port, True, 0.0)
    return made


def refused(code, call, *args, **kwargs):
    with pytest.raises(VerbsError) as caught:
        call(*args, **kwargs)
    assert caught.value.code == code
    return str(caught.value)


def stev(plane, uplink, tag=0):
    return srv6.ev(plane, uplink, srv6.ev_tag(tag)).to_bytes(4, "big")


def explicit(host, *evs, fmt=EvFormat.STEV, min_active=1, online=True, events=()):
    number = host.ctl.create_ev_profile(Mode.EXPLICIT, fmt, len(evs), min_active, events)
    for index, (port, value) in enumerate(evs):
        host.ctl.replace_ev(number, index, port, value)
    host.ctl.modify_ev_profile(number, ProfileState.OFFLINE)
    if online:
        host.ctl.modify_ev_profile(number, ProfileState.ONLINE)
    return number


# --- field expansion ----------------------------------------------------------------------------


def test_bits_of_the_ev_go_into_the_masks_most_significant_first():
    expansion = Expansion(
        EvFormat.UDP, (EvField(4, init_val=0xA), EvField(8, mask=0b10100101), EvField(4, init_val=1, mask=0b1000))
    )
    assert expansion.bits == 5
    value = int.from_bytes(expansion.expand(0b10110), "big")
    assert value >> 12 == 0xA
    assert value >> 4 & 0xFF == 0b10000101
    assert value & 0xF == 0b0001


def test_a_field_without_mask_is_a_fixed_part():
    expansion = Expansion(EvFormat.STEV, (EvField(32, init_val=0x12345678),))
    assert expansion.bits == 0
    assert expansion.expand(0) == bytes.fromhex("12345678")


def test_a_generator_keeps_the_mask_bits_of_each_field_between_its_limits_and_expansion_does_not_ask():
    expansion = Expansion(EvFormat.STEV, STEV_FIELDS)
    assert expansion.bits == 14
    rng = random.Random(4)
    found = {srv6.ev_fields(int.from_bytes(expansion.expand(expansion.draw(rng)), "big"))[:2] for _ in range(200)}
    assert found == {(plane, uplink) for plane in range(1, 5) for uplink in (1, 2)}
    assert expansion.expand(0) == bytes.fromhex("00008000")
    scattered = EvField(16, 0x1000, minimum=1, maximum=0xFF, mask=0x0F0F)
    assert scattered.fill(0xAB) == 0x1A0B


def test_a_field_narrower_than_its_place_stands_at_the_right_and_missing_fields_are_zero():
    nibble = EvField(4, mask=0xF)
    expansion = Expansion(EvFormat.STEV, (nibble, nibble), [8, 16, 8])
    assert expansion.expand(0xAB) == bytes.fromhex("0a000b00")


def test_bad_fields_and_expansions_are_refused():
    refused("EINVAL", EvField, 0)
    refused("EINVAL", EvField, 4, 16)
    refused("EINVAL", EvField, 4, mask=0x10)
    refused("EINVAL", EvField, 4, 0, 5, 3, 0xF)
    refused("EINVAL", EvField, 8, 0, 0, 4, 0x81)
    assert "20 bits, but a UDP value has 16" in refused("E2BIG", Expansion, EvFormat.UDP, (EvField(20),))
    refused("EINVAL", Expansion, EvFormat.UDP, (EvField(8), EvField(8)), [16])
    refused("EINVAL", Expansion, EvFormat.UDP, (EvField(16),), [8])
    refused("EINVAL", Expansion, EvFormat.UDP, ())


def test_every_format_finds_its_path_again():
    template = srv6.template_cross(1, 2, 1)
    for plane in (1, 2):
        for uplink in (1, 2):
            ev = srv6.ev(plane, uplink, srv6.ev_tag(9))
            for fmt in (EvFormat.STEV, EvFormat.SRV6):
                value = value_of(fmt, ev, srv6.address(template, ev))
                assert len(value) == fmt.value
                assert uplink_of(fmt, value, plane, (1, 2)) == uplink
    assert {uplink_of(EvFormat.UDP, n.to_bytes(2, "big"), 1, (1, 2)) for n in range(8)} == {1, 2}
    refused("EINVAL", uplink_of, EvFormat.STEV, stev(1, 1), 2, (1, 2))
    refused("EINVAL", uplink_of, EvFormat.STEV, stev(1, 3), 1, (1, 2))
    refused("EINVAL", uplink_of, EvFormat.SRV6, bytes(32), 1, (1, 2))


# --- profiles -----------------------------------------------------------------------------------


def test_a_profile_goes_from_init_over_offline_to_online_and_back(host):
    number = explicit(host, (1, stev(1, 1)), online=False)
    profile = host.ctl.ev_profile(number)
    assert profile.state is ProfileState.OFFLINE
    host.ctl.modify_ev_profile(number, ProfileState.ONLINE)
    refused("EINVAL", host.ctl.modify_ev_profile, number, ProfileState.INIT)
    refused("EINVAL", host.ctl.modify_ev_profile, number, ProfileState.ONLINE)
    host.ctl.modify_ev_profile(number, ProfileState.OFFLINE)
    host.ctl.modify_ev_profile(number, ProfileState.INIT)
    assert [entry.value for entry in host.ctl.query_ev_array(number)] == [None], "an explicit array is empty again"
    host.ctl.destroy_ev_profile(number)
    refused("EINVAL", host.ctl.ev_profile, number)


def test_unpopulated_entries_keep_a_profile_offline(host):
    number = host.ctl.create_ev_profile(Mode.EXPLICIT, EvFormat.STEV, 3, 1)
    host.ctl.replace_ev(number, 1, 1, stev(1, 1))
    host.ctl.modify_ev_profile(number, ProfileState.OFFLINE)
    assert "2 unpopulated" in refused("EINVAL", host.ctl.modify_ev_profile, number, ProfileState.ONLINE)
    states = [entry.state for entry in host.ctl.query_ev_array(number)]
    assert states == [ApiState.UNKNOWN, ApiState.GOOD, ApiState.UNKNOWN]


def test_bad_profiles_are_refused(host):
    create = host.ctl.create_ev_profile
    refused("E2BIG", create, Mode.AUTO, EvFormat.STEV, 257, 1)
    refused("EINVAL", create, Mode.AUTO, EvFormat.STEV, 8, 9)
    refused("EINVAL", create, Mode.AUTO, EvFormat.STEV, 8, 1, {ApiState.DENIED})
    refused("EINVAL", create, Mode.GENERATED, EvFormat.STEV, 8, 1)
    number = create(Mode.AUTO, EvFormat.STEV, 8, 1)
    refused("EOPNOTSUPP", host.ctl.replace_ev, number, 0, 1, stev(1, 1))
    number = create(Mode.EXPLICIT, EvFormat.STEV, 1, 1)
    refused("EINVAL", host.ctl.replace_ev, number, 1, 1, stev(1, 1))
    refused("EINVAL", host.ctl.replace_ev, number, 0, 9, stev(1, 1))
    refused("EINVAL", host.ctl.replace_ev, number, 0, 2, stev(1, 1))


def test_replace_can_meet_all_copies(host):
    number = host.ctl.create_ev_profile(Mode.EXPLICIT, EvFormat.STEV, 3, 1)
    for index in range(3):
        host.ctl.replace_ev(number, index, 1, stev(1, 1))
    host.ctl.replace_ev(number, 0, 1, stev(1, 2), all_copies=True)
    assert [entry.value for entry in host.ctl.query_ev_array(number)] == [stev(1, 2)] * 3


def test_a_qp_uses_exactly_the_evs_of_its_explicit_profile():
    sim = Simulation()
    host = sim.hosts["h1"]
    number = explicit(host, (1, stev(1, 1)), (3, stev(3, 2)))
    qa = host.verbs.create_qp(PEER, sim.now, ev_profile=number)
    qb = sim.hosts["h3"].verbs.create_qp("fdcb:bb00:0:1::1", sim.now)
    host.verbs.connect(qa, sim.hosts["h3"].verbs.local_info(qb), sim.now)
    sim.hosts["h3"].verbs.connect(qb, host.verbs.local_info(qa), sim.now)
    local, remote = (
        host.verbs.reg_mr(bytearray(50 * FULL_SIZE)),
        sim.hosts["h3"].verbs.reg_mr(bytearray(50 * FULL_SIZE)),
    )
    host.verbs.post_send(qa, 1, "RDMA_WRITE", local.lkey, 0, 50 * FULL_SIZE, remote.va, remote.rkey, None, sim.now)
    sim.run(until=2)
    assert [c.status for c in host.verbs.poll_cq()] == ["SUCCESS"]
    assert {(p["plane"], p["uplink"]): p["sent_packets"] for p in host.stats()["paths"]} == {(1, 1): 25, (3, 2): 25}
    refused("EBUSY", host.ctl.destroy_ev_profile, number)
    refused("EBUSY", host.ctl.modify_ev_profile, number, ProfileState.OFFLINE)
    refused("EBUSY", host.ctl.replace_ev, number, 0, 1, stev(1, 2))
    host.verbs.destroy_qp(qa, sim.now)
    host.ctl.destroy_ev_profile(number)


@pytest.mark.parametrize("fmt", [EvFormat.SRV6, EvFormat.UDP])
def test_profiles_of_other_formats_lead_to_paths_as_well(host, fmt):
    ev = srv6.ev(2, 2, srv6.ev_tag(0))
    number = explicit(host, (2, value_of(fmt, ev, srv6.address(srv6.template_cross(1, 2, 1), ev))), fmt=fmt)
    qp = host.verbs.create_qp(PEER, 0.0, ev_profile=number)
    ((port, value, state),) = host.ctl.query_ev_state(qp)
    assert (port, len(value), state) == (2, fmt.value, ApiState.GOOD)
    assert host.verbs.qp(qp).evs.planes[2].usable


def test_a_generated_profile_draws_within_its_limits(host):
    number = host.ctl.create_ev_profile(
        Mode.GENERATED,
        EvFormat.UDP,
        16,
        4,
        expansion=Expansion(EvFormat.UDP, (EvField(4, 0x9), EvField(12, mask=0xFFF))),
    )
    entries = host.ctl.query_ev_array(number)
    assert {entry.port for entry in entries} == {1, 2, 3, 4}
    assert all(entry.value[0] >> 4 == 9 for entry in entries)
    host.ctl.modify_ev_profile(number, ProfileState.OFFLINE)
    host.ctl.modify_ev_profile(number, ProfileState.ONLINE)
    qp = host.verbs.create_qp(PEER, 0.0, ev_profile=number)
    assert len(host.ctl.query_ev_state(qp)) == 16


def test_an_auto_profile_lets_the_implementation_draw(host):
    number = host.ctl.create_ev_profile(Mode.AUTO, EvFormat.SRV6, 4, 2)
    assert "bring it ONLINE" in refused("EINVAL", host.verbs.create_qp, PEER, 0.0, ev_profile=number)
    host.ctl.modify_ev_profile(number, ProfileState.OFFLINE)
    host.ctl.modify_ev_profile(number, ProfileState.ONLINE)
    qp = host.verbs.create_qp(PEER, 0.0, ev_profile=number)
    states = host.ctl.query_ev_state(qp)
    assert sorted(port for port, _, _ in states) == [1, 2, 3, 4]
    assert host.verbs.qp(qp).evs.min_active == 2


@pytest.mark.parametrize(("peer", "evs", "least"), [("fdcb:bb00:0:1::2", 4, 1), (PEER, 8, 2)])
def test_the_floor_of_an_auto_profile_is_in_proportion_to_the_evs_that_a_pair_has(host, peer, evs, least):
    number = host.ctl.create_ev_profile(Mode.AUTO, EvFormat.STEV, 32, 8)
    host.ctl.modify_ev_profile(number, ProfileState.OFFLINE)
    host.ctl.modify_ev_profile(number, ProfileState.ONLINE)
    made = host.verbs.qp(host.verbs.create_qp(peer, 0.0, ev_profile=number)).evs
    retired = [ev for ev in list(made.by_value.values()) if made.lost(ev, 0.0, "time")]
    assert (len(retired), made.active_count()) == (evs - least, least)


# --- states and events --------------------------------------------------------------------------


def test_a_denied_ev_is_left_and_can_be_allowed_again(host):
    number = explicit(host, (1, stev(1, 1)), (1, stev(1, 2)))
    qp = host.verbs.create_qp(PEER, 0.0, ev_profile=number)
    assert host.ctl.modify_ev_state(number, 1, stev(1, 1), ApiState.DENIED, 0.0) == 1
    assert {host.verbs.qp(qp).evs.select(1, 0.0).uplink for _ in range(6)} == {2}
    assert [state for _, _, state in host.ctl.query_ev_state(qp)] == [ApiState.DENIED, ApiState.GOOD]
    host.ctl.modify_ev_state(number, 1, stev(1, 1), ApiState.GOOD, 0.0)
    assert {host.verbs.qp(qp).evs.select(1, 0.0).uplink for _ in range(6)} == {1, 2}
    refused("EINVAL", host.ctl.modify_ev_state, number, 1, stev(1, 1), ApiState.ASSUMED_BAD, 0.0)
    refused("ENOENT", host.ctl.modify_ev_state, number, 2, stev(1, 1), ApiState.DENIED, 0.0)


def test_events_tell_of_retired_and_returned_evs_with_a_count_of_those_lost(host):
    number = explicit(
        host, (1, stev(1, 1)), (2, stev(2, 1)), (3, stev(3, 1)), events={ApiState.ASSUMED_BAD, ApiState.GOOD}
    )
    qp = host.verbs.qp(host.verbs.create_qp(PEER, 0.0, ev_profile=number))
    ev = next(e for e in qp.evs.by_value.values() if e.plane == 2)
    qp.evs.lost(ev, 1.0, "time")
    qp.evs.restore(ev, 0.0, "probe")
    events = host.ctl.poll_ev_events(number)
    assert [(e.port, e.value, e.state, e.dropped) for e in events] == [
        (2, stev(2, 1), ApiState.ASSUMED_BAD, 0),
        (2, stev(2, 1), ApiState.GOOD, 0),
    ]
    for _ in range(MAX_EVENTS):
        qp.evs.lost(ev, 1.0, "time")
        qp.evs.restore(ev, 0.0, "probe")
    assert len(host.ctl.poll_ev_events(number)) == MAX_EVENTS
    qp.evs.lost(ev, 1.0, "time")
    assert host.ctl.poll_ev_events(number)[0].dropped == MAX_EVENTS


def test_only_events_that_were_asked_for_are_kept(host):
    number = explicit(host, (1, stev(1, 1)), (2, stev(2, 1)), events={ApiState.GOOD})
    qp = host.verbs.qp(host.verbs.create_qp(PEER, 0.0, ev_profile=number))
    ev = next(iter(qp.evs.by_value.values()))
    qp.evs.lost(ev, 1.0, "time")
    qp.evs.restore(ev, 0.0, "probe")
    assert [e.state for e in host.ctl.poll_ev_events(number)] == [ApiState.GOOD]


def test_what_is_good_to_the_control_interface_before_and_after_makes_no_event(host):
    evs = [(1, stev(1, 1)), (1, stev(1, 2)), (2, stev(2, 1))]
    number = explicit(host, *evs, events={ApiState.ASSUMED_BAD, ApiState.GOOD})
    qp = host.verbs.qp(host.verbs.create_qp(PEER, 0.0, ev_profile=number))
    ev = next(iter(qp.evs.by_value.values()))
    qp.evs.skip(ev, 1.0, 0.1, "ecn")
    qp.evs.plane_down(1, 1.0, "port")
    qp.evs.plane_up(1, 0.0, "port", shadow=0.0)
    assert host.ctl.poll_ev_events(number) == []


# --- congestion control profiles ----------------------------------------------------------------


def test_a_congestion_profile_carries_its_parameters_to_the_qp(host):
    number = host.ctl.create_cc_profile("uet-1.0-nscc", gamma=0.5, disable_qa=True)
    qp = host.verbs.qp(host.verbs.create_qp(PEER, 0.0, cc_profile=number))
    assert (qp.cc.parameters.gamma, qp.cc.parameters.disable_qa) == (0.5, True)
    refused("EINVAL", host.ctl.create_cc_profile, "uet-1.0-nscc", gama=1)
    refused("EINVAL", host.ctl.create_cc_profile, "none", gamma=1)
    refused("EINVAL", host.verbs.create_qp, PEER, 0.0, cc_profile=number + 1)
    assert host.ctl.cc_profile_users(number) == 1
    refused("EBUSY", host.ctl.destroy_cc_profile, number)
    host.verbs.destroy_qp(qp.qpn, 0.0)
    host.ctl.destroy_cc_profile(number)
    refused("EINVAL", host.ctl.destroy_cc_profile, number)


def test_qps_to_one_destination_share_their_controller_and_others_do_not(host):
    a, b = host.verbs.qp(host.verbs.create_qp(PEER, 0.0)), host.verbs.qp(host.verbs.create_qp(PEER, 0.0))
    other_profile = host.verbs.qp(host.verbs.create_qp(PEER, 0.0, cc_profile="none"))
    other_peer = host.verbs.qp(host.verbs.create_qp("fdcb:bb00:0:2::2", 0.0))
    assert a.cc is b.cc
    assert len({id(a.cc), id(other_profile.cc), id(other_peer.cc)}) == 3


# --- EV probes and ports ------------------------------------------------------------------------


def test_a_batch_of_probes_tells_round_trip_times_and_dead_paths_without_any_qp():
    sim = Simulation()
    sim.network = lambda t: [] if (t.plane, t.uplink) == (2, 1) else [sim.delay(t) + 0.001 * t.plane]
    evs = [srv6.ev(plane, 1, srv6.ev_tag(0)) for plane in (1, 2, 3, 4)]
    results = []
    sim.hosts["h1"].ctl.probe_evs(PEER, evs, 0.2, results.extend, sim.now)
    sim.run(until=1.0)
    assert [r.ev for r in results] == evs
    assert results[1].rtt is None
    for result, plane in ((results[0], 1), (results[2], 3), (results[3], 4)):
        assert result.rtt == pytest.approx(8 * HOP + 0.002 * plane, abs=0.004)
    assert sim.hosts["h1"].next_deadline() is None


def test_bad_probe_requests_are_refused(host):
    probe = host.ctl.probe_evs
    refused("E2BIG", probe, PEER, [], 0.1, print, 0.0)
    refused("EINVAL", probe, PEER, [srv6.ev(1, 9, 0)], 0.1, print, 0.0)
    refused("EINVAL", probe, PEER, [srv6.ev(1, 1, 0)], 0.0, print, 0.0)
    refused("EINVAL", probe, "2001:db8::1", [srv6.ev(1, 1, 0)], 0.1, print, 0.0)


def test_a_disabled_port_is_left_and_peers_are_told():
    sim = Simulation()
    transfer = Transfer(sim, "h1", "h3", 1 << 20)
    transfer.write(0, 1 << 20)
    used = []
    sim.before_send = lambda name, t: used.append((sim.now, t.plane)) if name == "h1" and t.is_write else None
    sim.at(0.1, lambda: sim.hosts["h1"].ctl.set_port_admin(3, False, sim.now))
    sim.at(0.2, lambda: sim.hosts["h1"].ctl.set_port_admin(3, True, sim.now))
    sim.run(until=0.4)
    assert not [t for t, plane in used if plane == 3 and 0.1 < t < 0.2]
    assert [t for t, plane in used if plane == 3 and t > 0.2]
    masks = [r["mask"] for r in sim.records if r["kind"] == "peer.ports" and r["node"] == "h3"]
    assert masks == [0b1011, 0b1111]
    refused("EINVAL", sim.hosts["h1"].ctl.set_port_admin, 9, False, 0.0)
