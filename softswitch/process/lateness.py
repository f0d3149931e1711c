"""Lateness of the switch: a real one takes a frame when it comes, a process when it gets a CPU and the interpreter."""

from __future__ import annotations

import time
from collections.abc import Callable

STEP_SECONDS = 0.001
"""Change of the time of day against the time since boot that counts as a change by a user."""


class LongestWait:
    """The longest that a frame waited before the switch took it, since the last report.

    The kernel stamps frames with the time of day (`wall`); if that is set while the switch runs, `monotonic` shows it,
    and the frame does not count.
    """

    def __init__(self, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._wall, self._monotonic = wall, monotonic
        self._offset = wall() - monotonic()
        self._worst = 0.0

    def frame(self, seconds: int, nanoseconds: int) -> None:
        """Take the time at which the kernel received a frame."""
        late = self._wall() - seconds - nanoseconds * 1e-9
        if late > self._worst:
            offset = self._wall() - self._monotonic()
            if abs(offset - self._offset) < STEP_SECONDS:
                self._worst = late
            self._offset = offset

    def take(self) -> float:
        """Return the worst in seconds, and begin again."""
        worst, self._worst = self._worst, 0.0
        return worst
