"""Frames from the kernel without a system call: PACKET_RX_RING, version TPACKET_V2 (packet_mmap.rst, if_packet.h).

The kernel copies each frame into the next slot of a ring in shared memory and marks the slot; a reader that has read it
gives it back by clearing the mark. A frame too long for a slot also comes through the socket (PACKET_COPY_THRESH).
The version that packs frames tighter, TPACKET_V3, hands them over in blocks and by a timer: too late for a switch.
"""

from __future__ import annotations

import contextlib
import mmap
import socket
import struct
from collections.abc import Callable

Ingress = Callable[[bytearray, int, int], None]
Stamp = Callable[[int, int], None]
"""Called with the time of day at which the kernel received a frame: seconds and nanoseconds."""

RING_BYTES = 1 << 20
"""Largest ring of a port, 224 frames of 4 KiB: how far the switch may fall behind before frames are lost."""
MIN_RING_BYTES = 1 << 18
ALL_RINGS_BYTES = 1 << 22
"""Memory that the ports of one switch share: the more ports, the less often all of them are busy."""
BATCH = 32
"""Frames taken from one port before the others get their turn."""

SOL_PACKET = 263
PACKET_RX_RING, PACKET_COPY_THRESH, PACKET_VERSION = 5, 7, 10
TPACKET_V2 = 1
BLOCK_BYTES = 1 << 16
LONGEST_SLOT = 1 << 14
FRAME_AT = 66
"""Offset of an Ethernet frame in its slot: behind tpacket2_hdr and sockaddr_ll, its network header aligned."""
HEADROOM = FRAME_AT + 14 + 4
"""Bytes of a slot besides an MTU: the frame's offset, Ethernet's header, a tag that the kernel left in."""

USER, COPY, VLAN_VALID, VLAN_TPID_VALID = 1 << 0, 1 << 1, 1 << 4, 1 << 6  # TP_STATUS_*
UNUSUAL = COPY | VLAN_VALID
LENGTH, SNAP_LENGTH, OFFSETS, SECONDS, NANOSECONDS, VLAN = range(1, 7)
"""Words of tpacket2_hdr behind tp_status: tp_len, tp_snaplen, tp_mac and tp_net, tp_sec, tp_nsec, tp_vlan_tci and
tp_vlan_tpid."""
MAC_BITS = 0xFFFF


def ring_bytes(ports: int) -> int:
    """Return the bytes of a ring where a switch has that many ports."""
    share = ALL_RINGS_BYTES // max(ports, 1) // BLOCK_BYTES * BLOCK_BYTES
    return max(MIN_RING_BYTES, min(share, RING_BYTES))


class PacketRing:
    """The ring of one packet socket, of `size` bytes. Raises OSError where the kernel has no memory for it."""

    def __init__(self, sock: socket.socket, mtu: int, size: int = RING_BYTES) -> None:
        self._socket = sock
        slot = min((HEADROOM + mtu + 15) & ~15, LONGEST_SLOT)
        blocks = size // BLOCK_BYTES
        sock.setsockopt(SOL_PACKET, PACKET_VERSION, TPACKET_V2)
        sock.setsockopt(SOL_PACKET, PACKET_COPY_THRESH, 1)
        request = struct.pack("@IIII", BLOCK_BYTES, blocks, slot, BLOCK_BYTES // slot * blocks)  # tpacket_req
        sock.setsockopt(SOL_PACKET, PACKET_RX_RING, request)
        self._map = mmap.mmap(sock.fileno(), blocks * BLOCK_BYTES)
        self._bytes = memoryview(self._map)
        self._words = self._bytes.cast("I")
        starts = [
            block * BLOCK_BYTES + number * slot for block in range(blocks) for number in range(BLOCK_BYTES // slot)
        ]
        self._slots = [start // 4 for start in starts]
        self._longest = slot - FRAME_AT
        self._next = 0
        self.received = 0
        self.truncated = 0
        """Frames lost because they were too long for a slot and the socket's buffer was full."""

    def close(self) -> None:
        """Give the memory back; the socket is the caller's."""
        self._words.release()
        self._bytes.release()
        with contextlib.suppress(BufferError):
            self._map.close()

    def receiver(self, ingress: Ingress, port: int, stamp: Stamp) -> Callable[[], int]:
        """Return the function that hands up to BATCH waiting frames to `ingress` and returns how many there were.

        `stamp` is called with the time when the first of them, which waited longest, was received.
        """
        words, view, slots, longest = self._words, self._bytes, self._slots, self._longest
        count = len(slots)

        def receive_some() -> int:
            frame: bytearray | None
            index, taken = self._next, 0
            at = slots[index]
            try:
                while taken < BATCH:
                    status = words[at]
                    if not status & USER:
                        break
                    if not taken:
                        stamp(words[at + SECONDS], words[at + NANOSECONDS])
                    start, length = (at << 2) + (words[at + OFFSETS] & MAC_BITS), words[at + LENGTH]
                    if status & UNUSUAL or length > longest:
                        frame = self._unusual(at, start, length)
                    else:
                        frame = bytearray(view[start : start + length])
                    words[at] = 0
                    index = index + 1 if index + 1 < count else 0
                    at, taken = slots[index], taken + 1
                    if frame is not None:
                        ingress(frame, port, len(frame))
            finally:
                self._next = index
                self.received += taken
            return taken

        return receive_some

    def _unusual(self, at: int, start: int, length: int) -> bytearray | None:
        """Return a frame that was too long for its slot, or whose VLAN tag the kernel has taken out."""
        words, kept = self._words, self._words[at + SNAP_LENGTH]
        if words[at] & COPY:
            frame = bytearray(length)
            with contextlib.suppress(OSError):
                kept = self._socket.recv_into(frame)
        else:
            frame = bytearray(self._bytes[start : start + kept])
        if kept != length:
            self.truncated += 1
            return None
        if words[at] & VLAN_VALID:
            tag = words[at + VLAN]
            kind = tag >> 16 if words[at] & VLAN_TPID_VALID else 0x8100
            frame[12:12] = struct.pack(">HH", kind, tag & 0xFFFF)
        return frame
