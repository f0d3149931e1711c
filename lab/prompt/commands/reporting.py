"""Report of a prompt's lab since it is up: a result directory as of a run.

Its scenario.yaml holds the typed commands with their times, as a start for a scenario.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mrclab.lab.errors import LabError, ScenarioError
from mrclab.lab.faults.base import FaultBase, LastingFault
from mrclab.lab.prompt.session import LabSession
from mrclab.lab.report import results
from mrclab.lab.run import runner
from mrclab.lab.run.world import record_counters
from mrclab.lab.scenario import scenario
from mrclab.lab.scenario.scenario import Loaded
from mrclab.lab.traffic.base import TrafficBase

NAME = "prompt"
_EXPECT = [{"kind": "integrity"}, {"kind": "qp_errors"}, {"kind": "health"}]
_EXPECT_WHILE_ACTIVE = _EXPECT[1:]  # bytes in flight have not arrived yet


def write(session: LabSession, parent: Path) -> results.CollectedRun:
    """Write a result directory below `parent`. LabError where there is nothing to report, or no room."""
    if not session.lab.workloads:
        raise LabError("nothing has been sent since the lab came up; begin with, for example, send h1 h3 16MiB")
    results.check_parent(parent)
    with session.lock:
        record_counters(session.world)
        directory = results.snapshot(session.world, as_scenario(session), parent)
    return runner.finish(directory)


def as_scenario(session: LabSession) -> Loaded:
    """Return the commands so far as a scenario; of several with one name the last."""
    began = min(each.began or 0.0 for each in session.lab.workloads.values())
    data: dict[str, Any] = {
        "name": NAME,
        "title": "At the prompt",
        "seed": session.world.seed,
        **session.setting,
        "fabric": session.world.fabric.spec.model_dump(mode="json", exclude_defaults=True),
        "traffic": [_traffic(each.entry, each.began, began) for each in session.lab.workloads.values()],
        "expect": _EXPECT_WHILE_ACTIVE if session.lab.active else _EXPECT,
    }
    faults = [_fault(fault, begin, end, began) for fault, begin, end in session.lab.injected]
    try:
        return scenario.from_data({**data, "faults": faults}, NAME)
    except ScenarioError:  # two faults of one name, or an order that no scenario can have: without the faults
        return scenario.from_data(data, NAME)


def _traffic(entry: TrafficBase, at: float | None, began: float) -> Mapping[str, Any]:
    fields = entry.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return {**fields, "start": _seconds(at or began, began)}


def _fault(fault: FaultBase, begin: float, end: float | None, began: float) -> Mapping[str, Any]:
    fields = fault.model_dump(mode="json", by_alias=True, exclude_unset=True)
    until = {"until": _seconds(end, began)} if end is not None and isinstance(fault, LastingFault) else {}
    return {**fields, "at": _seconds(begin, began), **until}


def _seconds(at: float, began: float) -> str:
    return f"{max(0.0, at - began):.9f}".rstrip("0").rstrip(".") + "s"
