"""Packets on the cables of a lab in virtual time while it is slow, for drawing."""

import time
from collections import deque
from typing import Any

from mrclab.lab.errors import LabError
from mrclab.lab.prompt.session import LabSession
from mrclab.lab.run.virtual import VirtualWorld
from mrclab.sim.links.crossings import Crossing, Crossings

ON_THE_WIRE = "Single packets are drawn in virtual time only: a host on the wire counts them without recording each."
_SEEN = 0.2  # seconds of virtual time per second, at most: single packets can be followed
_LIGHT = 4000  # crossings in one reply, at most
_FORGOTTEN = 2.0  # seconds of the machine's clock without a request, after which watching ends


def crossing_row(each: Crossing) -> list[float]:
    """Return a frame on a cable as pages draw it: entered and left in seconds, half-link, kind, 1 where it arrived."""
    return [round(each.entered, 6), round(each.left, 6), each.half_link, each.kind, int(each.arrived)]


class PacketWatch:
    """Watches the cables of a session's world from the first request in slow time to the first in fast time."""

    def __init__(self, session: LabSession) -> None:
        self._session = session
        self._watch: Crossings | None = None
        self._seen: deque[list[float]] = deque(maxlen=_LIGHT)
        self._count = 0  # of all crossings so far
        self._requested_at = 0.0

    def poll(self, since: int | None = None) -> dict[str, Any]:
        """Return frames that crossed cables: {"next", "now", "speed", "slow", "seen"}; LabError on the wire.

        `seen` has a list for each: times of entry and exit in seconds of virtual time, number of the half-link, kind,
        1 where it arrived; from number `since` on, which is `next` of the reply before. Without `since` it is empty.
        """
        with self._session.lock:
            world, speed = self._session.world, self._session.speed
            if speed is None or not isinstance(world, VirtualWorld):
                raise LabError(ON_THE_WIRE)
            self._requested_at = time.monotonic()
            self._take()
            if speed <= _SEEN and self._watch is None:
                self._watch = world.watch()
            elif speed > _SEEN:
                self.close()
            begin = self._count if since is None else max(since, self._count - len(self._seen))
            seen = list(self._seen)[len(self._seen) - max(0, self._count - begin) :]
            return {"next": self._count, "now": world.now, "speed": speed, "slow": speed <= _SEEN, "seen": seen}

    def close_unused(self) -> None:
        """Stop watching where there was no request for a while."""
        if self._watch is not None and time.monotonic() - self._requested_at > _FORGOTTEN:
            self.close()

    def close(self) -> None:
        """Stop watching."""
        if self._watch is not None:
            self._watch.close()
            self._watch = None

    def _take(self) -> None:
        for each in self._watch.taken() if self._watch is not None else ():
            self._seen.append(crossing_row(each))
            self._count += 1
