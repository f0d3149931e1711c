"""Ports of a running fabric as raw sockets, frames across a cable: for self-tests."""

import contextlib
import functools
import socket
import struct
from collections.abc import Iterator

from mrclab.topo import srv6
from mrclab.topo.errors import TopoError
from mrclab.topo.linux import kernel
from mrclab.topo.linux.emulation import Emulation

ETH_P_IPV6 = 0x86DD
_ETHERTYPE = 0x88B6  # IEEE 802 local experimental 2
END = b"end"  # payload of the frame after which `RawPort.receive` returns
_TIMEOUT = 5.0  # seconds until a frame counts as lost that should have come
_ETHTOOL_GLINK, _PACKET_OUTGOING = 0x0A, 4


class NotObservedError(TopoError):
    """A fault did not have its effect."""


class RawPort:
    """Raw socket on one port of the fabric."""

    def __init__(self, lab: Emulation, interface: str, ethertype: int = _ETHERTYPE) -> None:
        node = interface.rpartition("-")[0]
        self._interface, self._ethertype, self._namespace = interface, ethertype, lab.namespace(node)
        self._socket = kernel.in_namespace(
            self._namespace, lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ethertype))
        )
        self._socket.bind((interface, ethertype))
        self._socket.settimeout(_TIMEOUT)

    def send(self, *payloads: bytes) -> None:
        """Send frames into a cable."""
        for payload in payloads:
            self._socket.send(b"\xff" * 6 + bytes(6) + struct.pack("!H", self._ethertype) + payload)

    def receive(self) -> list[bytes]:
        """Payloads up to the end mark."""
        got: list[bytes] = []
        while True:
            try:
                frame, (_, _, kind, _, _) = self._socket.recvfrom(65536)
            except TimeoutError:
                raise NotObservedError(f"no frame came to {self._interface} within {_TIMEOUT:.0f} s") from None
            if kind != _PACKET_OUTGOING:
                if frame[14 : 14 + len(END)] == END:
                    return got
                got.append(frame[14:])

    def drain(self) -> None:
        """Discard the frames that have arrived."""
        self._socket.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while self._socket.recv(65536):
                pass
        self._socket.settimeout(_TIMEOUT)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


@contextlib.contextmanager
def ports(lab: Emulation, *interfaces: str, ethertype: int = _ETHERTYPE) -> Iterator[list[RawPort]]:
    """Ports by their interfaces, closed after the block."""
    with contextlib.ExitStack() as stack:
        opened = [RawPort(lab, interface, ethertype) for interface in interfaces]
        for port in opened:
            stack.callback(port.close)
        yield opened


def across(one: RawPort, other: RawPort, count: int = 40) -> list[int]:
    """Numbers of the frames that arrive of `count` sent."""
    one.send(*(number.to_bytes(4, "big") + bytes(508) for number in range(count)), END)
    return [int.from_bytes(payload[:4], "big") for payload in other.receive()]


def carriers(lab: Emulation) -> dict[str, bool]:
    """Carrier of every port of the fabric at this moment, by interface."""
    found: dict[str, bool] = {}
    by_node: dict[str, list[str]] = {}
    for end in (end for link in lab.fabric.links for end in link.ends):
        by_node.setdefault(end.node, []).append(end.interface)
    for node, interfaces in by_node.items():
        found |= kernel.in_namespace(lab.namespace(node), functools.partial(_carriers, interfaces))
    return found


def _carriers(interfaces: list[str]) -> dict[str, bool]:
    """Carrier of some interfaces; called in their namespace."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        return {interface: kernel.ethtool(control, interface, _ETHTOOL_GLINK) == 1 for interface in interfaces}


def expect(holds: object, sentence: str) -> None:
    """Raise NotObservedError with the sentence unless `holds`."""
    if not holds:
        raise NotObservedError(sentence)


def srv6_packet(ev: int) -> bytes:
    """The start of a packet from T0 1 to T0 2 by an EV."""
    port, label = srv6.ev_to_wire(ev)
    address = srv6.address(srv6.template_cross(1, 2, 1), ev)
    outer = b"\x60\0\0\0\0\0\x29\x40" + bytes(16) + srv6.to_bytes(address)
    inner = (6 << 28 | label).to_bytes(4, "big") + b"\0\0\x11\x40" + bytes(32)
    return outer + inner + port.to_bytes(2, "big") + bytes(100)
