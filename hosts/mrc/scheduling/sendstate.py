"""Scheduling state of a QP."""

from enum import Enum


class SendState(Enum):
    """Scheduling state of a QP."""

    RUNNABLE = 0  # its windows are open
    WINDOW_BLOCKED = 1  # there is no room in the window of its destination
    IDLE = 2  # it has nothing to send, or waits for feedback of its own
