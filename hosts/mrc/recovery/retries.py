"""Retry counter of one requestor: timeouts, recoverable NACKs, and waiting without any plane."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import override

from mrclab.hosts.rdma.timers import Timer

if TYPE_CHECKING:
    from mrclab.hosts.mrc.requestor import MrcRequestor


class Retries(Timer):
    """Counts retries; too many fail the QP. As a timer it waits for planes."""

    __slots__ = ("_counted_at", "_loss", "_requestor")

    def __init__(self, requestor: MrcRequestor) -> None:
        super().__init__(requestor.qp.endpoint.timers)
        self._requestor = requestor
        self._loss = requestor.recovery.loss
        self._counted_at = float("-inf")  # when a timeout or NACK last counted as a retry

    def watch_paths(self, now: float) -> None:
        """Without any plane, retries are counted as if the waiting packets had been sent and not answered."""
        if not self._is_stranded():
            self.cancel()
        elif not self.armed:
            self.arm(now + self._loss.timeout)

    def _is_stranded(self) -> bool:
        """Return True if packets wait and no plane can carry them."""
        requestor = self._requestor
        waits = bool(requestor.unsent) or requestor.in_flight
        return waits and not any(plane.usable for plane in requestor.qp.evs.plane_list)

    @override
    def fire(self, now: float) -> None:
        if self._is_stranded() and self._timed_out(now):
            self.watch_paths(now)

    def expired(self, newest: float, now: float) -> bool:
        """Count timed-out packets, the newest sent at `newest`, as a retry; False where there were too many."""
        if newest < self._counted_at:  # they were on their way already when the last retry was counted
            return True
        self._counted_at = now
        return self._timed_out(now)

    def _timed_out(self, now: float) -> bool:
        self._requestor.qp.stats.timeouts += 1
        return self._may_retry(now, after_timeout=True)

    def nacked(self, last_progress: float, now: float) -> bool:
        """Count a recoverable NACK as a retry where a timeout would have been one; False where there were too many.

        A NACK shows that path and peer live, so the ACK timeout stays as it is.
        """
        if now - max(self._counted_at, last_progress) < self._requestor.qp.settings.ack_timeout:
            return True
        self._counted_at = now
        return self._may_retry(now, after_timeout=False)

    def _may_retry(self, now: float, after_timeout: bool) -> bool:
        """Count a retry; False where there were too many and the QP is in ERROR now."""
        if self._loss.retry(after_timeout):
            return True
        self._requestor.qp.fail("RETRY_EXC_ERR", "Retry Counter Exceeded", now)
        return False
