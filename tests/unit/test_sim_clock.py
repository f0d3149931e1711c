"""The event heap: order, ties, moved timers."""

import random

import pytest

from mrclab.sim.clock import SECOND, Clock, MovableCall, ticks


def test_what_is_due_together_happens_in_the_order_in_which_it_was_asked_for():
    clock, seen = Clock(), []
    for name in "abc":
        clock.at(5, seen.append, name)
    clock.at(4, seen.append, "first")
    clock.run(10)
    assert seen == ["first", "a", "b", "c"]
    assert clock.now == 10


def test_a_run_ends_where_somebody_halts_it_and_goes_on_from_there():
    clock, seen = Clock(), []

    def see(at):
        seen.append(at)
        clock.halted = at == 2

    for at in (1, 2, 3):
        clock.at(at, see, at)
    clock.run(10)
    assert (seen, clock.now) == ([1, 2], 2)
    clock.run(10)
    assert (seen, clock.now) == ([1, 2, 3], 10)


def test_the_past_is_refused():
    clock = Clock()
    clock.run(7)
    with pytest.raises(ValueError, match="6 ps has gone by: it is 7 ps"):
        clock.at(6, print)


@pytest.mark.parametrize("seed", range(20))
def test_a_timer_fires_once_at_the_time_it_was_last_moved_to(seed):
    draw, clock, fired = random.Random(seed), Clock(), []
    timer = MovableCall(clock, lambda: fired.append(clock.now))
    due, expected = None, []
    at = 0
    for _ in range(200):
        at += draw.randrange(1, 50)
        if due is not None and due < at:
            expected.append(due)
            due = None
        clock.run(at - 1)
        clock.run(at)
        if due == at:
            expected.append(due)
            due = None
        due = draw.choice((None, at + draw.randrange(1, 120)))
        timer.move(due)
        assert timer.due == due
    clock.run(at + 1000)
    assert fired == expected + ([due] if due is not None else [])
    assert clock.next_due() is None


def test_a_timer_that_is_moved_later_again_and_again_leaves_one_entry():
    clock = Clock()
    timer = MovableCall(clock, lambda: None)
    for due in range(100, 10_000):
        timer.move(due)
    assert clock.waiting == 1


def test_a_deadline_in_seconds_is_never_met_too_early():
    clock, draw = Clock(), random.Random(3)
    for _ in range(2000):
        deadline = draw.uniform(0, 500)
        at = clock.not_before(deadline)
        assert at / SECOND >= deadline
        assert at - deadline * SECOND < 2 + deadline * SECOND * 1e-15
    clock.run(ticks(600))
    assert clock.not_before(1.0) == ticks(600)
