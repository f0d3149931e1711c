"""Send scheduler of one host: the runnable QPs take turns; each chooses the plane of its packet.

QPs that are idle or blocked by the window of their destination are not in the rotation, however many there are. They
return with feedback of their own, or when that window opens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mrclab.hosts.mrc.cc import Qpcc
from mrclab.hosts.mrc.scheduling import QpScheduler, SendState, scheduler
from mrclab.hosts.rdma.packets.path import Frame

if TYPE_CHECKING:
    from mrclab.hosts.mrc.endpoint import MrcEndpoint
    from mrclab.hosts.mrc.qp import MrcQueuePair

_RUNNABLE: Final = SendState.RUNNABLE
_IDLE: Final = SendState.IDLE


class SendScheduler:
    """Rotation of the QPs that may have data to send."""

    __slots__ = ("_endpoint", "_rotation", "_scheduler", "urgent")

    def __init__(self, endpoint: MrcEndpoint) -> None:
        self._rotation: list[MrcQueuePair] = []
        self._endpoint = endpoint
        section = endpoint.config.transport
        self._scheduler = scheduler(section.scheduler, section.scheduler_config)
        self.urgent = False  # a QP may have a retransmission or a probe to send

    def runnable(self) -> bool:
        """Return True if a QP may send, in any plane."""
        while self._rotation:
            if not self._remove_if_blocked(self._rotation[0]):
                return True
        return False

    def urgent_frame(self, plane: int, now: float) -> Frame | None:
        """Return a probe or a retransmission; if no QP has any, clear `urgent`."""
        self.urgent = False
        for qp in self._rotation:
            if not (qp.requestor.lost or qp.prober.waiting):
                continue
            self.urgent = True
            if qp.prober.has_probe(plane):
                frame = qp.prober.frame(plane, now)
                if frame is not None:
                    return frame
            if qp.requestor.has_retransmission():
                frame = qp.requestor.retransmission_frame(plane, now)
                if frame is not None:
                    return frame
        return None

    def data_frame(self, plane: int, now: float) -> Frame | None:
        """Return new data of the next QP that has some for this plane."""
        rotation = self._rotation
        if self._scheduler is not None and len(rotation) > 1:
            return self._chosen_frame(self._scheduler, plane, now)
        left = len(rotation)
        while left and rotation:
            left -= 1
            qp = rotation[0]
            frame = qp.requestor.new_frame(plane, now)
            if frame is None and self._remove_if_blocked(qp):
                continue
            if len(rotation) > 1:
                rotation.append(rotation.pop(0))
            if qp.qpcc.pending and self.on_window_open(qp.qpcc):
                left += 1
            if frame is not None:
                return frame
        return None

    def _chosen_frame(self, order: QpScheduler, plane: int, now: float) -> Frame | None:
        """Return new data of the QP that the scheduler chooses, among those that can send in this plane."""
        waiting = list(self._rotation)
        while waiting:
            qp = waiting.pop(order.choose(waiting))
            frame = qp.requestor.new_frame(plane, now)
            if frame is not None:
                if qp.qpcc.pending:
                    self.on_window_open(qp.qpcc)
                return frame
            self._rotation.remove(qp)
            self._rotation.insert(0, qp)
            self._remove_if_blocked(qp)
        return None

    def wake(self, qp: MrcQueuePair) -> None:
        """Add a QP that may have data to send."""
        if not qp.in_rotation and not qp.idle:
            self._enter(qp, first=False)
        else:
            self._endpoint.on_work()

    def on_window_open(self, qpcc: Qpcc) -> bool:
        """A window may have opened: put the QP that has waited longest into the rotation; return False without one."""
        pending = qpcc.pending
        while pending and qpcc.controller.allows(0):
            qp = pending.popleft()
            qp.pending = False
            if not qp.in_rotation and not qp.idle:
                self._enter(qp, first=True)
                return True
        return False

    def remove(self, qp: MrcQueuePair) -> None:
        """Remove a QP that was destroyed."""
        if qp.in_rotation:
            self._rotation.remove(qp)
            qp.in_rotation = False
        if qp.pending:
            qp.qpcc.pending.remove(qp)
            qp.pending = False

    def _remove_if_blocked(self, qp: MrcQueuePair) -> bool:
        """Remove the QP in turn from the rotation if it is idle or window-blocked; return False if it may send.

        It is the first one, unless it failed as it was to send: that put a QP that waited for the window before it.
        """
        state = qp.requestor.send_state()
        if state is _RUNNABLE:
            return False
        self._rotation.remove(qp)
        qp.in_rotation = False
        if state is _IDLE:
            if qp.qpcc.pending:
                self.on_window_open(qp.qpcc)
        elif not qp.pending:
            qp.pending = True
            qp.qpcc.wait(qp)
        return True

    def _enter(self, qp: MrcQueuePair, first: bool) -> None:
        qp.in_rotation = True
        if first:
            self._rotation.insert(0, qp)
        else:
            self._rotation.append(qp)
        if qp.requestor.lost or qp.prober.waiting:
            self.urgent = True
        self._endpoint.on_work()
