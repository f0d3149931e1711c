"""Proves each kind of fault on this machine's kernel, with real frames through real cables, and that nothing is left.

A small fabric is built with a stand-in for the switch process; then every fault is made, looked at and healed. What a
kernel or an nftables version cannot do shows here, in one sentence, and not in the middle of a scenario.
"""

import contextlib
import ctypes
import fcntl
import os
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from topo import kernel, srv6
from topo.cablefaults import Action, Corrupt, Drop, EveryNth, Loss, Match, Packets, RateLimit
from topo.emulation import Emulation
from topo.errors import TopoError
from topo.model import Fabric
from topo.relay import Impairment
from topo.relays import impair
from topo.spec import load
from topo.targets import Launch, Softswitch

_ETHERTYPE = 0x88B6  # IEEE 802 local experimental 2
_ETH_P_IPV6 = 0x86DD
_END = b"end"
_DATA = Match(min_length=200)  # leaves the end mark alone
_TIMEOUT = 5.0  # seconds until a frame counts as lost that should have come
_SIOCETHTOOL, _ETHTOOL_GLINK, _PACKET_OUTGOING = 0x8946, 0x0A, 4
_CABLE, _OTHER = "h1-p1", "h2-p1"
_LISTENER = "import signal, socket, sys; s = socket.socket(1); s.bind(sys.argv[1]); s.listen(); signal.pause()"


@dataclass(frozen=True)
class Verdict:
    """What the test of one kind of fault showed; `detail` is empty where it holds."""

    name: str
    holds: bool
    detail: str = ""


class _UnprovenError(TopoError):
    """A fault did not do what it says."""


class _StandIn(Softswitch):
    name = "stand-in"
    schedules_itself = False

    def argv(self, launch: Launch) -> list[str]:
        return [sys.executable, "-S", "-E", "-c", _LISTENER, str(launch.socket)]


class _Port:
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
        for payload in payloads:
            self._socket.send(b"\xff" * 6 + bytes(6) + struct.pack("!H", self._ethertype) + payload)

    def receive(self) -> list[bytes]:
        """Payloads up to the end mark."""
        got: list[bytes] = []
        while True:
            try:
                frame, (_, _, kind, _, _) = self._socket.recvfrom(65536)
            except TimeoutError:
                raise _UnprovenError(f"no frame came to {self._interface} within {_TIMEOUT:.0f} s") from None
            if kind != _PACKET_OUTGOING:
                if frame[14 : 14 + len(_END)] == _END:
                    return got
                got.append(frame[14:])

    def carrier(self) -> bool:
        """What the driver says at this moment."""

        def ask() -> bool:
            value = (ctypes.c_uint32 * 2)(_ETHTOOL_GLINK, 0)
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
                request = struct.pack("16sP8x", self._interface.encode(), ctypes.addressof(value))
                fcntl.ioctl(control, _SIOCETHTOOL, request)
            return value[1] == 1

        return kernel.in_namespace(self._namespace, ask)

    def close(self) -> None:
        self._socket.close()


@contextlib.contextmanager
def _ports(lab: Emulation, *interfaces: str, ethertype: int = _ETHERTYPE) -> Iterator[list[_Port]]:
    with contextlib.ExitStack() as stack:
        opened = [_Port(lab, interface, ethertype) for interface in interfaces]
        for port in opened:
            stack.callback(port.close)
        yield opened


def _across(one: _Port, other: _Port, count: int = 40) -> list[int]:
    """Numbers of the frames that arrive of `count` sent."""
    one.send(*(number.to_bytes(4, "big") + bytes(508) for number in range(count)), _END)
    return [int.from_bytes(payload[:4], "big") for payload in other.receive()]


def _expect(holds: object, sentence: str) -> None:
    if not holds:
        raise _UnprovenError(sentence)


def _joined(lab: Emulation) -> None:
    with _ports(lab, "h1-p1", "t0-p1-1-1") as (one, other):
        frames = [os.urandom(size) for size in (46, 1500, 4096, lab.fabric.spec.interface_mtu)]
        for sender, receiver in ((one, other), (other, one)):
            sender.send(*frames, _END)
            _expect(receiver.receive() == frames, "frames do not cross a cable unchanged")


def _link_down(lab: Emulation) -> None:
    with _ports(lab, "h1-p1", "t0-p1-1-1", "h2-p1", "t0-p1-1-2") as (one, other, third, fourth):
        lab.cables.down(_CABLE)
        _expect(not one.carrier() and not other.carrier(), "carrier stays at a port of a cable that is down")
        _expect(third.carrier() and fourth.carrier(), "another cable lost its carrier")
        _expect(_across(third, fourth) == list(range(40)), "another cable lost frames")
        lab.cables.up(_CABLE)
        _expect(one.carrier() and other.carrier(), "carrier does not come back")


def _packets(action: Action, wanted: Callable[[list[int]], bool]) -> Callable[[Emulation], None]:
    def check(lab: Emulation) -> None:
        with _ports(lab, "h2-p1", "t0-p1-1-2") as (one, other):
            fault = lab.cables.inject(_OTHER, action, match=_DATA, direction="up")
            got, back = _across(one, other), _across(other, one)
            count = lab.cables.heal(fault)
            _expect(wanted(got), f"{len(got)} of 40 frames arrived: {got}")
            _expect(back == list(range(40)), "the other direction lost frames")
            _expect(count.seen == 40 and count.hit == 40 - len(got), f"counted {count}, {len(got)} of 40 arrived")
            _expect(_across(one, other) == list(range(40)), "frames are lost after the fault was healed")

    return check


