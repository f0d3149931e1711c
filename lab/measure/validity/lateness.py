"""Lateness of the lab's processes: fault injection, hosts, switches, controller, helpers on cables.

Sources: `late` of the hosts' samples (a NIC that woke up late); `lab.late` and the field `lab_late` of `cpu` (the lab's
own process); `late` and `silent` of `depths` (a switch; `waited` of `cpu` for one that cannot report it); the
controller's `heartbeat`, four a second; `helper.late` (a relay or a background sender, when it ends); `process.stopped`
with `process.resumed` (any process, in state T). A process that a fault stops on purpose is not late.
"""

import math
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from mrclab.lab.faults.base import FAULTS, FaultBase
from mrclab.lab.history import Record
from mrclab.lab.measure.samples import Late
from mrclab.lab.scenario.units import show_seconds

if TYPE_CHECKING:
    from mrclab.lab.measure.measures import Measures

CONTROLLER = "controller"
HEARTBEAT_S = 0.25  # seconds between two records in which the controller reports its lateness
CONTROLLER_S = 0.25  # seconds that it may be late where something depends on it
SILENT_S = 1.0  # seconds for which a switch may give no answer
_RESTART_S = 3.0  # seconds after a fault in which what it stopped may still be slow
_CHECK_S = 0.25  # seconds between two checks: the times of a stop are known no better
_EXPLAINS_S = 0.5  # a stop of this many seconds explains other delays of the process
_AFTER_S = 0.1  # seconds after the lab's process woke up in which it does what was due meanwhile


