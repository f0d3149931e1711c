"""Batch engine: does the jobs that have no row, and keeps each row as it comes. A worker that dies costs no row."""

import contextlib
import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Protocol, TypeVar

from mrclab.experiments.runs.store import Row, RunStore
from mrclab.lab.errors import RunError

MACHINE_FAILED = "machine failed"
"""State of a run that failed because of the machine, not the network: its row is not kept, and the batch ends."""


class BatchJob(Protocol):
    """A run of a batch."""

    @property
    def key(self) -> str:
        """Identity of the run: equal in every process."""

    @property
    def replay(self) -> str:
        """Command that does it again."""


J = TypeVar("J")
R = TypeVar("R")
B = TypeVar("B", bound=BatchJob)

RunEach = Callable[[Iterable[J], int], Iterator[tuple[J, R | None]]]
"""Workers: run every job once, at most this many at a time; yield each with its row, or None if its worker died."""


def missing(store: RunStore, jobs: Iterable[B]) -> Iterator[B]:
    """Yield the jobs that have no row."""
    return (job for job in jobs if job.key not in store)


def keep(store: RunStore, rows: Generator[tuple[B, Row], None, None]) -> Generator[tuple[B, Row], None, None]:
    """Yield rows as they come, each once it is on the disk; RunError where the machine kept a run from its end."""
    with contextlib.closing(rows):
        for job, row in rows:
            if row["state"] == MACHINE_FAILED:
                raise RunError(f"{row['error']}; the same command goes on with `{job.replay}`")
            store.append(row)
            yield job, row


def rows(jobs: Iterable[J], run_each: "RunEach[J, R]", killed: Callable[[J], R]) -> Generator[tuple[J, R], None, None]:
    """Yield rows of all jobs as they come. No more jobs are drawn than workers can take.

    A job whose worker died is run once more when all others are through, with no other beside it; one that kills its
    worker again gets the row that `killed` makes.
    """
    suspects: list[J] = []
    for job, row in run_each(jobs, sys.maxsize):
        if row is None:
            suspects.append(job)
        else:
            yield job, row
    if suspects:
        for job, row in run_each(suspects, 1):
            yield job, killed(job) if row is None else row
