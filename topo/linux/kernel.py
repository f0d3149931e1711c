"""Linux network stack of a lab: namespaces, veth pairs and interface flags inside them, nftables.

Entering a namespace happens in a thread made for the purpose, so that the caller, its signal handlers included, is
never in the wrong one. Sockets and child processes made there stay in that namespace. Interface flags go over a bare
rtnetlink socket: it works from any thread and inside any event loop, and one message batch takes many cables down in
the same instant.
"""

import contextlib
import json
import os
import socket
import struct
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator
from ctypes import CDLL, addressof, c_uint32, get_errno
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from mrclab.topo.errors import EmulationError
from mrclab.topo.process import realtime

T = TypeVar("T")

NETNS_DIR = Path("/run/netns")  # where iproute2 keeps named namespaces

IFF_UP = 0x1
IFF_NOARP = 0x80
IFF_MULTICAST = 0x1000

_CLONE_NEWNET = 0x4000_0000
_MNT_DETACH = 2
_RTM_NEWLINK = 16
_NLMSG_ERROR = 2
_NLM_F_REQUEST, _NLM_F_ACK, _NLM_F_EXCL, _NLM_F_CREATE = 0x1, 0x4, 0x200, 0x400
_IFLA_ADDRESS, _IFLA_IFNAME, _IFLA_MTU, _IFLA_LINKINFO, _IFLA_NET_NS_FD = 1, 3, 4, 18, 28
_IFLA_NUM_TX_QUEUES, _IFLA_NUM_RX_QUEUES = 31, 32
_IFLA_INFO_KIND, _IFLA_INFO_DATA, _VETH_INFO_PEER = 1, 2, 1
_BATCH = 256  # interfaces per datagram
_HEADER = struct.Struct("=IHHII")  # nlmsghdr
_IFINFO = struct.Struct("=BxHiII")  # ifinfomsg
_ATTRIBUTE = struct.Struct("=HH")  # nlattr
_U32 = struct.Struct("=I")
_ERROR = struct.Struct("=i")

_SIOCETHTOOL = 0x8946
_ETHTOOL_OFFLOADS = (0x1F, 0x24, 0x2C)  # ETHTOOL_STSO, SGSO, SGRO

_QUIET_IPV6 = {
    "disable_ipv6": "1",
    "addr_gen_mode": "1",
    "accept_ra": "0",
    "accept_dad": "0",
    "router_solicitations": "0",
}

_libc = CDLL(None, use_errno=True)


def in_namespace(namespace: int, work: Callable[[], T]) -> T:
    """Run `work` in the network namespace behind a file descriptor and give its result or exception."""
    outcome: list[T] = []
    failure: list[BaseException] = []

    def body() -> None:
        try:
            if _libc.setns(namespace, _CLONE_NEWNET):
                raise OSError(get_errno(), "cannot enter the network namespace")
            outcome.append(work())
        except BaseException as error:  # handed to the caller below
            failure.append(error)

    thread = threading.Thread(target=body, name="netns")
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return outcome[0]


def create_namespace(name: str) -> int:
    """Make a named network namespace; returns a descriptor on it. EmulationError where it exists."""
    if (NETNS_DIR / name).exists():
        raise EmulationError(f"a network namespace {name} exists already; remove it with `ip netns del {name}`")
    done = subprocess.run(["ip", "netns", "add", name], text=True, capture_output=True, check=False)
    if done.returncode:
        raise EmulationError(f"cannot make the network namespace {name}: {done.stderr.strip()}")
    return os.open(NETNS_DIR / name, os.O_RDONLY | os.O_CLOEXEC)


def delete_namespace(name: str) -> None:
    """Unname a namespace; the kernel removes it with all its interfaces when nothing holds it any more."""
    path = NETNS_DIR / name
    _libc.umount2(str(path).encode(), _MNT_DETACH)  # fails where its maker died before mounting it: just a file then
    path.unlink(missing_ok=True)