class Lateness:
    """Lateness while the traffic ran, of more than `max_wait` seconds. `hosts` are those in use."""

    def __init__(self, measures: "Measures", hosts: set[str], max_wait: float) -> None:
        self._history, self._samples = measures.history, measures.samples
        self._faults = tuple(measures.faults.values())
        self._start, self._end = measures.start, measures.end
        self._hosts, self._max_wait = hosts, max_wait
        needed = any(FAULTS.get(fault.kind, FaultBase).needs_controller for fault in self._faults)
        self._controlled = needed or measures.scenario.mapper is not None  # a verdict depends on the controller

    def worst(self) -> dict[str, float]:
        """Longest delay or wait for a CPU of each process that reported any, seconds."""
        found: dict[str, float] = {}
        others = (*self._of_lab(), *self._of_switches(), *self._of_controller(), *self._of_helpers(), *self._stops)
        for late in (*others, *self.of_hosts):
            found[late.process] = max(late.seconds, found.get(late.process, 0.0))
        return found

    def reasons(self) -> Iterator[str]:
        """Yield reasons for which the run is INVALID: the longest delay of each sort of process but hosts."""
        yield from self._at_moments()
        limits = [
            (self._of_switches(), self._max_wait, "switch {} was {} late at {}"),
            (self._silent(), SILENT_S, "switch {} gave no answer for {} until {}"),
            (self._of_helpers(), self._max_wait, "the process {} was {} late at {}"),
            (self._of_controller() if self._controlled else [], CONTROLLER_S, "the {} was {} late at {}"),
        ]
        for delays, most, text in limits:
            worst = _longest(delays)
            if worst.seconds > most:
                yield text.format(worst.process, show_seconds(worst.seconds), self._time(worst.at))

    def stops(self) -> list[str]:
        """Reasons for which the run is INVALID: one per process in use that a signal stopped for too long."""
        found = []
        unused = set(self._samples.times) - self._hosts
        for stop in self._stops:
            seconds = min(stop.at, self._end) - max(stop.since, self._start)
            needed = stop.process not in unused and (stop.process != CONTROLLER or self._controlled)
            if needed and seconds > (CONTROLLER_S if stop.process == CONTROLLER else self._max_wait):
                span = f"{show_seconds(stop.seconds)} from {self._time(stop.since)} on"
                found.append(f"a signal stopped {stop.process} (state T) for {span}")
        return found

    @cached_property
    def of_hosts(self) -> list[Late]:
        """Delays of NICs of hosts in use; for a host that a signal stopped, the stop itself is reported."""
        return [
            late
            for late in self._samples.late
            if late.process in self._hosts and self._start <= late.at <= self._end and not self._was_stopped(late)
        ]

    def _was_stopped(self, late: Late) -> bool:
        """Return True if a signal stopped the process during a delay, to the precision of the checks."""
        return any(
            stop.process == late.process and stop.since - _CHECK_S <= late.at and late.since <= stop.at + _CHECK_S
            for stop in self._stops
            if stop.seconds >= _EXPLAINS_S
        )

    def _unexplained(self, delays: Iterable[Late]) -> list[Late]:
        """Return delays of processes that neither a signal nor a fault stopped meanwhile, or just before."""
        return [late for late in delays if not (self._was_stopped(late) or self._stopped_by_fault(late))]

    def _stopped_by_fault(self, late: Late) -> bool:
        times = [fault.during(self._end) for fault in self._faults if late.process in fault.stops]
        return any(begin <= late.at and late.since <= end + _RESTART_S for begin, end in times)

    def _meanwhile(self, late: Late) -> bool:
        """Return True if a delay fell, in part, into the traffic."""
        return self._start <= late.at and late.since <= self._end

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
        sampled = (Late(r["late"], r["process"], r["at"]) for r in self._history.of("helper.late"))
        return [late for late in sampled if self._meanwhile(late) and not self._was_stopped(late)]

    def _time(self, t: float) -> str:
        return f"{t - self._start:.2f} s"

    def _at_moments(self) -> Iterator[str]:
        """Yield the longest delay of the lab's own process in which something was due that verdicts depend on."""
        moments = [(fault.begin, f"{fault.name} was to begin") for fault in self._faults]
        moments += [(fault.end, f"{fault.name} was to be cleared") for fault in self._faults if fault.end]
        moments += [(edge, f"{fault.name} was to go on") for fault in self._faults for edge in fault.edges]
        moments += [(r.t, f"{r['traffic']} was to begin") for r in self._history.of("traffic.start")]
        for late in sorted(self._of_lab(), key=lambda late: -late.seconds):
            met = [what for t, what in moments if late.since <= t <= late.at + _AFTER_S]
            if late.seconds > self._max_wait and met:
                still = f"the lab itself was stopped for {show_seconds(late.seconds)} until {self._time(late.at)}"
                yield f"{still}, when {met[0]}"
                return

    def _of_lab(self) -> list[Late]:
        """Return delays of the lab's own process, also just after the traffic: a fault may have been due."""
        sampled = [Late(r["late"], "lab", r.t) for r in self._history.of("lab.late")]
        sampled += [Late(r["lab_late"], "lab", r.t) for r in self._history.of("cpu") if "lab_late" in r.data]
        return list(filter(self._meanwhile, sampled))

    def _of_switches(self) -> list[Late]:
        found = [Late(late, switch, r.t) for r in self._between("depths") for switch, late in r.get("late", {}).items()]
        reporting = {late.process for late in found}
        others = {switch for r in self._history.of("counters") for switch in r["switches"]} - reporting
        before = math.inf
        for r in self._history.of("cpu"):
            waits = r.get("waited", {})
            if waits and self._start <= r.t <= self._end:
                known = _share_in_one_interval(r.t - before)
                found += [Late(known * waited, name, r.t) for name, waited in waits.items() if name in others]
            before = r.t if waits else before
        return self._unexplained(found)

    def _silent(self) -> list[Late]:
        """Spans in which a switch did not answer, each recorded at its end."""
        since: dict[str, float] = {}
        found = []
        for record in self._between("depths"):
            since = {switch: since.get(switch, record.t) for switch in record["silent"]}
            found += [Late(record.t - begun, switch, record.t) for switch, begun in since.items()]
        return self._unexplained(found)

    def _of_controller(self) -> list[Late]:
        """Return delays of the controller, also of one that never responded again: it reports them once it wakes up."""
        sampled = [(r.t, Late(r["late"], CONTROLLER, r["at"])) for r in self._history.of("heartbeat", node=CONTROLLER)]
        found = [late for t, late in sampled if self._start <= t and late.since <= self._end]
        last = max((t for t, _ in sampled if t <= self._end), default=self._end)
        if self._end - last > HEARTBEAT_S and not any(t > self._end for t, _ in sampled):
            found.append(Late(self._end - last - HEARTBEAT_S, CONTROLLER, self._end))
        return self._unexplained(found)

    def _between(self, kind: str) -> Iterator[Record]:
        return (record for record in self._history.of(kind) if self._start <= record.t <= self._end)


def _longest(delays: Iterable[Late]) -> Late:
    return max(delays, key=lambda late: late.seconds, default=Late(0.0, "", 0.0))


def _share_in_one_interval(seconds: float) -> float:
    """Return the share of the waits within a span that must lie in one interval of `_CHECK_S`.

    A `cpu` record has the sum of a process's waits since the last one. In a span as long as an interval they may be one
    wait; in a longer span it is only certain that some interval has its average share.
    """
    return min(1.0, _CHECK_S / seconds) if seconds > 0 else 1.0
