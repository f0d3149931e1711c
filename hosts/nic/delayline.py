"""Propagation delay of the links that a frame crossed, added at the receiver.

Cables of the lab have no delay of their own. A receiving NIC holds each frame for the fabric's link delay times the
number of links, counted from the hop limit: the sender sets 64 and each switch that shifts takes one.
"""

from bisect import bisect_right, insort
from collections.abc import Iterator

from mrclab.topo.numbers import links_crossed

MAX_FRAMES = 65536
"""Most frames held; further ones are dropped and counted, as a link would not carry them."""

_NEVER = float("-inf")


class DelayLine:
    """Frames in flight, ordered by due time; frames with equal due times keep the order of arrival."""

    def __init__(self, link_delay: float) -> None:
        """Delay every frame by `link_delay` seconds per link."""
        self.link_delay = link_delay
        self.drops = 0
        self._line: list[tuple[float, int, int, bytes]] = []  # sorted; most frames come in the order of due times
        self._arrivals = 0

    def __len__(self) -> int:
        return len(self._line)

    def put(self, port: int, frame: bytes, hop_limit: int, arrival: float) -> None:
        """Take a frame that arrived on `port` at `arrival` (seconds) with this outer hop limit."""
        if len(self._line) >= MAX_FRAMES:
            self.drops += 1
            return
        self._arrivals += 1
        due = arrival + self.link_delay * max(1, links_crossed(hop_limit))
        insort(self._line, (due, self._arrivals, port, frame))

    def next_due(self) -> float | None:
        """Return the time at which the next frame is due, None when there is none."""
        return self._line[0][0] if self._line else None

    def last_due_by(self, limit: float) -> float:
        """Return the time of the last of the frames due up to `limit`; minus infinity when there is none."""
        count = bisect_right(self._line, (limit, self._arrivals))
        return self._line[count - 1][0] if count else _NEVER

    def take_due(self, now: float) -> Iterator[tuple[float, int, bytes]]:
        """Yield (due, port, frame) of all frames due by `now`, in order of time."""
        line = self._line
        count = bisect_right(line, (now, self._arrivals + 1))
        due_now = line[:count]
        del line[:count]
        for due, _, port, frame in due_now:
            yield due, port, frame
