"""Run-queue delay: time that processes waited for a CPU, as the kernel's scheduler counts it.

Source: `run_delay`, the second number of /proc/PID/task/TID/schedstat (Documentation/scheduler/sched-stats.rst), in
nanoseconds. It needs nothing of the process, so that it serves programs of others too. It does not count a process that
was stopped, nor a virtual machine that its hypervisor did not run.
"""

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path


class CpuWaits:
    """Samples the run-queue delay of processes. Not thread-safe; `proc` is for tests."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._before: dict[tuple[int, int], int] = {}  # (process, thread) → nanoseconds so far

    def poll(self, processes: Mapping[str, int]) -> dict[str, float]:
        """Seconds by process (name → pid): the most that one of its threads waited since the look before, all its waits
        together, since a packet of BMv2 passes four threads and may wait for each. A thread that is new has waited
        since it began; a process that is seen for the first time, or is gone, is not reported.
        """
        known = {pid for pid, _ in self._before}
        now = {(pid, thread): waited for pid in processes.values() for thread, waited in self._threads(pid)}
        longest: dict[int, int] = {}
        for key, waited in now.items():
            longest[key[0]] = max(waited - self._before.get(key, 0), longest.get(key[0], 0))
        self._before = now
        return {name: longest[pid] / 1e9 for name, pid in processes.items() if pid in known and pid in longest}

    def _threads(self, pid: int) -> list[tuple[int, int]]:
        found = []
        tasks = f"{self._proc}/{pid}/task"
        try:
            threads = [entry.name for entry in os.scandir(tasks)]
        except OSError:
            return []
        for thread in threads:
            with contextlib.suppress(OSError, IndexError):  # it has ended
                found.append((int(thread), int(_read(f"{tasks}/{thread}/schedstat").split()[1])))
        return found


def _read(path: str) -> bytes:
    """Return the content of a small file, thousands of times a second: Path.read_bytes costs half as much again."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.read(descriptor, 100)
    finally:
        os.close(descriptor)
