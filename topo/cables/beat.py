"""Lateness of a helper process: it is due to wake at least every `BEAT_S`, and keeps the worst delay."""

from typing import Any

BEAT_S = 0.05


class Beat:
    """The worst delay of one event loop. Times are of one clock, in seconds."""

    def __init__(self, now: float) -> None:
        self._due = now + BEAT_S
        self._late, self._at = 0.0, now

    def wait(self, due: float | None, now: float) -> float:
        """Seconds to sleep: until `due`, where something is, and no longer than a beat."""
        self._due = min(self._due, now + BEAT_S if due is None else max(now, due))
        return max(0.0, self._due - now)

    def woken(self, now: float) -> None:
        """Note that the loop runs again."""
        if now - self._due > self._late:
            self._late, self._at = now - self._due, now
        self._due = now + BEAT_S

    def report(self) -> dict[str, Any]:
        """Return `late` (seconds at most) and `at` (when that ended), for the lab."""
        return {"late": round(self._late, 6), "at": self._at}
