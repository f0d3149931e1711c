"""The propagation delay of the links that a frame crossed, added where it arrives.

Cables of the lab have no delay of their own. A receiving NIC holds each frame for the fabric's link delay times the
number of links, counted from the hop limit: the sender sets 64 and each switch that shifts takes one.
"""

import heapq
from collections.abc import Iterator

from topo.numbers import links_crossed

MAX_FRAMES = 65536
"""Frames held at most; a flood beyond that is dropped and counted, as a link would not carry it."""


class DelayLine:
    """Frames in flight, by the time at which they are due. Frames due together leave in order of arrival."""

    def __init__(self, link_delay: float) -> None:
        """Delay every frame by `link_delay` seconds per link."""
        self.link_delay = link_delay
        self.drops = 0
        self._heap: list[tuple[float, int, int, bytes]] = []
        self._arrivals = 0

    def __len__(self) -> int:
        return len(self._heap)

    def put(self, port: int, frame: bytes, hop_limit: int, arrival: float) -> None:
        """Take a frame that arrived on `port` at `arrival` (seconds) with this outer hop limit."""
        if len(self._heap) >= MAX_FRAMES:
            self.drops += 1
            return
        self._arrivals += 1
        due = arrival + self.link_delay * max(1, links_crossed(hop_limit))
        heapq.heappush(self._heap, (due, self._arrivals, port, frame))

    def next_due(self) -> float | None:
        """When the next frame is due, None when there is none."""
        return self._heap[0][0] if self._heap else None

    def take_due(self, now: float) -> Iterator[tuple[float, int, bytes]]:
        """Yield (due, port, frame) of all frames due by `now`, in order of time."""
        heap = self._heap
        while heap and heap[0][0] <= now:
            due, _, port, frame = heapq.heappop(heap)
            yield due, port, frame
