"""A NIC port as RoCEv2 sees it."""

from __future__ import annotations

from collections import deque

from mrclab.hosts.rdma import endpoint as rc
from mrclab.hosts.roce.qp import ControlItem, RoceQueuePair


class RocePort(rc.TransportPort):
    """One NIC port, with the control packets and the QPs that wait for it."""

    __slots__ = ("control", "paced", "ready")

    def __init__(self, number: int, plane: int) -> None:
        super().__init__(number, plane)
        self.control: deque[ControlItem] = deque()
        self.ready: deque[RoceQueuePair] = deque()  # have something to send
        self.paced: list[tuple[float, int, RoceQueuePair]] = []  # heap of those that their rate limiters hold back
