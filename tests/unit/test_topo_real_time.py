"""A lab's own process among the real-time processes that it started: none of its threads waits behind them."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from mrclab.topo.process.realtime import as_real_time, is_real_time, pin_to_cpu, to_real_time


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


THREADS = "import threading; threading.Thread(target=input).start(); print(flush=True); threading.Event().wait()"


def test_only_the_threads_of_a_real_time_process_are_kept_on_one_cpu():
    process = subprocess.Popen([sys.executable, "-c", THREADS], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    allowed = os.sched_getaffinity(0)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        threads = [int(task.name) for task in Path(f"/proc/{process.pid}/task").iterdir()]
        assert len(threads) == 2
        pin_to_cpu(process.pid, 1)
        assert [os.sched_getaffinity(thread) for thread in threads] == [allowed] * 2
        to_real_time(process.pid)
        if not is_real_time(process.pid):
            pytest.skip("this user may not schedule anything ahead of ordinary processes")
        pin_to_cpu(process.pid, len(allowed) + 1)
        cpu = {sorted(allowed)[1 % len(allowed)]}
        assert [os.sched_getaffinity(thread) for thread in threads] == [cpu] * 2
    finally:
        process.kill()
        process.communicate()
