"""Adaptive timeouts: how long to wait for events on a machine of unknown speed.

Limits are for a small, quiet machine. Each stretches by how slowly this one started its first processes
(`MachineSlowness`), and while the CPUs are busy all the time, or a hypervisor takes them (`AdaptiveTimeout`). A limit
that expires all the same names the cause: the machine is too slow, or the awaited process is stopped. A process that a
signal has stopped is named as such, and not waited for to the end.
"""

import os
import time
from dataclasses import dataclass
from pathlib import Path

from mrclab.rpc import peers
from mrclab.topo.errors import EmulationError, MachineTooSlow, ProcessStopped
from mrclab.topo.linux import processes

_MAX_STRETCH = 20.0  # times that a limit may stretch for a machine that was slow from the beginning
_MORE = 4.0  # times that it may stretch while the machine, or the process, works all the time
_BUSY = 0.7  # share of CPU time, the machine's or a process's own; above it the machine is too slow
_STOPPED_S = 3.0  # seconds for which a process may be stopped
_SLOW = 3.0  # times the usual seconds for the first processes: no other cause is looked for then


class MachineSlowness:
    """Factor by which this machine was slower than usual in the steps measured so far; at least 1."""

    def __init__(self) -> None:
        self.stretch = 1.0

    def observe(self, seconds: float, usual: float) -> None:
        """Something that takes `usual` seconds on a small, quiet machine took `seconds`."""
        self.stretch = min(_MAX_STRETCH, max(self.stretch, seconds / usual))


@dataclass(frozen=True)
class CpuTimes:
    """Kernel's counters so far, in seconds: of all CPUs, and of one process (running, or waiting for a CPU)."""

    all: float
    idle: float
    stolen: float
    process: float


class AdaptiveTimeout:
    """One wait, from now on: of `seconds`, stretched by `slowness`, and further while the machine, or the process
    `pid` that is waited for, works all the time. `waited_for` holds the processes that must not be stopped meanwhile,
    by name; with `pid` it is that one. Time in which one was stopped does not count.
    """

    def __init__(self, seconds: float, slowness: MachineSlowness | None = None, pid: int | None = None) -> None:
        self.waited_for = {"": pid} if pid else {}
        self._stopped_since: float | None = None
        self._stopped_s = 0.0  # of the wait, without the stop that lasts
        self._stretch = slowness.stretch if slowness else 1.0
        self._seconds, self._pid = seconds, pid
        self._began = time.monotonic()
        self._before = cpu_times(pid)
        self._problem = ""

    @property
    def over(self) -> bool:
        """True if waiting any longer makes no sense."""
        now = time.monotonic()
        limit = self._seconds * self._stretch
        if self._stopped():
            self._stopped_since = self._stopped_since or now
            return now - self._stopped_since >= _STOPPED_S
        if self._stopped_since is not None:
            self._stopped_s += now - self._stopped_since
            self._stopped_since = None
        waited = now - self._began - self._stopped_s
        if waited < limit:
            return False
        self._problem = self._cause(waited)
        return not self._problem or waited >= limit * _MORE

    def error(self, process: str, what: str) -> EmulationError:
        """Why the wait for `process` (`h1`) to do `what` (`make its socket: …`) was given up; MachineTooSlow where the
        machine was the reason, ProcessStopped where a signal was.
        """
        if stopped := self._stopped():
            name, pid = next(iter(stopped.items()))
            return ProcessStopped(f"{name or process} {peers.stopped_text(pid)}; it was to {what}")
        waited = time.monotonic() - self._began
        text = f"{process} took more than {waited:.3g} s to {what}"
        if cause := self._problem or self._cause(waited):
            return MachineTooSlow(f"the machine is too slow: {text} ({cause})")
        return EmulationError(f"{text}, though the machine had CPU to spare")

    def _stopped(self) -> dict[str, int]:
        return {name: pid for name, pid in self.waited_for.items() if peers.is_stopped(pid)}

    def _cause(self, waited: float) -> str:
        """Return the property of the machine that explains the wait; empty where none does."""
        now, before = cpu_times(self._pid), self._before
        everything = max(now.all - before.all, 1e-9)
        stolen, busy = (now.stolen - before.stolen) / everything, 1 - (now.idle - before.idle) / everything
        own = (now.process - before.process) / max(waited, 1e-9)
        if self._stretch >= _SLOW:
            return f"its first processes took {self._stretch:.0f} times as long as usual"
        if busy > _BUSY:
            by = f", {stolen * 100:.0f}% by a hypervisor" if stolen > _BUSY / 10 else ""
            return f"its CPUs were taken {busy * 100:.0f}% of that time{by}"
        return f"the process worked or waited for a CPU {own * 100:.0f}% of that time" if own > _BUSY else ""


def cpu_times(pid: int | None = None) -> CpuTimes:
    """Read the kernel's counters; a process that has ended, or a kernel that keeps no such counter, counts as idle."""
    with Path("/proc/stat").open(encoding="ascii") as file:
        ticks = [int(word) for word in file.readline().split()[1:9]]  # user … idle, iowait, irq, softirq, steal
    tick = os.sysconf("SC_CLK_TCK")
    return CpuTimes(sum(ticks) / tick, ticks[3] / tick, ticks[7] / tick, _process_seconds(pid) if pid else 0.0)


def _process_seconds(pid: int) -> float:
    """Seconds that a process has run or waited for a CPU."""
    try:
        return sum(processes.run_and_wait_ns(pid)) / 1e9
    except (OSError, ValueError):
        return 0.0
