"""No congestion control: only the PSN window limits a QP."""

from __future__ import annotations

from typing import Any, ClassVar

from mrclab.hosts.mrc.cc import CONTROLS, CongestionController, PathFacts


class NoControl(CongestionController):
    """No window: bytes in flight are counted, and everything is allowed."""

    name: ClassVar[str] = "none"

    def __init__(self, facts: PathFacts, now: float) -> None:
        self.inflight = 0

    def allows(self, size: int) -> bool:
        """Always."""
        return True

    def wants_ack(self) -> bool:
        """Never."""
        return False

    def on_send(self, size: int, now: float) -> None:
        """Count."""
        self.inflight += size

    def on_sack(self, newly: int, marked: bool, rtt: float | None, penalty: int, restore: bool, now: float) -> None:
        """Count."""
        self.inflight -= newly

    def on_nack(self, size: int, trimmed: bool, rtt: float | None, now: float) -> None:
        """Count."""
        self.inflight -= size

    def on_loss(self, size: int, now: float) -> None:
        """Count."""
        self.inflight -= size

    def on_requeue(self, size: int) -> None:
        """Count."""
        self.inflight -= size

    def snapshot(self) -> dict[str, Any]:
        """There is no window."""
        return {"cwnd": 0, "cc_inflight": self.inflight}


CONTROLS.register(NoControl)
