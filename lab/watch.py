"""Watches the processes of a lab: how much CPU each takes, and whether one ends that nobody ended."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

from lab.history import Writer

INTERVAL = 0.25  # seconds
_TICK = os.sysconf("SC_CLK_TCK")


class Watch:
    """A thread that appends `cpu` records (seconds used, by process), `process.died` and `process.ended`."""

    def __init__(self, processes: Callable[[], dict[str, int]], log: Writer) -> None:
        self._processes = processes
        self._log = log
        self._stopped = threading.Event()
        self._seen: set[str] = set()
        self._excused: set[str] = set()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def start(self) -> None:
        """Begin to watch what runs now."""
        self.look()
        self._thread.start()

    def stop(self) -> None:
        """End the thread after a last look."""
        self._stopped.set()
        self._thread.join()
        self.look()

    def _run(self) -> None:
        while not self._stopped.wait(INTERVAL):
            self.look()

    def excuse(self, *names: str) -> None:
        """These processes may end from now on: somebody ends them on purpose."""
        with self._lock:
            self._excused.update(names)

    def expect_alive(self, *names: str) -> None:
        """These may no longer end."""
        with self._lock:
            self._excused.difference_update(names)

    def look(self) -> None:
        """Take one sample of all processes; one that was there before and is gone has died, or was ended."""
        with self._lock:
            processes = self._processes()
            for name in self._seen - set(processes):
                self._log.add("process.ended" if name in self._excused else "process.died", process=name)
            self._seen = set(processes)
        seconds = {name: cpu_seconds(pid) for name, pid in processes.items()}
        self._log.add("cpu", seconds={name: used for name, used in seconds.items() if used is not None})


def cpu_seconds(pid: int) -> float | None:
    """User and system time of a process so far; None when it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / _TICK
