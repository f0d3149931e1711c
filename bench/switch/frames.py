"""Frames of the benchmark, and the switch's entries to forward them: one T0 that shifts a micro-SID.

A frame is MRC's outermost headers: Ethernet, IPv6 to a list of micro-SIDs, IPv6 inside, UDP, BTH; the payload begins
with a 64-bit number. It takes the longest way through the lab's program: both micro-SID tables hit, the class is
trimmable, and a program is assumed to have neither trimming nor ECN.
"""

from __future__ import annotations

import struct

from mrclab.controller.provisioning.intent import EntryAction, IntendedEntry
from mrclab.hosts.rdma.packets import wire
from mrclab.topo.frames import PAYLOAD_AT, srv6_frame
from mrclab.topo.numbers import MRC_UDP_PORT, Dscp

SIZES = (128, 1024, 4200)
"""Bytes from Ethernet's first to the payload's last: an acknowledgement, something between, and MRC's 4 KiB packet."""

IN_PORT, OUT_PORT = 1, 2
MY_USID, NEXT_USID, AFTER_USID = 0x2101, 0x1102, 0x2102
BLOCK = 0xFCBB_BB00
OUT_SOURCE, OUT_DESTINATION = 0x020A_0000_0201, 0x020B_0000_0201
"""MAC addresses of a frame that was forwarded."""

NUMBER_AT = PAYLOAD_AT + wire.BTH.size
"""Offset of the number."""

NEVER = (1 << 19) - 1
"""A queue depth that no packet finds."""

_FORWARD = EntryAction("forward", (("port", OUT_PORT), ("src_mac", OUT_SOURCE), ("dst_mac", OUT_DESTINATION)))
_INNER = bytes.fromhex("fdcbbb00000000010000000000000001fdcbbb00000000020000000000000001")


def route(usid: int) -> IntendedEntry:
    """Return the entry that forwards packets whose first uSID is this one."""
    return IntendedEntry("usid_fib", (("locator_usid", BLOCK << 16 | usid),), (_FORWARD,))


ENTRIES = (
    IntendedEntry("my_usid", (("locator_usid", BLOCK << 16 | MY_USID),), (EntryAction("shift_usid"),)),
    route(NEXT_USID),
    IntendedEntry("trim_policy", (("std.egress_spec", OUT_PORT),),
                  (EntryAction("set_trim", (("threshold", NEVER), ("last_hop", 0))),)),
    IntendedEntry("ecn_policy", (("std.egress_port", OUT_PORT),),
                  (EntryAction("mark_between", (("min_depth", NEVER), ("last", 1))),)),
)  # fmt: skip


def frame(size: int, destination: bytes, number: int = 0) -> bytes:
    """Return a frame of `size` bytes for the MAC address of the switch's port."""
    payload = wire.BTH.pack(0x26, 0, wire.P_KEY, 0x11, 7) + struct.pack(">Q", number)
    usids = struct.pack(">IHHHHI", BLOCK, MY_USID, NEXT_USID, AFTER_USID, 0x3101, 0)
    macs, ports = destination + b"\x02\x0c\0\0\0\x01", (0xC101, MRC_UDP_PORT)
    traffic_class = Dscp.TRIMMABLE << 2 | wire.ECN_ECT
    payload = payload.ljust(size - PAYLOAD_AT, b"\0")
    return srv6_frame(macs, _INNER[:16] + usids, _INNER, ports, payload, traffic_class, 0x1C101)


def forwarded(sent: bytes) -> bytes:
    """Return a frame as a P4 switch forwards it: new MAC addresses, one hop less, the next micro-SID in front."""
    macs = OUT_DESTINATION.to_bytes(6, "big") + OUT_SOURCE.to_bytes(6, "big")
    usids = sent[38:42] + sent[44:54] + b"\0\0"
    return macs + sent[12:21] + bytes([sent[21] - 1]) + sent[22:38] + usids + sent[54:]
