"""Lateness of the controller: its event loop woken later than requested, by the machine or by work of its own."""

import asyncio
import time

from mrclab.controller.history import ControllerHistory
from mrclab.events.controller import ControllerPulse

BEAT_S = 0.02  # seconds between two wake-ups of the loop
REPORT_S = 0.25  # seconds between two records


class WorstLateness:
    """The worst since it was last taken. Times are of one clock, in seconds."""

    def __init__(self) -> None:
        self._worst, self._at = 0.0, 0.0

    def woken(self, due: float, now: float) -> None:
        """The loop was to be woken at `due` and was at `now`."""
        if now - due >= self._worst:
            self._worst, self._at = max(0.0, now - due), now

    def take(self) -> tuple[float, float]:
        """(seconds, when it ended) of the worst; (0, 0) where the loop was never woken since."""
        found, self._worst, self._at = (self._worst, self._at), 0.0, 0.0
        return found


async def run(history: ControllerHistory) -> None:
    """Write `pulse` records until cancelled: `late` seconds at most since the one before, `at` the time at which that
    ended, `cpu` seconds that the process has used.
    """
    lateness, reported = WorstLateness(), time.monotonic()
    while True:
        due = time.monotonic() + BEAT_S
        await asyncio.sleep(BEAT_S)
        now = time.monotonic()
        lateness.woken(due, now)
        if now - reported >= REPORT_S:
            late, at = lateness.take()
            reported = now
            history.record(ControllerPulse(late=round(late, 6), at=at, cpu=round(time.process_time(), 3)))
