"""Faults on a time line: each begins at its trigger, and ends at its own or with the run, in reverse order.

The time of a fault is taken just before it is injected, so that every effect has a later time. Nothing here waits: the
caller calls `advance` at `next_due`, and at least as often as triggers by progress need for their precision.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from mrclab.events.faults import FaultBegin, FaultCounters, FaultEnd, FaultsCleared
from mrclab.lab.errors import RunError, as_run_error
from mrclab.lab.faults import overlap
from mrclab.lab.faults.action import CONTROLLER, FaultAction, FaultContext
from mrclab.lab.faults.base import FaultBase
from mrclab.lab.scenario.triggers import Trigger
from mrclab.topo.errors import TopoError
from mrclab.topo.input.sentences import nearest

_RECOVERY_TIMEOUT = 15.0  # seconds that switches and controller get to find each other after the last fault

Times = Mapping[str, float]


def _will_end(action: FaultAction[Any]) -> bool:
    """Return True if an active fault ends at its own trigger or by itself; others are cleared when the run ends."""
    return action.fault.ends_at is not None or (action.pending and action.fault.ends_itself)


class TimeLine:
    """Injects and clears the faults of a scenario as time and transfers go on."""

    def __init__(self, context: FaultContext, faults: Sequence[FaultBase]) -> None:
        self._context = context
        self._waiting = list(faults)
        self._active: list[FaultAction[Any]] = []
        self._began: float | None = None  # time of second 0
        self._moments: Times = {}  # of the last `advance`
        self.times: dict[str, float] = {}  # NAME and NAME.end: time at which it began and ended

    @property
    def pending(self) -> bool:
        """True while a fault is still to begin, to be cleared at a time of its own, or to end without that."""
        return bool(self.waiting)

    @property
    def waiting(self) -> list[str]:
        """Names of the faults that have not begun, and of those in force that will end before the run does."""
        return [fault.name for fault in self._waiting] + [each.fault.name for each in self._active if _will_end(each)]

    def advance(self, seconds: float, progress: Times, moments: Times | None = None) -> list[str]:
        """Inject and clear all that is due, `seconds` after the traffic began; return one phrase for each.

        RunError where a fault should end that has not begun.
        `progress` gives the share of each workload that is done, `moments` the seconds at which named things happened.
        """
        now = self._context.now
        self._began, self._moments = now - seconds, moments or {}
        known = self._known(self._began)
        done = []
        for action in list(self._active):
            try:
                done += action.advance(now)
            except TopoError as error:
                raise as_run_error(error, f"{action.fault.name} could not go on") from None
            ends = action.fault.ends_at
            if action.finished or (ends is not None and ends.due(seconds, progress, known)):
                done.append(self._clear(action))
        for fault in list(self._waiting):
            begins, ends = fault.at, fault.ends_at
            due = begins.due(seconds, progress, known)
            over = ends is not None and ends.due(seconds, progress, known)
            if ends is not None and over and not (due and begins.precedes(ends, known)):
                raise RunError(f"{fault.name}: its end, {ends}, has come before its begin, {begins}; raise until")
            if due:
                self._waiting.remove(fault)
                done.append(self.inject(fault))
        return done

    @property
    def triggers(self) -> list[Trigger]:
        """Triggers of faults that are to begin or to end."""
        ends = [fault.ends_at for fault in self.active if fault.ends_at is not None]
        return [fault.at for fault in self._waiting] + ends

    def next_due(self) -> float:
        """Return the time of the next beginning or end whose time is known; infinity if there is none."""
        began = self._began if self._began is not None else self._context.now
        known = self._known(began)
        due = [began + at for trigger in self.triggers if (at := trigger.time(known)) is not None]
        return min([*due, *(action.due for action in self._active)], default=math.inf)

    def _known(self, began: float) -> Times:
        """Return the seconds, from `began` on, at which named things happened."""
        return {**self._moments, **{name: at - began for name, at in self.times.items()}}

    def clear_all(self) -> list[str]:
        """Clear the faults still in force, the last first; a failure or Ctrl-C is raised when all is done."""
        done, first = [], None
        self._waiting.clear()
        while self._active:
            action = self._active[-1]
            try:
                done.append(self._clear(action))
            except (Exception, KeyboardInterrupt) as error:  # raised below, after the others
                first = first or error
                self._active = [other for other in self._active if other is not action]
        if first is not None:
            raise first
        return done

    def clear(self, name: str) -> str:
        """Clear a fault in force now, regardless of its trigger; RunError where none has this name."""
        for action in self._active:
            if action.fault.name == name:
                return self._clear(action)
        known = [fault.name for fault in self.active]
        raise RunError(f"no fault named {name!r} is in force; {nearest(name, known) if known else 'there is none'}")

    @property
    def active(self) -> list[FaultBase]:
        """Faults in force, in the order in which they began."""
        return [action.fault for action in self._active]

    def verify_cleared(self) -> None:
        """Have the controller verify every cable and entry again, where a fault was injected; record the outcome."""
        if not self.times:
            return
        waited = self._context.call(CONTROLLER, "wait_verified", timeout=_RECOVERY_TIMEOUT)
        outcome = self._context.call(CONTROLLER, "verify", timeout=_RECOVERY_TIMEOUT) if waited["verified"] else waited
        problems = [*outcome["problems"], *(f"{switch} is not ready" for switch in outcome["not_ready"])]
        unread = [f"{switch} {why}" for switch, why in outcome.get("unread", {}).items()]
        entries = [*outcome.get("entries", []), *unread]
        self._context.record(FaultsCleared(verified=outcome["verified"], problems=problems, entries=entries))

    def inject(self, fault: FaultBase) -> str:
        """Inject a fault now, regardless of its trigger; return a phrase. Those that are over are cleared before."""
        over = [self._clear(action) for action in list(self._active) if action.finished]
        try:
            fault = fault.resolved(self._context)
        except TopoError as error:
            raise as_run_error(error, f"{fault.name} could not be injected") from None
        for other in self.active:
            if what := overlap.clash(fault, other, self._context.fabric, self._context.seed):
                raise RunError(f"{fault.name} cannot begin while {other.name} is in force: both concern {what}")
        action = fault.action(self._context)
        self._active.append(action)
        at = self.times[fault.name] = self._context.now
        try:
            action.inject()
        except TopoError as error:
            raise as_run_error(error, f"{fault.name} could not be injected") from None
        self._record(FaultBegin, at, fault)
        return "; ".join([*over, f"{fault.name}: {fault.text(self._context.fabric)}"])

    def _clear(self, action: FaultAction[Any]) -> str:
        fault = action.fault
        at = self.times[f"{fault.name}.end"] = self._context.now
        try:
            counters = action.clear()
        except TopoError as error:
            raise as_run_error(error, f"{fault.name} could not be cleared") from None
        self._active.remove(action)
        if counters:
            self._context.record(FaultCounters(fault=fault.name, fault_kind=fault.kind_name, counters=dict(counters)))
        self._record(FaultEnd, at, fault)
        counted = ", ".join(f"{name} {count}" for name, count in (counters or {}).items())
        return f"{fault.name}: cleared" + (f" ({counted})" if counted else "")

    def _record(self, event: type[FaultBegin | FaultEnd], at: float, fault: FaultBase) -> None:
        fabric = self._context.fabric
        links = list(fault.links(fabric))
        concerned = event(
            fault=fault.name,
            fault_kind=fault.kind_name,
            links=links,
            text=fault.text(fabric),
            link=links[0] if links else None,
            paths=[list(path) for path in fault.paths(fabric)] or None,
            processes=list(fault.processes(fabric)) or None,
            stops=list(fault.stops(fabric)) or None,
        )
        self._context.record(concerned, at)
