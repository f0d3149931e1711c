"""Beginning and end of a pattern of messages: each happens once."""

from __future__ import annotations

from collections.abc import Callable

_NEVER = float("-inf")


class Span:
    """Times on the transport's clock, seconds, minus infinity before they come; `on_done` is called at the end."""

    def __init__(self, on_done: Callable[[], None]) -> None:
        self.began = self.ended = _NEVER
        self._on_done = on_done

    @property
    def running(self) -> bool:
        """True if it has begun and not ended."""
        return self.began != _NEVER and not self.over

    @property
    def over(self) -> bool:
        """True if it has ended."""
        return self.ended != _NEVER

    def stop(self, now: float) -> None:
        """Stop sending."""
        raise NotImplementedError

    def _end(self, now: float) -> None:
        if not self.over:
            self.ended = now
            self._on_done()
