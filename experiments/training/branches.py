"""Runs that differ in their faults alone: one process up to the first fault, and a fork of it for each variant.

Virtual time gives the same run again, so that all variants of a transport and seed are one run until a fault begins.
That run stops there once, and goes on in a child for each variant, one after the other, and at last without a fault.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import PrivateAttr
from typing_extensions import override

from mrclab.experiments.campaign import work
from mrclab.experiments.campaign.plan import Job
from mrclab.experiments.runs.store import Row
from mrclab.lab.errors import RunError
from mrclab.lab.faults.action import Counters, FaultAction, FaultContext
from mrclab.lab.faults.base import FaultBase, LastingFault
from mrclab.lab.scenario import scenario
from mrclab.lab.scenario.triggers import Trigger
from mrclab.topo.model import Fabric

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


class BranchPoint(LastingFault):
    """The moment at which a run goes on once with each of several faults; then without one."""

    _faults: Mapping[str, FaultBase] = PrivateAttr(default_factory=dict)
    _rows: dict[str, Row] = PrivateAttr(default_factory=dict)
    _goes_on: bool = PrivateAttr(default=True)
    _chosen: str = PrivateAttr(default="")
    _pipe: int = PrivateAttr(default=-1)

    def set_faults(self, faults: Mapping[str, FaultBase], *, goes_on: bool) -> None:
        """Set the faults, by variant; ValueError where they differ from the point in name or trigger.

        Unless it `goes_on` without a fault, the run ends with an error when all have their rows.
        """
        if any((fault.name, fault.at) != (self.name, self.at) for fault in faults.values()):
            raise ValueError("faults of one branch point have one name and begin at one trigger")
        self._faults, self._goes_on = faults, goes_on

    @property
    def rows(self) -> Mapping[str, Row]:
        """Rows of the variants, in the parent."""
        return self._rows

    @property
    def chosen(self) -> str:
        """The variant with which this process goes on; empty in the parent."""
        return self._chosen

    def send(self, row: Row) -> None:
        """Send the parent the row, in a child."""
        with os.fdopen(self._pipe, "wb") as pipe:
            pipe.write(json.dumps(row).encode())

    def branch(self) -> FaultBase | None:
        """Fork once for each fault and wait for its row; return the fault in a child, None in the parent."""
        own = os.getpid()
        for variant, fault in self._faults.items():
            reader, writer = os.pipe()
            child = os.fork()
            if not child:
                _end_with(own)
                os.close(reader)
                self._chosen, self._pipe = variant, writer
                return fault
            os.close(writer)
            self._await(variant, child, reader)
        if not self._goes_on:
            raise RunError("all variants have their rows")
        return None

    def _await(self, variant: str, child: int, reader: int) -> None:
        try:
            with os.fdopen(reader, "rb") as pipe:
                data = pipe.read()
        except BaseException:
            os.kill(child, signal.SIGKILL)
            raise
        finally:
            os.waitpid(child, 0)
        if data:  # else it died, and the variant has no row
            self._rows[variant] = json.loads(data)

    @property
    def _fault(self) -> FaultBase | None:
        return self._faults.get(self._chosen)

    @property
    @override
    def ends_at(self) -> Trigger | None:
        return self._fault.ends_at if self._fault else None

    @override
    def links(self, fabric: Fabric) -> tuple[str, ...]:
        return self._fault.links(fabric) if self._fault else ()

    @override
    def text(self, fabric: Fabric) -> str:
        return self._fault.text(fabric) if self._fault else "no fault"

    @override
    def action(self, context: FaultContext) -> FaultAction[Any]:
        return _Branch(context, self)


class _Branch(FaultAction[BranchPoint]):
    """Fork; each child continues with its own fault."""

    def __init__(self, context: FaultContext, fault: BranchPoint) -> None:
        super().__init__(context, fault)
        self._inner: FaultAction[Any] | None = None

    @override
    def inject(self) -> None:
        fault = self.fault.branch()
        if fault is not None:
            self._inner = fault.action(self.context)
            self._do(self._inner.inject)

    @override
    def advance(self, now: float) -> list[str]:
        inner = self._inner
        return self._do(lambda: inner.advance(now)) if inner is not None else []

    @override
    def clear(self) -> Counters | None:
        return self._inner.clear() if self._inner is not None else None

    def _do(self, what: Callable[[], Any]) -> Any:
        done = what()
        assert self._inner is not None
        self.due, self.finished = self._inner.due, self._inner.finished
        return done


def run(jobs: Sequence[Job]) -> list[Row]:
    """Return rows of runs that have seed and all but their fault in common, one at most without a fault.

    One job alone does not fork, which would take its memory twice.
    `cpu` of a row is the CPU time of its own process in seconds, `mib` the largest memory of that process. The run
    without a fault includes the part that all have in common. A variant whose process died has no row.
    """
    began = time.process_time()
    read = {job.variant: (job, scenario.with_seed(job.setting.loaded(), job.seed)) for job in jobs}
    faults = {variant: loaded.scenario.faults[0] for variant, (_, loaded) in read.items() if loaded.scenario.faults}
    calm = next((job for variant, (job, _) in read.items() if variant not in faults), None)
    own, loaded = read[calm.variant if calm is not None else jobs[0].variant]
    if len(jobs) == 1:
        row = work.row_of(own, lambda: loaded)
        return [{**row, **_used(began)}]
    first = next(iter(faults.values()))
    point = BranchPoint.model_construct(name=first.name, at=first.at, until=None)
    point.set_faults(faults, goes_on=calm is not None)
    branched = loaded._replace(scenario=loaded.scenario.model_copy(update={"faults": [point]}))
    row = work.row_of(own, lambda: branched)
    if point.chosen:
        job = read[point.chosen][0]
        point.send({**row, "variant": job.variant, "values": dict(job.values), **_used(0.0)})
        os._exit(0)
    whole = [{**row, **_used(began)}] if calm is not None else []
    return [*point.rows.values(), *whole]


def _end_with(parent: int) -> None:
    """Have the kernel kill this process when its parent ends, as its row would not be read."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it ended in between
        os._exit(1)


def _used(began: float) -> Row:
    """Return CPU seconds since `began` and the largest memory in MiB of this process."""
    import resource  # noqa: PLC0415 - Unix alone has it

    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return {"cpu": round(time.process_time() - began, 3), "mib": memory}
