"""Real-time scheduling of the whole process (sched(7)), so that other load does not disturb a switch's timing.

All threads get it: only one at a time holds the interpreter lock, and the forwarding thread must not wait for a holder
that gets no CPU. If a thread runs for seconds without blocking, the kernel signals it (RLIMIT_RTTIME), and the process
gives up real-time scheduling, so that it cannot stall the machine.
"""

from __future__ import annotations

import contextlib
import logging
import os
import resource
import signal
from pathlib import Path

log = logging.getLogger(__name__)

PRIORITY = 2  # before the controller, whose 1 comes before all other work
UNBLOCKED_SECONDS = 2


def set_realtime_priority() -> bool:
    """Give this process real-time priority; return False, and log a warning, where that is not allowed.

    Threads started later inherit it, so this comes before the server starts its own.
    """
    try:
        resource.setrlimit(resource.RLIMIT_RTTIME, (UNBLOCKED_SECONDS * 1_000_000, resource.RLIM_INFINITY))
        signal.signal(signal.SIGXCPU, _step_down)
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(PRIORITY))
    except (OSError, ValueError) as error:
        log.warning("no real-time scheduling: %s", error)
        return False
    return True


def _step_down(_signal: int, _frame: object) -> None:
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            os.sched_setscheduler(int(task.name), os.SCHED_OTHER, os.sched_param(0))
    log.warning("ran for %d s without blocking: real-time scheduling is given up", UNBLOCKED_SECONDS)
