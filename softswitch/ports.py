"""Switch ports: one AF_PACKET socket per network interface.

The kernel takes a VLAN tag out of a received frame and tells it beside the data; it is put back here, as libpcap does.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import socket
import struct
from collections.abc import Callable

log = logging.getLogger(__name__)

ETH_P_ALL = 0x0003
SOL_PACKET = 263
PACKET_ADD_MEMBERSHIP, PACKET_STATISTICS, PACKET_AUXDATA, PACKET_QDISC_BYPASS, PACKET_IGNORE_OUTGOING = 1, 6, 8, 20, 23
PACKET_MR_PROMISC = 1
TP_STATUS_VLAN_VALID, TP_STATUS_VLAN_TPID_VALID = 1 << 4, 1 << 6
LONGEST_FRAME = 65550
BUFFER_BYTES = 4 << 20
"""Receive buffer asked for per port; the kernel counts its own overhead too."""
BATCH = 32
"""Frames taken from one port before the others get their turn."""

ANCILLARY_BYTES = 64

Ingress = Callable[[bytearray, int, int], None]

_AUXDATA = struct.Struct("@IIIHHHH")  # tpacket_auxdata: status, len, snaplen, mac, net, vlan_tci, vlan_tpid


def _vlan_tag(auxdata: bytes) -> bytes:
    """Return the tag that the kernel took out of a frame."""
    status, _, _, _, _, tci, tpid = _AUXDATA.unpack(auxdata)
    return struct.pack(">HH", tpid if status & TP_STATUS_VLAN_TPID_VALID else 0x8100, tci)


class PortError(Exception):
    """A port that cannot be opened; the text says which and why."""


class Port:
    """One port with its socket."""

    def __init__(self, number: int, interface: str) -> None:
        self.number = number
        self.interface = interface
        try:
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, 0)
        except PermissionError as error:
            raise PortError(f"port {number}@{interface}: packet sockets need root (CAP_NET_RAW)") from error
        try:
            self._open()
        except OSError as error:
            self.socket.close()
            raise PortError(f"port {number}@{interface}: {error.strerror}") from error
        self.fileno = self.socket.fileno()
        self.sent = self.received = self.send_errors = self._drops = 0
        self._view = memoryview(bytearray(LONGEST_FRAME))
        self.transmit = self.socket.send

    def _open(self) -> None:
        sock = self.socket
        index = socket.if_nametoindex(self.interface)
        sock.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        sock.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        sock.setsockopt(SOL_PACKET, PACKET_QDISC_BYPASS, 1)
        sock.setsockopt(SOL_PACKET, PACKET_ADD_MEMBERSHIP, struct.pack("@iHH8s", index, PACKET_MR_PROMISC, 0, b""))
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, 33, BUFFER_BYTES)  # SO_RCVBUFFORCE
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, 32, BUFFER_BYTES)  # SO_SNDBUFFORCE
        sock.bind((self.interface, ETH_P_ALL))

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()

    def receiver(self, ingress: Ingress) -> Callable[[], None]:
        """Return the function that hands up to BATCH waiting frames to `ingress` (frame, port, length)."""
        receive, view, number = self.socket.recvmsg_into, self._view, self.number
        buffers = [view]
        again = BlockingIOError

        def receive_some() -> None:
            for _ in range(BATCH):
                try:
                    length, ancillary, _, _ = receive(buffers, ANCILLARY_BYTES)
                except again:
                    return
                except OSError as error:  # the interface went down or away
                    log.debug("port %d@%s: receive: %s", number, self.interface, error)
                    return
                frame = bytearray(view[:length])
                if ancillary[0][2][0] & TP_STATUS_VLAN_VALID:
                    frame[12:12] = _vlan_tag(ancillary[0][2])
                    length += 4
                self.received += 1
                ingress(frame, number, length)

        return receive_some

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
        return self._drops

    @property
    def mtu(self) -> int:
        """Return the interface's MTU in bytes."""
        request = struct.pack("@16si12x", self.interface.encode(), 0)
        return int(struct.unpack("@16si12x", fcntl.ioctl(self.socket, 0x8921, request))[1])
