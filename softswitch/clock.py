"""Clock of a switch: the computer's, or one that the caller sets."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class SwitchClock:
    """Clock with any origin, in seconds and in nanoseconds.

    `timer_seconds` is the maximum error of a timer on this clock.
    """

    seconds: Callable[[], float]
    nanoseconds: Callable[[], int]
    timer_seconds: float


REAL = SwitchClock(time.monotonic, time.monotonic_ns, 100e-6)


class SetClock:
    """A clock that changes only when it is set. A switch with it is run by `inject` and `settle`, not by its loop."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.clock = SwitchClock(lambda: self.now_ns / 1e9, lambda: self.now_ns, 0.5e-9)
