"""Switch ports: one AF_PACKET socket per network interface, with a receive ring."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import socket
import struct
from collections.abc import Callable

from mrclab.softswitch.process.ring import RING_BYTES, SOL_PACKET, Ingress, PacketRing, Stamp

log = logging.getLogger(__name__)

ETH_P_ALL = 0x0003
PACKET_ADD_MEMBERSHIP, PACKET_STATISTICS, PACKET_QDISC_BYPASS, PACKET_IGNORE_OUTGOING = 1, 6, 20, 23
PACKET_MR_PROMISC = 1
BUFFER_BYTES = 4 << 20
"""Socket buffers requested per port: for frames on their way out, and for those too long for the ring."""


class PortError(Exception):
    """A port that cannot be opened; the text says which and why."""


class SoftSwitchPort:
    """One port with its socket; `ring`: bytes of the receive ring."""

    def __init__(self, number: int, interface: str, ring: int = RING_BYTES) -> None:
        self.number = number
        self.interface = interface
        try:
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, 0)
        except PermissionError as error:
            raise PortError(f"port {number}@{interface}: packet sockets need root (CAP_NET_RAW)") from error
        try:
            self._open(ring)
        except OSError as error:
            self.socket.close()
            raise PortError(f"port {number}@{interface}: {error.strerror or error}") from error
        self.fileno = self.socket.fileno()
        self.sent = self.send_errors = self._drops = 0
        self.transmit = self.socket.send

    def _open(self, ring: int) -> None:
        sock = self.socket
        index = socket.if_nametoindex(self.interface)
        sock.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        sock.setsockopt(SOL_PACKET, PACKET_QDISC_BYPASS, 1)
        sock.setsockopt(SOL_PACKET, PACKET_ADD_MEMBERSHIP, struct.pack("@iHH8s", index, PACKET_MR_PROMISC, 0, b""))
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, 33, BUFFER_BYTES)  # SO_RCVBUFFORCE
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, 32, BUFFER_BYTES)  # SO_SNDBUFFORCE
        self.ring = PacketRing(sock, self.mtu, ring)
        sock.bind((self.interface, ETH_P_ALL))

    def close(self) -> None:
        """Close the socket."""
        self.ring.close()
        self.socket.close()

    @property
    def received(self) -> int:
        """Return how many frames were received."""
        return self.ring.received

    def receiver(self, ingress: Ingress, stamp: Stamp) -> Callable[[], int]:
        """Return the function that hands waiting frames to `ingress` (frame, port, length) and returns how many.

        `stamp` is called with the time when the frame that waited longest was received.
        """
        return self.ring.receiver(ingress, self.number, stamp)

    def clear_error(self) -> None:
        """Forget that the interface went down; until then the socket counts as ready."""
        error = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            log.debug("port %d@%s: %s", self.number, self.interface, os.strerror(error))

    def send(self, data: bytearray) -> None:
        """Send a frame; a full or downed interface loses it, as on a wire."""
        try:
            self.transmit(data)
        except OSError as error:
            self.send_errors += 1
            log.debug("port %d@%s: send %d bytes: %s", self.number, self.interface, len(data), error)
        else:
            self.sent += 1

    def drops(self) -> int:
        """Return how many received frames the kernel has dropped for want of buffer so far."""
        _, drops = struct.unpack("@II", self.socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
        self._drops += drops
        return self._drops + self.ring.truncated

    @property
    def mtu(self) -> int:
        """Return the interface's MTU in bytes."""
        request = struct.pack("@16si12x", self.interface.encode(), 0)
        return int(struct.unpack("@16si12x", fcntl.ioctl(self.socket, 0x8921, request))[1])
