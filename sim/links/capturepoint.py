"""Capture point: the far end of a half-link whose arriving frames are reported."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mrclab.sim.links.cable import CableEnd

if TYPE_CHECKING:
    from mrclab.sim.frame import SimFrame
    from mrclab.sim.links.cable import HalfLink


class CapturePoint(CableEnd):
    """Reports every frame before the end behind it takes it."""

    __slots__ = ("_far", "_see")

    def __init__(self, far: CableEnd, see: Callable[[SimFrame], object]) -> None:
        self._far = far
        self._see = see

    def receive(self, frame: SimFrame, half_link: HalfLink) -> None:
        """Report the frame, and hand it on."""
        self._see(frame)
        self._far.receive(frame, half_link)

    def attached(self, half_link: HalfLink) -> None:
        """A half-link ends at the receiver behind it."""
        self._far.attached(half_link)

    def detached(self, half_link: HalfLink) -> None:
        """It ends there no longer."""
        self._far.detached(half_link)
