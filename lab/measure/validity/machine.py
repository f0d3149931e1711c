"""Validity of a run: CPU of the processes and what a hypervisor took of it, frames lost in sockets, hosts
held up by the kernel, deaths.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from mrclab.lab.history import History, Record
from mrclab.lab.measure.fabric.faults import FaultSpan
from mrclab.lab.measure.samples import Samples
from mrclab.lab.measure.series import CountSeries
from mrclab.lab.scenario.units import show_seconds

MAX_CPU = 0.97  # of one core over a second: beyond it a process set the pace, not the network
BUSY_S = 1.0  # seconds over which a process must have been that busy
MAX_WAITED = 0.125  # of a host's time, all its waits together: beyond it no bound of some percent means anything
FEW_RTTS = 20  # the shortest run in which waits are added up
MIN_STEAL = 0.02  # of the CPUs over a second: less is not worth a word
RESTART_S = 3.0  # seconds that a process may take to load its program after a fault
VIRTUAL = "sim"  # the world of runs in virtual time
_HYPERVISOR = "hypervisor"
_OFF_THE_DATA_PATH = frozenset({"controller", "lab"})
_KILL_GRACE = 1.0  # seconds after a fault's begin or end in which its processes may be found dead
CONTROLLER = "controller"
PULSE_S = 0.25  # seconds between two records in which the controller reports its lateness
CONTROLLER_S = 0.25  # seconds that it may be late where something depends on it
SILENT_S = 1.0  # seconds for which a switch may give no answer
_LOOK_S = 0.25  # seconds by which the ends of a stop are known
_EXPLAINS_S = 0.5  # seconds of a stop that need no other word on the same process
_AFTER_S = 0.1  # seconds after the lab's process woke up in which it does what was due meanwhile
_NEEDS_CONTROLLER = ("switch_crash", "switch_reboot", "wrong_entry", "controller_")  # beginnings of kinds of faults


@dataclass(frozen=True)
class Late:
    """One delay of a process: seconds, process, and the time of its end."""

    seconds: float
    process: str
    at: float


class Lateness:
    """Lateness of the lab's own processes between two times: fault injection, switches, controller, helpers on cables.

    Hosts tell by their samples how late their NICs woke up. Here is what the others tell: `lab.late` and the field
    `lab_late` of `cpu` (the lab's own process, woken late), `late` and `silent` of `depths` (a switch; of one that
    cannot tell, `waited` of `cpu`), the controller's `pulse`, `helper.late` (a relay or a background sender, when it
    ends), and `process.stopped` with `process.resumed` (any process, in state T). What a fault stops on purpose is not
    late.
    """

    def __init__(self, history: History, faults: Iterable[FaultSpan], start: float, end: float) -> None:
        self._history, self._faults = history, tuple(faults)
        self._start, self._end = start, end

    def worst(self) -> dict[str, float]:
        """Longest delay of each process that reported any, seconds."""
        found: dict[str, float] = {}
        for late in (*self._of_lab(), *self._of_switches(), *self._of_controller(), *self._of_helpers(), *self._stops):
            found[late.process] = max(late.seconds, found.get(late.process, 0.0))
        return found

    def reasons(self, most: float, controlled: bool) -> Iterator[str]:
        """Why the run is no result, where something was more than `most` seconds late; the worst of each sort.

        `controlled`: something that is judged depends on the controller.
        """
        yield from self._at_moments(most)
        worst = max(self._of_switches(), key=lambda late: late.seconds, default=None)
        if worst is not None and worst.seconds > most:
            yield f"switch {worst.process} was {show_seconds(worst.seconds)} late at {self._time(worst.at)}"
        still = max(self._silent(), key=lambda late: late.seconds, default=None)
        if still is not None and still.seconds > SILENT_S:
            span = f"{show_seconds(still.seconds)} until {self._time(still.at)}"
            yield f"switch {still.process} gave no answer for {span}"
        helper = max(self._of_helpers(), key=lambda late: late.seconds, default=None)
        if helper is not None and helper.seconds > most:
            yield f"the process {helper.process} was {show_seconds(helper.seconds)} late at {self._time(helper.at)}"
        slow = max(self._of_controller(), key=lambda late: late.seconds, default=None)
        if slow is not None and self._depends(controlled) and slow.seconds > CONTROLLER_S:
            yield f"the controller was {show_seconds(slow.seconds)} late at {self._time(slow.at)}"

    def stops(self, most: float, controlled: bool, unused: Collection[str] = ()) -> Iterator[str]:
        """Why the run is no result, where a signal stopped a process for more than `most` seconds; one line for each.

        `unused` are processes that the traffic does not need.
        """
        for stop in self._stops:
            seconds = min(stop.at, self._end) - max(stop.at - stop.seconds, self._start)
            needed = stop.process not in unused and (stop.process != CONTROLLER or self._depends(controlled))
            if needed and seconds > (CONTROLLER_S if stop.process == CONTROLLER else most):
                since = self._time(stop.at - stop.seconds)
                yield f"a signal stopped {stop.process} (state T) for {show_seconds(stop.seconds)} from {since} on"

    def was_stopped(self, process: str, since: float, until: float) -> bool:
        """Return True if a signal stopped a process at some time between two, give or take a look."""
        return any(
            stop.process == process and stop.at - stop.seconds - _LOOK_S <= until and since <= stop.at + _LOOK_S
            for stop in self._stops
            if stop.seconds >= _EXPLAINS_S
        )

    def _depends(self, controlled: bool) -> bool:
        return controlled or any(fault.kind.startswith(_NEEDS_CONTROLLER) for fault in self._faults)

    @cached_property
    def _stops(self) -> list[Late]:
        """Stops, each recorded at its end; one that never ended lasts to the end of the traffic."""
        begun: dict[str, float] = {}
        found = []
        for record in self._history.of("process.stopped", "process.resumed", "process.died", "process.ended"):
            process = record["process"]
            since = begun.pop(process, None)
            if record.kind == "process.stopped":
                begun[process] = record.t
            elif since is not None:
                found.append(Late(record.t - since, process, record.t))
        return found + [Late(max(self._end - since, 0.0), process, self._end) for process, since in begun.items()]

    def _of_helpers(self) -> list[Late]:
        sampled = [Late(r["late"], r["process"], r["at"]) for r in self._history.of("helper.late")]
        met = [late for late in sampled if self._start <= late.at and late.at - late.seconds <= self._end]
        return [late for late in met if not self.was_stopped(late.process, late.at - late.seconds, late.at)]

    def _time(self, t: float) -> str:
        return f"{t - self._start:.2f} s"

    def _at_moments(self, most: float) -> Iterator[str]:
        """The lab's own process was stopped when something was due that verdicts depend on."""
        moments = [(fault.begin, f"{fault.name} was to begin") for fault in self._faults]
        moments += [(fault.end, f"{fault.name} was to be cleared") for fault in self._faults if fault.end]
        moments += [(edge, f"{fault.name} was to go on") for fault in self._faults for edge in fault.edges]
        moments += [(r.t, f"{r['traffic']} was to begin") for r in self._history.of("traffic.start")]
        for late in sorted(self._of_lab(), key=lambda late: -late.seconds):
            met = [what for t, what in moments if late.at - late.seconds <= t <= late.at + _AFTER_S]
            if late.seconds > most and met:
                still = f"the lab itself was stopped for {show_seconds(late.seconds)} until {self._time(late.at)}"
                yield f"{still}, when {met[0]}"
                return

    def _of_lab(self) -> list[Late]:
        """Include delays that ended shortly after the traffic: a fault may have been due before."""
        sampled = [(r.t, r["late"]) for r in self._history.of("lab.late")]
        sampled += [(r.t, r["lab_late"]) for r in self._history.of("cpu") if "lab_late" in r.data]
        return [Late(late, "lab", t) for t, late in sampled if self._start <= t and t - late <= self._end]

    def _of_switches(self) -> list[Late]:
        found = [Late(late, switch, r.t) for r in self._between("depths") for switch, late in r.get("late", {}).items()]
        reporting = {late.process for late in found}
        others = {switch for r in self._history.of("counters") for switch in r["switches"]} - reporting
        before = math.inf
        for r in self._history.of("cpu"):
            waits = r.get("waited", {})
            if waits and self._start <= r.t <= self._end:
                known = _within_a_look(r.t - before)
                found += [Late(known * waited, name, r.t) for name, waited in waits.items() if name in others]
            before = r.t if waits else before
        return [late for late in found if not self._stopped(late.process, late.at - late.seconds, late.at)]

    def _silent(self) -> list[Late]:
        """Spans in which a switch did not answer, each recorded at its end."""
        since: dict[str, float] = {}
        found = []
        for record in self._between("depths"):
            for switch in record["silent"]:
                begun = since.setdefault(switch, record.t)
                if not self._stopped(switch, begun, record.t):
                    found.append(Late(record.t - begun, switch, record.t))
            since = {switch: t for switch, t in since.items() if switch in record["silent"]}
        return found

    def _of_controller(self) -> list[Late]:
        """Also one that never responded again: it reports its lateness once it wakes up."""
        sampled = [(r.t, Late(r["late"], CONTROLLER, r["at"])) for r in self._history.of("pulse", node=CONTROLLER)]
        found = [late for t, late in sampled if self._start <= t and late.at - late.seconds <= self._end]
        last = max((t for t, _ in sampled if t <= self._end), default=self._end)
        if self._end - last > PULSE_S and not any(t > self._end for t, _ in sampled):
            found.append(Late(self._end - last - PULSE_S, CONTROLLER, self._end))
        return [late for late in found if not self._stopped(CONTROLLER, late.at - late.seconds, late.at)]

    def _between(self, kind: str) -> Iterator[Record]:
        return (record for record in self._history.of(kind) if self._start <= record.t <= self._end)

    def _stopped(self, process: str, since: float, until: float) -> bool:
        """Return True if a fault, or a signal, stopped it at some time between two, or it had just begun again."""
        if self.was_stopped(process, since, until):
            return True
        times = [fault.during(self._end) for fault in self._faults if process in fault.stops]
        return any(begin <= until and since <= end + RESTART_S for begin, end in times)


