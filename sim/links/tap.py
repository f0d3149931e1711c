"""The far end of a way while somebody looks at what arrives there."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mrclab.sim.links.cable import CableEnd

if TYPE_CHECKING:
    from mrclab.sim.frame import SimFrame
    from mrclab.sim.links.cable import HalfLink


class Tap(CableEnd):
    """Reports every frame before the end behind it takes it."""

    __slots__ = ("_far", "_see")

    def __init__(self, far: CableEnd, see: Callable[[SimFrame], object]) -> None:
        self._far = far
        self._see = see

    def receive(self, frame: SimFrame, way: HalfLink) -> None:
        """Report the frame, and let it in."""
        self._see(frame)
        self._far.receive(frame, way)

    def joined(self, way: HalfLink) -> None:
        """The end behind it has a way."""
        self._far.joined(way)

    def parted(self, way: HalfLink) -> None:
        """It has it no longer."""
        self._far.parted(way)
