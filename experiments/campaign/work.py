"""A run of a campaign, and its row."""

import math
import os
import tempfile
import time
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any

from mrclab.experiments.campaign.journal import Journal
from mrclab.experiments.campaign.plan import Job
from mrclab.experiments.runs import batch, cluster, processes
from mrclab.experiments.runs.batch import MACHINE_FAILED
from mrclab.experiments.runs.store import Row
from mrclab.lab.errors import Interrupted, LabError, NoRoom, by_machine, exhausted
from mrclab.lab.measure.measures import Measures
from mrclab.lab.measure.traffic import slowdown
from mrclab.lab.report import results
from mrclab.lab.run import runner
from mrclab.lab.scenario import scenario
from mrclab.lab.scenario.scenario import Loaded
from mrclab.topo.errors import TopoError


def run(job: Job) -> Row:
    """Do one run and keep nothing of it but its row."""
    row = row_of(job, lambda: scenario.with_seed(job.setting.loaded(), job.seed))
    results.free_runs()
    return row


def row_of(job: Job, read: Callable[[], Loaded]) -> Row:
    """Do the run that `read` returns; return the job's row in any case."""
    began = time.monotonic()
    row: Row = {"variant": job.variant, "seed": job.seed, "values": dict(job.values), "state": "aborted", "error": ""}
    row["verdicts"] = {}
    try:
        outcome = runner.measure(read(), Path(tempfile.gettempdir()), lambda *_: None, lambda _: None)
    except Interrupted:
        raise
    except OSError as error:
        row["state"] = MACHINE_FAILED if by_machine(error) else "aborted"
        row["error"] = f"{error.filename or tempfile.gettempdir()}: {error.strerror or error}"
    except NoRoom as error:
        row["state"], row["error"] = MACHINE_FAILED, str(error).replace("--results", "TMPDIR")
    except (LabError, TopoError) as error:
        row["error"] = "; ".join(str(error).splitlines())
    except Exception as error:  # whatever it is: the row names the run that replays it
        row["state"] = MACHINE_FAILED if by_machine(error) else "aborted"
        row["error"] = exhausted(error) or f"{type(error).__name__}: {error}"
    else:
        row["state"], row["error"] = outcome.state, outcome.error
        for verdict in outcome.verdicts:
            if outcome.error and verdict.kind == "run":
                continue
            value = verdict.value if verdict.value is not None and math.isfinite(verdict.value) else None
            judged = {"ok": verdict.ok, "value": value, "unit": verdict.unit, "expected": verdict.expected}
            row["verdicts"][_free(verdict.kind, row["verdicts"])] = {**judged, "observed": verdict.observed}
        if job.setting.flows:
            row["flows"] = _flows(outcome.measures)
    row["seconds"] = round(time.monotonic() - began, 3)
    return row


def _flows(measures: Measures) -> list[list[Any]]:
    """Return [traffic, bytes, began, ended, slowdown] of each flow, in seconds; the last two None where it failed."""
    ended = measures.completions.flows
    found: list[list[Any]] = [
        [one.traffic, one.size, one.posted, one.done, round(slowdown.of(measures.fabric, one), 6)] for one in ended
    ]
    well = {one.flow for one in ended}
    failed = {r["flow"]: r for r in measures.history.of("flow.end") if r.get("error")}
    missing = [[one.traffic, one.size, one.begin, None, None] for one in measures.flows if one.name not in well]
    known = {one.name for one in measures.flows}
    gone = [[r["traffic"], 0, r.t, None, None] for name, r in failed.items() if name not in known]
    return [*found, *missing, *gone]


def _free(name: str, taken: Iterable[str]) -> str:
    """A name of its own for every expectation of a kind."""
    number = sum(other.split(" #")[0] == name for other in taken)
    return f"{name} #{number + 1}" if number else name


def done(
    table: Journal, jobs: Iterable[Job], workers: int | None = None, ray: str = ""
) -> Generator[tuple[Job, Row], None, None]:
    """Do the jobs that have no row, on worker processes (None: one per CPU) or a Ray cluster; yield each that is kept.

    Raises RunError where the machine kept a run from its end.
    """
    left = batch.missing(table, jobs)
    if ray:
        return batch.keep(table, cluster.rows(left, ray, workers, run, killed))
    return batch.keep(table, processes.rows(left, workers or os.cpu_count() or 1, run, killed))


def killed(job: Job) -> Row:
    """Return the row of a run that ended its worker twice."""
    row: Row = {"variant": job.variant, "seed": job.seed, "values": dict(job.values), "state": "aborted"}
    return {**row, "error": "its worker process died", "verdicts": {}, "seconds": 0.0}
