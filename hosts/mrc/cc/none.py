"""No congestion control: only the PSN window limits a QP."""

from __future__ import annotations

from typing import Any, ClassVar

from mrclab.hosts.mrc.cc import CONTROLS, CongestionController, PathFacts


class NoControl(CongestionController):
    """No window: bytes in flight are counted, and everything is allowed."""

    name: ClassVar[str] = "none"

    def __init__(self, facts: PathFacts, now: float) -> None:
        """There is nothing to configure."""

    def allows(self, size: int) -> bool:
        """Always."""
        return True

    def wants_ack(self) -> bool:
        """Never."""
        return False

    def snapshot(self) -> dict[str, Any]:
        """There is no window."""
        return {"cwnd": 0, "cc_inflight": int(self.inflight)}


CONTROLS.register(NoControl)
