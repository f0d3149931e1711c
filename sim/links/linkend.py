"""The end of cables at a host."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mrclab.sim.links.cable import CableEnd

if TYPE_CHECKING:
    from mrclab.sim.frame import SimFrame
    from mrclab.sim.links.cable import HalfLink
    from mrclab.sim.nic import SimNic


class PlugPort:
    """A port of whatever NIC is there, for a switch that pauses it."""

    __slots__ = ("_end", "_number")

    def __init__(self, end: LinkEnd, number: int) -> None:
        self._end = end
        self._number = number

    def pause(self, on: bool) -> None:
        """Have the NIC stop sending by the port, or to go on."""
        if self._end.nic is not None:
            self._end.nic.pause(self._number, on)


class LinkEnd(CableEnd):
    """Link end at a host; frames that come while no NIC is there are lost, unless `waken` puts one there."""

    __slots__ = ("nic", "waken")

    def __init__(self) -> None:
        self.nic: SimNic | None = None
        self.waken: Callable[[], object] | None = None

    def receive(self, frame: SimFrame, way: HalfLink) -> None:
        """Hand a frame on."""
        if self.nic is None and self.waken is not None:
            self.waken()
        if self.nic is not None:
            self.nic.receive(frame, way.far_port)

    def port(self, number: int) -> PlugPort:
        """The NIC's port of this number, whatever NIC there is then."""
        return PlugPort(self, number)
