"""Process monitor: CPU of each process, its waits for a CPU, time stolen by a hypervisor, unexpected exits, depths of
the switches' queues, lateness of the switches.
"""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from mrclab.events.processes import CpuSample, ProcessDied, ProcessEnded
from mrclab.events.switches import QueueDepthSample
from mrclab.lab.history import HistoryWriter
from mrclab.rpc import peers
from mrclab.topo.linux.adaptivetimeout import cpu_times
from mrclab.topo.linux.switches.depths import QueueDepths

INTERVAL = 0.25  # seconds
_TICK = os.sysconf("SC_CLK_TCK")


class ProcessWatcher:
    """Base of threads that watch processes: which of them may end."""

    def __init__(self) -> None:
        self._excused: set[str] = set()
        self._lock = threading.Lock()
        self._stopped = threading.Event()

    def excuse(self, *names: str) -> None:
        """Let these processes end from now on: their end is intended."""
        with self._lock:
            self._excused.update(names)

    def expect_alive(self, *names: str) -> None:
        """Report the end of these processes again."""
        with self._lock:
            self._excused.difference_update(names)


class Watch(ProcessWatcher):
    """A thread that appends `cpu` records (seconds used, by process; `waited`: seconds since the last record that the
    process waited for a CPU, as `CpuWaits` counts them; `steal`: seconds that a hypervisor took, as `steal_seconds`
    counts them), `process.died` and `process.ended`.

    With `depths` it appends `depths` records as well: by switch, the ports at which packets wait; the switches that did
    not answer (`silent`); and `late`, by switch of those that can tell, its longest delay in seconds since its last
    reply. A port without an entry has an empty queue. `stop` closes `depths`.
    """

    def __init__(
        self,
        processes: Callable[[], dict[str, int]],
        log: HistoryWriter,
        depths: QueueDepths | None = None,
        endings: Callable[[], dict[str, str]] = dict,
    ) -> None:
        super().__init__()
        self._processes, self._endings = processes, endings
        self._depths, self._waits = depths, CpuWaits()
        self._log = log
        self.depths: dict[str, dict[str, int]] = {}  # packets in queues at the last look, by switch and port
        self._seen: set[str] = set()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def start(self) -> None:
        """Begin to watch the processes that run now."""
        self.poll()
        self._thread.start()

    def stop(self) -> None:
        """End the thread after a last look."""
        self._stopped.set()
        if self._thread.is_alive():  # not running where the machine had no thread left
            self._thread.join()
        with contextlib.suppress(OSError):
            self.poll()
        if self._depths is not None:
            self._depths.close()

    def _run(self) -> None:
        while True:
            due = time.monotonic() + INTERVAL
            if self._stopped.wait(INTERVAL):
                return
            try:
                self.poll(time.monotonic() - due)
            except OSError:  # the disk is full or gone, which the watchdog reports
                return

    def poll(self, late: float = 0.0) -> None:
        """Sample all processes once; one that is gone since the last look has died, or was ended.

        `late`: wake-up latency of this thread, seconds.
        """
        with self._lock:
            processes = self._processes()
            for name in self._seen - set(processes):
                ended = ProcessEnded if name in self._excused else ProcessDied
                self._log.add(ended(process=name, reason=self._endings().get(name, "ended")))
            self._seen = set(processes)
        seconds = {name: cpu_seconds(pid) for name, pid in processes.items()}
        used = {name: used for name, used in seconds.items() if used is not None}
        waited = {name: round(seconds, 6) for name, seconds in self._waits.poll(processes).items()}
        self._log.add(CpuSample(seconds=used, waited=waited, steal=steal_seconds(), lab_late=round(max(0.0, late), 6)))
        if self._depths is not None:
            self._look_into_queues(self._depths)

    def _look_into_queues(self, depths: QueueDepths) -> None:
        began = time.monotonic()
        sampled = depths.sample()
        waiting = {switch: {port: n for port, n in it.depths.items() if n} for switch, it in sampled.items()}
        silent = [switch for switch in depths.switches if switch not in sampled]
        late = {switch: it.late for switch, it in sampled.items() if it.late is not None}
        switches = {switch: ports for switch, ports in waiting.items() if ports}
        self.depths = {name: {str(port): n for port, n in ports.items()} for name, ports in switches.items()}
        self._log.add(QueueDepthSample(switches=self.depths, silent=silent, late=late), began)


def cpu_seconds(pid: int, *, with_children: bool = False) -> float | None:
    """Return user and system time of a process so far, also of its ended children if asked; None when it has ended."""
    fields = peers.stat_fields(pid)
    return sum(map(int, fields[11 : 15 if with_children else 13])) / _TICK if fields else None


def steal_seconds() -> float:
    """Return seconds since boot in which, on average, a CPU had work and a hypervisor did not run it: `steal`
    in proc(5). 0 on bare metal.
    """
    return cpu_times().stolen / (os.cpu_count() or 1)


class CpuWaits:
    """Samples the run-queue delay of processes. Not thread-safe; `proc` is for tests."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._before: dict[tuple[int, int], int] = {}  # (process, thread) → nanoseconds so far

    def poll(self, processes: Mapping[str, int]) -> dict[str, float]:
        """Return the seconds that processes (name → pid) waited for a CPU since the last poll, by name.

        Of a process it is the sum of the waits of the thread that waited longest: a packet of BMv2 passes four threads
        and may wait for each. A new thread has waited since it began; a process that is new or gone is not reported.
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
