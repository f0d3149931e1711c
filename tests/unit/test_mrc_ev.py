"""Entropy values of a QP: rotation, SKIP, retirement, replacement, floor, ports, denylist."""

import random
from collections import Counter

import pytest

from mrclab.hosts.mrc.evs.ev import Ev
from mrclab.hosts.mrc.evs.evset import EvSet
from mrclab.hosts.mrc.evs.paths import Ends, EvRoute
from mrclab.hosts.mrc.evs.plane import pick as drawn
from mrclab.hosts.mrc.evs.plane import shuffle
from mrclab.hosts.mrc.evs.states import TRANSITIONS, EvInput, EvState, next_state
from mrclab.topo import srv6


class Ways:
    def path(self, value):
        ends = Ends(srv6.template_cross(1, 2, 1), srv6.host_address(1, 1), srv6.host_address(2, 1))
        return EvRoute(value, srv6.ev_plane(value), bytes(12), ends)


def made(planes=2, uplinks=3, active=3, min_active=1, seed=1):
    changes = []
    evs = []
    for plane in range(1, planes + 1):
        for uplink in range(1, uplinks + 1):
            evs.append(Ev(Ways(), plane, uplink, srv6.ev_tag(len(evs))))
    ev_set = EvSet(
        evs,
        active,
        min_active,
        random.Random(seed),
        lambda ev, old, new, why, _now: changes.append((ev.plane, ev.uplink, old, new, why)),
    )
    return ev_set, changes


def pick(ev_set, plane, avoid=None):
    ev = ev_set.select(plane, 0.0, avoid)
    return ev.uplink if ev else None


def of(ev_set, plane, uplink):
    return next(ev for ev in ev_set.planes[plane].evs if ev.uplink == uplink)


# --- rotation -----------------------------------------------------------------------------------


def test_each_pass_uses_every_active_ev_of_the_plane_once():
    ev_set, _ = made()
    for _ in range(20):
        assert sorted(pick(ev_set, 1) for _ in range(3)) == [1, 2, 3]


def test_the_order_changes_from_pass_to_pass():
    ev_set, _ = made(uplinks=6, active=6)
    passes = {tuple(pick(ev_set, 1) for _ in range(6)) for _ in range(20)}
    assert len(passes) > 10


def test_backups_are_not_in_rotation():
    ev_set, _ = made(active=2)
    assert Counter(pick(ev_set, 1) for _ in range(20)) == {1: 10, 2: 10}
    assert of(ev_set, 1, 3).shown_state == "STANDBY"


def test_the_path_a_packet_was_lost_on_is_not_taken_again():
    ev_set, _ = made(uplinks=2, active=2)
    bad = of(ev_set, 1, 1)
    assert all(pick(ev_set, 1, avoid=bad) == 2 for _ in range(10))


def test_a_plane_whose_only_ev_is_to_be_avoided_gives_none_and_another_plane_can_help():
    ev_set, _ = made(uplinks=1, active=1)
    bad = of(ev_set, 1, 1)
    assert pick(ev_set, 1, avoid=bad) is None
    assert ev_set.has_other(bad)
    assert pick(ev_set, 2, avoid=bad) == 1


def test_no_plane_is_in_turn_while_it_is_ahead_of_another():
    ev_set, _ = made()
    assert ev_set.take(1, 0.0)
    assert not ev_set.take(1, 0.0)
    assert ev_set.take(2, 0.0)
    assert ev_set.take(1, 0.0)


# --- SKIP ---------------------------------------------------------------------------------------


def test_a_skipped_ev_is_left_out_once_and_then_good_again():
    ev_set, _ = made()
    skipped = of(ev_set, 1, 2)
    ev_set.skip(skipped, now=1.0, hold=0.1, reason="ecn")
    first_pass = [pick(ev_set, 1) for _ in range(2)]
    assert 2 not in first_pass
    assert skipped.state is EvState.GOOD
    assert sorted(pick(ev_set, 1) for _ in range(3)) == [1, 2, 3]


