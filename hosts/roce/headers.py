"""Wire format of RoCEv2 over IPv6: opcodes, offsets and layouts; the headers are those of hosts.rdma.packets.wire.

Facts: InfiniBand architecture (RC transport, annex A17), docs/mrc-protocol.md §1.13. A frame is always
`Ethernet 14 | IPv6 40 | UDP 8 | BTH 12 | … | ICRC 4`, so every offset below is fixed. RETH is in the first packet
of a write only.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import Final

from mrclab.hosts.rdma.packets import wire
from mrclab.topo.numbers import ROCE_HEADER_BYTES, Dscp

UDP_AT: Final = 54
BTH_AT: Final = 62
BODY_AT: Final = 74  # first byte behind BTH
HEADER_BYTES: Final = ROCE_HEADER_BYTES

FIRST_SPORT: Final = 0xC000  # source ports of RoCEv2 are in the dynamic range


class RoceOpcode(IntEnum):
    """BTH opcodes of RC that the lab uses, and the congestion notification packet."""

    WRITE_FIRST = 0x06
    WRITE_MIDDLE = 0x07
    WRITE_LAST = 0x08
    WRITE_LAST_IMM = 0x09
    WRITE_ONLY = 0x0A
    WRITE_ONLY_IMM = 0x0B
    ACK = 0x11
    CNP = 0x81


WRITES: Final = frozenset(range(RoceOpcode.WRITE_FIRST, RoceOpcode.WRITE_ONLY_IMM + 1))
STARTS_MESSAGE: Final = frozenset(
    {int(RoceOpcode.WRITE_FIRST), int(RoceOpcode.WRITE_ONLY), int(RoceOpcode.WRITE_ONLY_IMM)}
)
ENDS_MESSAGE: Final = WRITES - {int(RoceOpcode.WRITE_FIRST), int(RoceOpcode.WRITE_MIDDLE)}
WITH_IMM: Final = frozenset({int(RoceOpcode.WRITE_LAST_IMM), int(RoceOpcode.WRITE_ONLY_IMM)})

BECN: Final = 0x40  # of BTH byte 4, set in CNPs as well

TC_DATA: Final = Dscp.NO_TRIM << 2 | wire.ECN_ECT
TC_CONTROL: Final = Dscp.CONTROL << 2
"""ACKs and CNPs. Queues of the lab count packets, not bytes: among data an ACK would cost as much as 4 KiB."""

# Ethernet, IPv6 (class and flow label word, payload length, next header, hop limit, addresses), UDP, BTH (opcode, pad
# byte, P_Key, reserved byte and destination QP, flags and PSN)
FRAME: Final = Struct(">12xH IHBx16s16s HHHH BBHII")
BTH_RETH: Final = Struct(">BBHII QII")
CNP_PAYLOAD: Final = bytes(16)
