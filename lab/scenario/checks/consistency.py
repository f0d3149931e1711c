"""Consistency checks of a scenario whose every field is valid by itself: dangling references, times out of order.

Each check yields mistakes as (place in the file, sentence with the remedy). Facts that are unknown before a run, such
as the end of a transfer of some size, are left to the run.
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from mrclab.controller.nodefiles import MAX_EVS, default_profile
from mrclab.lab.capture import where
from mrclab.lab.expectations.base import LINE, Level
from mrclab.lab.faults.base import FaultBase
from mrclab.lab.measure.fabric.faults import links_of
from mrclab.lab.scenario.checks import overlaps, timeorder
from mrclab.lab.scenario.checks.timeorder import Mistake
from mrclab.lab.scenario.units import show_seconds
from mrclab.topo.errors import TopoError
from mrclab.topo.input.sentences import listed, nearest
from mrclab.topo.model import Fabric

if TYPE_CHECKING:
    from mrclab.lab.scenario.scenario import Scenario
    from mrclab.lab.traffic.base import TrafficBase


def mistakes(scenario: "Scenario", fabric: Fabric) -> list[Mistake]:
    """Yield every mistake that no single field shows."""
    found = [*timeorder.mistakes(scenario), *overlaps.mistakes(scenario, fabric), *_taken_by_parts(scenario)]
    found += _transports(scenario, fabric)
    found += _evs(scenario, fabric)
    found += _pinned(scenario, fabric)
    found += _pods(scenario, fabric)
    found += _traced(scenario, fabric)
    faults = {fault.name: fault for fault in scenario.faults}
    workloads = {entry.name: entry for entry in scenario.traffic}
    flows = dict.fromkeys(flow.name for flow in scenario.flows(fabric))
    named = {other.name: other for other in scenario.figures if other.name}
    for section, entries in (("expect", scenario.expect), ("measure", scenario.measure)):
        for index, entry in enumerate(entries):
            rows = [
                *_bounds(entry),
                *_flow(entry, flows),
                *_places(entry, fabric),
                *_levels(entry, named),
                *_cables(entry, faults, fabric),
                *entry.mistakes(workloads),
                *_with_qps(entry, workloads),
                *_sampled(entry, fabric),
                *_recorded(entry, scenario),
            ]
            if entry.by_mapper and scenario.mapper is None:
                rows.append(("kind", "no host probes in this scenario; add `mapper: {}`, or leave this out"))
            found += [((section, index, field), text) for field, text in rows]
    return found


def _taken_by_parts(scenario: "Scenario") -> Iterator[Mistake]:
    """Yield faults with the names that the parts of a chaos or population fault will have."""
    whole = [(fault.prefix, fault) for fault in scenario.faults if fault.prefix is not None]
    first, last = dict(reversed(whole)), dict(whole)
    for index, fault in enumerate(scenario.faults) if whole else ():
        head, _, number = fault.name.rpartition("-")
        prefix = fault.prefix or (head if number.isdecimal() else "")
        taken = first.get(prefix) if first.get(prefix) is not fault else last.get(prefix)
        if taken is not None and taken is not fault:
            text = f"faults of {taken.name} will have names like {fault.name}; choose another"
            yield ("faults", index, "name"), text


def _transports(scenario: "Scenario", fabric: Fabric) -> Iterator[Mistake]:
    """Yield hosts that would need two transports at once."""
    if all(entry.transport is None for entry in scenario.traffic):
        return
    first: dict[str, int] = {}
    for index, entry in enumerate(scenario.traffic):
        for host in entry.hosts_in(fabric, scenario.seed):
            other = scenario.traffic[first.setdefault(host, index)]
            if (other.transport or scenario.transport) != (entry.transport or scenario.transport):
                text = f"{host} has the transport of {other.name} already, and a host has one; name other hosts"
                yield ("traffic", index, "transport" if entry.transport is not None else "name"), text
                return


def _traced(scenario: "Scenario", fabric: Fabric) -> Iterator[Mistake]:
    """Yield places of a trace that the fabric does not have."""
    for place, word in enumerate(scenario.trace.where if scenario.trace is not None else ()):
        try:
            where.cables(fabric, [word])
        except TopoError as error:
            yield ("trace", "where", place), str(error)


def _evs(scenario: "Scenario", fabric: Fabric) -> Iterator[Mistake]:
    """Yield EVs beyond the uplinks of a T0, and more than a QP can have."""
    choice = scenario.transport
    if choice.kind != "mrc" or not choice.ev_profile:
        return
    profile, place = choice.profile(default_profile(fabric)), ("transport", "ev_profile")
    if profile.active_per_plane > fabric.most_paths:
        text = f"active_per_plane: {profile.active_per_plane} EVs and {fabric.most_paths} uplinks of a T0"
        yield place, f"{text}; give at most {fabric.most_paths}, or raise fabric.t1s"
    elif (evs := min(profile.ev_count, fabric.most_paths) * fabric.planes) > MAX_EVS:
        text = f"{profile.ev_count} EVs per plane, active and backup, make {evs}, but a QP has at most {MAX_EVS}"
        yield place, f"{text}; give at most {MAX_EVS // fabric.planes} per plane"


def _pinned(scenario: "Scenario", fabric: Fabric) -> Iterator[Mistake]:
    """Yield paths of a workload that do not lead from one of its senders to its receiver, or need EVs."""
    for index, entry in enumerate(scenario.traffic):
        kind = (entry.transport or scenario.transport).kind
        if entry.paths and kind != "mrc":
            yield ("traffic", index, "paths"), f"{kind} has no EVs; leave paths out"
            continue
        for flow in entry.flows(fabric, scenario.seed) if entry.paths else ():
            known = fabric.paths(flow.source, flow.destination)
            wrong = next((path for path in entry.paths if (path.plane, path.uplink) not in known), None)
            if wrong is not None:
                uplinks = listed([str(uplink) for plane, uplink in known if plane == wrong.plane])
                text = f"uplink {wrong.uplink} does not lead from {flow.source} to {flow.destination}"
                yield ("traffic", index, "paths"), f"{text}; those of plane {wrong.plane} are {uplinks}"
                break


Rows = Iterator[tuple[str, str]]  # field, what is wrong with it


def _bounds(entry: Any) -> Rows:
    """Yield contradictory limits of a figure."""
    for low, high in (("at_least", "at_most"), ("share_at_least", "share_at_most"), ("at_least_rtts", "max_rtts")):
        least, most = _number(getattr(entry, low, None)), _number(getattr(entry, high, None))
        if least is not None and most is not None and least[1] == most[1] and least[0] > most[0]:
            yield low, f"{low} {getattr(entry, low)} exceeds {high} {getattr(entry, high)}; swap them"


def _number(value: Any) -> tuple[float, str] | None:
    """Return a limit as a number, and the name of the figure that it is a share of."""
    if isinstance(value, (int, float)):
        return float(value), ""
    for amount in ("share", "amount"):
        if hasattr(value, amount):
            return float(getattr(value, amount)), str(getattr(value, "of", "") or getattr(value, "in_bdps", ""))
    return None


def _flow(entry: Any, flows: Mapping[str, None]) -> Rows:
    flow, traffic = getattr(entry, "flow", None), getattr(entry, "traffic", None)
    if flow is None:
        return
    if flow not in flows:
        yield "flow", f"no flow is named {flow!r}; {nearest(flow, list(islice(flows, 12)))}"
    elif isinstance(traffic, str) and flow.partition("/")[0] != traffic:
        yield "flow", f"{flow} is not a flow of {traffic}; leave out flow or traffic"


def _pods(scenario: "Scenario", fabric: Fabric) -> Iterator[Mistake]:
    """Yield parts of a scenario that support two tiers only."""
    if fabric.spec.pods == 1:
        return
    if scenario.mapper is not None:
        yield ("mapper",), "Clustermapper's probes turn at T1s, and this fabric has T2s; leave mapper or pods out"
    for index, fault in enumerate(scenario.faults):
        if fault.kind_name == "chaos":
            yield ("faults", index, "kind"), "chaos counts paths of two tiers; name single faults, or leave pods out"


def _places(entry: Any, fabric: Fabric) -> Rows:
    """Yield planes, paths, switches and cables that the fabric does not have."""
    planes = getattr(entry, "planes", None) or ([entry.plane] if getattr(entry, "plane", None) else [])
    wrong = [plane for plane in planes if not 1 <= plane <= fabric.planes]
    if wrong:
        field = "planes" if getattr(entry, "planes", None) else "plane"
        yield field, f"there is no plane {wrong[0]}; the fabric has planes 1 to {fabric.planes}"
    uplink = getattr(entry, "uplink", None)
    if uplink is not None and uplink > fabric.most_paths:
        yield "uplink", f"there is no uplink {uplink}; a T0 has uplinks 1 to {fabric.most_paths}; 0 crosses no T1"
    element = getattr(entry, "element", None)
    if element is not None:
        try:
            links_of(element, fabric)
        except KeyError:
            near = fabric.near(element, "link") if "/" in element else fabric.near(element, "switch", "host")
            yield "element", f"no switch, host or cable is called {element!r}; {nearest(element, list(near))}"
    switch = getattr(entry, "switch", None)
    if switch is not None and not fabric.has_switch(switch):
        yield "switch", f"no switch is called {switch!r}; {nearest(switch, list(fabric.near(switch, 'switch')))}"


def _levels(entry: Any, named: Mapping[str, Any]) -> Rows:
    """Yield limits like `75% of NAME` where NAME measures no such figure, or is the expectation itself."""
    for field in ("at_least", "at_most", "about", "to"):
        value = getattr(entry, field, None)
        of = getattr(value, "of", "")
        if not of:
            continue
        if of == entry.name:
            yield field, f"{of} is this expectation itself, of which it is always 100%; name another"
            continue
        level, other = isinstance(value, Level), named.get(of)
        if other is not None and not _measures(other, level):
            known = [name for name, each in named.items() if _measures(each, level)]
            what = "no goodput" if level else "no duration"
            yield field, f"{of} measures {what}; {nearest(of, [*known, *([LINE] if level else [])])}"


def _measures(entry: Any, level: bool) -> bool:
    """Return True if an expectation has a figure that others may name: a goodput, or else a duration."""
    return bool(entry.kind == "goodput") if level else hasattr(entry, "measured_seconds")


def _cables(entry: Any, faults: Mapping[str, FaultBase], fabric: Fabric) -> Rows:
    given = getattr(entry, "fault", None) if entry.by_cables else None
    for name in [given] if isinstance(given, str) else given or []:
        fault = faults.get(name)
        if fault is not None and not fault.links(fabric):
            remedy = f"give window: {name} .. {name}.end instead" if hasattr(entry, "window") else "leave this out"
            yield "fault", f"{name} concerns no cable of its own, by which this is judged; {remedy}"


def _with_qps(entry: Any, workloads: "Mapping[str, TrafficBase]") -> Rows:
    """Yield expectations on QPs where the traffic that they are about leaves none in the history."""
    if not entry.by_qps or getattr(entry, "flow", None):
        return
    given = getattr(entry, "victim", None) or getattr(entry, "traffic", None) or list(workloads)
    names = [given] if isinstance(given, str) else given
    if names and all(name in workloads and not workloads[name].keeps_qps for name in names):
        what = f"{', '.join(names)} leaves no QPs in the history, by which {entry.kind} is judged"
        yield "kind", f"{what}; completion and slowdown are of its flows, drops, trims and marks of the switches"


def _recorded(entry: Any, scenario: "Scenario") -> Rows:
    """Yield expectations on samples, losses or states of EVs in a run that keeps no history."""
    if scenario.history == "none" and not entry.without_history:
        yield "kind", f"{entry.kind_name} is judged from the history, and this scenario keeps none; write history: full"


def _sampled(entry: Any, fabric: Fabric) -> Rows:
    """Yield sample intervals that are shorter than half of the time between two looks at a host."""
    least = 0.5 * fabric.spec.sample_interval
    if (getattr(entry, "sample", None) or least) < least * (1 - 1e-9):
        yield "sample", f"hosts are sampled every {show_seconds(2 * least)}; make it {show_seconds(least)} at least"
