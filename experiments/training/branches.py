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
from collections.abc import Mapping, Sequence

from pydantic import PrivateAttr
from typing_extensions import override

from mrclab.experiments.campaign import work
from mrclab.experiments.campaign.plan import Job
from mrclab.experiments.runs.store import Row
from mrclab.lab.errors import RunError
from mrclab.lab.faults.action import FaultAction, FaultContext
from mrclab.lab.faults.base import FaultBase
from mrclab.lab.scenario import scenario
from mrclab.topo.model import Fabric

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


class Branches:
    """Child processes of a run, one for each of several faults, and the rows that they send.

    Unless it `goes_on` without a fault, the run ends with an error when all have their rows.
    """

    def __init__(self, faults: Mapping[str, FaultBase], *, goes_on: bool) -> None:
        self._faults, self._goes_on = faults, goes_on  # faults by variant
        self._pipe = -1  # to the parent
        self.rows: dict[str, Row] = {}  # by variant, in the parent
        self.chosen = ""  # variant with which this process goes on; empty in the parent

    def fork(self) -> FaultBase | None:
        """Fork once for each fault and wait for its row; return the fault in a child, None in the parent."""
        own = os.getpid()
        for variant, fault in self._faults.items():
            reader, writer = os.pipe()
            child = os.fork()
            if not child:
                _end_with(own)
                os.close(reader)
                self.chosen, self._pipe = variant, writer
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
            self.rows[variant] = json.loads(data)

    def send(self, row: Row) -> None:
        """Send the parent the row, in a child."""
        with os.fdopen(self._pipe, "wb") as pipe:
            pipe.write(json.dumps(row).encode())


class _NoFault(FaultAction["BranchPoint"]):
    """Fault action without effect: the place of a fault that the branch injects."""

    @override
    def inject(self) -> None:
        pass

    @override
    def clear(self) -> None:
        pass


class BranchPoint(FaultBase):
    """The moment at which a run branches: a child injects its own fault there, the parent none."""

    action_class = _NoFault
    _branches: Branches = PrivateAttr()

    def set_branches(self, branches: Branches) -> None:
        """Set the processes that branch off."""
        self._branches = branches

    @override
    def resolved(self, context: FaultContext) -> FaultBase:
        fault = self._branches.fork()
        return self if fault is None else fault.resolved(context)

    @override
    def text(self, fabric: Fabric) -> str:
        return "no fault"


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
    first, *others = faults.values()
    if any((other.name, other.at) != (first.name, first.at) for other in others):
        raise ValueError("faults that branch off one run have one name and begin at one trigger")
    point = BranchPoint.model_construct(name=first.name, at=first.at)
    made = Branches(faults, goes_on=calm is not None)
    point.set_branches(made)
    branched = loaded._replace(scenario=loaded.scenario.model_copy(update={"faults": [point]}))
    row = work.row_of(own, lambda: branched)
    if made.chosen:
        job = read[made.chosen][0]
        made.send({**row, "variant": job.variant, "values": dict(job.values), **_used(0.0)})
        os._exit(0)
    whole = [{**row, **_used(began)}] if calm is not None else []
    return [*made.rows.values(), *whole]


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
