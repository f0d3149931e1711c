"""The events to come: order, ties, and where a run stops."""

import random

import pytest

from mrclab.sim.clock import NEVER, SECOND, Clock, ticks


def test_what_is_due_together_happens_in_the_order_in_which_it_was_asked_for():
    clock, seen = Clock(), []
    for name in "abc":
        clock.call_at(5, seen.append, name)
    clock.call_at(4, seen.append, "first")
    clock.run(10)
    assert seen == ["first", "a", "b", "c"]
    assert clock.now == 10


def test_a_run_ends_where_somebody_halts_it_and_goes_on_from_there():
    clock, seen = Clock(), []

    def see(at):
        seen.append(at)
        clock.halted = at == 2

    for at in (1, 2, 3):
        clock.call_at(at, see, at)
    clock.run(10)
    assert (seen, clock.now) == ([1, 2], 2)
    clock.run(10)
    assert (seen, clock.now) == ([1, 2, 3], 10)


@pytest.mark.parametrize("seed", range(20))
def test_events_that_bring_more_events_happen_by_time_and_then_as_they_were_asked_for(seed):
    draw, clock, seen, asked = random.Random(seed), Clock(), [], []
    clock.set_event_rate(10 ** draw.randrange(6, 13))

    def ask():
        at = clock.now + draw.choice((0, 1, draw.randrange(1 << 12), draw.randrange(1 << 24)))
        asked.append((at, len(asked)))
        clock.call_at(at, happen, asked[-1])

    def happen(event):
        assert event[0] == clock.now
        seen.append(event)
        for _ in range(draw.randrange(3)):
            if len(asked) < 2000:
                ask()

    for _ in range(30):
        ask()
    clock.run(1 << 40)
    assert seen == sorted(asked)
    assert (clock.pending, clock.next_due()) == (0, None)


def test_what_was_asked_for_from_afar_comes_before_what_was_asked_for_shortly_before():
    clock, seen, due = Clock(), [], 1 << 24
    clock.set_event_rate(1e12)  # bins of a few dozen picoseconds
    clock.call_at(due, seen.append, "from afar")
    clock.call_at(due - 1000, lambda _about: clock.call_at(due, seen.append, "shortly before"))
    assert (clock.pending, clock.next_due()) == (2, due - 1000)
    clock.run(due - 1)
    assert (clock.pending, clock.next_due()) == (2, due)
    clock.set_event_rate(1e6)  # bins again
    clock.run(due)
    assert seen == ["from afar", "shortly before"]


def test_the_past_is_refused():
    clock = Clock()
    clock.run(7)
    with pytest.raises(ValueError, match="6 ps is in the past: it is 7 ps"):
        clock.call_at(6, print)


def test_a_deadline_in_seconds_is_never_met_too_early():
    clock, draw = Clock(), random.Random(3)
    for _ in range(2000):
        deadline = draw.uniform(0, 500)
        at = clock.not_before(deadline)
        assert at / SECOND >= deadline
        assert at - deadline * SECOND < 2 + deadline * SECOND * 1e-15
    clock.run(ticks(600))
    assert clock.not_before(1.0) == ticks(600)


@pytest.mark.parametrize("seconds", [3e6, 1e7, 1e30])
def test_a_time_after_all_runs_fits_into_a_machine_integer(seconds):
    assert ticks(seconds) == Clock().not_before(seconds) == NEVER
