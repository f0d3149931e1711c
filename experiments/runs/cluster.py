"""Workers of a Ray cluster: runs as Ray tasks. A worker that dies costs no row."""

import importlib
import importlib.util
import logging
import re
import socket
from collections.abc import Callable, Generator, Iterable, Iterator
from types import ModuleType
from typing import Any

from mrclab.experiments.runs import batch
from mrclab.experiments.runs.batch import J, R
from mrclab.lab.errors import Refused

_TASKS_PER_CPU = 2  # tasks submitted per CPU of the cluster, so that none is idle between two
_CONNECT_TIMEOUT = 10.0  # seconds; Ray itself would try for minutes
_HOST_PORT = re.compile(r"(?:ray://)?\[?(?P<host>[^\[\]/]+?)\]?:(?P<port>\d+)")


def rows(
    jobs: Iterable[J], address: str, workers: int | None, do: Callable[[J], R], killed: Callable[[J], R]
) -> Generator[tuple[J, R], None, None]:
    """Yield rows of all jobs as they complete, at most `workers` at a time; Refused if a worker has another mrclab."""
    ray = _connect(address)
    try:
        yield from batch.rows(jobs, lambda some, most: _run_tasks(ray, some, min(workers or most, most), do), killed)
    finally:
        ray.shutdown()


def _connect(address: str) -> ModuleType:
    """Ray as a client of the cluster."""
    if importlib.util.find_spec("ray") is None:
        raise Refused("--ray needs Ray, which is not installed: pip install '.[ray]'")
    if match := _HOST_PORT.fullmatch(address):
        try:
            socket.create_connection((match["host"], int(match["port"])), _CONNECT_TIMEOUT).close()
        except (OSError, OverflowError) as error:
            raise Refused(f"--ray {address}: no cluster answers there ({error}); `ray status` knows it") from None
    ray = importlib.import_module("ray")  # an extra, and slow to load
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise Refused(f"--ray {address}: {' '.join(str(error).split())}") from None
    return ray


def _run_tasks(ray: ModuleType, jobs: Iterable[J], most: int, do: Callable[[J], R]) -> Iterator[tuple[J, R | None]]:
    """Yield every job with its row; None if its worker or node died."""
    from mrclab.experiments.runs import remote  # noqa: PLC0415 - needs Ray

    ray.cloudpickle.register_pickle_by_value(remote)
    task = ray.remote(num_cpus=1, max_retries=0)(remote.run)
    expected = remote.identity()
    waiting = iter(jobs)
    running: dict[Any, J] = {}
    while True:
        limit = min(most, _TASKS_PER_CPU * max(1, int(ray.cluster_resources().get("CPU", 0))))
        while len(running) < limit and (job := next(waiting, None)) is not None:
            running[task.remote(ray.cloudpickle.dumps((do, job)), expected)] = job
        if not running:
            return
        ray.wait(list(running))
        for result in ray.wait(list(running), num_returns=len(running), timeout=0)[0]:
            job = running.pop(result)
            row: R | None = _row(ray, result, expected)
            yield job, row


def _row(ray: ModuleType, result: Any, expected: str) -> Any:
    """Return the row of a task; None where its worker died."""
    try:
        row, refusal = ray.get(result)
    except ray.exceptions.RayTaskError as error:
        raise Refused(f"a worker on Ray could not begin: {error.cause!r}") from None
    except ray.exceptions.RayError:
        return None
    if refusal:
        raise Refused(f"a worker on {refusal}, this is {expected}; install the same on every node of the cluster")
    return row
