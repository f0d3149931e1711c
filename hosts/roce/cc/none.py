"""No rate control: a QP sends at line rate."""

from __future__ import annotations

from typing import ClassVar

from mrclab.hosts.roce.cc import CONTROLS, RateControl, RateFacts


class NoRateControl(RateControl):
    """Line rate always; CNPs are counted by the QP and have no effect."""

    name: ClassVar[str] = "none"

    def __init__(self, facts: RateFacts, now: float) -> None:
        self._line_rate = facts.line_rate

    def rate(self, now: float) -> float | None:
        """No limit."""
        return None

    def snapshot(self) -> dict[str, float]:
        """The line rate."""
        return {"rate": round(self._line_rate)}


CONTROLS.register(NoRateControl)
