"""A cable in virtual time: two ways with a delay, carrier at both ends, and the faults that frames meet on them.

Frames meet carrier and faults where they leave the cable, so that each crossing is one event. A frame that was on its
way, or was sent, while the cable was down is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from mrclab.sim.clock import Work

if TYPE_CHECKING:
    from mrclab.sim.clock import Clock
    from mrclab.sim.frame import SimFrame
    from mrclab.sim.port import SimSwitchPort

_NEVER = 1 << 200  # ticks: after the end of every run
_ALWAYS = -_NEVER


class WayFault(Protocol):
    """What happens to frames on one way of a cable."""

    def meet(self, frame: SimFrame, way: Way) -> SimFrame | None:
        """The frame that goes on now; None where it is lost, or goes on later by itself."""


class CableEnd:
    """What takes frames at the end of a cable."""

    __slots__ = ()

    def receive(self, frame: SimFrame, port: int) -> None:
        """A frame came in by this port."""
        raise NotImplementedError


class Way(Work):
    """One direction of a cable. `far` takes frames with the number of the port they come in by."""

    __slots__ = (
        "_clock", "_far", "_far_port", "clear_since", "crossed", "delay", "detour", "faults", "lost", "port",
    )  # fmt: skip

    def __init__(self, clock: Clock, delay: int) -> None:
        self._clock = clock
        self.delay = delay
        self.port: SimSwitchPort | None = None  # of a switch, that sends into this way
        self.clear_since = _ALWAYS  # when carrier came; frames sent before that are lost
        self.faults: tuple[WayFault, ...] = ()  # in the order in which they came
        self.detour: WayFault | None = None  # what frames meet last
        self.lost = 0  # for want of carrier
        self.crossed = 0

    def lead_to(self, far: CableEnd, port: int) -> None:
        """Say what is at the far end."""
        self._far, self._far_port = far, port

    @property
    def end(self) -> tuple[CableEnd, int]:
        """What is at the far end."""
        return self._far, self._far_port

    def enter(self, frame: SimFrame, at: int) -> None:
        """A frame leaves a port at this time, now or later."""
        self._clock.put(at + self.delay, self, frame)

    def happen(self, about: SimFrame) -> None:
        """A frame comes out."""
        frame = about
        now, port = self._clock.now, self.port
        if port is not None:
            waiting = port.waiting
            if waiting and waiting[0].leave <= now:
                port.settle()
            if frame.gone:
                return
        if now - self.delay < self.clear_since:
            self.lost += 1
        elif self.faults or self.detour is not None:
            self._meet_faults(frame)
        else:
            self.crossed += 1
            self._far.receive(frame, self._far_port)

    def _meet_faults(self, frame: SimFrame) -> None:
        for fault in self.faults:
            met = fault.meet(frame, self)
            if met is None:
                return
            frame = met
        if self.detour is None or self.detour.meet(frame, self) is not None:
            self.crossed += 1
            self._far.receive(frame, self._far_port)

    def leave_detour(self, frame: SimFrame) -> bool:
        """A frame comes back from a detour and crosses; False where there is no carrier."""
        if self.clear_since > self._clock.now:
            self.lost += 1
            return False
        self.crossed += 1
        self._far.receive(frame, self._far_port)
        return True

    def set_carrier(self, up: bool) -> None:
        """Carrier came or went."""
        self.clear_since = self._clock.now if up else _NEVER


class Cable:
    """Both ways of the link at a place of the model's; `ways` begin at its ends a (NIC or T0) and b."""

    __slots__ = ("_listeners", "index", "swapped", "up", "ways")

    def __init__(self, clock: Clock, index: int, delay: int) -> None:
        self.index = index
        self.up = True
        self.swapped = False  # its ways lead to another cable's ends
        self.ways = (Way(clock, delay), Way(clock, delay))
        self._listeners: tuple[Callable[[bool], None], ...] = ()

    def listen(self, heard: Callable[[bool], None]) -> None:
        """Call when carrier comes or goes."""
        self._listeners = (*self._listeners, heard)

    def forget(self, heard: Callable[[bool], None]) -> None:
        """Call no more."""
        self._listeners = tuple(other for other in self._listeners if other is not heard)

    def set_carrier(self, up: bool) -> None:
        """Both ends get carrier, or lose it."""
        if up == self.up:
            return
        self.up = up
        for way in self.ways:
            way.set_carrier(up)
        for heard in self._listeners:
            heard(up)
