"""Faults of a scenario that may be in force together though they take the same thing for themselves."""

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import TYPE_CHECKING

from mrclab.lab.faults import overlap
from mrclab.lab.faults.base import FaultBase
from mrclab.lab.scenario.clockwork import Mistake, known_times
from mrclab.lab.scenario.moments import Trigger
from mrclab.topo.model import Fabric

if TYPE_CHECKING:
    from mrclab.lab.scenario.scenario import Scenario


def mistakes(scenario: "Scenario", fabric: Fabric) -> Iterator[Mistake]:
    """Every pair of which nothing keeps one from striking while the other is in force."""
    triggers = _triggers(scenario)
    times = known_times(scenario)
    for (_, one), (index, other) in combinations(enumerate(scenario.faults), 2):
        what = overlap.clash(one, other, fabric, scenario.seed)
        if what and not any(_over_before(*pair, times, triggers) for pair in ((one, other), (other, one))):
            remedy = f"end one before the other strikes, for example at: after {one.name} + 1s"
            yield (
                ("faults", index, "at"),
                f"{other.name} may strike while {one.name} is in force, and both concern {what}; {remedy}",
            )


def _triggers(scenario: "Scenario") -> dict[str, Trigger | None]:
    """When every moment comes: names of traffics and faults, `NAME.end`; None where nothing says when."""
    found: dict[str, Trigger | None] = {entry.name: entry.start for entry in scenario.traffic}
    for fault in scenario.faults:
        found[fault.name], found[f"{fault.name}.end"] = fault.at, fault.ends_at
    return found


def _over_before(
    one: FaultBase, other: FaultBase, times: Mapping[str, float], triggers: Mapping[str, Trigger | None]
) -> bool:
    """Whether a fault is surely over when another strikes."""
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
    strikes = _after(other.at, triggers, at_least=True)
    return any(moment in strikes and seconds <= strikes[moment] for moment, seconds in over.items())


def _after(
    trigger: Trigger | None, triggers: Mapping[str, Trigger | None], *, at_least: bool = False
) -> dict[str, float]:
    """Seconds after every moment for which something waits, directly or because that waits for another in turn.

    `at_least`: also after moments of which is only known that they do not come later, such as a traffic's begin.
    """
    found: dict[str, float] = {}
    seconds = 0.0
    while trigger is not None and trigger.moment and trigger.moment not in found:
        seconds += trigger.seconds
        found[trigger.moment] = seconds
        trigger = triggers.get(trigger.moment) or (triggers.get(trigger.name) if at_least else None)
    return found
