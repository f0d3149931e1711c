"""Each switch of the transport section takes away what its name says, and nothing else."""

import pytest
from mrc_sim import FULL_SIZE, Simulation, Transfer

from mrclab.hosts.mrc.evs.states import EvState
from mrclab.hosts.mrc.packets import headers as h
from mrclab.hosts.rdma.errors import VerbsError
from mrclab.topo.config.nodeconfig import EvProfileConfig, TransportSection

PACKETS = 120
SWITCHES = ("spray", "ecn_skip", "ecn_echo", "sack_loss", "quick_adapt", "port_status_update")


def transfer_in(network=None, packets=PACKETS, **config):
    """A transfer that has run to its end in a network where `network(sim, transit)` may do something to a packet."""
    sim = Simulation(**config)
    sim.keep_sent = True
    if network is not None:
        sim.network = lambda transit: network(sim, transit)
    transfer = Transfer(sim, "h1", "h3", packets * FULL_SIZE)
    transfer.write(0, packets * FULL_SIZE)
    sim.run(done=transfer.done)
    assert transfer.target == transfer.source
    return sim, transfer


def mark_uplink_1(sim, transit):
    if transit.is_write and transit.uplink == 1:
        transit.mark()
    return sim.clean(transit)


def lose_the_tenth(sim, transit):
    return [] if is_tenth(sim, transit) else sim.clean(transit)


def is_tenth(sim, transit):
    """Return True if this is the tenth data packet that was sent, which the simulation has just kept."""
    return transit.is_write and sum(t.is_write for t in sim.sent) == 10


def evs_of(sim, transfer):
    return sim.hosts["h1"].verbs.qps[transfer.qa].evs


def records(sim, kind, **fields):
    return [r for r in sim.records if r["kind"] == kind and fields.items() <= r.items()]


def test_all_switches_are_on_by_default_and_a_qp_may_turn_each_off():
    assert all(TransportSection.model_fields[name].default is True for name in SWITCHES)
    sim = Simulation()
    for name in SWITCHES:
        qp = sim.hosts["h1"].verbs.create_qp(sim.configs["h3"].host.address, sim.now, **{name: False})
        assert getattr(sim.hosts["h1"].verbs.qps[qp].settings, name) is False


@pytest.mark.parametrize("bad", [{"spray": "no"}, {"sack_loss": 1}, {"reorder_rtts": 0.0}, {"remap_delay": "1s"}])
def test_a_value_of_the_wrong_kind_is_refused_by_name(bad):
    sim = Simulation()
    with pytest.raises(VerbsError) as caught:
        sim.hosts["h1"].verbs.create_qp(sim.configs["h3"].host.address, sim.now, **bad)
    assert caught.value.code == "EINVAL"
    assert str(caught.value).startswith(next(iter(bad)))


def test_without_spraying_everything_leaves_on_one_ev():
    sprayed, _ = transfer_in()
    assert len({t.entropy for t in sprayed.sent if t.is_write}) == 8
    single, _ = transfer_in(spray=False)
    assert len({t.entropy for t in single.sent if t.is_write}) == 1


def test_without_spraying_a_lost_path_is_replaced_by_another_of_its_plane():
    sim, transfer = transfer_in(lose_the_tenth, spray=False)
    used = {(t.plane, t.uplink) for t in sim.sent if t.is_write}
    assert len(used) == 2
    assert len({plane for plane, _ in used}) == 1
    assert evs_of(sim, transfer).active_count() == 1


def test_without_skip_marks_and_core_trims_leave_paths_alone_and_still_reach_congestion_control():
    def both(sim, transit):
        if is_tenth(sim, transit):
            transit.trim()
        return mark_uplink_1(sim, transit)

    shares = {}
    for ecn_skip in (True, False):
        sim, transfer = transfer_in(both, packets=600, ecn_skip=ecn_skip, trimming=True)
        assert transfer.stats().marks_received > 0
        assert transfer.stats().nacks_received == 1
        skips = sum(ev.marked for ev in evs_of(sim, transfer).by_value.values())
        assert skips > 0
        sent = [ev.sent for ev in evs_of(sim, transfer).by_value.values() if ev.uplink == 1]
        shares[ecn_skip] = sum(sent) / transfer.stats().sent_packets
    assert shares[True] < 0.45
    assert 0.48 < shares[False] < 0.52


def test_without_echo_the_receiver_keeps_marks_to_itself():
    sim, transfer = transfer_in(mark_uplink_1, ecn_echo=False)
    assert transfer.stats().marks_received == 0
    assert all(ev.state is EvState.GOOD for ev in evs_of(sim, transfer).by_value.values())
    echoed, other = transfer_in(mark_uplink_1)
    assert other.stats().marks_received > 0
    sacks = [sum(t.op == h.MrcOpcode.SACK for t in s.sent) for s in (sim, echoed)]
    assert sacks[0] < sacks[1]  # a mark is no reason for a SACK of its own either


def test_without_loss_by_sack_only_the_timeout_finds_a_lost_packet():
    sim, transfer = transfer_in(lose_the_tenth, sack_loss=False)
    (lost,) = records(sim, "packet.lost")
    qp = sim.hosts["h1"].verbs.qps[transfer.qa]
    assert lost["reason"] == "timeout"
    assert lost["t"] - lost["sent"] == pytest.approx(qp.settings.ack_timeout)
    usual, _ = transfer_in(lose_the_tenth)
    (lost,) = records(usual, "packet.lost")
    assert lost["reason"] in {"time", "same-ev"}
    assert lost["t"] - lost["sent"] < 0.5 * qp.settings.ack_timeout


def test_without_quick_adapt_the_window_is_never_set_to_what_was_delivered():
    for quick_adapt in (True, False):
        sim = Simulation(quick_adapt=quick_adapt)
        qp, _ = sim.connect("h1", "h3")
        assert sim.hosts["h1"].verbs.qps[qp].cc.parameters.disable_qa is not quick_adapt
    sim = Simulation(quick_adapt=False, cc_profile="none")
    sim.connect("h1", "h3")


@pytest.mark.parametrize("told", [True, False])
def test_without_port_status_update_the_peer_must_find_out_by_loss(told):
    profile = EvProfileConfig(name="default", active_per_plane=2, backup_per_plane=0, ev_min_active=1)
    sim = Simulation(port_status_update=told, ev=profile)
    transfer = Transfer(sim, "h1", "h3", PACKETS * FULL_SIZE)
    transfer.write(0, PACKETS * FULL_SIZE)
    dead = 2

    def network(transit):
        return [] if transit.plane == dead and sim.now >= 0.02 else sim.clean(transit)

    sim.network = network
    sim.at(0.02, lambda: sim.hosts["h3"].port_event(dead, False, sim.now))
    sim.run(done=transfer.done)
    assert transfer.target == transfer.source
    assert bool(records(sim, "peer.ports", node="h1")) is told
    states = {r["new"] for r in records(sim, "ev.state", node="h1", plane=dead)}
    assert ("PORT_DOWN" in states) is told
    if not told:
        assert "ASSUMED_BAD" in states
