"""Real-time scheduling of a host agent, which emulates NIC hardware that never waits for a CPU.

The process asks for round-robin real-time scheduling (sched(7)). Niceness would not do: where the kernel groups
processes by session it counts only inside one, and a task that has begun its slice keeps it. A process that runs for
seconds without sleeping gets SIGXCPU (RLIMIT_RTTIME) and drops to normal scheduling, so that it cannot block the
machine.
"""

import ctypes
import logging
import os
import resource
import signal

log = logging.getLogger(__name__)

PRIORITY = 1
WITHOUT_REST_S = 2.0
_PR_SET_TIMERSLACK = 29
_TIMER_SLACK_NS = 1000


def use_realtime() -> bool:
    """Schedule this process in real time; return False, with a warning, without permission."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_TIMERSLACK, _TIMER_SLACK_NS, 0, 0, 0)
    microseconds = int(WITHOUT_REST_S * 1e6)
    try:
        resource.setrlimit(resource.RLIMIT_RTTIME, (microseconds, resource.RLIM_INFINITY))
        signal.signal(signal.SIGXCPU, _step_down)
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(PRIORITY))
    except (OSError, ValueError) as error:
        log.warning("no real-time scheduling (%s); a busy machine will delay frames", error)
        return False
    return True


def _step_down(_signal: int, _frame: object) -> None:
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    log.warning("ran for %g s without rest; going on without real-time scheduling", WITHOUT_REST_S)