def test_one_send_restores_at_most_one_skipped_ev():
    ev_set, _ = made(planes=3, uplinks=3)
    for uplink in (1, 2):
        ev_set.skip(of(ev_set, 1, uplink), 1.0, 0.1, "ecn")
    pick(ev_set, 1)
    states = [of(ev_set, 1, uplink).state for uplink in (1, 2)]
    assert states.count(EvState.SKIP) >= 1


def test_a_mark_within_an_rtt_of_the_last_one_does_not_count():
    ev_set, _ = made()
    ev = of(ev_set, 1, 1)
    ev_set.skip(ev, 1.0, 0.1, "ecn")
    while ev.state is EvState.SKIP:
        pick(ev_set, 1)
    ev_set.skip(ev, 1.05, 0.1, "ecn")
    assert ev.state is EvState.GOOD
    ev_set.skip(ev, 1.15, 0.1, "ecn")
    assert ev.state is EvState.SKIP


def test_marks_are_ignored_once_half_of_the_set_is_skipped():
    ev_set, _ = made(planes=1, uplinks=4, active=4)
    for uplink in (1, 2, 3, 4):
        ev_set.skip(of(ev_set, 1, uplink), 1.0, 0.1, "ecn")
    assert sum(ev.state is EvState.SKIP for ev in ev_set.planes[1].evs) == 2
    assert ev_set.skips_ignored == 2


def test_with_nothing_but_a_skipped_ev_that_one_is_taken():
    ev_set, _ = made(planes=2, uplinks=1, active=1)
    ev_set.skip(of(ev_set, 1, 1), 1.0, 0.1, "ecn")
    assert pick(ev_set, 1) == 1


# --- ASSUMED_BAD --------------------------------------------------------------------------------


def test_a_mark_on_the_only_ev_in_rotation_brings_a_backup_in_and_both_stay_good():
    ev_set, changes = made(uplinks=3, active=1)
    first = of(ev_set, 1, 1)
    ev_set.skip(first, 1.0, 0.05, "ecn")
    assert (first.state, first.shown_state) == (EvState.GOOD, "STANDBY")
    assert {pick(ev_set, 1) for _ in range(6)} == {2}
    assert changes == [(1, 1, "GOOD", "STANDBY", "ecn"), (1, 2, "STANDBY", "GOOD", "replacement")]
    ev_set.skip(first, 2.0, 0.05, "ecn")  # news of what it carried before
    assert first.shown_state == "STANDBY"
    ev_set.skip(of(ev_set, 1, 2), 2.0, 0.05, "ecn")
    assert {pick(ev_set, 1) for _ in range(6)} == {3}, "the one without a mark so far comes first"


def test_an_ev_that_a_marked_probe_restores_as_backup_is_good():
    ev_set, _ = made(uplinks=2, active=1)
    bad = of(ev_set, 1, 1)
    ev_set.lost(bad, 1.0, "time")
    ev_set.restore(bad, 0.0, "probe", marked=True)
    assert bad.shown_state == "STANDBY"
    ev_set.lost(of(ev_set, 1, 2), 2.0, "time")
    assert pick(ev_set, 1) == 1


def test_planes_share_retransmissions_too():
    ev_set, _ = made(planes=2, uplinks=1, active=1)
    bad = of(ev_set, 1, 1)
    ev_set.planes[2].share = 1
    assert ev_set.may_retransmit(1, None)
    assert not ev_set.may_retransmit(2, None)
    assert ev_set.may_retransmit(2, bad), "the plane that is behind has nothing else for this packet"


