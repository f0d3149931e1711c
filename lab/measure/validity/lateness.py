"""Lateness of the lab's own processes: fault injection, switches, controller, helpers on cables.

Hosts report in their samples how late their NICs woke up (`machine`). This module reads the reports of all other
processes: `lab.late` and the field `lab_late` of `cpu` (the lab's own process, woken late), `late` and `silent` of
`depths` (a switch; `waited` of `cpu` for one that cannot report it), the controller's `heartbeat`, four a second,
`helper.late` (a relay or a background sender, when it ends), and `process.stopped` with `process.resumed` (any process,
in state T). A process that a fault stops on purpose is not late.
"""

import math
from collections.abc import Collection, Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

from mrclab.lab.faults.base import FAULTS, FaultBase
from mrclab.lab.history import History, Record
from mrclab.lab.measure.fabric.faults import FaultSpan
from mrclab.lab.scenario.units import show_seconds

CONTROLLER = "controller"
HEARTBEAT_S = 0.25  # seconds between two records in which the controller reports its lateness
CONTROLLER_S = 0.25  # seconds that it may be late where something depends on it
SILENT_S = 1.0  # seconds for which a switch may give no answer
_RESTART_S = 3.0  # seconds after a fault in which what it stopped may still be slow
_CHECK_S = 0.25  # seconds between two checks: the times of a stop are known no better
_EXPLAINS_S = 0.5  # a stop of this many seconds explains other delays of the process
_AFTER_S = 0.1  # seconds after the lab's process woke up in which it does what was due meanwhile


class Late(NamedTuple):
    """One delay of a process: seconds, process, and the time of its end."""

    seconds: float
    process: str
    at: float


class Lateness:
    """Lateness between two times."""

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
        """Reasons for which the run is INVALID: the longest delay of each sort, if longer than `most` seconds.

        `controlled`: something that is judged depends on the controller.
        """
        yield from self._at_moments(most)
        worst = max(self._of_switches(), key=lambda late: late.seconds, default=None)
        if worst is not None and worst.seconds > most:
            yield f"switch {worst.process} was {show_seconds(worst.seconds)} late at {self._time(worst.at)}"
        silent = max(self._silent(), key=lambda late: late.seconds, default=None)
        if silent is not None and silent.seconds > SILENT_S:
            span = f"{show_seconds(silent.seconds)} until {self._time(silent.at)}"
            yield f"switch {silent.process} gave no answer for {span}"
        helper = max(self._of_helpers(), key=lambda late: late.seconds, default=None)
        if helper is not None and helper.seconds > most:
            yield f"the process {helper.process} was {show_seconds(helper.seconds)} late at {self._time(helper.at)}"
        slow = max(self._of_controller(), key=lambda late: late.seconds, default=None)
        if slow is not None and self._depends(controlled) and slow.seconds > CONTROLLER_S:
            yield f"the controller was {show_seconds(slow.seconds)} late at {self._time(slow.at)}"

    def stops(self, most: float, controlled: bool, unused: Collection[str] = ()) -> Iterator[str]:
        """Reasons for which the run is INVALID: one per process that a signal stopped for more than `most` seconds.

        `unused` are processes that the traffic does not need.
        """
        for stop in self._stops:
            seconds = min(stop.at, self._end) - max(stop.at - stop.seconds, self._start)
            needed = stop.process not in unused and (stop.process != CONTROLLER or self._depends(controlled))
            if needed and seconds > (CONTROLLER_S if stop.process == CONTROLLER else most):
                since = self._time(stop.at - stop.seconds)
                yield f"a signal stopped {stop.process} (state T) for {show_seconds(stop.seconds)} from {since} on"

    def was_stopped(self, process: str, since: float, until: float) -> bool:
        """Return True if a signal stopped a process at some time between two, to the precision of the checks."""
        return any(
            stop.process == process and stop.at - stop.seconds - _CHECK_S <= until and since <= stop.at + _CHECK_S
            for stop in self._stops
            if stop.seconds >= _EXPLAINS_S
        )

    def _depends(self, controlled: bool) -> bool:
        return controlled or any(FAULTS.get(fault.kind, FaultBase).needs_controller for fault in self._faults)

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
        """Yield the longest delay of the lab's own process in which something was due that verdicts depend on."""
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
        """Return delays of the lab's own process, also just after the traffic: a fault may have been due."""
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
                known = _share_in_one_interval(r.t - before)
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
        """Return delays of the controller, also of one that never responded again: it reports them once it wakes up."""
        sampled = [(r.t, Late(r["late"], CONTROLLER, r["at"])) for r in self._history.of("heartbeat", node=CONTROLLER)]
        found = [late for t, late in sampled if self._start <= t and late.at - late.seconds <= self._end]
        last = max((t for t, _ in sampled if t <= self._end), default=self._end)
        if self._end - last > HEARTBEAT_S and not any(t > self._end for t, _ in sampled):
            found.append(Late(self._end - last - HEARTBEAT_S, CONTROLLER, self._end))
        return [late for late in found if not self._stopped(CONTROLLER, late.at - late.seconds, late.at)]

    def _between(self, kind: str) -> Iterator[Record]:
        return (record for record in self._history.of(kind) if self._start <= record.t <= self._end)

    def _stopped(self, process: str, since: float, until: float) -> bool:
        """Return True if a fault, or a signal, stopped it at some time between two, or it had just begun again."""
        if self.was_stopped(process, since, until):
            return True
        times = [fault.during(self._end) for fault in self._faults if process in fault.stops]
        return any(begin <= until and since <= end + _RESTART_S for begin, end in times)


def _share_in_one_interval(seconds: float) -> float:
    """Return the share of the waits within a span that must lie in one interval of `_CHECK_S`.

    A `cpu` record has the sum of a process's waits since the last one. In a span as long as an interval they may be one
    wait; in a longer span it is only certain that some interval has its average share.
    """
    return min(1.0, _CHECK_S / seconds) if seconds > 0 else 1.0
