"""Ends of half-links: at a host, and before another end, where arriving frames are captured."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from mrclab.sim.links.cable import CableEnd

if TYPE_CHECKING:
    from mypy_extensions import i64

    from mrclab.sim.clock import Clock
    from mrclab.sim.frame import SimFrame
    from mrclab.sim.links.cable import HalfLink
    from mrclab.sim.nic import SimNic


class LinkEnd(CableEnd):
    """Link end at a host; frames that arrive while there is no NIC are lost, unless `start_host` makes one."""

    __slots__ = ("nic", "start_host")

    def __init__(self) -> None:
        self.nic: SimNic | None = None
        self.start_host: Callable[[], object] | None = None

    def receive(self, frame: SimFrame, half_link: HalfLink) -> None:
        """Hand a frame to the NIC."""
        if self.nic is None and self.start_host is not None:
            self.start_host()
        if self.nic is not None:
            self.nic.receive(frame, half_link.far_port)

    def pause(self, port: int, on: bool) -> None:
        """Have the NIC stop sending by a port, or resume."""
        if self.nic is not None:
            self.nic.pause(port, on)


class CapturePoint(CableEnd):
    """Reports every frame before the end behind it takes it."""

    __slots__ = ("_half_link", "_see", "far")

    _half_link: HalfLink

    def __init__(self, far: CableEnd, see: Callable[[SimFrame], object]) -> None:
        self.far = far
        self._see = see

    def receive(self, frame: SimFrame, half_link: HalfLink) -> None:
        """Report the frame, and hand it on."""
        self._see(frame)
        self.far.receive(frame, half_link)

    def attached(self, half_link: HalfLink) -> None:
        """A half-link ends at the receiver behind it."""
        self._half_link = half_link
        self.far.attached(half_link)

    def detached(self, half_link: HalfLink) -> None:
        """It ends there no longer."""
        self.far.detached(half_link)

    def remove(self) -> None:
        """Have frames go past it, wherever cables were swapped to and whatever else captures there."""
        end, port = self._half_link.end
        if end is self:
            self._half_link.attach(self.far, port)
        while isinstance(end, CapturePoint):
            if end.far is self:
                end.far = self.far
            end = end.far


class JitteryLinkEnd(LinkEnd):
    """Link end at a host that takes up to `jitter` ticks longer for a frame, drawn for each; frames stay in order."""

    __slots__ = ("_clock", "_draw", "_jitter", "_last")

    def __init__(self, clock: Clock, jitter: float, seed: str) -> None:
        super().__init__()
        self._clock = clock
        self._jitter = jitter
        self._draw = random.Random(seed)
        self._last: i64 = 0  # when the latest frame is delivered

    def receive(self, frame: SimFrame, half_link: HalfLink) -> None:
        """Hold a frame, and hand it to the NIC later."""
        longer: i64 = int(self._draw.random() * self._jitter)
        at: i64 = self._clock.now + longer
        at = max(at, self._last)
        self._last = at
        self._clock.call_at(at, self._deliver, (frame, half_link))

    def _deliver(self, held: tuple[SimFrame, HalfLink]) -> None:
        frame, half_link = held  # mypyc crashes on super().receive(*held)
        super().receive(frame, half_link)
