"""Real-time scheduling (sched(7)) of the lab's processes, which emulate hardware that never waits for a CPU.

Niceness would not do: where the kernel groups processes by session it counts only inside one, and a task that has begun
its slice keeps it. Switches, NICs, and the lab itself while traffic runs take turns. The controller comes behind them,
since an audit would keep frames waiting for tens of milliseconds, and before all other work on the machine.
"""

import contextlib
import ctypes
import logging
import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

log = logging.getLogger(__name__)

CONTROL_PLANE = 1  # real-time priority of the controller
DATA_PLANE = 2  # of all others; softswitch, which can be had without the lab, sets the same
RUNTIME_LIMIT_S = 2.0  # seconds of CPU without sleeping after which a process is an ordinary one again
_PR_SET_TIMERSLACK = 29
_TIMER_SLACK_NS = 1000
_PROC = Path("/proc")


def use_realtime(priority: int, *, inherited: bool) -> bool:
    """Schedule all threads of this process in real time; return False, with a warning, without permission.

    `inherited`: by threads and processes that it starts from now on. One that runs for `RUNTIME_LIMIT_S` without
    sleeping gets SIGXCPU (RLIMIT_RTTIME) and goes on as an ordinary process, so that it cannot block the machine.
    """
    import resource  # noqa: PLC0415 - Unix alone has it

    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_TIMERSLACK, _TIMER_SLACK_NS, 0, 0, 0)
    policy = os.SCHED_RR if inherited else os.SCHED_RR | os.SCHED_RESET_ON_FORK
    try:
        resource.setrlimit(resource.RLIMIT_RTTIME, (int(RUNTIME_LIMIT_S * 1e6), resource.RLIM_INFINITY))
        signal.signal(signal.SIGXCPU, _step_down)
        for thread in _threads(os.getpid()):
            os.sched_setscheduler(thread, policy, os.sched_param(priority))
    except (OSError, ValueError) as error:
        log.warning("no real-time scheduling (%s); other work on the machine will delay this process", error)
        return False
    return True


def _step_down(_signal: int, _frame: object) -> None:
    _schedule(_threads(os.getpid()), os.SCHED_OTHER, 0)
    log.warning("ran for %g s without sleeping; going on without real-time scheduling", RUNTIME_LIMIT_S)


def to_real_time(pid: int) -> None:
    """Schedule all threads of a process ahead of ordinary ones, those it will make included, where that is allowed.

    A switch that gets the processor some milliseconds late looks like a slow link. Measured on two busy cores: the
    transfer over the fabric reaches 99 % of the line rate instead of 65 to 80 %.
    """
    _schedule(_threads(pid), os.SCHED_RR, DATA_PLANE)


def pin_to_cpu(pid: int, number: int) -> None:
    """Pin all threads of a real-time process to one CPU, the `number`-th (modulo their count) of those allowed.

    For threads that hand packets to each other: the kernel wakes a real-time thread on another CPU than the one that
    its waker runs on, an interrupt for each packet and thread. An ordinary process is left alone, as others could keep
    its CPU busy.
    """
    if not is_real_time(pid):
        return
    allowed = sorted(os.sched_getaffinity(0))
    for thread in _threads(pid):
        with contextlib.suppress(OSError):
            os.sched_setaffinity(thread, {allowed[number % len(allowed)]})


@contextmanager
def as_real_time() -> Iterator[None]:
    """Schedule all threads of this process ahead of ordinary ones inside the block, but nothing that they start.

    All of them: an ordinary thread that waits for a CPU may hold Python's lock.
    """
    changed = []
    for thread in _threads(os.getpid()):
        with contextlib.suppress(OSError):
            if os.sched_getscheduler(thread) == os.SCHED_OTHER:
                os.sched_setscheduler(thread, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(DATA_PLANE))
                changed.append(thread)
    try:
        yield
    finally:
        _schedule(changed, os.SCHED_OTHER, 0)


def is_prioritised() -> bool:
    """Return True if this thread is scheduled ahead of ordinary ones."""
    return os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK == os.SCHED_RR


def request_real_time() -> None:
    """Schedule this thread, and those that it starts, ahead of ordinary ones, where that is allowed."""
    _schedule([0], os.SCHED_RR, DATA_PLANE)


def is_real_time(pid: int) -> bool:
    """Return True if a thread of the process is scheduled ahead of ordinary ones."""
    for thread in _threads(pid):
        with contextlib.suppress(OSError):
            if os.sched_getscheduler(thread) & ~os.SCHED_RESET_ON_FORK == os.SCHED_RR:
                return True
    return False


def _schedule(threads: Iterable[int], policy: int, priority: int) -> None:
    """Set policy and priority of threads, of those that are there and where that is allowed."""
    for thread in threads:
        with contextlib.suppress(OSError):
            os.sched_setscheduler(thread, policy, os.sched_param(priority))


def _threads(pid: int) -> list[int]:
    try:
        return [int(entry.name) for entry in (_PROC / str(pid) / "task").iterdir()]
    except OSError:
        return []
