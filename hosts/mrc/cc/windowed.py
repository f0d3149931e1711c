"""Bases of congestion controls whose state is one window and the bytes in flight."""

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


@mypyc_attr(allow_interpreted_subclasses=True)
class AimdWindow(Windowed):
    """Additive increase, multiplicative decrease: `ai` packets more per RTT, and one cut per RTT at most.

    A loss or a trimmed packet takes the share `loss_cut` of the window.
    """

    def __init__(self, facts: PathFacts, now: float, max_cwnd: float, ai: float, loss_cut: float) -> None:
        super().__init__(facts, max_cwnd)
        self.rtt = facts.base_rtt  # of the last sample
        self._ai, self._loss_cut = ai, loss_cut
        self._cut_at = now

    def grow(self, newly: int) -> None:
        """Add the part of `ai` packets that these delivered bytes are of a window."""
        self.set_window(self.cwnd + self._ai * self.mtu * newly / self.cwnd)

    def cut(self, share: float, now: float) -> None:
        """Take a share of the window, unless an RTT has not gone by since the last time."""
        if now - self._cut_at >= self.rtt:
            self.set_window(self.cwnd * (1 - share))
            self._cut_at = now

    def on_nack(self, size: int, trimmed: bool, rtt: float | None, now: float) -> None:
        """Cut after a trimmed packet as after a loss."""
        self.inflight -= size
        if trimmed:
            self.cut(self._loss_cut, now)

    def on_loss(self, size: int, now: float) -> None:
        """Cut the window once per round trip."""
        self.inflight -= size
        self.cut(self._loss_cut, now)
