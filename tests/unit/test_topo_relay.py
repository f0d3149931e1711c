import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrclab.topo.cables.impairment import Impairer, Impairment

arrivals = st.lists(st.floats(0, 10), min_size=1, max_size=100).map(sorted)
shares = st.floats(0, 1)


def test_nothing_asked_nothing_done():
    impairer = Impairer(Impairment(), "seed")
    assert [impairer.departures(float(now)) for now in range(5)] == [[float(now)] for now in range(5)]


@given(arrivals, st.floats(0.01, 1), st.floats(0, 1), st.integers())
def test_jitter_stays_in_its_bounds_and_keeps_order_where_asked(times, delay, part, seed):
    jitter = delay * part
    impairer = Impairer(Impairment(delay=delay, jitter=jitter), str(seed))
    left = [impairer.departures(now)[0] for now in times]
    assert left == sorted(left)
    assert all(now + delay - jitter - 1e-9 <= out for now, out in zip(times, left, strict=True))
    free = Impairer(Impairment(delay=delay, jitter=jitter, ordered=False), str(seed))
    for now in times:
        (out,) = free.departures(now)
        assert now + delay - jitter - 1e-9 <= out <= now + delay + jitter + 1e-9


@given(arrivals, shares, shares, shares, st.text())
def test_the_same_seed_gives_every_frame_the_same_fate_whenever_it_comes(times, loss, duplicate, reorder, seed):
    impairment = Impairment(delay=0.5, jitter=0.2, loss=loss, duplicate=duplicate, reorder=reorder)
    one, other = Impairer(impairment, seed), Impairer(impairment, seed)
    assert [len(one.departures(now)) for now in times] == [len(other.departures(now + 3)) for now in times]
    assert one.counts == other.counts


@given(arrivals, shares, shares)
def test_every_frame_is_lost_or_leaves_once_or_twice_and_is_counted(times, loss, duplicate):
    impairer = Impairer(Impairment(loss=loss, duplicate=duplicate), "7")
    left = [len(impairer.departures(now)) for now in times]
    assert impairer.counts.received == len(times)
    assert impairer.counts.lost == left.count(0)
    assert impairer.counts.duplicated == left.count(2)


def test_listed_frames_are_lost_and_no_other():
    impairer = Impairer(Impairment(lose=(2, 3, 10)), "")
    assert [number for number in range(1, 12) if not impairer.departures(0.0)] == [2, 3, 10]


def test_a_frame_that_skips_the_delay_overtakes():
    impairer = Impairer(Impairment(delay=1.0, reorder=1.0), "")
    assert impairer.departures(5.0) == [5.0]
    assert impairer.counts.overtook == 1


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"delay": -1}, "delay is 0…60 seconds"),
        ({"delay": 0.1, "jitter": 0.2}, "jitter 0.2 exceeds delay 0.1"),
        ({"loss": 2}, "loss is a share"),
        ({"reorder": 0.5}, "reorder needs a delay"),
        ({"lose": (0,)}, "counted from 1"),
    ],
)
def test_nonsense_is_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        Impairment(**wrong)
