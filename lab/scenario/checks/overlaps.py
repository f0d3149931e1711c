"""Overlapping faults: pairs that need exclusive control of the same thing and may be active together.

Faults whose begin and end are known on one clock (seconds of the run, the share of a workload, seconds after a moment
that only the run determines) are compared in the order of their begin, in n log n steps. The others are compared in
pairs, up to a limit.
"""

import heapq
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from mrclab.lab.faults import overlap
from mrclab.lab.faults.base import FaultBase
from mrclab.lab.scenario.checks.timeorder import Mistake, known_times
from mrclab.lab.scenario.triggers import Trigger
from mrclab.topo.model import Fabric

if TYPE_CHECKING:
    from mrclab.lab.scenario.scenario import Scenario

_MAX_PAIRS = 50_000  # pairs of faults without a common clock
_MAX_REPORTED = 100  # mistakes
_LONGEST_CHAIN = 100  # length of a chain of triggers that is followed

Claims = tuple[frozenset[str], frozenset[str]]  # a fault's exclusive claims, and these with its other needs
Interval = tuple[str, float, float]  # clock; begin and end on it
Pair = tuple[int, int]


def mistakes(scenario: "Scenario", fabric: Fabric) -> Iterator[Mistake]:
    """Yield every pair of which one may begin while the other is active."""
    if len(scenario.faults) < 2:
        return
    found, uncompared = _Overlaps(scenario, fabric).found()
    if uncompared:
        text = f"more faults concern {uncompared[1]} than can be compared; give their times in seconds"
        yield ("faults", uncompared[0], "at"), text
    for (first, second), what in sorted(found.items()):
        one, other = scenario.faults[first], scenario.faults[second]
        remedy = f"end one before the other begins, for example at: after {one.name} + 1s"
        yield (
            ("faults", second, "at"),
            f"{other.name} may begin while {one.name} is in force, and both concern {what}; {remedy}",
        )


class _Overlaps:
    """All faults with their claims and active times, by their places in the scenario."""

    def __init__(self, scenario: "Scenario", fabric: Fabric) -> None:
        self._faults: Sequence[FaultBase] = scenario.faults
        self._claims: list[Claims] = [overlap.claims(fault, fabric, scenario.seed) for fault in scenario.faults]
        self._triggers = _triggers(scenario)
        self._times = known_times(scenario)
        clocks = _Clocks(self._triggers, self._times)
        self._intervals = [clocks.interval(fault) for fault in scenario.faults]
        self._pairs = 0

    def found(self) -> tuple[dict[Pair, str], tuple[int, str] | None]:
        """Return overlaps with the claim that both share, and the first fault with pairs that were not compared."""
        found: dict[Pair, str] = {}
        for key, holders in sorted(self._by_key().items()):
            groups = self._by_clock(holders)
            clashing = [pair for group in groups for pair in self._within(group, key)]
            clashing += self._across(groups, key, _MAX_REPORTED - len(clashing))
            for pair in clashing:
                found.setdefault(pair, key)
            if self._pairs > _MAX_PAIRS:
                return found, (holders[0], key)
            if len(found) > _MAX_REPORTED:
                break
        return found, None

    def _by_key(self) -> dict[str, list[int]]:
        """Return faults by each claim that one of them takes and another one takes or needs."""
        taken = frozenset[str]().union(*(claimed for claimed, _ in self._claims))
        found: dict[str, list[int]] = {}
        for index, (_, needed) in enumerate(self._claims):
            for key in needed & taken:
                found.setdefault(key, []).append(index)
        return {key: holders for key, holders in found.items() if len(holders) > 1}

    def _by_clock(self, holders: Sequence[int]) -> list[list[int]]:
        groups: dict[str, list[int]] = {}
        for index in holders:
            interval = self._intervals[index]
            groups.setdefault(interval[0] if interval else f"fault {index}", []).append(index)
        return list(groups.values())

    def _within(self, group: Sequence[int], key: str) -> Iterator[Pair]:
        """Yield pairs on one clock that are active together, at most as many as are reported."""
        known = sorted((interval[1], interval[2], index) for index in group if (interval := self._intervals[index]))
        active: dict[bool, list[tuple[float, int]]] = {True: [], False: []}  # by claims or not: heaps of ends
        reported = 0
        for begin, end, index in known:
            takes = key in self._claims[index][0]
            for heap in active.values():
                while heap and heap[0][0] <= begin:
                    heapq.heappop(heap)
            for _, other in [*active[True], *(active[False] if takes else ())]:
                yield min(index, other), max(index, other)
                reported += 1
                if reported > _MAX_REPORTED:
                    return
            heapq.heappush(active[takes], (end, index))

    def _across(self, groups: Sequence[Sequence[int]], key: str, most: int) -> list[Pair]:
        """Yield pairs on two clocks of which neither is certainly over before the other begins."""
        found: list[Pair] = []
        for place, group in enumerate(groups):
            for one in group:
                for other in (index for rest in groups[place + 1 :] for index in rest):
                    if key not in self._claims[one][0] and key not in self._claims[other][0]:
                        continue
                    self._pairs += 1
                    if self._pairs > _MAX_PAIRS or len(found) > most:
                        return found
                    couple = self._faults[one], self._faults[other]
                    if not any(_over_before(*pair, self._times, self._triggers) for pair in (couple, couple[::-1])):
                        found.append((min(one, other), max(one, other)))
        return found


