"""A cable in virtual time: two half-links with a delay, carrier at both ends, and the faults of their frames.

Carrier and faults apply where a frame leaves the cable, so that each crossing is one event. A frame that was in flight,
or was sent, while the cable was down is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from mrclab.sim.clock import NEVER

if TYPE_CHECKING:
    from mypy_extensions import i64

    from mrclab.sim.clock import Clock
    from mrclab.sim.frame import SimFrame
    from mrclab.sim.links.crossings import Crossings
    from mrclab.sim.switches.port import SimSwitchPort

_ALWAYS: Final = -NEVER


class HalfLinkFault(Protocol):
    """Fault of the frames in one direction of a cable."""

    def on_frame(self, frame: SimFrame, half_link: HalfLink) -> SimFrame | None:
        """Return the frame that arrives now; None if it is lost, or arrives later by itself."""


class CableEnd:
    """Receiver of frames at the end of a cable."""

    __slots__ = ()

    def receive(self, frame: SimFrame, half_link: HalfLink) -> None:
        """A frame arrives by this half-link."""
        raise NotImplementedError

    def attached(self, half_link: HalfLink) -> None:
        """A half-link ends here from now on."""

    def detached(self, half_link: HalfLink) -> None:
        """A half-link ends here no longer."""


class HalfLink:
    """One direction of a cable. `far` takes frames that come in by its `far_port`.

    `rx_packets` are the frames that a switch at the far end has counted, and `rx_bytes` theirs.
    """

    __slots__ = (
        "_clock", "_far", "clear_since", "delay", "detour", "far_port", "faults", "port",
        "rx_bytes", "rx_packets", "watch",
    )  # fmt: skip

    def __init__(self, clock: Clock, delay: i64) -> None:
        self._clock = clock
        self.delay = delay
        self.port: SimSwitchPort | None = None  # of the switch that sends into it
        self.clear_since: i64 = _ALWAYS  # since when there is carrier; frames sent before are lost
        self._far: CableEnd | None = None
        self.far_port = 0
        self.rx_packets = self.rx_bytes = 0
        self.faults: tuple[HalfLinkFault, ...] = ()  # oldest first
        self.detour: HalfLinkFault | None = None  # applied last
        self.watch: Crossings | None = None

    def attach(self, far: CableEnd, port: int) -> None:
        """Set the receiver at the far end and its port."""
        if self._far is not None:
            self._far.detached(self)
        self._far, self.far_port = far, port
        far.attached(self)

    @property
    def end(self) -> tuple[CableEnd, int]:
        """Receiver at the far end, and its port."""
        assert self._far is not None
        return self._far, self.far_port

    def enter(self, frame: SimFrame, at: i64) -> None:
        """Take a frame that leaves its port at this time, now or later."""
        frame.half_link = self
        self._clock.schedule(at + self.delay, frame)

    def leave(self, frame: SimFrame, now: i64) -> None:
        """Deliver a frame at the far end, unless it is lost."""
        port = self.port
        if port is not None:
            if port.next_leaves <= now:
                port.dequeue(now)
            if frame.flushed:
                return
        if now - self.delay < self.clear_since:
            if self.watch is not None:
                self.watch.observe(frame, self, False)
        elif self.faults or self.detour is not None:
            self._apply_faults(frame)
        else:
            self._arrive(frame)

    def _arrive(self, frame: SimFrame) -> None:
        far = self._far
        assert far is not None
        far.receive(frame, self)

    def _apply_faults(self, frame: SimFrame) -> None:
        for fault in self.faults:
            met = fault.on_frame(frame, self)
            if met is None:
                if self.watch is not None:
                    self.watch.observe(frame, self, False)
                return
            frame = met
            frame.half_link = self  # a damaged frame is a new one
        if self.detour is None or self.detour.on_frame(frame, self) is not None:
            if self.watch is not None:
                self.watch.observe(frame, self, True)
            self._arrive(frame)

    def leave_detour(self, frame: SimFrame) -> None:
        """Deliver a frame that a detour held, where there is carrier."""
        if self.clear_since <= self._clock.now:
            frame.half_link = self  # a copy has none yet
            self._arrive(frame)

    def set_carrier(self, up: bool) -> None:
        """Set carrier, or remove it."""
        self.clear_since = self._clock.now if up else NEVER
        if self.port is not None:
            self.port.forget_pause()


class Cable:
    """The cable of a link of the model, by its index; `half_links` begin at its ends a (NIC or T0) and b."""

    __slots__ = ("_listeners", "half_links", "index", "swapped", "up")

    def __init__(self, clock: Clock, index: int, delay: i64) -> None:
        self.index = index
        self.up = True
        self.swapped = False  # its half-links end at another cable's ends
        self.half_links = (HalfLink(clock, delay), HalfLink(clock, delay))
        self._listeners: tuple[Callable[[bool], None], ...] = ()

    def listen(self, listener: Callable[[bool], None]) -> None:
        """Call `listener(up)` when carrier changes."""
        self._listeners = (*self._listeners, listener)

    def forget(self, listener: Callable[[bool], None]) -> None:
        """Call the listener no more."""
        self._listeners = tuple(other for other in self._listeners if other is not listener)

    def set_carrier(self, up: bool) -> None:
        """Give carrier to both ends, or take it."""
        if up == self.up:
            return
        self.up = up
        for half_link in self.half_links:
            half_link.set_carrier(up)
        for listener in self._listeners:
            listener(up)