def namespace_of(pid: int) -> int:
    """Descriptor on the network namespace of a process."""
    return os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def silence(namespace: int) -> None:
    """Disable IPv6 on interfaces made from now on, so that they send nothing by themselves. Brings lo up."""

    def body() -> None:
        for scope in ("default", "all"):
            for key, value in _QUIET_IPV6.items():
                with contextlib.suppress(OSError):  # a kernel without IPv6 is quiet already
                    Path(f"/proc/sys/net/ipv6/conf/{scope}/{key}").write_text(value)
        with LinkSocket() as links:
            links.set_flags([(1, IFF_UP, IFF_UP)])  # lo is always index 1

    in_namespace(namespace, body)


def bring_up(namespace: int, flags: int, mask: int) -> None:
    """Set flags (those in `mask`) of all interfaces in a namespace but lo, and switch their offloads off."""

    def body() -> None:
        with LinkSocket() as links:
            ports = {name: index for name, index in links.indexes().items() if name != "lo"}
            _offloads_off(ports)
            links.set_flags((index, flags, mask) for index in ports.values())

    in_namespace(namespace, body)


def _offloads_off(interfaces: Iterable[str]) -> None:
    """Switch segmentation and receive offloads off, so that frames on an interface are never longer than its MTU.

    The lab's own frames are whole as they are. But libpcap, with which BMv2 receives, gives each frame 64 KiB of its
    2 MiB ring where an offload is on, and then loses every burst beyond 32 frames.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for interface in interfaces:
            for command in _ETHTOOL_OFFLOADS:
                with contextlib.suppress(OSError):  # an offload that the driver does not have is off
                    ethtool(control, interface, command)


def ethtool(control: socket.socket, interface: str, command: int) -> int:
    """Do an ethtool command that has one value, with 0, in the namespace of `control`; return the value afterwards."""
    import fcntl  # noqa: PLC0415 - what else is here may be loaded where no lab can run

    value = (c_uint32 * 2)(command, 0)  # struct ethtool_value
    fcntl.ioctl(control, _SIOCETHTOOL, struct.pack("16sP8x", interface.encode(), addressof(value)))
    return value[1]


@dataclass(frozen=True)
class VethPair:
    """Two interfaces, each the other's wire. The far one is made in the namespace behind `space`; -1: in the same."""

    near: str
    far: str
    mtu: int
    index: int = 0  # of the near one; 0: the kernel chooses
    mac: str = ""  # of the far one; empty: the kernel chooses
    space: int = -1


