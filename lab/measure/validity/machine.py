"""Validity of a run: CPU of the processes and the share that a hypervisor took, frames lost in sockets, hosts that
waited for a CPU, deaths.
"""

from collections import defaultdict, deque
from collections.abc import Iterable
from functools import cached_property
from operator import itemgetter
from typing import NamedTuple

from mrclab.lab.history import History
from mrclab.lab.measure.fabric.faults import FaultSpan
from mrclab.lab.measure.samples import Samples
from mrclab.lab.measure.series import CountSeries
from mrclab.lab.measure.validity.lateness import Lateness
from mrclab.lab.scenario.units import show_seconds

MAX_CPU = 0.97  # of one core over a second: beyond it a process set the pace, not the network
BUSY_S = 1.0  # seconds over which a process must have been that busy
MAX_WAITED = 0.125  # of a host's time, all its waits together: beyond it no bound of some percent means anything
FEW_RTTS = 20  # round trips, and a second at least, over which waits are added up; none in a shorter run
MIN_STEAL = 0.02  # of the CPUs over a second: less is not reported
RESTART_S = 3.0  # seconds that a process may take to load its program after a fault
VIRTUAL = "sim"  # the world of runs in virtual time
_HYPERVISOR = "hypervisor"
_OFF_THE_DATA_PATH = frozenset({"controller", "lab"})
_KILL_GRACE = 1.0  # seconds after a fault's begin or end in which its processes may be found dead


class ProcessLoad(NamedTuple):
    """One process of the lab over the run: its CPU share (1 = one core) on average, and in its busiest second."""

    name: str
    mean: float
    peak: float


