"""A cable in virtual time: two ways with a delay, carrier at both ends, and the faults that frames meet on them.

Frames meet carrier and faults where they leave the cable, so that each crossing is one event. A frame that was on its
way, or was sent, while the cable was down is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from mrclab.sim.clock import NEVER

if TYPE_CHECKING:
    from mrclab.sim.clock import Clock
    from mrclab.sim.frame import SimFrame
    from mrclab.sim.switches.port import SimSwitchPort

_ALWAYS: Final = -NEVER


class HalfLinkFault(Protocol):
    """Fault of the frames in one direction of a cable."""

    def meet(self, frame: SimFrame, way: HalfLink) -> SimFrame | None:
        """The frame that goes on now; None where it is lost, or goes on later by itself."""


class HalfLinkWatch(Protocol):
    """Observer of the frames in one direction of a cable. Its owner adds a fault there, which may do nothing."""

    def saw(self, frame: SimFrame, way: HalfLink, arrives: bool) -> None:
        """A frame comes out of the cable, or is lost on it. One that a detour holds is not reported."""


class CableEnd:
    """Receiver of frames at the end of a cable."""

    __slots__ = ()

    def receive(self, frame: SimFrame, way: HalfLink) -> None:
        """A frame came in by this way."""
        raise NotImplementedError

    def joined(self, way: HalfLink) -> None:
        """A way leads here from now on."""

    def parted(self, way: HalfLink) -> None:
        """A way leads here no longer."""


class HalfLink:
    """One direction of a cable. `far` takes frames that come in by its `far_port`.

    `taken` are the frames that a switch at the far end has counted, and `taken_bytes` theirs.
    """

    __slots__ = (
        "_clock", "_far", "clear_since", "crossed", "delay", "detour", "far_port", "faults", "lost", "port", "taken",
        "taken_bytes", "watch",
    )  # fmt: skip

    def __init__(self, clock: Clock, delay: int) -> None:
        self._clock = clock
        self.delay = delay
        self.port: SimSwitchPort | None = None  # of a switch, that sends into this way
        self.clear_since = _ALWAYS  # when carrier came; frames sent before that are lost
        self._far: CableEnd | None = None
        self.far_port = 0
        self.crossed = 0
        self.taken = self.taken_bytes = 0
        self.faults: tuple[HalfLinkFault, ...] = ()  # in the order in which they came
        self.detour: HalfLinkFault | None = None  # what frames meet last
        self.lost = 0  # for want of carrier
        self.watch: HalfLinkWatch | None = None

    def lead_to(self, far: CableEnd, port: int) -> None:
        """Say what is at the far end."""
        if self._far is not None:
            self._far.parted(self)
        self._far, self.far_port = far, port
        far.joined(self)

    @property
    def end(self) -> tuple[CableEnd, int]:
        """Far end."""
        assert self._far is not None
        return self._far, self.far_port

    def enter(self, frame: SimFrame, at: int) -> None:
        """A frame leaves a port at this time, now or later."""
        frame.way = self
        self._clock.put(at + self.delay, frame)

    def leave(self, frame: SimFrame, now: int) -> None:
        """A frame comes out."""
        port = self.port
        if port is not None:
            if port.next_leaves <= now:
                port.settle(now)
            if frame.gone:
                return
        if now - self.delay < self.clear_since:
            self.lost += 1
            if self.watch is not None:
                self.watch.saw(frame, self, False)
        elif self.faults or self.detour is not None:
            self._meet_faults(frame)
        else:
            self._arrive(frame)

    def _arrive(self, frame: SimFrame) -> None:
        self.crossed += 1
        far = self._far
        assert far is not None
        far.receive(frame, self)

    def _meet_faults(self, frame: SimFrame) -> None:
        for fault in self.faults:
            met = fault.meet(frame, self)
            if met is None:
                if self.watch is not None:
                    self.watch.saw(frame, self, False)
                return
            frame = met
        if self.detour is None or self.detour.meet(frame, self) is not None:
            if self.watch is not None:
                self.watch.saw(frame, self, True)
            self._arrive(frame)

    def leave_detour(self, frame: SimFrame) -> bool:
        """A frame comes back from a detour and crosses; False where there is no carrier."""
        if self.clear_since > self._clock.now:
            self.lost += 1
            return False
        self._arrive(frame)
        return True

    def set_carrier(self, up: bool) -> None:
        """Carrier came or went."""
        self.clear_since = self._clock.now if up else NEVER


class Cable:
    """Both ways of the link at a place of the model's; `ways` begin at its ends a (NIC or T0) and b."""

    __slots__ = ("_listeners", "index", "swapped", "up", "ways")

    def __init__(self, clock: Clock, index: int, delay: int) -> None:
        self.index = index
        self.up = True
        self.swapped = False  # its ways lead to another cable's ends
        self.ways = (HalfLink(clock, delay), HalfLink(clock, delay))
        self._listeners: tuple[Callable[[bool], None], ...] = ()

    def listen(self, listener: Callable[[bool], None]) -> None:
        """Call when carrier comes or goes."""
        self._listeners = (*self._listeners, listener)

    def forget(self, listener: Callable[[bool], None]) -> None:
        """Call no more."""
        self._listeners = tuple(other for other in self._listeners if other is not listener)

    def set_carrier(self, up: bool) -> None:
        """Both ends get carrier, or lose it."""
        if up == self.up:
            return
        self.up = up
        for way in self.ways:
            way.set_carrier(up)
        for listener in self._listeners:
            listener(up)
