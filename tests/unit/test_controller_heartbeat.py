"""The controller tells how late its event loop was."""

import asyncio
import time

import pytest

from mrclab.controller.wire import app
from mrclab.events.event import Event


class Records:
    """A history that only keeps."""

    def __init__(self) -> None:
        self.told: list[tuple[str, dict[str, float]]] = []

    def record(self, event: Event) -> None:
        self.told.append((event.kind, event.fields()))


def test_a_loop_that_stood_still_is_told_of_when_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "REPORT_S", 0.0)  # at every beat
    still, history = 0.3, Records()

    async def stand_still() -> tuple[float, float, dict[str, float]]:
        task = asyncio.create_task(app.record_lateness(history))  # type: ignore[arg-type]
        while not history.told:
            await asyncio.sleep(0)
        began = time.monotonic()
        time.sleep(still)  # the loop is to stop
        ended, known = time.monotonic(), len(history.told)
        while len(history.told) == known:
            await asyncio.sleep(0)
        task.cancel()
        return began, ended, history.told[known][1]

    began, ended, told = asyncio.run(stand_still())
    assert {kind for kind, _ in history.told} == {"heartbeat"}
    assert told["late"] >= still - app.BEAT_S
    assert told["at"] - told["late"] <= began + app.BEAT_S
    assert told["at"] >= ended
    assert told["cpu"] > 0
