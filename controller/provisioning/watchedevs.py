"""Entropy values that are counted at every switch. Pure: it writes to no switch."""

from collections.abc import Iterator

from mrclab.controller.errors import ControllerError

MAX_WATCHED = 1024
"""Entries that the table `ev_watch` holds."""


class WatchError(ControllerError):
    """An EV that cannot be watched, or is not."""


class WatchedEvs:
    """The watched EVs, in the order of the requests."""

    def __init__(self) -> None:
        self._evs: dict[int, None] = {}

    def __iter__(self) -> Iterator[int]:
        return iter(tuple(self._evs))

    def add(self, ev: int) -> bool:
        """Watch `ev`; False if it is watched already. WatchError where it is no EV, or one too many."""
        if not 0 <= ev <= 0xFFFF_FFFF:
            raise WatchError(f"EV {ev} does not fit 32 bits")
        if ev in self._evs:
            return False
        if len(self._evs) >= MAX_WATCHED:
            raise WatchError(f"{MAX_WATCHED} EVs are watched already; unwatch one first")
        self._evs[ev] = None
        return True

    def remove(self, ev: int) -> None:
        """Watch `ev` no longer; WatchError where it is not watched."""
        if ev not in self._evs:
            raise WatchError(f"EV {ev:#010x} is not watched")
        del self._evs[ev]
