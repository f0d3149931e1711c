"""Timers of an endpoint: each fires once, at the deadline that it was armed with last."""

from mrclab.hosts.rdma.timers import Timers


def test_a_timer_that_was_postponed_fires_at_its_new_deadline():
    timers, fired = Timers(), []
    postponed, other = timers.timer(fired.append), timers.timer(fired.append)
    other.arm(1.0)
    postponed.arm(2.0)
    postponed.arm(3.0)
    timers.run(2.5)
    assert fired == [2.5]
    assert timers.next_deadline() == 3.0
    timers.run(3.0)
    assert fired == [2.5, 3.0]
    assert timers.next_deadline() is None