class _Clocks:
    """Moments on clocks: the run's (empty name), a workload's share, or a moment that only the run determines."""

    def __init__(self, triggers: Mapping[str, Trigger | None], times: Mapping[str, float]) -> None:
        self._triggers = triggers
        self._known: dict[str, tuple[str, float]] = {name: ("", time) for name, time in times.items()}

    def interval(self, fault: FaultBase) -> Interval | None:
        """Return clock, begin and end of a fault, infinity for no end; None if they are on two clocks."""
        ends = fault.ends_at
        if fault.at.fraction is not None and (ends is None or ends.fraction is not None):
            if ends is not None and ends.traffic != fault.at.traffic:
                return None
            if ends is not None or fault.lasts is None:
                return f"{fault.at.traffic} %", fault.at.fraction, math.inf if ends is None else ends.fraction or 0.0
        clock, begin = self._of(fault.name)
        if ends is not None:
            other, end = self._of(f"{fault.name}.end")
            return (clock, begin, end) if other == clock else None
        return clock, begin, math.inf if fault.lasts is None else begin + fault.lasts

    def _of(self, name: str) -> tuple[str, float]:
        """Return clock and time of a moment; every trigger is followed once."""
        chain: list[tuple[str, float]] = []
        met: set[str] = set()
        while name not in self._known:
            trigger = self._triggers.get(name)
            if trigger is None or not trigger.moment or name in met:
                self._known[name] = (name, 0.0)
                break
            met.add(name)
            chain.append((name, trigger.seconds))
            name = trigger.moment
        clock, at = self._known[name]
        for later, seconds in reversed(chain):
            at += seconds
            self._known[later] = (clock, at)
        return clock, at


def _triggers(scenario: "Scenario") -> dict[str, Trigger | None]:
    """Return the triggers of every moment (names of workloads and faults, `NAME.end`); None if it is unknown."""
    found: dict[str, Trigger | None] = {entry.name: entry.start for entry in scenario.traffic}
    for fault in scenario.faults:
        found[fault.name], found[f"{fault.name}.end"] = fault.at, fault.ends_at
    return found


def _over_before(
    one: FaultBase, other: FaultBase, times: Mapping[str, float], triggers: Mapping[str, Trigger | None]
) -> bool:
    """Return True if a fault is certainly over when another begins."""
    end, begin = times.get(f"{one.name}.end"), times.get(other.name)
    if end is None and one.lasts is not None and one.name in times:
        end = times[one.name] + one.lasts
    if end is not None and begin is not None:
        return end <= begin
    ends = one.ends_at
    if ends is not None and ends.fraction is not None and ends.traffic == other.at.traffic:
        return ends.fraction <= (other.at.fraction or 0.0)
    over = {f"{one.name}.end": 0.0, **_after(ends, triggers)}
    if one.lasts is not None:
        over[one.name] = one.lasts
    begins = _after(other.at, triggers, at_least=True)
    return any(moment in begins and seconds <= begins[moment] for moment, seconds in over.items())


def _after(
    trigger: Trigger | None, triggers: Mapping[str, Trigger | None], *, at_least: bool = False
) -> dict[str, float]:
    """Return the seconds after every moment that a trigger waits for, directly or through other triggers.

    `at_least`: also after moments that are only known not to come later, such as a workload's begin.
    """
    found: dict[str, float] = {}
    seconds = 0.0
    while trigger is not None and trigger.moment and trigger.moment not in found and len(found) < _LONGEST_CHAIN:
        seconds += trigger.seconds
        found[trigger.moment] = seconds
        trigger = triggers.get(trigger.moment) or (triggers.get(trigger.name) if at_least else None)
    return found
