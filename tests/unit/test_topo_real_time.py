"""A lab's own process among the real-time processes that it started: none of its threads waits behind them."""

import os
import threading

import pytest

from mrclab.topo.linux.processes import as_real_time


def test_all_threads_are_real_time_inside_the_block_but_nothing_that_they_start():
    before = os.sched_getscheduler(0)
    end = threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    started = []
    try:
        with as_real_time():
            inside = [os.sched_getscheduler(number) for number in (0, thread.native_id)]
            later = threading.Thread(target=lambda: started.append(os.sched_getscheduler(0)))
            later.start()
            later.join()
        if inside[0] == before:
            pytest.skip("this user may not schedule anything ahead of ordinary processes")
    finally:
        end.set()
        thread.join()
    assert inside == [os.SCHED_RR | os.SCHED_RESET_ON_FORK] * 2
    assert started == [os.SCHED_OTHER]
    assert os.sched_getscheduler(0) == before
