"""Worker processes of this machine: each takes a job at a time through a pipe of its own."""

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as any_ready
from typing import TYPE_CHECKING, Any, Generic

from mrclab.experiments.runs import batch
from mrclab.experiments.runs.batch import J, R
from mrclab.lab.errors import Interrupted, LabError

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerContext, SpawnContext

END_WITHIN = 5.0  # seconds that a worker has to remove what its run wrote


def rows(
    jobs: Iterable[J], workers: int, do: Callable[[J], R], killed: Callable[[J], R]
) -> Generator[tuple[J, R], None, None]:
    """Yield rows of all jobs as they complete, from at most `workers` processes; `do` is a function of a module."""
    return batch.rows(jobs, lambda some, most: _run_each(some, min(workers, most), do), killed)


def _run_each(jobs: Iterable[J], workers: int, do: Callable[[J], R]) -> Iterator[tuple[J, R | None]]:
    """Yield every job with its row; None where its worker died."""
    waiting = iter(jobs)
    idle: list[_Worker[J, R]] = []
    busy: dict[Connection, _Worker[J, R]] = {}
    some_began = False
    try:
        while True:
            while len(busy) < workers and (job := next(waiting, None)) is not None:
                worker = idle.pop() if idle else _Worker(do)
                busy[worker.pipe] = worker
                worker.take(job)
            if not busy:
                return
            for pipe in any_ready(list(busy)):
                assert isinstance(pipe, Connection)
                if not busy[pipe].began and busy[pipe].begin():
                    some_began = True
                    continue
                if not some_began:
                    raise LabError(
                        "a worker process ended before it could begin; a program of your own needs the guard"
                        ' `if __name__ == "__main__":` around what it does, as for every use of multiprocessing'
                    )
                worker = busy.pop(pipe)
                job, row = worker.job, worker.row()
                if row is None:
                    worker.end()
                else:
                    idle.append(worker)
                yield job, row
    finally:
        for worker in [*idle, *busy.values()]:
            worker.end()


class _Worker(Generic[J, R]):
    """A process that takes one job at a time through a pipe, so that it is known which job is lost when it dies."""

    job: J
    began = False

    def __init__(self, do: Callable[[J], R]) -> None:
        context = _context(do.__module__)
        self.pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, do), daemon=True)
        self._process.start()
        theirs.close()  # so that the pipe ends with the process

    def begin(self) -> bool:
        """Take the process's notice that it began; return False where it died before."""
        with contextlib.suppress(EOFError, OSError):
            self.pipe.recv()
            self.began = True
        return self.began

    def take(self, job: J) -> None:
        """Begin a job; where the process is dead already, `row` returns None."""
        self.job = job
        with contextlib.suppress(OSError):
            self.pipe.send(job)

    def row(self) -> R | None:
        """Wait for the row of the job; None when the process died of it."""
        try:
            row: R = self.pipe.recv()
        except (EOFError, OSError):
            return None
        return row

    def end(self) -> None:
        """Kill the process; files of its run are removed."""
        self.pipe.close()
        self._process.terminate()
        self._process.join(END_WITHIN)
        self._process.kill()
        self._process.join()


def _context(module: str) -> "ForkServerContext | SpawnContext":
    """Return how workers start: forked, where that can be, from a process that has imported a job's modules once."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([module, "mrclab.lab.run.virtual", "mrclab.lab.measure.measures"])
    return context


def _serve(pipe: Connection, do: Callable[[Any], Any]) -> None:
    """Serve jobs, a row for each, until the pipe or the parent ends. The parent handles Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_follow, args=(parent.sentinel,), daemon=True).start()
    pipe.send(None)
    while True:
        try:
            job = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send(do(job))
        except Interrupted:  # the parent has said why
            return


def _follow(parent: int) -> None:
    """Exit when the parent ends: nobody would read the rows."""
    any_ready([parent])
    os._exit(1)
