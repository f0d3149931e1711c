"""Numbers that every part of the lab shares: ports of the P4 program, code points, queues, UDP ports, hop limit.

Trim code points and their use follow the MRC specification's traffic classes; their values are this lab's choice.
"""

from enum import IntEnum

MRC_UDP_PORT = 4791  # RoCEv2's port; MRC keeps it
CPU_PORT = 510  # packet-out and packet-in
DROP_PORT = 511
PRIORITIES = 8  # queues of a port; the highest number is served first
DATA_PRIORITY = 0  # limited to the link rate
CONTROL_PRIORITY = 7  # control and trimmed packets, not limited
HOP_LIMIT = 64  # of the outer header as sent; every switch that shifts takes one
MTU_HEADROOM = 256  # bytes that headers add to the path MTU
FULL_HEADER_BYTES = 142  # of a full MRC packet: Ethernet 14, IPv6 80, UDP 8, BTH 12, METH 4, TSETH 4, RETH 16, ICRC 4
ROCE_HEADER_BYTES = 78  # of a full RoCEv2 packet: Ethernet 14, IPv6 40, UDP 8, BTH 12, ICRC 4
SACK_BYTES = 154  # Ethernet 14, IPv6 80, UDP 8, BTH 12, SETH and CC_STATE 36, ICRC 4
LINK_CHECK_ETHERTYPE = 0x88B5  # IEEE 802 local experimental EtherType 1


class Dscp(IntEnum):
    """Code points, in the outer and the inner header alike."""

    NO_TRIM = 0
    TRIMMABLE = 4
    TRIMMABLE_RETX = 8
    TRIMMED = 12
    TRIMMED_LASTHOP = 16
    CONTROL = 46


def links_crossed(hop_limit: int) -> int:
    """Number of links a packet crossed to arrive with this outer hop limit."""
    return HOP_LIMIT - hop_limit + 1