def _corruption(lab: Emulation) -> None:
    with _ports(lab, "h2-p1", "t0-p1-1-2") as (one, other):
        fault = lab.cables.inject(_OTHER, Corrupt(offset=100, flip=0x81), match=_DATA, direction="up")
        one.send(bytes(512), _END)
        (got,) = other.receive()
        lab.cables.heal(fault)
        _expect([(at, byte) for at, byte in enumerate(got) if byte] == [(100, 0x81)], "not exactly one byte changed")


def _listed(match: Match, survivors: list[int]) -> Callable[[Emulation], None]:
    def check(lab: Emulation) -> None:
        evs = [srv6.ev(1, uplink, srv6.ev_tag(uplink)) for uplink in (1, 2, 3)]
        with _ports(lab, "h2-p1", "t0-p1-1-2", ethertype=_ETH_P_IPV6) as (one, other):
            fault = lab.cables.inject(_OTHER, Drop(), match=match, direction="up")
            one.send(*(_srv6_packet(ev) for ev in evs), _END)
            got = other.receive()
            lab.cables.heal(fault)
            arrived = [number for number, ev in enumerate(evs, 1) if _srv6_packet(ev) in got]
            _expect(arrived == survivors, f"of EVs 1, 2, 3 these arrived: {arrived}")

    return check


def _srv6_packet(ev: int) -> bytes:
    port, label = srv6.ev_to_wire(ev)
    address = srv6.address(srv6.template_cross(1, 2, 1), ev)
    outer = b"\x60\0\0\0\0\0\x29\x40" + bytes(16) + srv6.to_bytes(address)
    inner = (6 << 28 | label).to_bytes(4, "big") + b"\0\0\x11\x40" + bytes(32)
    return outer + inner + port.to_bytes(2, "big") + bytes(100)


def _swapped(lab: Emulation) -> None:
    with _ports(lab, "h1-p1", "t0-p1-1-1", "h2-p1", "t0-p1-1-2") as (one, other, third, fourth):
        lab.cables.swap(_CABLE, _OTHER)
        crossed = _across(one, fourth) == _across(other, third) == list(range(40))
        lab.cables.swap(_CABLE, _OTHER)
        _expect(crossed, "swapped cables do not lead to each other's far ends")
        _expect(_across(one, other) == _across(third, fourth) == list(range(40)), "cables stay swapped")


def _relayed(lab: Emulation) -> None:
    with _ports(lab, "h2-p1", "t0-p1-1-2") as (one, other):
        relayed = impair(lab, _OTHER, Impairment(delay=0.03, lose=(2, 3)), direction="up")
        began = time.monotonic()
        got = _across(one, other)
        late = time.monotonic() - began
        relayed.heal()
        _expect(late >= 0.03, f"frames came after {late * 1000:.0f} ms instead of 30")
        _expect(got == [0, *range(3, 40)], f"frames 2 and 3 should be lost; these arrived: {got}")
        _expect(_across(one, other) == list(range(40)), "frames are lost after the relay went")


def _processes(lab: Emulation) -> None:
    lab.kill("t0-p1-1")
    _expect(not lab.is_alive("t0-p1-1"), "a killed switch lives")
    lab.restart("t0-p1-1")
    pid = lab.processes()["t0-p1-1"]
    lab.freeze("t0-p1-1")
    status = (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0]
    lab.thaw("t0-p1-1")
    _expect(status == "T", "a frozen switch runs")


_CHECKS: dict[str, Callable[[Emulation], None]] = {
    "cable joins its ports": _joined,
    "link down and up": _link_down,
    "silent drop": _packets(Drop(), lambda got: not got),
    "gray loss": _packets(Loss(0.5), lambda got: 4 < len(got) < 36),  # else once in five million runs
    "every n-th packet": _packets(EveryNth(4), lambda got: got == [n for n in range(40) if n % 4]),
    "listed packets": _packets(Packets((1, 7, 40)), lambda got: got == [n for n in range(40) if n not in {0, 6, 39}]),
    "rate limit": _packets(RateLimit(1, burst=5), lambda got: got[:5] == list(range(5)) and len(got) < 40),
    "corruption": _corruption,
    "loss of one uSID": _listed(Match(usids=(srv6.usid(srv6.UsidType.T1, 1, 2),)), [1, 3]),
    "loss of one EV": _listed(Match(evs=(srv6.ev(1, 3, srv6.ev_tag(3)),)), [1, 2]),
    "loss of one path": _listed(Match(paths=((1, 1),)), [2, 3]),
    "swapped cables": _swapped,
    "relay": _relayed,
    "switch crash, freeze and restart": _processes,
}


def faults() -> Iterator[Verdict]:
    """Test every kind of fault, one verdict each, the last on what was left behind. Needs root; else TopoError."""
    fabric = Fabric(load({"planes": 1, "t0s": 1, "t1s": 1, "hosts_per_t0": 2}))
    base = Path(f"/run/mrclab-selftest-{os.getpid()}")
    with Emulation(fabric, base / "lab", _StandIn()) as lab:
        for name, check in _CHECKS.items():
            yield _verdict(name, lab, check)
            lab.cables.heal_all()
    left = [str(path) for path in (base, *kernel.NETNS_DIR.glob(f"{base.name}*")) if path.exists()]
    yield Verdict("nothing is left behind", not left, f"still there: {', '.join(left)}" if left else "")


def _verdict(name: str, lab: Emulation, check: Callable[[Emulation], None]) -> Verdict:
    try:
        check(lab)
    except (TopoError, OSError) as error:
        return Verdict(name, holds=False, detail=str(error))
    return Verdict(name, holds=True)
