"""Faults on a time line: each strikes at its trigger, is healed at its own or at the end, in reverse order.

The time of a fault is taken just before it is done, so that no effect precedes it. Nothing here waits: whoever runs
the time line calls `advance` when `next_due` says so, and at least as often as triggers by progress shall be exact.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from mrclab.lab.errors import RunError, as_run_error
from mrclab.lab.faults import overlap
from mrclab.lab.faults.action import Counters, FaultAction, Ground
from mrclab.lab.faults.base import FaultBase
from mrclab.lab.faults.cableactions import CABLE_ACTIONS
from mrclab.lab.faults.chaos import Chaos
from mrclab.lab.faults.processactions import CONTROLLER, PROCESS_ACTIONS
from mrclab.lab.scenario.moments import Trigger
from mrclab.lab.scenario.yamlfile import nearest
from mrclab.topo.errors import TopoError

_LONGEST_STEP = 0.3  # seconds of a plan's time at a time; whoever runs a time line looks more often
_WHOLE_AGAIN = 15.0  # seconds that switches and controller get to find each other after the last fault

Times = Mapping[str, float]


@dataclass(eq=False)
class _Active:
    fault: FaultBase
    action: "FaultAction"  # type: ignore[type-arg]


class TimeLine:
    """Strikes and heals the faults of a scenario as time and transfers go on."""

    def __init__(self, ground: Ground, faults: Sequence[FaultBase]) -> None:
        self._ground = ground
        self._waiting = list(faults)
        self._active: list[_Active] = []
        self._began: float | None = None  # time of second 0
        self.times: dict[str, float] = {}  # NAME and NAME.end: time at which it struck and was healed

    @property
    def pending(self) -> bool:
        """Whether something is still to strike, to be healed at a time of its own, or to end by itself."""
        return bool(self.waiting)

    @property
    def waiting(self) -> list[str]:
        """Names of the faults that have not struck, and of those that are to be healed yet."""
        own_end = [entry.fault.name for entry in self._active if entry.fault.healed_at or entry.action.due < math.inf]
        return [fault.name for fault in self._waiting] + own_end

    def advance(self, seconds: float, progress: Times, moments: Times | None = None) -> list[str]:
        """Do everything that is due, `seconds` after the traffic began; returns one phrase per thing done.

        `progress` gives the share of each traffic that is done, `moments` the seconds at which named things happened.
        """
        now = self._ground.now
        self._began = now - seconds
        known = {**(moments or {}), **{name: at - self._began for name, at in self.times.items()}}
        done = []
        for entry in list(self._active):
            try:
                done += entry.action.advance(now)
            except TopoError as error:
                raise as_run_error(error, f"{entry.fault.name} could not go on") from None
            ends = entry.fault.healed_at
            if entry.action.finished or (ends is not None and ends.due(seconds, progress, known)):
                done.append(self._heal(entry))
        for fault in list(self._waiting):
            if fault.at.due(seconds, progress, known):
                self._waiting.remove(fault)
                done.append(self.strike(fault))
        return done

    @property
    def triggers(self) -> list[Trigger]:
        """What faults that are to strike or to be healed wait for."""
        heals = [entry.fault.healed_at for entry in self._active if entry.fault.healed_at is not None]
        return [fault.at for fault in self._waiting] + heals

    def next_due(self) -> float:
        """Time of the next thing whose time is known; infinity where there is none."""
        began = self._began if self._began is not None else self._ground.now
        known = [began + trigger.seconds for trigger in self.triggers if not trigger.name]
        return min([*known, *(entry.action.due for entry in self._active)], default=math.inf)

    def heal_all(self) -> list[str]:
        """Undo what is still active, the last first, whatever happens: a failure or Ctrl-C comes when all is done."""
        done, trouble = [], None
        self._waiting.clear()
        while self._active:
            entry = self._active[-1]
            try:
                done.append(self._heal(entry))
            except (Exception, KeyboardInterrupt) as error:  # raised below, after the others
                trouble = trouble or error
                self._active = [other for other in self._active if other is not entry]
        if trouble is not None:
            raise trouble
        return done

    def heal(self, name: str) -> str:
        """Heal a fault in force now, whatever its trigger says; RunError where none has this name."""
        for entry in self._active:
            if entry.fault.name == name:
                return self._heal(entry)
        known = [fault.name for fault in self.active]
        raise RunError(f"no fault named {name!r} is in force; {nearest(name, known) if known else 'there is none'}")

    @property
    def active(self) -> list[FaultBase]:
        """Faults in force, in the order in which they struck."""
        return [entry.fault for entry in self._active]

    def prove_healed(self) -> None:
        """Have the controller look at every cable and entry again, once something has struck; into the history."""
        if not self.times:
            return
        waited = self._ground.call(CONTROLLER, "wait_verified", timeout=_WHOLE_AGAIN)
        outcome = self._ground.call(CONTROLLER, "verify", timeout=_WHOLE_AGAIN) if waited["verified"] else waited
        problems = [*outcome["problems"], *(f"{switch} is not ready" for switch in outcome["not_ready"])]
        unread = [f"{switch} {why}" for switch, why in outcome.get("unread", {}).items()]
        entries = [*outcome.get("entries", []), *unread]
        self._ground.record("faults.healed", None, verified=outcome["verified"], problems=problems, entries=entries)

    def strike(self, fault: FaultBase) -> str:
        """Do a fault now, whatever its trigger says; returns a phrase."""
        for other in self.active:
            if what := overlap.clash(fault, other, self._ground.fabric, self._ground.seed):
                raise RunError(f"{fault.name} cannot strike while {other.name} is in force: both concern {what}")
        entry = _Active(fault, act(self._ground, fault))
        self._active.append(entry)
        at = self.times[fault.name] = self._ground.now
        try:
            entry.action.strike()
        except TopoError as error:
            raise as_run_error(error, f"{fault.name} could not strike") from None
        self._record("fault.begin", at, fault)
        return f"{fault.name}: {fault.text(self._ground.fabric)}"

    def _heal(self, entry: _Active) -> str:
        fault = entry.fault
        at = self.times[f"{fault.name}.end"] = self._ground.now
        try:
            counters = entry.action.heal()
        except TopoError as error:
            raise as_run_error(error, f"{fault.name} could not be healed") from None
        self._active = [other for other in self._active if other is not entry]
        if counters:
            self._ground.record("fault.counters", None, fault=fault.name, fault_kind=fault.kind_name, **counters)
        self._record("fault.end", at, fault)
        counted = ", ".join(f"{name} {count}" for name, count in (counters or {}).items())
        return f"{fault.name}: healed" + (f" ({counted})" if counted else "")

    def _record(self, kind: str, at: float, fault: FaultBase) -> None:
        fabric = self._ground.fabric
        links = list(fault.links(fabric))
        fields: dict[str, object] = {"links": links, "text": fault.text(fabric)}
        if links:
            fields["link"] = links[0]
        if paths := fault.paths(fabric):
            fields["paths"] = [list(path) for path in paths]
        if processes := fault.processes(fabric):
            fields["processes"] = list(processes)
        if stops := fault.stops(fabric):
            fields["stops"] = list(stops)
        self._ground.record(kind, at, fault=fault.name, fault_kind=fault.kind_name, **fields)


class RunChaos(FaultAction[Chaos]):
    """The faults of a plan, on a time line of their own."""

    def __init__(self, ground: Ground, fault: Chaos) -> None:
        super().__init__(ground, fault)
        self._line = TimeLine(ground, fault.plan(ground.fabric, ground.seed))
        self._clock = 0.0  # seconds of the plan's time
        self._looked = 0.0

    def strike(self) -> None:
        """The plan's time begins."""
        self._looked = self.ground.now
        self.advance(self._looked)

    def advance(self, now: float) -> list[str]:
        """What the plan says for now. While something holds up the time line, the plan's time stands still.

        Else all that became due meanwhile would strike at once, and leave some hosts no path.
        """
        self._clock += min(max(0.0, now - self._looked), _LONGEST_STEP)
        self._looked = now
        done = self._line.advance(self._clock, {})
        self.finished = not self._line.pending and self._clock >= self.fault.duration
        self.due = min(self._line.next_due(), now + max(0.0, self.fault.duration - self._clock))
        return done

    def heal(self) -> Counters | None:
        """Heal what is left of it."""
        self._line.heal_all()
        return None


_ACTIONS: Mapping[str, type[FaultAction]] = {  # type: ignore[type-arg]
    **CABLE_ACTIONS,
    **PROCESS_ACTIONS,
    "chaos": RunChaos,
}


def act(ground: Ground, fault: FaultBase) -> "FaultAction":  # type: ignore[type-arg]
    """The action for a fault; nothing is done yet."""
    return _ACTIONS[fault.kind_name](ground, fault)


@contextmanager
def scoped(ground: Ground, fault: FaultBase) -> Iterator[None]:
    """A fault in force inside the block, whatever its triggers say; one that goes on by itself stands still in it."""
    line = TimeLine(ground, [])
    try:
        line.strike(fault)
        yield
    finally:
        line.heal_all()
