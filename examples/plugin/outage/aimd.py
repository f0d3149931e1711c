"""The congestion control `aimd`: one packet more per round trip, half the window at a mark or a loss."""

from collections.abc import Mapping
from typing import Any, ClassVar

from typing_extensions import override

from mrclab.hosts.mrc.cc import CONTROLS, CongestionController, PathFacts
from mrclab.topo.config.registry import Setting


class Aimd(CongestionController):
    """Additive increase, multiplicative decrease: at most one decrease per round trip."""

    name: ClassVar[str] = "aimd"
    settings: ClassVar[Mapping[str, Setting]] = {"decrease": Setting("factor of one decrease", 0.1, 0.9)}

    def __init__(self, facts: PathFacts, now: float, decrease: float = 0.5) -> None:
        self.facts = facts
        self.decrease = decrease
        self.window = facts.bdp
        self.inflight = 0
        self.decreased_at = now

    @override
    def allows(self, size: int) -> bool:
        return self.inflight <= 0 or self.inflight + size <= self.window

    @override
    def wants_ack(self) -> bool:
        return self.window - self.inflight < self.facts.mtu

    @override
    def on_send(self, size: int, now: float) -> None:
        self.inflight += size

    @override
    def on_sack(self, newly: int, marked: bool, rtt: float | None, penalty: int, restore: bool, now: float) -> None:
        self.inflight -= newly
        if marked:
            self.slow_down(now)
        else:
            self.window = min(self.window + self.facts.mtu * newly / self.window, 2 * self.facts.bdp)

    @override
    def on_nack(self, size: int, trimmed: bool, rtt: float | None, now: float) -> None:
        self.on_loss(size, now)

    @override
    def on_loss(self, size: int, now: float) -> None:
        self.inflight -= size
        self.slow_down(now)

    @override
    def on_requeue(self, size: int) -> None:
        self.inflight -= size

    @override
    def snapshot(self) -> dict[str, Any]:
        return {"cwnd": int(self.window), "cc_inflight": self.inflight}

    def slow_down(self, now: float) -> None:
        """Shrink the window, once per round trip."""
        if now - self.decreased_at >= self.facts.base_rtt:
            self.window = max(self.window * self.decrease, self.facts.mtu)
            self.decreased_at = now


CONTROLS.register(Aimd)
