"""Records of messages and of packets in flight."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final

from mrclab.hosts.mrc.packets import headers as h
from mrclab.hosts.rdma.packets import wire
from mrclab.hosts.rdma.packets.message import PostedWrite

if TYPE_CHECKING:
    from mrclab.hosts.mrc.evs.ev import Ev


_OPCODES: Final = wire.write_opcodes(int(h.MrcOpcode.WRITE_FIRST))
_MIDDLE: Final = int(h.MrcOpcode.WRITE_MIDDLE)

TAIL: Final = "tail"  # retransmitted by a tail loss probe: the response shows whether it was lost
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

    def unsent_bytes(self, mtu: int, full_nominal: int, overhead: int) -> int:
        """Return the nominal size of the packets that were not handed out; sizes as of `fill`."""
        last = self.length - (self.packets - 1) * mtu
        ends = last + (-last & 3) + overhead + (4 if self.imm is not None else 0)
        return (self.packets - 1 - self.sent) * full_nominal + ends

    def fill(self, packet: SentPacket, mtu: int, full_nominal: int, overhead: int) -> bool:
        """Fill a new packet with the next piece; return True if it is the last. Sizes in bytes.

        `full_nominal` is the nominal size of a packet of one MTU, `overhead` that of headers.
        """
        index = self.sent
        packet.message = self
        self.sent = index + 1
        packet.offset = index * mtu
        if 0 < index < self.packets - 1:
            packet.size, packet.op, packet.nominal = mtu, _MIDDLE, full_nominal
            return False
        last = self.sent == self.packets
        with_imm = self.imm is not None
        packet.size = size = min(mtu, self.length - packet.offset)
        packet.op = _OPCODES[index == 0, last, with_imm]
        packet.nominal = size + (-size & 3) + overhead + (4 if last and with_imm else 0)
        if index == 0:
            self.first_seq = packet.seq
            self.last_seq = packet.seq + self.packets - 1
        return last


class SentPacket:
    """One PSN in the window. The objects are in a ring and are reused."""

    __slots__ = (
        "disproved", "ev", "lost_by", "lost_ev", "message", "nominal", "offset", "op", "order", "previous_ts",
        "sampled", "sends", "sent_at", "seq", "settled", "size", "state", "ts",
    )  # fmt: skip

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
        self.disproved = False  # the loss that was declared last has proved wrong
        self.sampled = False  # its last copy gave a round-trip time