class MachineLoad:
    """Load of the machine while the traffic ran, from `start` to `end`. `hosts` are those in use.

    A NIC that woke up more than `max_wait` seconds late was delayed by the machine, not by the network; so was a host
    whose waits add up to more than `MAX_WAITED` of a stretch (in proportion, where `max_wait` is not one round trip).
    """

    def __init__(
        self, history: History, samples: Samples, faults: Iterable[FaultSpan], start: float, end: float,
        hosts: set[str], rtt: float, max_wait: float | None = None, controlled: bool = False, sampled: bool = True,
    ) -> None:  # fmt: skip
        self._history = history
        self._samples = samples
        self._faults = tuple(faults)
        self._start, self._end, self._hosts = start, end, hosts
        self._rtt, self._max_wait = rtt, max_wait or rtt
        self._controlled = controlled  # a verdict depends on the controller
        self._sampled = sampled  # False: a run of virtual time that keeps no history has no samples
        self._max_waited = MAX_WAITED * self._max_wait / rtt

    @cached_property
    def cpu(self) -> dict[str, CountSeries]:
        """CPU seconds used so far, by process."""
        found: dict[str, CountSeries] = defaultdict(CountSeries)
        for record in self._history.of("cpu"):
            for name, seconds in record["seconds"].items():
                found[name].add(record.t, seconds)
        return dict(found)

    @cached_property
    def processes(self) -> list[ProcessLoad]:
        """CPU share of every process between start and end of the traffic, busiest first."""
        found = [
            ProcessLoad(name, counter.rate(self._start, self._end), self._peak(name, counter))
            for name, counter in self.cpu.items()
        ]
        return sorted(found, key=lambda process: -process.mean)

    def _peak(self, name: str, counter: CountSeries) -> float:
        """The share of the busiest stretch of `BUSY_S`, of the whole traffic where that is shorter.

        CPU that a process uses while a fault ends or restarts it is not counted.
        """
        if self._end - self._start <= BUSY_S:
            return counter.rate(self._start, self._end)
        killed = [fault.during(self._end) for fault in self._faults if name in fault.processes]
        times = [
            t
            for t in counter.times
            if self._start <= t <= self._end - BUSY_S
            and not any(begin - BUSY_S <= t <= end + RESTART_S for begin, end in killed)
        ]
        return max((counter.rate(t, t + BUSY_S) for t in times), default=counter.rate(self._start, self._end))

    @cached_property
    def steal(self) -> CountSeries:
        """CPU seconds stolen by a hypervisor so far, mean over the CPUs; empty where not sampled."""
        found = CountSeries()
        for record in self._history.of("cpu"):
            if "steal" in record.data:
                found.add(record.t, record["steal"])
        return found

    @cached_property
    def hypervisor(self) -> ProcessLoad | None:
        """Share of all CPUs that a hypervisor took while the traffic ran; None where it took next to none."""
        if not self.steal.times:
            return None
        peak = self._peak(_HYPERVISOR, self.steal)
        return ProcessLoad(_HYPERVISOR, self.steal.rate(self._start, self._end), peak) if peak > MIN_STEAL else None

    @property
    def socket_drops(self) -> dict[str, int]:
        """Frames that the kernel dropped before a host read them, by NIC port."""
        return self._samples.socket_drops

    @cached_property
    def worst_lateness(self) -> tuple[float, str, float]:
        """(seconds, host, time): the longest that a NIC of a host in use woke up late while the traffic ran."""
        return max(self._late, default=(0.0, "", self._start))

    @cached_property
    def most_waiting(self) -> tuple[float, str, float]:
        """(share, host, time): the most that a host in use waited in a stretch of the traffic, and the stretch's end.

        It adds up the longest wait of each sample. Nothing in a run of few round trips, in which single waits decide.
        """
        worst = (0.0, "", self._start)
        if self._end - self._start < FEW_RTTS * self._rtt:
            return worst
        recent: dict[str, deque[tuple[float, float]]] = defaultdict(deque)
        sums: dict[str, float] = defaultdict(float)
        for seconds, host, t in sorted(self._late, key=itemgetter(2)):
            recent[host].append((t, seconds))
            sums[host] += seconds
            while recent[host][0][0] <= t - self._stretch:
                sums[host] -= recent[host].popleft()[1]
            worst = max(worst, (sums[host] / self._stretch, host, t))
        return worst

    @property
    def _stretch(self) -> float:
        """Seconds over which waits are added up."""
        return min(max(FEW_RTTS * self._rtt, BUSY_S), self._end - self._start)

    @cached_property
    def _late(self) -> list[tuple[float, str, float]]:
        """For a host that a signal stopped, the stop itself is reported (`lateness`)."""
        every = [late for late in self._samples.late if late[1] in self._hosts and self._start <= late[2] <= self._end]
        return [each for each in every if not self.lateness.was_stopped(each[1], each[2] - each[0], each[2])]

    @cached_property
    def died(self) -> list[str]:
        """Processes that died unexpectedly: ended by neither the lab nor a fault."""
        return [
            f"{r['process']} ({r.get('reason', 'ended')})"
            for r in self._history.of("process.died")
            if not self._killed(r["process"], r.t)
        ]

    def _killed(self, process: str, t: float) -> bool:
        for fault in self._faults:
            begin, end = fault.during(float("inf"))
            if process in fault.processes and begin - _KILL_GRACE <= t <= end + _KILL_GRACE:
                return True
        return False

    @cached_property
    def lateness(self) -> Lateness:
        """Lateness of switches, controller and lab while the traffic ran."""
        return Lateness(self._history, self._faults, self._start, self._end)

    @cached_property
    def worst_waits(self) -> dict[str, float]:
        """Longest delay or wait for a CPU of each process that reported any, seconds."""
        found = self.lateness.worst()
        for late, host, _ in self._late:
            found[host] = max(late, found.get(host, 0.0))
        return found

    @cached_property
    def virtual(self) -> bool:
        """True if the run was in virtual time, where there is no machine that could be too slow."""
        return any(record["world"] == VIRTUAL for record in self._history.of("world"))

    @cached_property
    def unknown(self) -> list[str]:
        """Missing measurements without which it is unknown whether the machine kept up; empty where all exist."""
        if self.virtual and not self._sampled:
            return []
        unsampled = sorted(host for host in self._hosts if host not in self._samples.times)
        found = [f"there is no sample of {', '.join(unsampled[:3])}"] if unsampled else []
        if not self.virtual and not any(len(counter.times) > 1 for counter in self.cpu.values()):
            found.append("the CPU time of the processes was not read")
        return found

    @cached_property
    def invalid(self) -> list[str]:
        """Reasons for which the run is invalid; empty where the machine kept up."""
        found = [str(record["why"]) for record in self._history.of("machine.slow")]
        found += self.stopped
        found += [f"{port} lost {count} frames in its socket" for port, count in self.socket_drops.items()]
        found += [
            f"{process.name} used {process.peak * 100:.0f}% of a core for a second"
            for process in self.processes
            if process.name not in _OFF_THE_DATA_PATH and process.peak > MAX_CPU
        ]
        late, host, at = self.worst_lateness
        if late > self._max_wait:
            text = f"the machine let {host} wait {show_seconds(late)} for a CPU at {at - self._start:.2f} s"
            found.append(text + self._steal_at(at))
        share, host, at = self.most_waiting
        if share > self._max_waited and late <= self._max_wait:
            stretch = f"the {show_seconds(self._stretch)} until {at - self._start:.2f} s"
            found.append(f"the machine let {host} wait for a CPU {share * 100:.0f}% of {stretch}{self._steal_at(at)}")
        return found if self.virtual else [*found, *self.lateness.reasons(self._max_wait, self._controlled)]

    @cached_property
    def stopped(self) -> list[str]:
        """Processes that a signal stopped for too long, a line each; a faster machine would not help."""
        unused = set(self._samples.times) - self._hosts
        return list(self.lateness.stops(self._max_wait, self._controlled, unused))

    def _steal_at(self, t: float) -> str:
        """Return the share of CPUs that was taken at this time from outside this machine."""
        share = self.steal.rate(t - BUSY_S / 2, t + BUSY_S / 2) if self.steal.times else 0.0
        return f", when a hypervisor took {share * 100:.0f}% of this machine's CPUs" if share > MIN_STEAL else ""
