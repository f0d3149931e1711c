"""Base of congestion controls whose state is one window and the bytes in flight."""

from __future__ import annotations

from typing import Any

from mypy_extensions import mypyc_attr

from mrclab.hosts.mrc.cc import MAX_WINDOW_BDPS, CongestionController, PathFacts


@mypyc_attr(allow_interpreted_subclasses=True)
class Windowed(CongestionController):
    """A window in bytes, `cwnd`, of one packet at least; the first packet may always go."""

    def __init__(self, facts: PathFacts, max_cwnd: float) -> None:
        self.mtu = facts.mtu
        self.base_rtt = facts.base_rtt
        self.max_cwnd = max(max_cwnd or MAX_WINDOW_BDPS * facts.bdp, float(facts.mtu))
        self.cwnd = self.max_cwnd

    def allows(self, size: int) -> bool:
        """Room for one more packet; always for the first."""
        return self.inflight <= 0 or self.inflight + self.mtu <= self.cwnd

    def wants_ack(self) -> bool:
        """The window is about to close."""
        return self.cwnd - self.inflight < self.mtu or self.cwnd < 8 * self.mtu

    def set_window(self, cwnd: float) -> None:
        """Set it within its limits."""
        self.cwnd = min(max(cwnd, float(self.mtu)), self.max_cwnd)

    def snapshot(self) -> dict[str, Any]:
        """Window and bytes in flight."""
        return {"cwnd": int(self.cwnd), "cc_inflight": int(self.inflight), "base_rtt": self.base_rtt}
