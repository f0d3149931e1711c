"""Processes the lab started: known by their environment, and by pid *and* start time, so that no other is ever killed.

Every process carries the run's token and base directory in its environment, and so do its children. That is what makes
a clean-up complete: a process that was forked in the very moment its parent was killed is in no list, but it has them.
"""

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from mrclab.rpc import peers

TOKEN_VARIABLE = "MRCLAB_RUN_TOKEN"
HOST_VARIABLE = "MRCLAB_HOST"  # of programs that run on a host, beside its agent
BASE_VARIABLE = "MRCLAB_RUN_BASE"  # the run's base directory, readable from /proc

_PROC = Path("/proc")
_STARTTIME_FIELD = 19  # of /proc/<pid>/stat, counted after the command name; in clock ticks since boot


def start_time(pid: int) -> int | None:
    """Return a process's start time in clock ticks since boot; None if there is none, or a zombie."""
    fields = peers.stat_fields(pid)
    return None if not fields or fields[0] in {"Z", "X"} else int(fields[_STARTTIME_FIELD])


def run_and_wait_ns(pid: int) -> tuple[int, int]:
    """Nanoseconds that a process has run, and has waited for a CPU, by schedstat; OSError or ValueError without it."""
    ran, waited, _ = (_PROC / str(pid) / "schedstat").read_text(encoding="ascii").split()
    return int(ran), int(waited)


def with_token(token: str, host: str = "") -> set[int]:
    """All processes whose environment carries this run's token; where a host is named, the programs on that host."""
    marks = {f"{TOKEN_VARIABLE}={token}".encode(), *([f"{HOST_VARIABLE}={host}".encode()] if host else [])}
    return {pid for pid, words in _environments() if marks <= words}


def of_labs() -> dict[Path, set[int]]:
    """Processes of all labs, running or killed, by base directory; of other users' only root sees any.

    One that sees another file system at that place, as in a container, belongs to another lab of the same path.
    """
    found: dict[Path, set[int]] = {}
    needle = f"{BASE_VARIABLE}=".encode()
    for pid, words in _environments():
        for base in (Path(os.fsdecode(word.removeprefix(needle))) for word in words if word.startswith(needle)):
            if start_time(pid) is not None and _sees_the_same(pid, base):
                found.setdefault(base, set()).add(pid)
    return found


def _environments() -> Iterator[tuple[int, set[bytes]]]:
    """Yield the processes whose environment can be read, with its words."""
    for entry in os.scandir(_PROC):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                yield int(entry.name), set((_PROC / entry.name / "environ").read_bytes().split(b"\0"))


def _sees_the_same(pid: int, path: Path) -> bool:
    """Return True if a process finds the same directory as we at a path, or at the nearest above it that we have."""
    there = next(place for place in (path, *path.parents) if place.exists())
    try:
        return os.path.samestat(there.stat(), os.stat(f"/proc/{pid}/root{there}"))  # noqa: PTH116 - a link of the kernel's
    except OSError:
        return False


def end(started: Mapping[int, int], grace: float = 0.0) -> set[int]:
    """End processes given as pid → start time, all at once; returns the pids that were alive.

    With `grace` they first get SIGTERM and that many seconds. A pid whose start time differs belongs to another process
    by now.
    """
    alive: dict[int, int] = {}  # pidfd → pid
    for pid, began in started.items():
        with contextlib.suppress(OSError):
            descriptor = os.pidfd_open(pid)
            if start_time(pid) == began:  # checked after the pidfd is held: it cannot become another process now
                alive[descriptor] = pid
            else:
                os.close(descriptor)
    ended = set(alive.values())
    if grace > 0:
        _signal(alive, signal.SIGTERM, signal.SIGCONT)
        _wait_gone(alive, grace)
    _signal(alive, signal.SIGKILL)
    _wait_gone(alive, 5.0)
    for descriptor in alive:
        os.close(descriptor)
    return ended


def end_all(token: str = "", base: Path | None = None) -> set[int]:
    """End all processes of a run, by its token, or of any run by its base directory; return their pids."""
    ended: set[int] = set()
    for _ in range(20):  # a process may fork while we look; its child has the marks and is found on the next round
        marked = of_labs().get(base, set()) if base else with_token(token)
        found = {pid: began for pid in marked - {os.getpid()} if (began := start_time(pid)) is not None}
        if not found:
            break
        ended |= end(found)
    return ended


def _signal(alive: Mapping[int, int], *signals: signal.Signals) -> None:
    for descriptor in alive:
        for number in signals:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(descriptor, number)


def _wait_gone(alive: dict[int, int], timeout: float) -> None:
    """Wait until all are gone (a zombie is), at most `timeout` seconds; those that are leave `alive`."""
    poller = select.poll()
    for descriptor in alive:
        poller.register(descriptor, select.POLLIN)
    deadline = time.monotonic() + timeout
    while alive and (left := deadline - time.monotonic()) > 0:
        for descriptor, _event in poller.poll(left * 1000):
            poller.unregister(descriptor)
            os.close(descriptor)
            del alive[descriptor]


def wait_for_end(pids: Iterable[int], seconds: float | None = None) -> None:
    """Wait until one of some processes has ended, at most some seconds. One that is not there any more is left out."""
    poller, descriptors = select.poll(), []
    for pid in pids:
        with contextlib.suppress(OSError):
            descriptors.append(os.pidfd_open(pid))
            poller.register(descriptors[-1], select.POLLIN)
    try:
        if descriptors:
            poller.poll(None if seconds is None else seconds * 1000)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def ending(status: int) -> str:
    """Describe how a process ended."""
    if status >= 0:
        return f"ended with status {status}"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"was killed by signal {-status}"


def last_line(log: Path) -> str:
    """Return the last line of a log."""
    lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
    return lines[-1] if lines else "it wrote nothing"
