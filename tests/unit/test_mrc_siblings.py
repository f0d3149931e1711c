"""QPs to the same host that tell each other of dead paths."""

import pytest
from mrc_sim import FULL_SIZE, HOP, RATE, Simulation, Transfer

from mrclab.hosts.mrc.evs.states import EvState
from mrclab.topo.config.nodeconfig import EvProfileConfig

RTT = 8 * HOP + 1 / RATE
DEAD = (2, 1)  # plane and uplink
PROFILE = EvProfileConfig(
    name="default",
    active_per_plane=4,
    backup_per_plane=0,
    ev_min_active=1,
    probe_interval_rtts=12,
    probe_backoff_cap=4,
)


def qps_of(sim, transfers):
    return [sim.hosts["h1"].verbs.qps[transfer.qa] for transfer in transfers]


def bad(qp):
    return [ev for ev in qp.evs.by_value.values() if ev.state is EvState.ASSUMED_BAD]


def a_path_dies(*, told, qps=3, repaired_at=1e9):
    """The first QP sends over a path that dies; the others, to the same host, send nothing."""
    sim = Simulation(share_path_failures=told, uplinks=4, ev=PROFILE)
    sim.network = lambda t: (
        [] if (t.plane, t.uplink) == DEAD and t.source == "h1" and sim.now < repaired_at else sim.clean(t)
    )
    transfers = [Transfer(sim, "h1", "h3", 300 * FULL_SIZE) for _ in range(qps)]
    transfers[0].write(0, 300 * FULL_SIZE)
    sim.run(done=transfers[0].done)
    return sim, transfers


@pytest.mark.parametrize("told", [True, False])
def test_a_path_that_one_qp_found_dead_costs_the_others_nothing_where_they_are_told(told):
    sim, transfers = a_path_dies(told=told)
    for transfer in transfers[1:]:
        transfer.write(0, 300 * FULL_SIZE)
        sim.run(done=transfer.done)
    lost = [qp.stats.lost_packets for qp in qps_of(sim, transfers)]
    assert lost[0] > 0
    assert [count == 0 for count in lost[1:]] == [told] * 2


def test_one_probes_for_all_and_all_return_with_it():
    sim, transfers = a_path_dies(told=True, repaired_at=30 * RTT)
    qps = qps_of(sim, transfers)
    assert [len(bad(qp)) for qp in qps] == [1, 1, 1]
    sim.run(until=90 * RTT)
    assert [bad(qp) for qp in qps] == [[], [], []]
    assert qps[0].stats.path_probes > 0
    assert [qp.stats.path_probes for qp in qps[1:]] == [0, 0]


def test_where_the_one_that_probed_is_gone_the_others_do():
    sim, transfers = a_path_dies(told=True, repaired_at=1.0)
    sim.hosts["h1"].verbs.destroy_qp(transfers[0].qa, sim.now)
    sim.run(until=1.0 + 5 * 48 * RTT)
    qps = qps_of(sim, transfers[1:])
    assert [bad(qp) for qp in qps] == [[], []]
    assert sum(qp.stats.path_probes for qp in qps) > 0


def test_where_the_one_that_probed_has_lost_its_peer_the_others_do():
    sim, transfers = a_path_dies(told=True, repaired_at=1.0)
    sim.hosts["h3"].verbs.destroy_qp(transfers[0].qb, sim.now)
    sim.run(until=1.0 + 5 * 48 * RTT)
    assert [len(bad(qp)) for qp in qps_of(sim, transfers)] == [1, 0, 0]


def test_a_path_given_back_as_the_last_resort_of_one_returns_to_the_others_by_their_own_probes():
    sim, transfers = a_path_dies(told=True, repaired_at=1.0)
    first, *others = qps_of(sim, transfers)
    first.evs.restore(bad(first)[0], sim.now, "last resort")
    assert [len(bad(qp)) for qp in others] == [1, 1]
    sim.run(until=1.0 + 5 * 48 * RTT)
    assert [bad(qp) for qp in others] == [[], []]


def test_retiring_a_path_may_draw_a_backup_of_a_sibling_whose_set_is_made_as_it_is_needed():
    profile = PROFILE.model_copy(update={"active_per_plane": 2, "backup_per_plane": 2})
    sim = Simulation(ev=profile, planes=2, uplinks=8, share_path_failures=True)
    transfers = [Transfer(sim, "h1", "h3", 200 * FULL_SIZE) for _ in range(2)]
    dead = set()
    sim.network = lambda t: [] if t.is_write and (t.plane, t.uplink) in dead else [sim.delay(t)]
    for transfer in transfers:
        transfer.write(0, 200 * FULL_SIZE)
    sim.run(until=0.05)
    paths = [{(ev.plane, ev.uplink) for ev in qp.evs.by_value.values()} for qp in qps_of(sim, transfers)]
    dead |= paths[0] & paths[1] or {min(paths[0])}
    sim.run(done=lambda: all(transfer.done() for transfer in transfers), until=20.0)
    assert [bytes(transfer.target) == transfer.source for transfer in transfers] == [True, True]
