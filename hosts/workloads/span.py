"""Beginning and end of a pattern of messages: each happens once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

_NEVER = float("-inf")


class Span:
    """Times on the transport's clock, seconds, minus infinity before they come; `on_done` is called at the end."""

    def __init__(self, on_done: Callable[[], None]) -> None:
        self.began = self.ended = _NEVER
        self._idle_since: float | None = None  # if it waits for others to begin more
        self._on_done = on_done

    @property
    def running(self) -> bool:
        """True if it has begun and not ended."""
        return self.began != _NEVER and not self.over

    @property
    def idle(self) -> bool:
        """True if its time is over, and it continues only if others do."""
        return self._idle_since is not None

    @property
    def over(self) -> bool:
        """True if it has ended."""
        return self.ended != _NEVER

    def stop(self, now: float) -> None:
        """End if it is idle, or abort: hosts that wait for this one then never finish."""
        self._end(now if self._idle_since is None else self._idle_since)

    def _end(self, now: float) -> None:
        if not self.over:
            self.ended = now
            self._on_done()


@dataclass
class WorkloadBounds:
    """Either limit; `until` is a time on the transport's clock, seconds, known once the workload has its start."""

    iterations: int | None
    until: float | None = None

    @property
    def by_time(self) -> bool:
        """True for a time limit."""
        return self.iterations is None

    def over(self, done: int, now: float) -> bool:
        """Return True if no further iteration should begin after this many."""
        if self.iterations is not None:
            return done >= self.iterations
        return self.until is not None and now >= self.until