class LinkSocket:
    """Makes interfaces in one namespace and sets their flags, by index. Safe to use from several threads.

    Without a namespace it is for the thread that made it, in that thread's.
    """

    def __init__(self, namespace: int | None = None) -> None:
        self._namespace = namespace
        self._socket = self._there(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0))
        self._socket.bind((0, 0))
        self._lock = threading.Lock()
        self._sequence = 0

    def __enter__(self) -> "LinkSocket":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the socket back."""
        self._socket.close()

    def indexes(self) -> dict[str, int]:
        """Interface name → index in this namespace."""
        return {name: index for index, name in self._there(socket.if_nameindex)}

    def _there(self, work: Callable[[], T]) -> T:
        return work() if self._namespace is None else in_namespace(self._namespace, work)

    def add_pairs(self, pairs: Iterable[VethPair]) -> None:
        """Make veth pairs, all of them down; OSError if one fails."""
        self._send_all(map(_veth, pairs), _NLM_F_CREATE | _NLM_F_EXCL, "making interfaces")

    def set_flags(self, changes: Iterable[tuple[int, int, int]]) -> None:
        """Apply (interface index, flags, mask of flags to change) for all in one go; OSError if one fails."""
        bodies = (_IFINFO.pack(socket.AF_UNSPEC, 0, index, flags, mask) for index, flags, mask in changes)
        self._send_all(bodies, 0, "setting interface flags")

    def _send_all(self, bodies: Iterable[bytes], flags: int, doing: str) -> None:
        pending = list(bodies)
        with self._lock:
            for start in range(0, len(pending), _BATCH):
                self._send(pending[start : start + _BATCH], flags, doing)

    def _send(self, bodies: list[bytes], flags: int, doing: str) -> None:
        """One datagram. Only the last message requests an ACK; the kernel reports errors of the others anyway."""
        batch = b""
        for number, body in enumerate(bodies, 1):
            self._sequence += 1
            header_flags = _NLM_F_REQUEST | flags | (_NLM_F_ACK if number == len(bodies) else 0)
            batch += _HEADER.pack(16 + len(body), _RTM_NEWLINK, header_flags, self._sequence, 0) + body
        self._socket.send(batch)
        failed, answered = 0, False
        while not answered:
            for kind, sequence, body in _messages(self._socket.recv(65536)):
                if kind == _NLMSG_ERROR:
                    failed = failed or -_ERROR.unpack_from(body)[0]
                    answered = answered or sequence == self._sequence
        if failed:
            raise OSError(failed, f"{doing}: {os.strerror(failed)}")


def _veth(pair: VethPair) -> bytes:
    """Return RTM_NEWLINK's message for a pair (rtnetlink(7)).

    One queue each is said: of as many as there are CPUs the kernel would take all but one away again, and wait a
    millisecond for it.
    """
    common = _attribute(_IFLA_MTU, _U32.pack(pair.mtu))
    common += _attribute(_IFLA_NUM_TX_QUEUES, _U32.pack(1)) + _attribute(_IFLA_NUM_RX_QUEUES, _U32.pack(1))
    far = _IFINFO.pack(socket.AF_UNSPEC, 0, 0, 0, 0) + _attribute(_IFLA_IFNAME, pair.far.encode() + b"\0") + common
    if pair.mac:
        far += _attribute(_IFLA_ADDRESS, bytes.fromhex(pair.mac.replace(":", "")))
    if pair.space >= 0:
        far += _attribute(_IFLA_NET_NS_FD, _U32.pack(pair.space))
    kind = _attribute(_IFLA_INFO_KIND, b"veth") + _attribute(_IFLA_INFO_DATA, _attribute(_VETH_INFO_PEER, far))
    near = _IFINFO.pack(socket.AF_UNSPEC, 0, pair.index, 0, 0)
    return near + _attribute(_IFLA_IFNAME, pair.near.encode() + b"\0") + common + _attribute(_IFLA_LINKINFO, kind)


def _attribute(kind: int, value: bytes) -> bytes:
    """A netlink attribute, padded as they have to be."""
    return _ATTRIBUTE.pack(4 + len(value), kind) + value + bytes(-len(value) % 4)


def _messages(raw: bytes) -> Iterator[tuple[int, int, bytes]]:
    while len(raw) >= 16:
        length, kind, _flags, sequence, _pid = _HEADER.unpack_from(raw)
        yield kind, sequence, raw[16:length]
        raw = raw[(length + 3) & ~3 :]


def nft_batch(namespace: int, text: str) -> None:
    """Apply a batch of nft commands in a namespace as one transaction; EmulationError in nft's words."""
    _nft(namespace, ["-f", "-"], text)


def nft_counters(namespace: int) -> dict[str, int]:
    """Packets of all named counters in a namespace."""
    listing = json.loads(_nft(namespace, ["-j", "list", "counters"]))
    found = (entry["counter"] for entry in listing["nftables"] if "counter" in entry)
    return {counter["name"]: counter["packets"] for counter in found}


def _nft(namespace: int, arguments: list[str], text: str = "") -> str:
    urgent = realtime.is_prioritised()

    def run() -> subprocess.CompletedProcess[str]:
        if urgent:
            realtime.request_real_time()
        return subprocess.run(["nft", *arguments], input=text, text=True, capture_output=True, check=False)

    done = in_namespace(namespace, run)
    if done.returncode:
        raise EmulationError(f"nft refused the cable rules: {done.stderr.strip() or done.returncode}")
    return done.stdout
