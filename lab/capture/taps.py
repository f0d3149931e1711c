"""Taps on the cables of a running lab: every frame that a port sends, and every one that reaches it.

Both ends of every cable are in one namespace of the lab (`mrclab.topo.cables.cables`): one process sees all
ports. A frame that a port sent and no port received was lost on the cable between.
"""

import os
import selectors
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from mrclab.lab.capture.pcapng import INBOUND, OUTBOUND, CapturedFrame, Interface
from mrclab.lab.errors import LabError
from mrclab.topo.model import Link

_ALL = 0x0003  # ETH_P_ALL
_SO_TIMESTAMPNS = 35  # asm-generic/socket.h
_SO_RCVBUFFORCE = 33
_BUFFER_BYTES = 32 << 20
_MAX_FRAME_BYTES = 1 << 16  # bytes of one frame
_STATISTICS = (263, 6)  # SOL_PACKET, PACKET_STATISTICS
_TIMESPEC = struct.Struct("qq")


class Taps:
    """Sockets on both ends of some cables. `interfaces` are the ports, in the order in which frames name them."""

    def __init__(self, run_dir: Path, links: Sequence[Link]) -> None:
        from mrclab.topo.linux import kernel  # noqa: PLC0415 - Linux alone has what it needs

        self.interfaces = [Interface(end.interface, link.name) for link in links for end in link.ends]
        names = [f"c{link.index}{side}" for link in links for side in "ab"]
        self._selector = selectors.DefaultSelector()
        self._sockets: list[socket.socket] = []
        namespace = _cables_namespace(run_dir)
        try:
            kernel.in_namespace(namespace, lambda: self._sockets.extend(_tap(name) for name in names))
        finally:
            os.close(namespace)
        for place, tap in enumerate(self._sockets):
            self._selector.register(tap, selectors.EVENT_READ, place)

    def close(self) -> None:
        """Remove the taps."""
        for tap in self._sockets:
            tap.close()
        self._selector.close()

    def frames(self, timeout: float) -> Iterator[CapturedFrame]:
        """Return frames that have arrived, after waiting for them at most `timeout` seconds."""
        for key, _ in self._selector.select(timeout):
            assert isinstance(key.fileobj, socket.socket)
            yield from _drain(key.fileobj, key.data)

    def lost(self) -> int:
        """Return the number of frames that the kernel dropped since the last call."""
        return sum(struct.unpack("II", tap.getsockopt(*_STATISTICS, 8))[1] for tap in self._sockets)


def _cables_namespace(run_dir: Path) -> int:
    from mrclab.topo.linux import kernel, state  # noqa: PLC0415 - Linux alone has what it needs

    try:
        return os.open(kernel.NETNS_DIR / state.namespace(run_dir.parent, "cables"), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise LabError("the running lab has no cables yet; try again when it is up") from None


def _tap(interface: str) -> socket.socket:
    tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)  # receives nothing before it is bound
    tap.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
    tap.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    tap.bind((interface, _ALL))
    tap.setblocking(False)
    return tap


def _drain(tap: socket.socket, place: int) -> Iterator[CapturedFrame]:
    while True:
        try:
            data, ancillary, _, address = tap.recvmsg(_MAX_FRAME_BYTES, 64)
        except BlockingIOError:
            return
        except OSError:  # the cable is down, or the lab has gone
            return
        stamp = next((_TIMESPEC.unpack(value[:16]) for _, kind, value in ancillary if kind == _SO_TIMESTAMPNS), None)
        at = stamp[0] * 1_000_000_000 + stamp[1] if stamp else time.time_ns()
        # Frames sent at the cable's end are received by the port, and the reverse.
        direction = INBOUND if address[2] == socket.PACKET_OUTGOING else OUTBOUND
        yield CapturedFrame(at, place, direction, data, len(data))
