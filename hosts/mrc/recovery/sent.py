"""Records of messages and of packets in flight."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final

from mrclab.hosts.rdma.packets.message import PostedWrite

if TYPE_CHECKING:
    from mrclab.hosts.mrc.evs.ev import Ev


TAIL: Final = "tail"  # retransmitted by a tail loss probe: the answer shows whether it was lost
INFERRED: Final = frozenset({"time", "same-ev", "timeout"})  # rules that infer a loss


class PacketState(IntEnum):
    """State of a packet."""

    FREE = 0
    FLIGHT = 1
    LOST = 2  # declared lost, waits for retransmission
    ACKED = 3


class MrcMessage(PostedWrite):
    """One posted write while it is in the send queue."""

    __slots__ = ("msn", "packets", "rqmsn", "sent")

    msn: int
    rqmsn: int
    packets: int
    sent: int  # packets handed out so far


class SentPacket:
    """One PSN in the window. The objects are in a ring and are reused."""

    __slots__ = (
        "ev",
        "exposed",
        "lost_by",
        "lost_ev",
        "message",
        "nominal",
        "offset",
        "op",
        "order",
        "previous_ts",
        "sampled",
        "sends",
        "sent_at",
        "seq",
        "settled",
        "size",
        "state",
        "ts",
    )

    message: MrcMessage
    ev: Ev

    def __init__(self) -> None:
        self.seq = -1
        self.state = PacketState.FREE
        self.order = 0  # number of its latest transmission among all of the QP
        self.offset = self.size = self.op = 0
        self.nominal = 0  # bytes as congestion control counts them
        self.sends = 0
        self.sent_at = 0.0
        self.ts = self.previous_ts = 0
        self.lost_ev: Ev | None = None  # path on which it was last declared lost
        self.lost_by = ""  # rule that last declared it lost
        self.settled = False  # the copy that arrived is known
        self.exposed = False  # its last loss is known to be none
        self.sampled = False  # its last copy gave a round-trip time
