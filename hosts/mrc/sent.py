"""Records of messages and of packets on their way."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hosts.mrc.ev import Ev
    from hosts.mrc.memory import MemoryRegion


class PacketState(IntEnum):
    """Where a packet stands."""

    FREE = 0
    FLIGHT = 1
    LOST = 2  # declared lost, waits for retransmission
    ACKED = 3


class Message:
    """One posted write while it is in the send queue."""

    __slots__ = (
        "first_seq",
        "imm",
        "last_seq",
        "length",
        "msn",
        "opcode",
        "packets",
        "region",
        "remote_va",
        "rkey",
        "rqmsn",
        "sent",
        "view",
        "wr_id",
    )

    def __init__(
        self,
        wr_id: int,
        opcode: str,
        region: MemoryRegion | None,
        view: memoryview,
        remote_va: int,
        rkey: int,
        imm: int | None,
        packets: int,
    ) -> None:
        self.wr_id = wr_id
        self.opcode = opcode
        self.region = region
        self.view = view
        self.length = len(view)
        self.remote_va = remote_va
        self.rkey = rkey
        self.imm = imm
        self.packets = packets
        self.sent = 0  # packets handed out so far
        self.first_seq = self.last_seq = -1  # set when the first packet goes out
        self.msn = self.rqmsn = 0

    def release(self) -> None:
        """The message is over: neither its region nor the buffer behind it is needed any more."""
        if self.region is not None:
            self.region.users -= 1
            self.region = None
        self.view.release()


class SentPacket:
    """One PSN in the window. The objects sit in a ring and are used again."""

    __slots__ = (
        "ev",
        "lost_ev",
        "message",
        "missing_age",
        "nominal",
        "offset",
        "op",
        "order",
        "previous_ts",
        "sends",
        "sent_at",
        "seq",
        "settled",
        "size",
        "state",
        "ts",
    )

    message: Message
    ev: Ev

    def __init__(self) -> None:
        self.seq = -1
        self.state = PacketState.FREE
        self.order = 0  # number of its latest transmission among all of the QP
        self.offset = self.size = self.op = 0
        self.nominal = 0  # bytes as congestion control counts them
        self.sends = 0
        self.sent_at = 0.0
        self.missing_age = -1.0  # how much younger packets had arrived when a SACK last showed it missing; −1: never
        self.ts = self.previous_ts = 0
        self.lost_ev: Ev | None = None  # the path it was last declared lost on
        self.settled = False  # known which of its copies arrived
