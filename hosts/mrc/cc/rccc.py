"""RCCC, the receiver-credit congestion control of UET 1.0: a sender sends the bytes that its receiver has granted.

A new or idle sender may send a window at once, as UET's first packets do. Beyond that it requests credit; the
receiver grants as many bytes per second as its ports carry, to all senders in turn (`hosts.mrc.recovery.credits`).
Marks and delays change nothing: congestion inside the fabric is left to load balancing.

`target` is UET's credit target: credit granted so far plus the part of the backlog without credit, a window at most.
The receiver saw trimmed bytes, and grants them again unrequested.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from mypy_extensions import mypyc_attr

from mrclab.hosts.mrc.cc import CONTROLS, MAX_WINDOW_BDPS, CongestionController, PathFacts
from mrclab.topo.config.registry import Setting

_REQUEST_WINDOWS = 0.125  # of the window by which the target moves until it is sent


@mypyc_attr(allow_interpreted_subclasses=True)
class Rccc(CongestionController):
    """RCCC of UET 1.0: the receiver grants credit to all who send to it in turn."""

    name: ClassVar[str] = "rccc"
    credit_based: ClassVar[bool] = True
    settings: ClassVar[Mapping[str, Setting]] = {
        "max_cwnd": Setting("bytes sent without a grant, and requested, at most; default 1.5 BDP", 1.0),
    }

    def __init__(self, facts: PathFacts, now: float, max_cwnd: float = 0.0) -> None:
        self.mtu = facts.mtu
        self.base_rtt = facts.base_rtt
        self.most = max(max_cwnd or MAX_WINDOW_BDPS * facts.bdp, float(facts.mtu))
        self.credit = self.most
        self.granted = 0.0  # by the receiver, in all
        self.backlog = 0.0  # bytes that are posted or lost, and not sent
        self._sent_target = 0.0  # the target in the last request
        self._unrequested = True  # the credit at hand was not granted
        self._idle_since = now  # since when nothing was to be sent and nothing was in flight

    def allows(self, size: int) -> bool:
        """Return True if there is credit."""
        return self.credit > 0

    def wants_ack(self) -> bool:
        """Return True if the credit is used up."""
        return self.credit <= 0

    def on_post(self, size: int, now: float) -> None:
        """Add to the backlog; after an idle round trip the first window needs no credit again."""
        if self.backlog <= 0 and self.inflight <= 0 and now - self._idle_since >= self.base_rtt:
            self.credit, self._unrequested = self.most, True
        self.backlog += size

    def on_send(self, size: int, now: float) -> None:
        """Spend credit."""
        self.inflight += size
        self.credit -= size
        self.backlog -= size

    def on_sack(self, newly: int, marked: bool, rtt: float | None, penalty: int, restore: bool, now: float) -> None:
        """Count delivered bytes; from now on only granted credit counts."""
        self._receiver_responded()
        self.inflight -= newly
        if self.inflight <= 0:
            self._idle_since = now

    def on_nack(self, size: int, trimmed: bool, rtt: float | None, now: float) -> None:
        """Add to the backlog again."""
        self._receiver_responded()
        self._again(size)

    def on_loss(self, size: int, now: float) -> None:
        """Add to the backlog again."""
        self._again(size)

    def on_requeue(self, size: int) -> None:
        """Add to the backlog again, or (negative) remove bytes that were not lost."""
        self._again(size)

    def on_settled(self, size: int, now: float) -> None:
        """Remove them; the backlog stays as it is."""
        self.inflight -= size
        if self.inflight <= 0:
            self._idle_since = now

    def on_cancelled(self, size: int) -> None:
        """Remove them from the backlog."""
        self.backlog -= size

    def _receiver_responded(self) -> None:
        """Forfeit the rest of the initial credit once the receiver responds, as uet-htsim does."""
        if self._unrequested:
            self._unrequested = False
            self.credit = min(self.credit, 0.0)

    def _again(self, size: int) -> None:
        self.inflight -= size
        self.backlog += size

    # --- credit -----------------------------------------------------------------------------------

    @property
    def starved(self) -> bool:
        """True if something waits for credit."""
        return self.credit <= 0 < self.backlog

    @property
    def target(self) -> float:
        """Return the total credit that the receiver should have granted, bytes."""
        return self.granted + min(max(self.backlog, 0.0), self.most) - max(self.credit, 0.0)

    def request(self, again: bool) -> float:
        """Return the target if it is to be sent (with `again` also if it was sent before), else 0."""
        target = self.target
        moved = target - self._sent_target
        covers_backlog = moved > 0 and self.backlog <= self.most
        if target <= self.granted or (moved < _REQUEST_WINDOWS * self.most and not again and not covers_backlog):
            return 0.0
        self._sent_target = max(target, self._sent_target)
        return self._sent_target

    def grant(self, total: float) -> bool:
        """Take in the receiver's total grant; return True if it has grown."""
        if total <= self.granted:
            return False
        self._receiver_responded()
        self.credit = min(self.credit + total - self.granted, self.most)
        self.granted = total
        return True

    def snapshot(self) -> dict[str, Any]:
        """Credit as the window, and bytes in flight."""
        return {"cwnd": int(max(self.credit, 0)), "cc_inflight": int(self.inflight), "base_rtt": self.base_rtt}


CONTROLS.register(Rccc)