def test_one_loss_retires_an_ev_and_a_backup_of_the_same_plane_takes_its_place():
    ev_set, changes = made(active=2)
    assert ev_set.lost(of(ev_set, 1, 1), 1.0, "time")
    assert {pick(ev_set, 1) for _ in range(10)} == {2, 3}
    assert {pick(ev_set, 2) for _ in range(10)} == {1, 2}
    assert changes == [(1, 1, "GOOD", "ASSUMED_BAD", "time"), (1, 3, "STANDBY", "GOOD", "replacement")]


def test_a_restored_ev_joins_the_rotation_only_if_its_plane_has_a_place():
    ev_set, changes = made(active=2)
    first, second = of(ev_set, 1, 1), of(ev_set, 1, 2)
    ev_set.lost(first, 1.0, "time")
    ev_set.lost(second, 1.0, "time")
    assert {pick(ev_set, 1) for _ in range(10)} == {3}
    ev_set.restore(first, 0.0, "probe")
    assert first.active
    ev_set.restore(second, 0.0, "probe")
    assert not second.active
    assert changes[-1] == (1, 2, "ASSUMED_BAD", "STANDBY", "probe")


def test_a_plane_may_empty_but_the_set_keeps_its_floor():
    ev_set, _ = made(planes=2, uplinks=2, active=2, min_active=2)
    assert ev_set.lost(of(ev_set, 1, 1), 1.0, "time")
    assert ev_set.lost(of(ev_set, 1, 2), 1.0, "time")
    assert not ev_set.usable(1)
    assert ev_set.take(2, 0.0)
    kept = of(ev_set, 2, 1)
    assert not ev_set.lost(kept, 1.0, "time")
    assert kept.state is EvState.SKIP
    assert kept.active
    assert ev_set.floor_hits == 1


def test_a_plane_that_comes_back_starts_level_with_the_others():
    ev_set, _ = made(planes=2, uplinks=1, active=1)
    ev_set.lost(of(ev_set, 1, 1), 1.0, "time")
    ev_set.planes[2].share = 500
    ev_set.restore(of(ev_set, 1, 1), 0.0, "probe")
    assert ev_set.planes[1].share == 500
    assert ev_set.take(1, 0.0)
    assert ev_set.take(2, 0.0)


@pytest.mark.parametrize("as_skip", [False, True])
def test_a_probe_answered_with_a_mark_leads_to_skip(as_skip):
    ev_set, _ = made()
    ev = of(ev_set, 1, 1)
    ev_set.lost(ev, 1.0, "time")
    ev_set.restore(ev, 0.0, "probe", marked=as_skip)
    assert ev.state is (EvState.SKIP if as_skip else EvState.GOOD)


# --- denylist and ports -------------------------------------------------------------------------


def test_a_denied_ev_is_never_selected_and_returns_only_by_the_controller():
    ev_set, _ = made(active=3)
    ev = of(ev_set, 1, 2)
    ev_set.deny(ev, 0.0)
    assert {pick(ev_set, 1) for _ in range(20)} == {1, 3}
    ev_set.restore(ev, 0.0, "probe")
    ev_set.lost(ev, 2.0, "time")
    assert ev.state is EvState.DENIED
    ev_set.allow(ev, 0.0)
    assert {pick(ev_set, 1) for _ in range(20)} == {1, 2, 3}


def test_a_plane_without_its_port_is_not_used_and_its_states_are_kept():
    ev_set, changes = made(uplinks=2, active=2)
    ev_set.skip(of(ev_set, 1, 1), 0.5, 0.1, "ecn")
    ev_set.plane_down(1, 1.0, "port")
    assert not ev_set.usable(1)
    assert pick(ev_set, 1) is None
    assert ev_set.active_count() == 2
    ev_set.plane_up(1, 0.0, "port", shadow=0.2)
    assert ev_set.usable(1)
    assert [change[3] for change in changes if change[0] == 1 and change[4] == "port"].count("PORT_DOWN") == 2


