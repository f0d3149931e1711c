"""The end of cables at a host."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mrclab.sim.links.cable import CableEnd

if TYPE_CHECKING:
    from mrclab.sim.frame import SimFrame
    from mrclab.sim.links.cable import HalfLink
    from mrclab.sim.nic import SimNic


class HostPort:
    """A port of the NIC at this end, for a switch that pauses it."""

    __slots__ = ("_end", "_number")

    def __init__(self, end: LinkEnd, number: int) -> None:
        self._end = end
        self._number = number

    def pause(self, on: bool) -> None:
        """Have the NIC stop sending by the port, or resume."""
        if self._end.nic is not None:
            self._end.nic.pause(self._number, on)


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

    def port(self, number: int) -> HostPort:
        """Return the NIC's port of this number; valid for a later NIC as well."""
        return HostPort(self, number)
