"""Time waiting for a CPU by process, as the kernel's scheduler counts it."""

import os
import subprocess
import sys
from contextlib import closing

from mrclab.lab.history import HistoryWriter, load
from mrclab.lab.run.wire.watch import CpuWaits, Watch


def thread(proc, pid, number, waited_ns):
    folder = proc / str(pid) / "task" / str(number)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "schedstat").write_text(f"123456 {waited_ns} 7\n")


def test_the_thread_that_waited_most_since_the_last_look_speaks_for_its_process(tmp_path):
    waits, names = CpuWaits(tmp_path), {"s1": 10, "s2": 20}
    thread(tmp_path, 10, 10, 5_000_000_000)
    thread(tmp_path, 10, 11, 0)
    thread(tmp_path, 20, 20, 0)
    assert waits.poll(names) == {}
    thread(tmp_path, 10, 10, 5_001_000_000)
    thread(tmp_path, 10, 11, 30_000_000)
    assert waits.poll(names) == {"s1": 0.03, "s2": 0.0}
    assert waits.poll(names) == {"s1": 0.0, "s2": 0.0}


def test_a_new_thread_counts_from_its_start_and_a_process_that_is_gone_or_new_is_not_told_of(tmp_path):
    waits = CpuWaits(tmp_path)
    thread(tmp_path, 10, 10, 0)
    waits.poll({"s1": 10, "gone": 30})
    thread(tmp_path, 10, 12, 4_000_000)
    thread(tmp_path, 40, 40, 9_000_000)
    assert waits.poll({"s1": 10, "gone": 30, "new": 40}) == {"s1": 0.004}


def test_the_watch_records_what_a_process_waited_that_shares_its_cpu(tmp_path):
    cpu = min(os.sched_getaffinity(0))
    busy = [sys.executable, "-c", f"import os; os.sched_setaffinity(0, [{cpu}]); print(flush=True)\nwhile True: pass"]
    pair = [subprocess.Popen(busy, stdout=subprocess.PIPE) for _ in range(2)]
    try:
        for process in pair:
            assert process.stdout is not None
            process.stdout.readline()
        with closing(HistoryWriter(tmp_path / "lab.jsonl")) as log:
            watch = Watch(lambda: {"s1": pair[0].pid}, log)
            watch.poll()
            while True:
                watch.poll()
                *_, last = load(tmp_path).of("cpu")
                if last["waited"].get("s1", 0.0) > 0.001:
                    break
    finally:
        for process in pair:
            process.kill()
            process.communicate()
