"""DCTCP: a window cut by the share of marked bytes.

Alizadeh et al., "Data Center TCP (DCTCP)", SIGCOMM 2010, and RFC 8257: alpha follows the share of marked bytes of each
window, and the first mark of an RTT cuts the window by alpha / 2. SACKs without a mark add one packet per RTT, in a
window with marks too, as in uet-htsim (a TCP would wait for that window's end). A SACK has one mark for all that it
acknowledges. A fabric with a queue at the last hop only needs marks there: `fabric.last_hop_ecn: true`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from mypy_extensions import mypyc_attr

from mrclab.hosts.mrc.cc import CONTROLS, PathFacts
from mrclab.hosts.mrc.cc.windowed import AimdWindow
from mrclab.topo.config.registry import Setting


@mypyc_attr(allow_interpreted_subclasses=True)
class Dctcp(AimdWindow):
    """DCTCP: once per RTT the window is cut by half the mean share of marked bytes, else it grows by a packet."""

    name: ClassVar[str] = "dctcp"
    settings: ClassVar[Mapping[str, Setting]] = {
        "g": Setting("weight of one RTT's share in alpha", 0.0, 1.0),
        "ai": Setting("packets added per RTT"),
        "max_cwnd": Setting("bytes of the largest window; default 1.5 BDP", 1.0),
    }

    def __init__(self, facts: PathFacts, now: float, g: float = 1 / 16, ai: float = 1.0, max_cwnd: float = 0.0) -> None:
        super().__init__(facts, now, max_cwnd, ai, 0.5)
        self._g = g
        self.alpha = 1.0  # as RFC 8257 begins
        self._acked = self._marked = 0.0  # bytes since the last update
        self._updated_at = now

    def on_sack(self, newly: int, marked: bool, rtt: float | None, penalty: int, restore: bool, now: float) -> None:
        """Count marked bytes; cut at the first mark of an RTT, grow without."""
        self.inflight -= newly
        if rtt is not None:
            self.rtt = rtt
        self._acked += newly
        if marked:
            self._marked += newly
        if now - self._updated_at >= self.rtt:
            self._update_alpha(now)
        if marked:
            self.cut(self.alpha / 2, now)
        else:
            self.grow(newly)

    def _update_alpha(self, now: float) -> None:
        """Move alpha towards the share of marked bytes of the last RTT."""
        if self._acked > 0:
            self.alpha += self._g * (self._marked / self._acked - self.alpha)
        self._acked = self._marked = 0.0
        self._updated_at = now

    def snapshot(self) -> dict[str, Any]:
        """Window, bytes in flight and alpha."""
        return {**super().snapshot(), "alpha": self.alpha}


CONTROLS.register(Dctcp)
