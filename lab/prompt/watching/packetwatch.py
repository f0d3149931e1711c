"""Packets on the cables of a lab in virtual time while it is slow, for drawing."""

import time
from collections import deque
from typing import Any

from mrclab.lab.errors import LabError
from mrclab.lab.prompt.session import LabSession
from mrclab.lab.run.virtual import VirtualWorld
from mrclab.sim.links.crossings import Crossings

ON_THE_WIRE = "Single packets are drawn in virtual time only: a host on the wire counts them without recording each."
LONGEST_SLOW = 120.0  # seconds
_SEEN = 0.2  # seconds of virtual time per second, at most: single packets can be followed
_LIGHT = 4000  # crossings in one reply, at most
_FORGOTTEN = 2.0  # seconds of the machine's clock without a request, after which watching ends


class PacketWatch:
    """Watches the cables of a session's world from the first request in slow time to the first in fast time."""

    def __init__(self, session: LabSession) -> None:
        self._session = session
        self._watch: Crossings | None = None
        self._seen: deque[list[float]] = deque(maxlen=_LIGHT)
        self._count = 0  # of all crossings so far
        self._requested_at = 0.0

    def poll(self, since: int | None = None) -> dict[str, Any]:
        """Return frames that crossed cables: {"next", "now", "pace", "slow", "seen"}, times in seconds of virtual time.

        `seen` has lists of entered, left, way, kind and 1 where it arrived, from number `since` on, as `next` of the
        reply before; none without it. LabError on the wire.
        """
        with self._session.lock:
            world, pace = self._session.world, self._session.pace
            if pace is None or not isinstance(world, VirtualWorld):
                raise LabError(ON_THE_WIRE)
            self._requested_at = time.monotonic()
            self._take()
            if pace <= _SEEN and self._watch is None:
                self._watch = world.watch()
            elif pace > _SEEN:
                self.close()
            begin = self._count if since is None else max(since, self._count - len(self._seen))
            seen = list(self._seen)[len(self._seen) - max(0, self._count - begin) :]
            return {"next": self._count, "now": world.now, "pace": pace, "slow": pace <= _SEEN, "seen": seen}

    def rest(self) -> None:
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
            self._seen.append(
                [round(each.entered, 6), round(each.left, 6), each.half_link, each.kind, int(each.arrived)]
            )
            self._count += 1


def set_pace(session: LabSession, value: object) -> str:
    """Set the pace of virtual time, in its seconds per second; return a phrase. ValueError for an invalid pace."""
    _virtual(session)
    if not isinstance(value, (int, float)) or not 0 < value <= 1000:
        raise ValueError(f"invalid pace {value}: expected virtual seconds per second, above 0 and at most 1000")
    session.pace = float(value)
    return f"{value:g} s of virtual time per second"


def slow_down(session: LabSession, pace: object, seconds: object) -> str:
    """Slow virtual time for some seconds of the machine's clock; return a phrase. ValueError for invalid words."""
    _virtual(session)
    numbers = isinstance(pace, (int, float)) and isinstance(seconds, (int, float))
    if not (numbers and 0 < pace <= 1 and 0 < seconds <= LONGEST_SLOW):  # type: ignore[operator]
        raise ValueError(f"slow takes a pace above 0 and at most 1, for at most {LONGEST_SLOW:g} s")
    session.slow(float(pace), float(seconds))  # type: ignore[arg-type]
    return f"{pace:g} s of virtual time per second, for {seconds:g} s"


def _virtual(session: LabSession) -> None:
    if session.pace is None:
        raise LabError("this lab runs in real time; only mrclab up --world sim has a pace")
