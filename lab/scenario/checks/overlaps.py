"""Overlapping faults: pairs that need exclusive control of the same thing and may be active together.

Faults whose begin and end are known on one clock (seconds of the run, the share of a workload, seconds after a moment
that only the run determines) are compared in the order of their begin, each with those that are still active. Faults
on different clocks are compared in pairs, up to a limit.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import combinations, product
from typing import TYPE_CHECKING

from mrclab.lab.faults import overlap
from mrclab.lab.faults.base import FaultBase
from mrclab.lab.scenario.checks.timeorder import Mistake, known_times, triggers
from mrclab.lab.scenario.triggers import Trigger
from mrclab.topo.model import Fabric

if TYPE_CHECKING:
    from mrclab.lab.scenario.scenario import Scenario

_MAX_PAIRS = 50_000  # pairs of faults without a common clock
_MAX_REPORTED = 100  # mistakes

Time = tuple[str, float]  # a clock, and the time on it
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
        every, clocks = scenario.faults, _Clocks(scenario)
        self._claims = [overlap.claims(fault, fabric, scenario.seed) for fault in every]
        self._begins = [clocks.begins(fault) for fault in every]
        self._ends = [clocks.ends(fault) for fault in every]
        self._pairs = 0

    def found(self) -> tuple[dict[Pair, str], tuple[int, str] | None]:
        """Return overlaps with the claim that both share, and the first fault with pairs that were not compared."""
        found: dict[Pair, str] = {}
        for key, holders in sorted(self._by_key().items()):
            for number, pair in enumerate(self._clashing(holders, key), 1):
                found.setdefault(pair, key)
                if number > _MAX_REPORTED:
                    return found, None
            if self._pairs > _MAX_PAIRS:
                return found, (holders[0], key)
        return found, None

    def _by_key(self) -> dict[str, list[int]]:
        """Return faults by each claim that one of them takes and another one takes or needs."""
        taken = frozenset[str]().union(*(claimed for claimed, _ in self._claims))
        found: dict[str, list[int]] = {}
        for index, (_, needed) in enumerate(self._claims):
            for key in needed & taken:
                found.setdefault(key, []).append(index)
        return {key: holders for key, holders in found.items() if len(holders) > 1}

    def _clashing(self, holders: Sequence[int], key: str) -> Iterator[Pair]:
        """Yield the pairs that may be active together, and of which one takes the claim."""
        taking = {index for index in holders if key in self._claims[index][0]}
        by_clock: dict[str, list[int]] = {}
        for index in sorted(holders, key=lambda index: next(iter(self._begins[index].items()))):
            by_clock.setdefault(next(iter(self._begins[index])), []).append(index)
        for group in by_clock.values():
            yield from self._within(group, taking)
        for groups in combinations(by_clock.values(), 2):
            for one, other in product(*groups):
                if one in taking or other in taking:
                    self._pairs += 1
                    if self._pairs > _MAX_PAIRS:
                        return
                    if not (self._is_over(one, other) or self._is_over(other, one)):
                        yield min(one, other), max(one, other)

    def _within(self, group: Sequence[int], taking: set[int]) -> Iterator[Pair]:
        """Yield those of one clock, in the order of their begin: what is over then is over for all that follow."""
        active: dict[bool, list[int]] = {True: [], False: []}  # by whether they take the claim
        for index in group:
            for takes in (True, False) if index in taking else (True,):
                active[takes] = [other for other in active[takes] if not self._is_over(other, index)]
                for other in active[takes]:
                    if not self._is_over(index, other):
                        yield min(index, other), max(index, other)
            active[index in taking].append(index)

    def _is_over(self, one: int, other: int) -> bool:
        """Return True if a fault is certainly over when another begins."""
        begins = self._begins[other]
        return any(clock in begins and end <= begins[clock] for clock, end in self._ends[one])


class _Clocks:
    """Moments on clocks: the run's (empty name), a workload's share, or a moment that only the run determines."""

    def __init__(self, scenario: "Scenario") -> None:
        self._triggers = {name: trigger for _, name, trigger in triggers(scenario)}
        self._known: dict[str, Time] = {name: ("", time) for name, time in known_times(scenario).items()}

    def begins(self, fault: FaultBase) -> dict[str, float]:
        """Return by clock when a fault begins, at the earliest; by the clock first that knows it best."""
        found = dict(self._shares(fault.at))
        clock, at = self._of(fault.name)
        while clock not in found:
            found[clock] = at if clock != fault.name else -math.inf  # what ends as it begins is not over then
            later, seconds = self._of(clock.removesuffix(".end"))  # what ends began before
            clock, at = later, at + seconds
        return found

    def ends(self, fault: FaultBase) -> list[Time]:
        """Return on each clock on which it is known when a fault ends, at the latest."""
        clock, begin = self._of(fault.name)
        lasts = [] if fault.lasts is None else [(clock, begin + fault.lasts)]
        return [*self._shares(fault.ends_at), self._of(f"{fault.name}.end"), *lasts]

    @staticmethod
    def _shares(trigger: Trigger | None) -> list[Time]:
        """Return the time of a trigger on the clock of a workload's share."""
        share = None if trigger is None else trigger.fraction
        return [] if trigger is None or share is None else [(f"{trigger.traffic} %", share)]

    def _of(self, name: str) -> Time:
        """Return clock and time of a moment; every trigger is followed once."""
        chain: dict[str, float] = {}
        while name not in self._known:
            trigger = self._triggers.get(name)
            if trigger is None or not trigger.moment or name in chain:
                self._known[name] = (name, 0.0)
                break
            chain[name] = trigger.seconds
            name = trigger.moment
        clock, at = self._known[name]
        for later, seconds in reversed(chain.items()):
            at += seconds
            self._known[later] = (clock, at)
        return clock, at
