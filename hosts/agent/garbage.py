"""Garbage collection of an agent, done while its NIC is idle.

A full collection takes a process of this size 50 to 100 ms, and agents with equal work reach it at the same moment,
so that on few cores all of them are late by several times that. Sending and receiving makes no cycles; garbage of
other operations, such as refused ones, can wait.
"""

from __future__ import annotations

import gc
from collections.abc import Callable

INTERVAL_S = 1.0
QUIET_FRAMES = 100
"""A NIC counts as idle if it sent and received fewer frames since the last tick: probes and link checks."""

_NEW_OBJECTS = 10_000  # fewer are not worth a check


class Collector:
    """Switches the automatic collector off; `tick` is to be called every INTERVAL_S. `frames`: sent and received."""

    def __init__(self, frames: Callable[[], int]) -> None:
        self._frames = frames
        self._seen = 0
        gc.collect()
        gc.freeze()
        gc.disable()

    def tick(self, _now: float) -> None:
        """Collect if the NIC is idle and there may be garbage."""
        seen, self._seen = self._seen, self._frames()
        if self._seen - seen < QUIET_FRAMES and gc.get_count()[0] > _NEW_OBJECTS:
            gc.collect()
