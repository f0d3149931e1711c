"""Lateness of a process: its event loop is due to wake at every beat, or before, and keeps the worst delay."""

BEAT_S = 0.05


class Beat:
    """The worst delay of one event loop that is due every `interval` seconds. Times are of one clock, in seconds."""

    def __init__(self, now: float, interval: float = BEAT_S) -> None:
        self._interval = interval
        self._due = now + interval
        self._late, self._at = 0.0, now

    def wait(self, due: float | None, now: float) -> float:
        """Seconds to sleep: until `due`, where something is, and no longer than a beat."""
        self._due = min(self._due, now + self._interval if due is None else max(now, due))
        return max(0.0, self._due - now)

    def woken(self, now: float) -> None:
        """Note that the loop runs again."""
        if now - self._due >= self._late:
            self._late, self._at = now - self._due, now
        self._due = now + self._interval

    def take(self) -> dict[str, float]:
        """Return `late` (seconds at most since the last call) and `at` (when that ended), for the lab."""
        late, self._late = self._late, 0.0
        return {"late": round(late, 6), "at": self._at}
