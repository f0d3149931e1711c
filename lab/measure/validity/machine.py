"""Validity of a run: CPU of the processes and the share that a hypervisor took, frames lost in sockets, hosts that
waited for a CPU, deaths.
"""

from collections import defaultdict, deque
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from mrclab.lab.measure.samples import Late
from mrclab.lab.measure.series import CountSeries
from mrclab.lab.measure.validity.lateness import Lateness
from mrclab.lab.scenario.units import show_seconds

if TYPE_CHECKING:
    from mrclab.lab.measure.measures import Measures

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
    """Load of the machine while the traffic ran.

    A NIC that woke up more than `max_wait` seconds late was delayed by the machine, not by the network; so was a host
    whose waits add up to more than `MAX_WAITED` of a stretch (in proportion, where `max_wait` is not one round trip).
    """

    def __init__(self, measures: "Measures") -> None:
        self._history, self._samples = measures.history, measures.samples
        self._faults = tuple(measures.faults.values())
        self._start, self._end, self._rtt = measures.start, measures.end, measures.rtt
        self._hosts = measures.flows.sources | measures.flows.sinks
        self._max_wait = measures.scenario.max_wait or measures.rtt
        self._sampled = measures.scenario.history == "full"
        self.lateness = Lateness(measures, self._hosts, self._max_wait)

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

    @cached_property
    def died(self) -> list[str]:
        """Processes that died unexpectedly: ended by neither the lab nor a fault."""
        return [
            f"{r['process']} ({r.get('reason', 'ended')})"
            for r in self._history.of("process.died")
            if not self._killed(r["process"], r.t)
        ]

    def _killed(self, process: str, t: float) -> bool:
        times = [fault.during(float("inf")) for fault in self._faults if process in fault.processes]
        return any(begin - _KILL_GRACE <= t <= end + _KILL_GRACE for begin, end in times)

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
        found += self.lateness.stops()
        found += [f"{port} lost {count} frames in its socket" for port, count in self._samples.socket_drops.items()]
        found += [
            f"{process.name} used {process.peak * 100:.0f}% of a core for a second"
            for process in self.processes
            if process.name not in _OFF_THE_DATA_PATH and process.peak > MAX_CPU
        ]
        found += self._waits()
        return found if self.virtual else [*found, *self.lateness.reasons()]

    def _waits(self) -> Iterator[str]:
        """Yield why the run is invalid where a host waited for a CPU: the longest wait, or too much of a stretch."""
        late = max(self.lateness.of_hosts, default=Late(0.0, "", self._start))
        if late.seconds > self._max_wait:
            wait = f"wait {show_seconds(late.seconds)} for a CPU at {late.at - self._start:.2f} s"
            yield f"the machine let {late.process} {wait}{self._steal_at(late.at)}"
        elif (duration := self._end - self._start) >= FEW_RTTS * self._rtt:
            stretch = min(max(FEW_RTTS * self._rtt, BUSY_S), duration)
            most = self._most_waiting(stretch)
            share = most.seconds / stretch
            if share > MAX_WAITED * self._max_wait / self._rtt:
                span = f"the {show_seconds(stretch)} until {most.at - self._start:.2f} s{self._steal_at(most.at)}"
                yield f"the machine let {most.process} wait for a CPU {share * 100:.0f}% of {span}"

    def _most_waiting(self, stretch: float) -> Late:
        """Return the most that a host in use waited in a stretch of so many seconds, and the stretch's end.

        It adds up the longest wait of each sample.
        """
        worst = Late(0.0, "", self._start)
        recent: dict[str, deque[Late]] = defaultdict(deque)
        sums: dict[str, float] = defaultdict(float)
        for late in sorted(self.lateness.of_hosts, key=lambda late: late.at):
            host = late.process
            recent[host].append(late)
            sums[host] += late.seconds
            while recent[host][0].at <= late.at - stretch:
                sums[host] -= recent[host].popleft().seconds
            worst = max(worst, Late(sums[host], host, late.at))
        return worst

    def _steal_at(self, t: float) -> str:
        """Return the share of CPUs that was taken at this time from outside this machine."""
        share = self.steal.rate(t - BUSY_S / 2, t + BUSY_S / 2) if self.steal.times else 0.0
        return f", when a hypervisor took {share * 100:.0f}% of this machine's CPUs" if share > MIN_STEAL else ""
