"""Depth-first search through all states of a world, and search for cycles in their graph."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from mrclab.experiments.explore import fingerprint
from mrclab.experiments.explore.copying import Snapshot
from mrclab.experiments.explore.system import BEGAN, FAULTS, OPTIONAL, Action, Broken, System
from mrclab.experiments.explore.worlds import Space
from mrclab.lab.errors import Refused

BUSY: Final = 0.25  # data packets per base RTT in a cycle: more than this is a storm


class TraceStep(NamedTuple):
    """Transition from one state to another."""

    action: Action
    to: int
    seconds: float
    data: int  # data packets sent
    frames: int


@dataclass
class Counterexample:
    """A violated property, and the actions that lead there; `cycle`: those that return there."""

    what: str
    trace: list[Action]
    cycle: list[Action] = field(default_factory=list)


@dataclass
class Result:
    """Result of the search in one world. `whole`: all its states were seen."""

    world: Space
    states: int = 0
    steps: int = 0
    final_states: int = 0  # in which nothing more can happen
    cycles: int = 0  # returns to a state seen before
    seconds: float = 0.0
    whole: bool = True
    found: Counterexample | None = None


@dataclass
class _Frame:
    """A state on the search path, with the actions not yet tried."""

    system: System
    number: int
    left: list[Action]
    snapshot: Snapshot[System] | None = None

    def take(self) -> System:
        """Return the system to try an action on: a copy while others are left."""
        if not self.left:
            return self.system
        self.snapshot = self.snapshot or Snapshot(self.system)
        return self.snapshot.copy()


class Search:
    """One world."""

    def __init__(self, world: Space, max_seconds: float = 0.0, merging: int = 0) -> None:
        self.world = world
        self.result = Result(world)
        self._until = time.monotonic() + max_seconds if max_seconds else float("inf")
        self._merging = merging  # one in this many states seen before is compared step by step
        self._numbers: dict[bytes, int] = {}
        self._parents: list[tuple[int, Action]] = []
        self._steps: list[list[TraceStep]] = []
        self._on_path: set[int] = set()  # states from the start to here
        self._finished: list[int] = []  # states whose actions were all tried, in that order
        self.merged = 0

    def run(self) -> Result:
        """Explore until all states are seen, a property is violated, or the time is over."""
        began = time.monotonic()
        try:
            self._explore()
            if self.result.found is None and self.result.whole:
                self.result.found = self._cycle()
        finally:
            self.result.states = len(self._numbers)
            self.result.seconds = time.monotonic() - began
        return self.result

    # --- states -----------------------------------------------------------------------------------

    def _explore(self) -> None:
        start = System(self.world)
        try:
            start.check()
        except Broken as broken:
            self.result.found = Counterexample(str(broken), [])
            return
        stack = [self._enter(start, fingerprint.of(start), -1, ("start", 0))]
        while stack and self.result.found is None:
            frame = stack[-1]
            if not frame.left:
                self._finished.append(stack.pop().number)
                self._on_path.discard(frame.number)
                continue
            if time.monotonic() > self._until:
                self.result.whole = False
                return
            self._step(stack, frame, frame.left.pop(0))

    def _step(self, stack: list[_Frame], frame: _Frame, action: Action) -> None:
        system = frame.take()
        before = system.now, system.sent_data, system.sent_frames
        self.result.steps += 1
        if broken := _broken(system, action):
            self._report(broken, frame.number, action)
            return
        digest = fingerprint.of(system)
        number = self._numbers.get(digest)
        back = number is not None and number in self._on_path
        if number is None:
            stack.append(self._enter(system, digest, frame.number, action))
            number = stack[-1].number
        elif self._merging:
            self._compare(system, number)
        now, data, frames = before
        step = TraceStep(action, number, system.now - now, system.sent_data - data, system.sent_frames - frames)
        self._steps[frame.number].append(step)
        if back and self.result.found is None:
            self._close(stack, number)

    def _close(self, stack: list[_Frame], number: int) -> None:
        """Judge the cycle that a step back to a state on the path closes."""
        at = next(at for at, frame in enumerate(stack) if frame.number == number)
        self.result.found = self._judge_cycle([frame.number for frame in stack[at:]])

    def _enter(self, system: System, digest: bytes, parent: int, action: Action) -> _Frame:
        number = self._numbers[digest] = len(self._numbers)
        self._parents.append((parent, action))
        self._on_path.add(number)
        self._steps.append([])
        left = system.actions()
        goes_on = any(kind not in OPTIONAL and kind not in FAULTS for kind, _ in left)
        if not goes_on:
            self._end(system, number)
        return _Frame(system, number, left)

    def _end(self, system: System, number: int) -> None:
        """Check a state without internal actions: unless an external one is pending, all work must be done."""
        self.result.final_states += 1
        if system.down or system.receives or system.probes:
            return
        try:
            system.check_end()
        except Broken as broken:
            self.result.found = Counterexample(str(broken), self.trace_to(number))

    def _report(self, what: str, number: int, action: Action) -> None:
        self.result.found = Counterexample(what, [*self.trace_to(number), action])

    def trace_to(self, number: int) -> list[Action]:
        """The actions that lead to a state."""
        found: list[Action] = []
        while number > 0:
            number, action = self._parents[number]
            found.append(action)
        return found[::-1]

    # --- cycles -----------------------------------------------------------------------------------

    def _cycle(self) -> Counterexample | None:
        """A cycle in which too much is sent, or which never ends although no external action is pending."""
        for members in components(self._steps, self._finished):
            self.result.cycles += 1
            found = self._judge_cycle(self._around(members))
            if found is not None:
                return found
        return None

    def _judge_cycle(self, around: list[int]) -> Counterexample | None:
        system = System(self.world)
        for action in self.trace_to(around[0]):
            system.do(action)
        steps = [self._step_between(one, two) for one, two in zip(around, [*around[1:], around[0]], strict=True)]
        seconds = sum(step.seconds for step in steps)
        data, frames = sum(step.data for step in steps), sum(step.frames for step in steps)
        rtts = seconds / system.base_rtt
        trace, cycle = self.trace_to(around[0]), [step.action for step in steps]
        # a QP whose peer restarted probes its bad paths, slowly, until the job ends it
        waiting = bool(system.down or system.receives or system.probes or system.restarted >= 0)
        sent = f"{data} data packets and {frames - data} others in {rtts:.2f} base RTTs, again and again"
        if not seconds:
            return Counterexample(f"a cycle that takes no time: {sent}", trace, cycle)
        if data / rtts > BUSY:
            return Counterexample(f"a storm without end: {sent}", trace, cycle)
        if not waiting:
            return Counterexample(f"it never ends: {sent}", trace, cycle)
        return None

    def _step_between(self, one: int, two: int) -> TraceStep:
        return next(step for step in self._steps[one] if step.to == two)

    def _around(self, members: set[int]) -> list[int]:
        """The shortest path from a state of a cycle back to it."""
        start = min(members)
        before: dict[int, int] = {}
        waiting = [start]
        for one in waiting:
            for step in self._steps[one]:
                if step.to == start:
                    path = [one]
                    while path[-1] != start:
                        path.append(before[path[-1]])
                    return path[::-1]
                if step.to in members and step.to not in before:
                    before[step.to] = one
                    waiting.append(step.to)
        raise AssertionError("no cycle")

    # --- check of merging -------------------------------------------------------------------------

    def _compare(self, system: System, number: int) -> None:
        """Check a state reached by another path: its actions must lead to the same states."""
        self.merged += 1
        if self.merged % self._merging or not self._steps[number]:
            return
        known = {step.to for step in self._steps[number]}
        if len(self._steps[number]) < len(system.actions()):
            return  # not all were tried there so far
        snapshot = Snapshot(system)
        for action in system.actions():
            other = snapshot.copy()
            try:
                other.do(action)
            except Broken:
                continue
            if self._numbers.get(fingerprint.of(other)) not in known:
                self._report(f"merged with state {number}, but continues differently", number, action)
                return


def components(steps: list[list[TraceStep]], finished: list[int]) -> Iterator[set[int]]:
    """Strongly connected components with a cycle in them (Kosaraju).

    `finished` has all states in the order in which a depth-first search left them.
    """
    sources: list[list[int]] = [[] for _ in steps]
    for one, left in enumerate(steps):
        for step in left:
            sources[step.to].append(one)
    seen: set[int] = set()
    for root in reversed(finished):
        members: set[int] = set()
        waiting = [root]
        while waiting:
            one = waiting.pop()
            if one not in seen:
                seen.add(one)
                members.add(one)
                waiting += sources[one]
        if len(members) > 1 or (members and any(step.to == root for step in steps[root])):
            yield members


def shortened(world: Space, found: Counterexample) -> Counterexample:
    """Return the counterexample with actions removed that it does not need; a cycle is returned as it is."""
    if found.cycle:
        return found
    trace, at = list(found.trace), 0
    while at < len(trace) - 1:
        shorter = trace[:at] + trace[at + 1 :]
        if _breaks(world, shorter) == found.what:
            trace = shorter
        else:
            at += 1
    return Counterexample(found.what, trace)


def _breaks(world: Space, trace: list[Action]) -> str:
    """Return the invariant broken along a trace; empty where none is, or where an action cannot happen."""
    system = System(world)
    for action in trace:
        if action not in system.actions():
            return ""
        if broken := _broken(system, action):
            return broken
    return ""


def _broken(system: System, action: Action) -> str:
    """Do an action; return the invariant that it breaks, or the exception that it raises, else nothing."""
    try:
        system.do(action)
    except Broken as broken:
        return str(broken)
    except Exception as error:  # whatever it is, the trace replays it
        return f"{type(error).__name__}: {error}"
    return ""


def replayed(world: Space, trace: list[Action]) -> list[str]:
    """Return one line per action of a run: time, action, and packets sent for it."""
    system = System(world)
    lines: list[str] = []
    for action in trace:
        if action not in system.actions():
            can = ", ".join(f"{kind}:{which}" for kind, which in system.actions()) or "nothing"
            here = f"action {len(lines) + 1}, {action[0]}:{action[1]},"
            raise Refused(
                f"--replay: {here} cannot happen there, only {can}; correct it, unless the run is of another version of"
                " the transport"
            )
        what = _describe(system, action)
        known = {one.serial for one in system.network}
        broken = f"  ← {text}" if (text := _broken(system, action)) else ""
        sent = "; ".join(str(one) for one in system.network if one.serial not in known)
        lines.append(f"{(system.now - BEGAN) * 1e3:9.3f} ms  {what}" + (f"  → {sent}" if sent else "") + broken)
    return lines


def _describe(system: System, action: Action) -> str:
    """An action in words."""
    kind, which = action
    frame = next((one for one in system.network if one.serial == which), None)
    if kind in {"down", "restart"}:
        return (
            f"h{which + 1} starts again" if kind == "restart" else f"port {which & 0xFF} of h{(which >> 8) + 1} is down"
        )
    if kind in _WORDS:
        return _WORDS[kind]
    return f"{kind} {frame}"


_WORDS: Final = {
    "timer": "the next timer fires",
    "late": "the next timer fires, and frames that are due are still on their path",
    "receive": "the application posts a receive",
    "probe": "the controller requests an EV probe",
    "up": "a port comes back",
}
