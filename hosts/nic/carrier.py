"""Carrier of the NIC ports, as the kernel announces it (rtnetlink(7), RTMGRP_LINK).

For veth the kernel announces a change at once if the two ends have different interface indices; if they happen to be
equal it takes the change for one of an ordinary card and may hold it back for up to a second (net/core/link_watch.c).
"""

import logging
import os
import socket
import struct
from collections.abc import Iterable, Iterator

log = logging.getLogger(__name__)

RTMGRP_LINK = 1
RTM_NEWLINK = 16
RTM_DELLINK = 17
RTM_GETLINK = 18
NLM_F_REQUEST = 1
NLM_F_DUMP = 0x300
IFLA_IFNAME = 3
IFF_UP = 1
IFF_LOWER_UP = 1 << 16
_MESSAGE = struct.Struct("=IHHII")  # nlmsghdr: length, type, flags, sequence, port
_LINK = struct.Struct("=BBHiII")  # ifinfomsg: family, pad, type, index, flags, change
_ATTRIBUTE = struct.Struct("=HH")


class CarrierWatch:
    """Carrier state of some interfaces, and its changes."""

    def __init__(self, interfaces: Iterable[str]) -> None:
        self._state = dict.fromkeys(interfaces, False)
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, socket.NETLINK_ROUTE)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        self._socket.bind((0, RTMGRP_LINK))
        self._request_state()

    def _request_state(self) -> None:
        """Request the state of all links; the responses arrive like notifications."""
        body = _LINK.pack(socket.AF_UNSPEC, 0, 0, 0, 0, 0)
        header = _MESSAGE.pack(_MESSAGE.size + len(body), RTM_GETLINK, NLM_F_REQUEST | NLM_F_DUMP, 1, 0)
        self._socket.sendto(header + body, (0, 0))

    def fileno(self) -> int:
        """Return the descriptor that is readable when `changes` has something."""
        return self._socket.fileno()

    def changes(self) -> Iterator[tuple[str, bool]]:
        """Yield (interface, carrier) for every pending change."""
        while True:
            try:
                data = self._socket.recv(1 << 18)
            except BlockingIOError:
                return
            except OSError as error:
                # ENOBUFS: notifications were lost, so request the whole state again.
                log.warning("carrier announcements lost (%s), requesting them again", os.strerror(error.errno or 0))
                self._request_state()
                continue
            for name, up in _links(data):
                if name in self._state and self._state[name] != up:
                    self._state[name] = up
                    yield name, up

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


def _links(data: bytes) -> Iterator[tuple[str, bool]]:
    """Yield (interface, carrier) of the link messages in one datagram."""
    offset = 0
    while offset + _MESSAGE.size <= len(data):
        length, kind, *_ = _MESSAGE.unpack_from(data, offset)
        if length < _MESSAGE.size:
            return
        if kind in {RTM_NEWLINK, RTM_DELLINK}:
            *_, flags, _ = _LINK.unpack_from(data, offset + _MESSAGE.size)
            name = _name(data[offset + _MESSAGE.size + _LINK.size : offset + length])
            if name is not None:
                running = IFF_UP | IFF_LOWER_UP
                yield name, kind == RTM_NEWLINK and flags & running == running
        offset += (length + 3) & ~3


def _name(attributes: bytes) -> str | None:
    offset = 0
    while offset + _ATTRIBUTE.size <= len(attributes):
        length, kind = _ATTRIBUTE.unpack_from(attributes, offset)
        if length < _ATTRIBUTE.size:
            return None
        if kind == IFLA_IFNAME:
            return attributes[offset + _ATTRIBUTE.size : offset + length].rstrip(b"\0").decode()
        offset += (length + 3) & ~3
    return None
