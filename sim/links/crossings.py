"""Frames that cross cables, for pictures: time of entry, half-link, kind, and whether each arrived."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from mrclab.sim.clock import SECOND
from mrclab.sim.frame import SimFrame  # at run time: compiled, a NamedTuple needs the types of its fields

if TYPE_CHECKING:
    from mrclab.sim.fabric import SimFabric
    from mrclab.sim.links.cable import HalfLink

DATA, FEEDBACK, TRIMMED = range(3)
_SMALL: Final = 400  # bytes: what is smaller carries no data
_MAX_CROSSINGS: Final = 100_000  # crossings kept until they are read


class Crossing(NamedTuple):
    """A frame in one direction of a cable, with times in seconds.

    `half_link` is twice the cable's index, plus 1 from b.
    """

    entered: float
    left: float
    half_link: int
    kind: int  # DATA, FEEDBACK or TRIMMED
    arrived: bool
    frame: SimFrame


class Crossings:
    """Observes both directions of some cables until `close`; it does not change the simulation."""

    def __init__(self, fabric: SimFabric, places: Iterable[int]) -> None:
        self._clock = fabric.clock
        self._seen: list[Crossing] = []
        self._half_links: dict[HalfLink, int] = {}  # to their numbers
        for place in places:
            for side, half_link in enumerate(fabric.cable_at(place).half_links):
                self._half_links[half_link] = 2 * place + side
                half_link.watch = self
                half_link.faults = (self, *half_link.faults)

    def close(self) -> None:
        """Stop observing."""
        for half_link in self._half_links:
            half_link.watch = None
            half_link.faults = tuple(fault for fault in half_link.faults if fault is not self)
        self._half_links = {}

    def taken(self) -> list[Crossing]:
        """Return the crossings since the last call, in order of arrival."""
        seen, self._seen = self._seen, []
        return seen

    def on_frame(self, frame: SimFrame, half_link: HalfLink) -> SimFrame:
        """Return the frame unchanged: called as a fault of its half-link."""
        return frame

    def observe(self, frame: SimFrame, half_link: HalfLink, arrives: bool) -> None:
        """Note a frame that arrives, or is lost on the cable; one that a detour holds is not reported."""
        if len(self._seen) >= _MAX_CROSSINGS:
            return
        now = self._clock.now
        kind = TRIMMED if frame.trimmed else DATA if frame.size > _SMALL else FEEDBACK
        entered, left = (now - half_link.delay) / SECOND, now / SECOND
        self._seen.append(Crossing(entered, left, self._half_links[half_link], kind, arrives, frame))
