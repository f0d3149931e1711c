"""Worker processes: each takes a run at a time, and its row comes back. One that dies costs no row."""

import math
import multiprocessing
import os
import signal
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait as any_ready
from pathlib import Path

from mrclab.experiments.campaign.journal import Row
from mrclab.experiments.campaign.plan import Job
from mrclab.lab.errors import Interrupted, LabError
from mrclab.lab.run import runner
from mrclab.lab.scenario import scenario
from mrclab.topo.errors import TopoError

Do = Callable[[Job], Row]


def run(job: Job) -> Row:
    """Do one run and keep nothing of it but its row."""
    began = time.monotonic()
    loaded = scenario.with_seed(scenario.loads(job.text, job.source), job.seed)
    row: Row = {"variant": job.variant, "seed": job.seed, "values": dict(job.values), "state": "broken", "trouble": ""}
    row["verdicts"] = {}
    try:
        with tempfile.TemporaryDirectory(prefix="mrclab-") as folder:
            outcome = runner.run_scenario(loaded, Path(folder), _unseen, _unheard, report=False)
    except Interrupted:
        raise
    except (LabError, TopoError) as error:
        row["trouble"] = str(error)
    except Exception as error:  # whatever it is: the row names the run that replays it
        row["trouble"] = f"{type(error).__name__}: {error}"
    else:
        row["state"], row["trouble"] = outcome.state, outcome.trouble
        for verdict in outcome.verdicts:
            if outcome.trouble and verdict.kind == "run":
                continue
            value = verdict.value if verdict.value is not None and math.isfinite(verdict.value) else None
            told = {"ok": verdict.ok, "value": value, "unit": verdict.unit, "wanted": verdict.wanted}
            row["verdicts"][_free(verdict.kind, row["verdicts"])] = {**told, "saw": verdict.saw}
    row["seconds"] = round(time.monotonic() - began, 3)
    return row


def _free(name: str, taken: Iterable[str]) -> str:
    """A name of its own for every expectation of a kind."""
    number = sum(other.split(" #")[0] == name for other in taken)
    return f"{name} #{number + 1}" if number else name


def _unseen(*_: object) -> None:
    """Nobody watches the progress of a single run."""


def _unheard(_: str) -> None:
    """Nor hears what it says."""


def _begin_worker() -> None:
    """A worker whose parent was killed ends: nobody would take its rows. Ctrl-C is for the parent to hear."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        any_ready([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def rows(jobs: Iterable[Job], workers: int, do: Do = run) -> Iterator[tuple[Job, Row]]:
    """Rows of all jobs as they come. No more jobs are drawn than workers can take.

    When a worker dies, nobody knows which of the jobs under way killed it: they are run again one at a time, and one
    that kills its worker alone gets a row that says so.
    """
    waiting = iter(jobs)
    suspects: deque[Job] = deque()
    while True:
        alone = bool(suspects)
        under_way: dict[Future[Row], Job] = {}
        drawn = _drawn(suspects) if alone else waiting
        pool = _pool(1 if alone else workers)
        try:
            yield from _through(pool, do, drawn, 1 if alone else workers, under_way)
        except BrokenProcessPool:
            yield from _finished(under_way)
            if alone:
                yield from ((job, _killed(job)) for job in under_way.values())
            else:
                suspects.extend(under_way.values())
            continue
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
        if not alone:
            return


def _through(
    pool: ProcessPoolExecutor, do: Do, jobs: Iterator[Job], workers: int, under_way: dict[Future[Row], Job]
) -> Iterator[tuple[Job, Row]]:
    """Rows of jobs from one pool; what it leaves in `under_way` when it breaks has no row yet."""
    while True:
        while len(under_way) < workers and (job := next(jobs, None)) is not None:
            future = _submitted(pool, do, job)
            under_way[future] = job
        if not under_way:
            return
        for future in wait(under_way, return_when=FIRST_COMPLETED).done:
            row = future.result()
            yield under_way.pop(future), row


def _submitted(pool: ProcessPoolExecutor, do: Do, job: Job) -> Future[Row]:
    """Give a job to a pool; where that is broken already, the job is among those that have no row."""
    try:
        return pool.submit(do, job)
    except BrokenProcessPool as error:
        future: Future[Row] = Future()
        future.set_exception(error)
        return future


def _drawn(jobs: deque[Job]) -> Iterator[Job]:
    while jobs:
        yield jobs.popleft()


def _finished(under_way: dict[Future[Row], Job]) -> Iterator[tuple[Job, Row]]:
    """Rows that came before the pool broke; they are no suspects."""
    for future in [future for future in under_way if future.done() and future.exception() is None]:
        yield under_way.pop(future), future.result()


def _killed(job: Job) -> Row:
    row: Row = {"variant": job.variant, "seed": job.seed, "values": dict(job.values), "state": "broken"}
    return {**row, "trouble": "its worker process died", "verdicts": {}, "seconds": 0.0}


def _pool(workers: int) -> ProcessPoolExecutor:
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(workers, mp_context=context, initializer=_begin_worker)
