"""Time-order check: when the parts of a scenario happen, as far as known before it runs.

Known are times that triggers give in seconds, and those that follow from them; the end of a transfer of some size is
not. Times are seconds after the run began.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mrclab.lab.faults.base import FaultBase, LastingFault
from mrclab.lab.scenario.triggers import Moment, Trigger, Window
from mrclab.lab.scenario.units import show_seconds

if TYPE_CHECKING:
    from mrclab.lab.scenario.scenario import Scenario
    from mrclab.lab.traffic.base import TrafficBase

Place = tuple[int | str, ...]
Mistake = tuple[Place, str]

_AFTERMATH = 1.0  # seconds that a run lasts at least after its traffic and its `linger`


def mistakes(scenario: "Scenario") -> Iterator[Mistake]:
    """Yield events that never come, or come in the wrong order."""
    stuck = list(_stuck(scenario))
    yield from stuck
    if not stuck:
        times = known_times(scenario)
        yield from _faults(scenario, times)
        yield from _timeout(scenario, times)
        yield from _long_waits(scenario)
        yield from _windows(scenario, times)


def triggers(scenario: "Scenario") -> Iterator[tuple[Place, str, Trigger]]:
    """Yield every triggered moment (a workload, a fault, `FAULT.end`) with its place in the file and its trigger."""
    for index, traffic in enumerate(scenario.traffic):
        yield ("traffic", index, "start"), traffic.name, traffic.start
    for index, fault in enumerate(scenario.faults):
        yield ("faults", index, "at"), fault.name, fault.at
        if fault.ends_at is not None:
            yield ("faults", index, "until"), f"{fault.name}.end", fault.ends_at


def known_times(scenario: "Scenario") -> dict[str, float]:
    """Return the seconds of every known moment: names of workloads and faults, `NAME.end`, `start` and `end`."""
    times = {name: time for name, time in _moments(scenario).items() if time is not None}
    for moment, suffix, choose in (("start", "", min), ("end", ".end", max)):
        ends = [times.get(f"{traffic.name}{suffix}") for traffic in scenario.traffic]
        known = [end for end in ends if end is not None]
        if len(known) == len(ends):
            times[moment] = choose(known)
    return times


def _moments(scenario: "Scenario") -> dict[str, float | None]:
    """Return every moment that comes during a run, with its seconds where they are known."""
    lasting: dict[str, float | None] = {fault.name: None for fault in scenario.faults if _ends_itself(fault)}
    for traffic in scenario.traffic:
        lasting[traffic.name] = None if traffic.together else traffic.seconds  # they end what they began
    waiting: dict[str, list[tuple[str, Trigger]]] = {}
    coming: list[tuple[str, float | None]] = []
    for _, name, trigger in triggers(scenario):
        if trigger.name:
            waiting.setdefault(trigger.moment or trigger.traffic, []).append((name, trigger))
        else:
            coming.append((name, trigger.seconds))
    found: dict[str, float | None] = {}
    while coming:
        name, time = coming.pop()
        if name in found and (time is None or found[name] is not None):
            continue
        found[name] = time
        if name in lasting:
            coming.append((f"{name}.end", _sum(time, lasting[name])))
        for later, trigger in waiting.get(name, ()):
            coming.append((later, _sum(time, None if trigger.fraction is not None else trigger.seconds)))
    return found


def _sum(time: float | None, seconds: float | None) -> float | None:
    return None if time is None or seconds is None else time + seconds


def _ends_itself(fault: FaultBase) -> bool:
    return not isinstance(fault, LastingFault) or getattr(fault, "count", None) is not None


def _stuck(scenario: "Scenario") -> Iterator[Mistake]:
    """Yield workloads and faults that wait for an event that does not come during the run."""
    comes = _moments(scenario)
    open_ended = {fault.name for fault in scenario.faults if fault.ends_at is None and not _ends_itself(fault)}
    for place, _, trigger in triggers(scenario):
        if not trigger.name or (trigger.moment or trigger.traffic) in comes:
            continue
        if trigger.moment.endswith(".end") and trigger.name in open_ended:
            text = f"{trigger.name} is cleared when the run ends, for which this would wait; give it an until"
        else:
            text = f"this waits for {trigger.name}, which waits for this in turn or never comes; write, for example, 3s"
        yield place, text


def _faults(scenario: "Scenario", times: Mapping[str, float]) -> Iterator[Mistake]:
    for index, fault in enumerate(scenario.faults):
        until, at = fault.ends_at, times.get(fault.name, math.nan)
        clears = times.get(f"{fault.name}.end", math.nan)
        both = until is not None and until.fraction is not None and until.traffic == fault.at.traffic
        if clears <= at or (both and until is not None and (until.fraction or 0) <= (fault.at.fraction or 0)):
            text = f"{fault.name} begins at {fault.at} and would be cleared before or then, at {until}; raise until"
            yield ("faults", index, "until"), text
        if at >= times.get("end", math.inf) or (len(scenario.traffic) == 1 and fault.at.moment in _all_ends(scenario)):
            when = f" at {show_seconds(times['end'])}" if "end" in times else ""
            yield (
                ("faults", index, "at"),
                f"all traffic has ended{when} before {fault.name} begins; let it begin earlier",
            )


def _all_ends(scenario: "Scenario") -> set[str]:
    return {f"{entry.name}.end" for entry in scenario.traffic}


def _timeout(scenario: "Scenario", times: Mapping[str, float]) -> Iterator[Mistake]:
    limit = f"the run ends after {show_seconds(scenario.timeout)}"
    sections: list[tuple[str, Sequence[TrafficBase | FaultBase], str, str]] = [
        ("traffic", scenario.traffic, "start", "duration"),
        ("faults", scenario.faults, "at", "until"),
    ]
    for section, entries, begins, ends in sections:
        for index, entry in enumerate(entries):
            moments = ((entry.name, begins), (f"{entry.name}.end", ends))
            late = next(((m, field) for m, field in moments if times.get(m, 0.0) >= scenario.timeout), None)
            if late is not None:
                what = f"{late[0]} comes at {show_seconds(times[late[0]])}"
                yield (section, index, late[1]), f"{limit}, and {what}; raise timeout"


def _long_waits(scenario: "Scenario") -> Iterator[Mistake]:
    """Yield workloads of which a wait is longer than the run, in their file or in a computation."""
    for index, entry in enumerate(scenario.traffic):
        seconds, what = entry.longest_wait
        if seconds > scenario.timeout:
            waits = f"the run ends after {show_seconds(scenario.timeout)}, and {what} {show_seconds(seconds)}"
            if hasattr(entry, "file"):
                yield ("traffic", index, "file"), f"{waits}; correct the file, or raise timeout"
            else:
                yield ("traffic", index), f"{waits}; shorten it, or raise timeout"


def _windows(scenario: "Scenario", times: Mapping[str, float]) -> Iterator[Mistake]:
    sections = [("expect", index, entry) for index, entry in enumerate(scenario.expect)]
    sections += [("measure", index, entry) for index, entry in enumerate(scenario.measure)]
    for section, index, entry in sections:
        for field in ("window", "alone"):
            window = getattr(entry, field, None)
            if isinstance(window, Window):
                text = _empty(window, times) or _too_late(window, scenario)
                if text:
                    yield (section, index, field), text


def _empty(window: Window, times: Mapping[str, float]) -> str:
    begin, end = window.begin, window.end
    if begin.name == end.name:
        backwards = _offset(begin) >= _offset(end) if _same_unit(begin, end) else False
    elif begin.name in times and end.name in times and not begin.rtts and not end.rtts:
        backwards = times[begin.name] + begin.seconds >= times[end.name] + end.seconds
    else:
        backwards = _later(begin.name, end.name) and _offset(begin) >= 0 >= _offset(end)
    return f"the window {window} ends at or before its begin; swap its ends" if backwards else ""


def _offset(moment: Moment) -> float:
    return moment.seconds + moment.rtts


def _same_unit(one: Moment, other: Moment) -> bool:
    return not (one.seconds and other.rtts) and not (one.rtts and other.seconds)


def _later(one: str, other: str) -> bool:
    """Return True if a moment certainly does not come before another."""
    return other == "start" or one == f"{other}.end"


def _too_late(window: Window, scenario: "Scenario") -> str:
    begin: Any = window.begin
    if begin.name == "end" and begin.seconds > scenario.linger + _AFTERMATH:
        return f"the run is over before the window {window} begins; raise linger, or name an earlier moment"
    return ""
