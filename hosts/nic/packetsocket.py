"""One Ethernet interface as a raw socket: a receive ring shared with the kernel, and sends without copies.

The ring is TPACKET_V2 (packet(7), Documentation/networking/packet_mmap.rst of the Linux kernel): frames are read where
the kernel put them, with the time of their arrival, and without a system call per frame. Version 2 wakes the reader at
each frame; version 3 would wait for a block to fill or a timer of milliseconds.
"""

import logging
import mmap
import socket
import struct
import time
from collections.abc import Iterator

log = logging.getLogger(__name__)

SOL_PACKET = 263
PACKET_RX_RING = 5
PACKET_STATISTICS = 6
PACKET_VERSION = 10
PACKET_QDISC_BYPASS = 20
PACKET_IGNORE_OUTGOING = 23
SO_SNDBUFFORCE = 32
TPACKET_V2 = 1
TP_STATUS_KERNEL = 0
TP_STATUS_USER = 1
ETH_P_ALL = 0x0003

_HEADER = struct.Struct("=4xIIH2xII")  # tp_status, tp_len, tp_snaplen, tp_mac, tp_net, tp_sec, tp_nsec
_RING_HEADROOM = 128  # tpacket2_hdr, sockaddr_ll and what aligns the Ethernet header
_BLOCK_BYTES = 65536
_MIN_SLOTS = 512  # frames in the receive ring
SEND_BUFFER_BYTES = 4 * 1024 * 1024

_CLOCK_TRIES = 4
_CLOCK_READ_NS = 20_000
"""Longest time for which two reads of the monotonic clock count as one moment."""


class PacketSocketError(Exception):
    """The interface cannot be opened; the text is one sentence with the remedy."""


class PacketSocket:
    """A raw socket bound to one interface, with a ring of at least `_MIN_SLOTS` frames of `max_frame` bytes.

    Raises PacketSocketError when the interface does not exist or the right to open it is missing.
    """

    def __init__(self, interface: str, max_frame: int) -> None:
        self.interface = interface
        self.drops = 0
        self.truncated = 0
        self._socket = _open(interface)
        try:
            self._set_options()
            self._map_ring(max_frame)
            self._socket.bind((interface, ETH_P_ALL))
        except OSError as error:
            self._socket.close()
            raise PacketSocketError(f"interface {interface} cannot be opened: {error.strerror or error}") from error
        self._seen_until = time.monotonic_ns()
        self.send = self._socket.send
        """Sends one frame; raises OSError (BlockingIOError if the interface is full)."""
        self.sendmsg = self._socket.sendmsg
        """Sends one frame given as parts, which are copied by the kernel only; raises as `send`."""

    def _set_options(self) -> None:
        self._socket.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        self._socket.setsockopt(SOL_PACKET, PACKET_QDISC_BYPASS, 1)
        self._socket.setsockopt(SOL_PACKET, PACKET_VERSION, TPACKET_V2)
        self._socket.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, SEND_BUFFER_BYTES)

    def _map_ring(self, max_frame: int) -> None:
        slot_bytes = -(-(max_frame + _RING_HEADROOM) // 64) * 64
        per_block = _BLOCK_BYTES // slot_bytes
        blocks = -(-_MIN_SLOTS // per_block)
        self.slots = blocks * per_block
        request = struct.pack("=IIII", _BLOCK_BYTES, blocks, slot_bytes, self.slots)
        self._socket.setsockopt(SOL_PACKET, PACKET_RX_RING, request)
        self._map = mmap.mmap(self._socket.fileno(), _BLOCK_BYTES * blocks)
        self._bytes = memoryview(self._map)
        self._words = self._bytes.cast("I")
        self._offsets = [b * _BLOCK_BYTES + i * slot_bytes for b in range(blocks) for i in range(per_block)]
        self._next = 0
        granted = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
        log.info("%s: receive ring of %d frames, send buffer of %d bytes", self.interface, self.slots, granted)

    def fileno(self) -> int:
        """Return the descriptor, which is readable when a frame waits."""
        return self._socket.fileno()

    def waiting(self) -> bool:
        """Return True if `frames` would yield a frame."""
        return bool(self._words[self._offsets[self._next] >> 2] & TP_STATUS_USER)

    def frames(self, limit: int) -> Iterator[tuple[float, memoryview]]:
        """Yield (arrival, frame) of up to `limit` waiting frames; arrival is the kernel's, in monotonic seconds.

        Arrival is never before the frame came, also where this process was preempted while it read the clocks: a round
        trip must not measure too short. A frame is valid until the next one is read: its slot then goes back to
        the kernel.
        """
        words, offsets, unpack, slots = self._words, self._offsets, _HEADER.unpack_from, self.slots
        since = self._seen_until
        now, to_monotonic = _wall_to_monotonic()
        at = self._next
        for _ in range(limit):
            offset = offsets[at]
            if not words[offset >> 2] & TP_STATUS_USER:
                self._seen_until = now
                return
            length, captured, mac, seconds, nanoseconds = unpack(self._map, offset)
            if length == captured:
                arrival = seconds * 1_000_000_000 + nanoseconds + to_monotonic
                # A step of the wall clock must not move a frame out of the time in which it can have come.
                if arrival > now:  # it came since the clocks were read, or they stepped
                    arrival = min(time.monotonic_ns(), arrival)
                elif arrival < since:
                    arrival = since
                start = offset + mac
                yield arrival * 1e-9, self._bytes[start : start + captured]
            else:
                self.truncated += 1
            words[offset >> 2] = TP_STATUS_KERNEL
            at = at + 1 if at + 1 < slots else 0
            self._next = at

    def clear_error(self) -> None:
        """Forget that the interface was down: the socket would stay readable with nothing to read."""
        self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)

    def count_drops(self) -> int:
        """Return the number of frames dropped so far by a full ring; the kernel's own count restarts at each read."""
        _, drops = struct.unpack("=II", self._socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
        self.drops += drops
        return self.drops

    def close(self) -> None:
        """Close ring and socket."""
        self._words.release()
        self._bytes.release()
        self._map.close()
        self._socket.close()


def _wall_to_monotonic() -> tuple[int, int]:
    """Return monotonic time, and its offset to wall-clock time, both ns.

    The sum may be late by the time between two reads of a clock, which is short unless preempted; it is never early.
    """
    for _ in range(_CLOCK_TRIES):
        before = time.monotonic_ns()
        wall = time.time_ns()
        now = time.monotonic_ns()
        if now - before < _CLOCK_READ_NS:
            break
    return now, now - wall


def _open(interface: str) -> socket.socket:
    try:
        socket.if_nametoindex(interface)
        # Protocol 0 until bind: nothing of other interfaces gets in meanwhile.
        return socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC, 0)
    except PermissionError as error:
        raise PacketSocketError(f"interface {interface} needs root (CAP_NET_RAW) to be opened raw") from error
    except OSError as error:
        raise PacketSocketError(f"no interface {interface} in this network namespace") from error
