"""Taps on cables in virtual time: frames that each port sends and receives, with times of the world's clock.

A frame sent while its cable has no carrier is in no capture: it never reaches the tap.
"""

from collections.abc import Callable, Sequence

from mrclab.lab.capture.pcapng import INBOUND, OUTBOUND, CapturedFrame, Interface
from mrclab.sim.fabric import SimFabric
from mrclab.sim.frame import SimFrame
from mrclab.sim.links.cable import HalfLink
from mrclab.sim.links.linkend import CapturePoint
from mrclab.topo.model import Link

_PS_PER_NS = 1000
MAX_FRAMES = 2_000_000  # frames kept; a capture is written when it ends


class _Sent:
    """First on a half-link: records the frames that its port sends."""

    def __init__(self, taps: "VirtualTaps", place: int) -> None:
        self._taps, self._place = taps, place

    def on_frame(self, frame: SimFrame, half_link: HalfLink) -> SimFrame:
        """Note the frame at the time it was sent."""
        self._taps.note(frame, self._place, OUTBOUND, half_link.delay)
        return frame


class VirtualTaps:
    """Taps at both ends of some cables, until `remove`: captured `frames`, and the number dropped for lack of room.

    `keeps` chooses frames, where it is given; `most` are kept.
    """

    def __init__(
        self,
        fabric: SimFabric,
        links: Sequence[Link],
        keeps: Callable[[CapturedFrame], bool] | None = None,
        most: int = MAX_FRAMES,
    ) -> None:
        self._keeps, self._most = keeps, most
        self.interfaces = [Interface(end.interface, link.name) for link in links for end in link.ends]
        self.frames: list[CapturedFrame] = []
        self.missed = 0
        self._clock = fabric.clock
        self._undo: list[Callable[[], None]] = []
        for number, link in enumerate(links):
            for side, half_link in enumerate(fabric.cable(link).half_links):
                self._tap(half_link, 2 * number + side, 2 * number + 1 - side)

    def remove(self) -> None:
        """Remove the taps."""
        for undo in self._undo:
            undo()

    def note(self, frame: SimFrame, place: int, direction: int, ago: int = 0) -> None:
        """Keep a frame as it is now."""
        if self._keeps is None and len(self.frames) >= self._most:
            self.missed += 1
            return
        data = frame.to_bytes()
        made = CapturedFrame((self._clock.now - ago) // _PS_PER_NS, place, direction, data, len(data))
        if self._keeps is not None and not self._keeps(made):
            return
        if len(self.frames) < self._most:
            self.frames.append(made)
        else:
            self.missed += 1

    def _tap(self, half_link: HalfLink, here: int, there: int) -> None:
        sent, (far, port) = _Sent(self, here), half_link.end
        arrives = CapturePoint(far, lambda frame: self.note(frame, there, INBOUND))

        def undo() -> None:
            half_link.faults = tuple(fault for fault in half_link.faults if fault is not sent)
            arrives.remove()

        half_link.faults = (sent, *half_link.faults)
        half_link.attach(arrives, port)
        self._undo.append(undo)