def test_a_loss_on_a_plane_that_is_down_blames_the_port_and_not_the_path():
    ev_set, _ = made(uplinks=2, active=2)
    ev_set.plane_down(1, 1.0, "port")
    ev_set.lost(of(ev_set, 1, 1), 1.01, "time")
    assert of(ev_set, 1, 1).state is EvState.GOOD


def test_evs_retired_in_the_shadow_of_a_port_failure_return_with_the_port():
    ev_set, _ = made(uplinks=2, active=2)
    early, late = of(ev_set, 1, 1), of(ev_set, 1, 2)
    ev_set.lost(early, 1.0, "time")
    ev_set.lost(late, 9.95, "time")
    ev_set.plane_down(1, 10.0, "port")
    ev_set.plane_up(1, 0.0, "port", shadow=0.2)
    assert late.state is EvState.GOOD
    assert early.state is EvState.ASSUMED_BAD


def test_when_the_last_good_plane_loses_its_port_the_path_that_was_bad_for_longest_is_tried_again():
    ev_set, changes = made(planes=2, uplinks=2, active=2)
    for now, uplink in ((1.0, 2), (2.0, 1)):
        assert ev_set.lost(of(ev_set, 1, uplink), now, "time")
    ev_set.plane_down(2, 3.0, "port")
    assert changes[-1] == (1, 2, "ASSUMED_BAD", "GOOD", "last resort")
    assert pick(ev_set, 1) == 2
    ev_set.plane_up(2, 0.0, "port", 0.0)
    assert ev_set.lost(of(ev_set, 1, 2), 4.0, "time")  # it was bad after all, and there are others again


def test_a_denial_of_the_last_good_path_tries_a_bad_one_too_and_nothing_where_all_ports_are_down():
    ev_set, _ = made(planes=2, uplinks=1, active=1)
    ev_set.lost(of(ev_set, 1, 1), 1.0, "time")
    ev_set.deny(of(ev_set, 2, 1), 0.0)
    assert pick(ev_set, 1) == 1
    ev_set.plane_down(1, 2.0, "port")
    assert ev_set.active_count() == 0


def test_one_of_several_is_drawn_as_the_generator_s_own_choice_draws_it():
    ours, its = random.Random(7), random.Random(7)
    for count in (1, 2, 3, 64, 65):
        items = list(range(count))
        assert [drawn(items, ours) for _ in range(50)] == [its.choice(items) for _ in range(50)]
    with pytest.raises(IndexError):
        drawn([], ours)


def test_a_pass_over_the_evs_draws_what_the_generator_s_own_shuffle_draws():
    for count in range(1, 40):
        evs, same = list(range(count)), list(range(count))
        ours, its = random.Random(count), random.Random(count)
        shuffle(evs, ours)
        its.shuffle(same)
        assert (evs, ours.random()) == (same, its.random())


def test_skipped_evs_of_a_plane_that_is_down_do_not_count_against_marks_in_the_others():
    ev_set, _ = made(planes=2, uplinks=4, active=4)
    for uplink in (1, 2, 3, 4):
        ev_set.skip(of(ev_set, 1, uplink), 0.0, 1.0, "ecn")
    ev_set.plane_down(1, 0.0, "port")
    ev_set.skip(of(ev_set, 2, 1), 0.0, 1.0, "ecn")
    ev_set.skip(of(ev_set, 2, 2), 0.0, 1.0, "ecn")
    assert [of(ev_set, 2, uplink).state for uplink in (1, 2)] == [EvState.SKIP, EvState.SKIP]
    assert ev_set.skips_ignored == 0
    ev_set.plane_up(1, 0.0, "port", shadow=0.0)
    ev_set.skip(of(ev_set, 2, 3), 0.0, 1.0, "ecn")
    assert ev_set.skips_ignored == 1


def test_every_input_has_one_next_state_or_no_effect():
    followed = {(state, given): next_state(state, given) for state in EvState for given in EvInput}
    assert {pair: state for pair, state in followed.items() if state is not None} == TRANSITIONS
