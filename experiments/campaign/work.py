"""Worker processes: each takes a run at a time, and its row comes back. One that dies costs no row."""

import contextlib
import math
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as any_ready
from pathlib import Path

from mrclab.experiments.campaign.journal import Row
from mrclab.experiments.campaign.plan import Job
from mrclab.lab.errors import Interrupted, LabError
from mrclab.lab.run import runner
from mrclab.lab.scenario import scenario
from mrclab.topo.errors import TopoError

Do = Callable[[Job], Row]

END_WITHIN = 5.0  # seconds that a worker has to remove what its run wrote


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


def rows(jobs: Iterable[Job], workers: int, do: Do = run) -> Iterator[tuple[Job, Row]]:
    """Rows of all jobs as they come. No more jobs are drawn than workers can take.

    A job whose worker died is run once more when all others are through, alone on the machine; one that kills its
    worker again gets a row that says so.
    """
    suspects: list[Job] = []
    for job, row in _once(jobs, workers, do):
        if row is None:
            suspects.append(job)
        else:
            yield job, row
    for job, row in _once(suspects, 1, do):
        yield job, row or _killed(job)


def _once(jobs: Iterable[Job], workers: int, do: Do) -> Iterator[tuple[Job, Row | None]]:
    """Every job with its row, or without one where its worker died."""
    waiting = iter(jobs)
    idle: list[_Worker] = []
    busy: dict[Connection, _Worker] = {}
    try:
        while True:
            while len(busy) < workers and (job := next(waiting, None)) is not None:
                worker = idle.pop() if idle else _Worker(do)
                busy[worker.line] = worker
                worker.take(job)
            if not busy:
                return
            for line in any_ready(list(busy)):
                assert isinstance(line, Connection)
                worker = busy.pop(line)
                job, row = worker.job, worker.row()
                if row is None:
                    worker.end()
                else:
                    idle.append(worker)
                yield job, row
    finally:
        for worker in [*idle, *busy.values()]:
            worker.end()


class _Worker:
    """A process that takes a job at a time through a pipe: whose job is lost when one dies is never in doubt."""

    job: Job

    def __init__(self, do: Do) -> None:
        context = multiprocessing.get_context("spawn")
        self.line, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, do), daemon=True)
        self._process.start()
        theirs.close()  # so that the pipe ends with the process

    def take(self, job: Job) -> None:
        """Begin a job; where the process is dead already, `row` says so."""
        self.job = job
        with contextlib.suppress(OSError):
            self.line.send(job)

    def row(self) -> Row | None:
        """The row of the job, waited for; None when the process died of it."""
        try:
            row: Row = self.line.recv()
        except (EOFError, OSError):
            return None
        return row

    def end(self) -> None:
        """End the process, whatever it does; what it wrote for a run goes with it."""
        self.line.close()
        self._process.terminate()
        self._process.join(END_WITHIN)
        self._process.kill()
        self._process.join()


def _serve(line: Connection, do: Do) -> None:
    """A worker's life: jobs in, rows out, until the pipe or the parent ends. Ctrl-C is for the parent to hear."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_follow, args=(parent.sentinel,), daemon=True).start()
    while True:
        try:
            job = line.recv()
        except EOFError:
            return
        line.send(do(job))


def _follow(parent: int) -> None:
    """Nobody would take the rows of a worker whose parent was killed."""
    any_ready([parent])
    os._exit(1)


def _killed(job: Job) -> Row:
    row: Row = {"variant": job.variant, "seed": job.seed, "values": dict(job.values), "state": "broken"}
    return {**row, "trouble": "its worker process died", "verdicts": {}, "seconds": 0.0}
