"""Swift: a window that keeps the round trip at a target delay.

Kumar et al., "Swift: Delay is Simple and Effective for Congestion Control in the Datacenter", SIGCOMM 2020, Algorithm 1
and §3.1 to 3.5, for the fabric's delay. The paper leaves most values open; those here are of the public htsim
implementation: target 20 µs for a round trip of some 10 µs, so twice the base RTT. Two things differ: there is no
window below one packet, since MRC paces by its NIC, and the host's delay has no window of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

from mypy_extensions import mypyc_attr

from mrclab.hosts.mrc.cc import CONTROLS, PathFacts
from mrclab.hosts.mrc.cc.windowed import AimdWindow
from mrclab.topo.config.registry import Setting

_TARGET_RTTS = 2.0
_RANGE_TARGETS = 5.0


@mypyc_attr(allow_interpreted_subclasses=True)
class Swift(AimdWindow):
    """Swift: additive increase below a target delay, decrease in proportion to the excess above it, once per RTT."""

    name: ClassVar[str] = "swift"
    settings: ClassVar[Mapping[str, Setting]] = {
        "base_target": Setting("target of the round trip; default twice the base RTT", 1e-6, 60.0, seconds=True),
        "ai": Setting("packets added per RTT"),
        "beta": Setting("gain of multiplicative decrease", 0.0, 1.0),
        "max_mdf": Setting("largest share of the window that one decrease takes", 0.0, 1.0),
        "fs_range": Setting("what flow scaling adds to the target at most; default 5 targets", seconds=True),
        "fs_min_cwnd": Setting("packets of the window that adds all of it", 1e-3, 1e6),
        "fs_max_cwnd": Setting("packets of the window from which on it adds nothing", 1e-3, 1e6),
        "max_cwnd": Setting("bytes of the largest window; default 1.5 BDP", 1.0),
    }

    def __init__(
        self,
        facts: PathFacts,
        now: float,
        base_target: float = 0.0,
        ai: float = 1.0,
        beta: float = 0.8,
        max_mdf: float = 0.5,
        fs_range: float = -1.0,
        fs_min_cwnd: float = 0.1,
        fs_max_cwnd: float = 100.0,
        max_cwnd: float = 0.0,
    ) -> None:
        super().__init__(facts, now, max_cwnd, ai, max_mdf)  # a loss takes most, as in fast recovery
        self._target = base_target or _TARGET_RTTS * facts.base_rtt
        self._beta, self._max_mdf = beta, max_mdf
        self._fs_range = fs_range if fs_range >= 0 else _RANGE_TARGETS * self._target
        span = 1 / math.sqrt(fs_min_cwnd) - 1 / math.sqrt(fs_max_cwnd)
        self._fs_alpha = self._fs_range / span if span > 0 else 0.0
        self._fs_beta = -self._fs_alpha / math.sqrt(fs_max_cwnd)

    def target(self) -> float:
        """Return the target delay of this window, seconds: flow scaling gives small windows more."""
        scaled = self._fs_alpha / math.sqrt(self.cwnd / self.mtu) + self._fs_beta
        return self._target + max(0.0, min(scaled, self._fs_range))

    def on_sack(self, newly: int, marked: bool, rtt: float | None, penalty: int, restore: bool, now: float) -> None:
        """Grow below the target; above it shrink where an RTT has gone by since the last time. Marks mean nothing."""
        self.inflight -= newly
        if rtt is None:
            return
        self.rtt = rtt
        target = self.target()
        if rtt < target:
            self.grow(newly)
        else:
            self.cut(min(self._beta * (rtt - target) / rtt, self._max_mdf), now)


CONTROLS.register(Swift)
