"""Records of messages and of packets on their way."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final

from mrclab.hosts.rdma.packets.message import PostedWrite

if TYPE_CHECKING:
    from mrclab.hosts.mrc.evs.ev import Ev


TAIL: Final = "tail"  # a tail loss probe sent it again: lost or not, its answer will tell
INFERRED: Final = frozenset({"time", "same-ev", "timeout"})  # rules by which a packet is lost as far as one can tell


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
    """One PSN in the window. The objects sit in a ring and are used again."""

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
        self.lost_ev: Ev | None = None  # the path it was last declared lost on
        self.lost_by = ""  # the rule that last declared it lost
        self.settled = False  # known which of its copies arrived
        self.exposed = False  # known that its last loss was none
        self.sampled = False  # its last copy has given a round-trip time