def _within_a_look(seconds: float) -> float:
    """Return the share of all waits of a stretch that some one look's time of it had at least.

    Waits are known as their sum: of a stretch as long as a look should take all may be one wait. Of a longer one no
    more is known than that some part of it had as much as the average.
    """
    return min(1.0, _LOOK_S / seconds) if seconds > 0 else 1.0


@dataclass(frozen=True)
class ProcessLoad:
    """One process of the lab over the run: its CPU share (1 = one core) on average, and in its busiest second."""

    name: str
    mean: float
    peak: float


class MachineLoad:
    """Load of the machine while the traffic ran, from `start` to `end`. `hosts` are those in use.

    A NIC that woke up more than `max_wait` seconds late was held up by the machine, not by the network; so was a host
    whose waits add up to more than `MAX_WAITED` of the time (in proportion, where `max_wait` is not one round trip).
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
        self._sampled = sampled  # hosts were: in virtual time figures can do without
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

        What a process uses while a fault ends it and while it starts again is the fault's doing.
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
    def most_waiting(self) -> tuple[float, str]:
        """(share, host): the most of the time that a host in use waited, by the longest wait of each of its samples.

        Nothing in a run of few round trips, in which single waits decide.
        """
        if self._end - self._start < FEW_RTTS * self._rtt:
            return (0.0, "")
        waits: dict[str, float] = defaultdict(float)
        for seconds, host, _ in self._late:
            waits[host] += seconds / (self._end - self._start)
        return max(((share, host) for host, share in waits.items()), default=(0.0, ""))

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
        blind = sorted(host for host in self._hosts if host not in self._samples.times)
        found = [f"there is no sample of {', '.join(blind[:3])}"] if blind else []
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
        share, host = self.most_waiting
        if share > self._max_waited and late <= self._max_wait:
            found.append(f"the machine let {host} wait for a CPU {share * 100:.0f}% of the time")
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
