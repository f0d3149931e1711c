"""HPCC: a window from the inflight bytes that switches report (Li et al., HPCC, SIGCOMM 2019, Algorithm 1).

Every ACK brings the egress ports of its packet's path: U is the largest of their inflight bytes over the
bandwidth-delay product, smoothed over a base RTT. Where U is eta or more, or after `max_stage` additive steps, the
window is the reference window times eta / U; else it grows by W_AI. The reference is replaced once per RTT, so that
each ACK may act and none is counted twice. It needs telemetry, so virtual time, and an ACK for each packet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from mypy_extensions import mypyc_attr

from mrclab.hosts.roce.cc import CONTROLS, RateControl, RateFacts
from mrclab.hosts.roce.telemetry import Hop
from mrclab.topo.config.registry import Setting


@mypyc_attr(allow_interpreted_subclasses=True)
class Hpcc(RateControl):
    """HPCC: window and rate from the inflight bytes that switches write into packets (INT)."""

    name: ClassVar[str] = "hpcc"
    telemetry: ClassVar[bool] = True
    settings: ClassVar[Mapping[str, Setting]] = {
        "eta": Setting("share of a link that is to be used", 0.1, 1.0),
        "max_stage": Setting("additive steps in a row", 0.0, 1e6),
        "flows": Setting("flows of a link that W_AI is for: (1 - eta) BDP / flows", 1.0, 1e6),
        "ai": Setting("bytes of W_AI; default as flows say"),
    }

    def __init__(
        self,
        facts: RateFacts,
        now: float,
        eta: float = 0.95,
        max_stage: float = 5.0,
        flows: float = 100.0,
        ai: float = 0.0,
    ) -> None:
        self._rtt = facts.base_rtt
        self._line_rate = facts.line_rate
        self._eta = eta
        self._max_stage = max_stage
        self._most = facts.line_rate * facts.base_rtt
        self._ai = ai or self._most * (1 - eta) / flows
        self.cwnd = self.reference = self._most
        self.utilisation = 1.0
        self._stage = 0
        self._updated = 0  # bytes that had been sent when the reference was replaced last
        self._hops: Sequence[Hop] = ()

    def rate(self, now: float) -> float | None:
        """Return the window over the base RTT."""
        return min(self._line_rate, self.cwnd / self._rtt)

    def window(self) -> float:
        """Bytes in flight at most."""
        return self.cwnd

    def on_telemetry(self, acked: int, sent: int, hops: Sequence[Hop], now: float) -> None:
        """An ACK of all bytes before `acked` came, when `sent` had been sent."""
        before, self._hops = self._hops, hops
        if len(before) != len(hops) or any(old.port != new.port for old, new in zip(before, hops, strict=True)):
            return  # the first of a path: there is nothing to compare with
        self._measure(before, hops)
        self._adjust(acked > self._updated)
        if acked > self._updated:
            self._updated = sent

    def _measure(self, before: Sequence[Hop], hops: Sequence[Hop]) -> None:
        """MeasureInflight: U from the busiest link; it stays where no link shows more than before.

        So it is with an ACK that another one overtook, and with a switch that counts from zero again.
        """
        most, tau = 0.0, self._rtt
        for old, new in zip(before, hops, strict=True):
            elapsed = new.at - old.at
            if elapsed <= 0:
                continue
            used = min(new.queue, old.queue) / (new.rate * self._rtt) + (new.sent - old.sent) / elapsed / new.rate
            if used > most:
                most, tau = used, elapsed
        if not most:
            return
        weight = min(tau, self._rtt) / self._rtt
        self.utilisation = (1 - weight) * self.utilisation + weight * most

    def _adjust(self, replace: bool) -> None:
        """Set the window by the utilisation (`ComputeWind` of the paper); `replace`: also the reference window."""
        if self.utilisation >= self._eta or self._stage >= self._max_stage:
            window = self.reference / (self.utilisation / self._eta) + self._ai
            stage = 0
        else:
            window = self.reference + self._ai
            stage = self._stage + 1
        self.cwnd = min(max(window, self._ai), self._most)
        if replace:
            self._stage = stage
            self.reference = self.cwnd

    def snapshot(self) -> dict[str, float]:
        """Rate in bytes per second, window in bytes, and U."""
        return {
            "rate": round(self.cwnd / self._rtt),
            "target_rate": round(self.reference / self._rtt),
            "alpha": round(self.utilisation, 4),
        }


CONTROLS.register(Hpcc)
