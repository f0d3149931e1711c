"""Pacing of one NIC port: frames leave no faster than the link carries their bytes.

The pacer keeps the time at which the link has sent all its frames (`free_at`). A frame may be sent once that time has
passed. After idle time about two full-size frames may be sent back to back. A port with work that is served late,
since the machine was busy, catches up, within limits: a scheduling delay costs no link rate.
"""

BURST_FRAMES = 2.0
"""Full-size frames that may be sent back to back after idle time."""

_ROUNDING_S = 1e-9
"""Keeps rounding of the clock from costing a frame of the burst."""

CATCH_UP_S = 0.02
"""Most lateness of a backlogged port that it catches up; the rest is lost link time."""


class Pacer:
    """Link time of one port. Times are seconds of any one clock, sizes bytes."""

    __slots__ = ("_backlogged", "_catch_up", "_idle_credit", "_seconds_per_byte", "free_at", "worst_late")

    def __init__(self, rate_pps: float, full_size: int, catch_up: float = CATCH_UP_S) -> None:
        """A link that carries `rate_pps` frames of `full_size` bytes per second."""
        if rate_pps <= 0 or full_size <= 0:
            raise ValueError(f"a link of {rate_pps} packets/s of {full_size} bytes carries nothing")
        self._seconds_per_byte = 1.0 / (rate_pps * full_size)
        self._idle_credit = (BURST_FRAMES - 1.0) / rate_pps + _ROUNDING_S
        self._catch_up = max(catch_up, self._idle_credit)
        self._backlogged = False
        self.free_at = float("-inf")
        self.worst_late = 0.0

    def sent(self, now: float, size: int) -> None:
        """Account for a frame of `size` bytes sent at `now`, which must not be before `free_at`."""
        if self._backlogged:
            late = now - self.free_at
            self.worst_late = max(self.worst_late, late)
            start = self.free_at if late <= self._catch_up else now - self._catch_up
        else:
            start = max(self.free_at, now - self._idle_credit)
            self._backlogged = True
        self.free_at = start + size * self._seconds_per_byte

    def idle(self) -> None:
        """Note that the link was free and there was nothing to send: the next frame is not late."""
        self._backlogged = False

    def reset(self) -> None:
        """Reset, as when the port comes up."""
        self._backlogged = False
        self.free_at = float("-inf")

    def take_worst_late(self) -> float:
        """Return the worst lateness (seconds) of a backlogged frame since the last call."""
        worst, self.worst_late = self.worst_late, 0.0
        return worst
