"""Control packets to be sent: the trigger is kept, the content is made when a port sends the packet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mrclab.hosts.mrc.evs.paths import EvRoute
from mrclab.hosts.mrc.packets import headers as h
from mrclab.hosts.rdma.packets.path import Frame

if TYPE_CHECKING:
    from mrclab.hosts.mrc.qp import MrcQueuePair

_CLASS: Final = h.TC_CONTROL
_SACK: Final = int(h.MrcOpcode.SACK)
_NACK: Final = int(h.MrcOpcode.NACK)


class SackItem:
    """A pending SACK; `probe_id` if it answers a probe, `gaps` if it is to show an older gap."""

    __slots__ = ("entropy", "gaps", "mark", "probe_id", "qp", "seq", "timestamp")

    def __init__(
        self,
        qp: MrcQueuePair,
        mark: int,
        entropy: int,
        timestamp: int,
        seq: int,
        probe_id: int | None,
        gaps: bool = False,
    ) -> None:
        self.qp = qp
        self.mark = mark
        self.entropy = entropy
        self.timestamp = timestamp
        self.seq = seq
        self.probe_id = probe_id
        self.gaps = gaps

    def frame(self, path: EvRoute, now: float) -> Frame:
        """Build the frame for a path."""
        qp = self.qp
        qp.stats.sacks_sent += 1
        return path.packet(_CLASS, _SACK, qp.remote_qpn, 0, qp.responder.take_sack(self, now))


class ReplyItem:
    """A pending NACK (`op`), or a Transport ACK or NAK."""

    __slots__ = ("content", "op", "psn", "qp")

    def __init__(self, qp: MrcQueuePair, op: int, psn: int, content: h.Content) -> None:
        self.qp = qp
        self.op = op
        self.psn = psn
        self.content = content

    def frame(self, path: EvRoute, now: float) -> Frame:
        """Build the frame for a path."""
        if self.op == _NACK:
            self.qp.stats.nacks_sent += 1
        else:
            self.qp.stats.acks_sent += 1
        return path.packet(_CLASS, self.op, self.qp.remote_qpn, self.psn, self.content)


ControlItem = SackItem | ReplyItem
