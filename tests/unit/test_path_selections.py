"""Path selections beside MRC's own, choice by choice, and each of them with a whole load in virtual time."""

import random
from collections import Counter

import pytest
from test_mrc_ev import made, of

from mrclab.bench.sim import load
from mrclab.bench.sim.common import SimLoad
from mrclab.hosts.mrc.evs.selections import path_selection
from mrclab.hosts.mrc.evs.states import EvState
from mrclab.hosts.rdma.errors import VerbsError

RTT = 10e-6


class Bench:
    """An EV set of one plane with a selection, and a clock."""

    def __init__(self, name, uplinks=8, **settings):
        self.now = 0.0
        self.evs, self.changes = made(planes=1, uplinks=uplinks, active=uplinks)
        self.selection = path_selection(name, random.Random(1), settings, RTT)
        self.evs.selection = self.selection

    def take(self, avoid=None):
        return self.evs.select(1, self.now, avoid).uplink

    def ev(self, uplink):
        return of(self.evs, 1, uplink)


def test_oblivious_is_uniform_and_independent():
    bench = Bench("oblivious")
    found = Counter(bench.take() for _ in range(8000))
    assert all(880 < count < 1120 for count in found.values())  # 4 sigma of a binomial
    again = sum(one == other for one, other in zip(*[iter(bench.take() for _ in range(8000))] * 2, strict=True))
    assert 400 < again < 600  # one in eight repeats
    assert 3 not in {bench.take(avoid=bench.ev(3)) for _ in range(200)}


def test_round_robin_keeps_its_order():
    bench = Bench("round_robin")
    first = [bench.take() for _ in range(8)]
    assert sorted(first) == list(range(1, 9))
    assert [bench.take() for _ in range(8)] == first


def test_marks_do_not_skip_evs_of_a_selection_that_does_not_use_it():
    bench = Bench("oblivious")
    bench.evs.skip(bench.ev(1), 0.0, RTT, "ecn")
    assert bench.ev(1).state is EvState.GOOD
    assert not bench.changes


def test_bitmap_leaves_a_penalised_ev_out_once_for_each_penalty():
    bench = Bench("bitmap", loss_penalty=2)
    bench.selection.on_mark(bench.ev(4))
    assert 4 not in [bench.take() for _ in range(7)]
    assert sorted(bench.take() for _ in range(8)) == list(range(1, 9))
    bench.selection.on_loss(bench.ev(5), bench.now)
    rounds = [bench.take() for _ in range(14)]
    assert 5 not in rounds
    assert 5 in [bench.take() for _ in range(8)]


def test_reps_recycles_oldest_first_and_each_entry_once():
    bench = Bench("reps", cache=4)
    for uplink in (2, 5, 7):
        bench.selection.on_ack(bench.ev(uplink))
    assert [bench.take() for _ in range(3)] == [2, 5, 7]
    assert len({bench.take() for _ in range(50)}) > 4  # explores
    for uplink in (1, 2, 3, 4, 5):
        bench.selection.on_ack(bench.ev(uplink))
    assert [bench.take() for _ in range(4)] == [2, 3, 4, 5]  # the fifth overwrote the first


def test_reps_does_not_recycle_a_marked_ev():
    bench = Bench("reps")
    for uplink in (2, 5, 7):
        bench.selection.on_ack(bench.ev(uplink))
    bench.selection.on_mark(bench.ev(5))
    assert [bench.take() for _ in range(2)] == [2, 7]


def test_reps_goes_round_its_ring_while_frozen():
    bench = Bench("reps", freeze_rtts=10)
    for uplink in (2, 5, 7):
        bench.selection.on_ack(bench.ev(uplink))
    bench.selection.on_loss(bench.ev(1), bench.now)
    assert [bench.take() for _ in range(6)] == [2, 5, 7, 2, 5, 7]
    bench.now = 11 * RTT
    assert len({bench.take() for _ in range(50)}) > 4


def test_reps_forgets_an_ev_that_left_service():
    bench = Bench("reps", freeze_rtts=0)
    bench.selection.on_ack(bench.ev(2))
    assert bench.evs.lost(bench.ev(2), 0.0, "gap")
    assert 2 not in {bench.take() for _ in range(50)}


def test_a_flowlet_ends_with_a_pause():
    bench = Bench("flowlet", uplinks=8, gap_rtts=1)
    first = bench.take()
    for _ in range(20):
        bench.now += RTT / 2
        assert bench.take() == first
    drawn = set()
    for _ in range(20):
        bench.now += 2 * RTT
        drawn.add(bench.take())
    assert len(drawn) > 3


def test_a_wrong_setting_is_refused():
    with pytest.raises(VerbsError, match="reps has no setting 'cash'; did you mean 'cache'"):
        path_selection("reps", random.Random(1), {"cash": 3}, RTT)


@pytest.mark.parametrize("name", ["oblivious", "round_robin", "bitmap", "reps", "flowlet"])
def test_a_permutation_ends_with_it(name):
    done = load.simulate(SimLoad(8, "permutation", 200_000, selection=name))
    assert len(done["completions"]) == 8
