"""Small real fabrics for tests, with a stand-in for the switch process, and frames through their cables."""

import contextlib
import ctypes
import fcntl
import os
import select
import socket
import struct
import sys
from pathlib import Path
from typing import ClassVar

from mrclab.topo.linux import kernel, processes
from mrclab.topo.linux.switches.targets import Softswitch
from mrclab.topo.model import Fabric
from mrclab.topo.spec import load

ETHERTYPE = 0x88B6  # IEEE 802 local experimental 2: nobody else's
END = b"end of the test frames"
_ETHTOOL, _GLINK, _SO_RCVBUFFORCE = 0x8946, 0x0A, 33


class StandIn(Softswitch):
    """Listens where a switch would, and forwards nothing."""

    name = "stand-in"
    schedules_itself = False
    forks: ClassVar = {"stand_in": ""}

    def argv(self, launch):
        return [sys.executable, "-m", "stand_in", str(launch.socket)]

    def set_queues(self, launch, namespace):
        pass


# where processes find the stand-in
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(Path(__file__).parent), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
)


def small_fabric(**more):
    return Fabric(load({"planes": 1, "t0s": 2, "t1s": 1, "hosts_per_t0": 1} | more))


def run_dir(tag=""):
    return Path(f"/run/mrct-{os.getpid()}{tag}/lab")


class Port:
    """One port of a node, as a raw socket in the node's namespace."""

    def __init__(self, lab, interface):
        end = next(end for link in lab.fabric.links for end in link.ends if end.interface == interface)
        self.interface, self._namespace = interface, lab.namespace(end.node)
        self.socket = kernel.in_namespace(self._namespace, self._open)
        self.socket.settimeout(10)  # only a failing test waits that long

    def _open(self):
        opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETHERTYPE))
        opened.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 64 << 20)
        opened.bind((self.interface, ETHERTYPE))
        return opened

    def send(self, payload, ethertype=ETHERTYPE):
        self.socket.send(b"\xff" * 6 + bytes(6) + struct.pack("!H", ethertype) + payload)

    def receive_until_end(self):
        """All payloads that arrive before the end mark."""
        got = []
        while True:
            frame, (_, _, kind, _, _) = self.socket.recvfrom(65536)
            if kind != socket.PACKET_OUTGOING:
                if frame[14:].startswith(END):
                    return got
                got.append(frame[14:])

    @property
    def has_carrier(self):
        """Return the driver's output so far, without waiting for any announcement."""

        def ask():
            value = (ctypes.c_uint32 * 2)(_GLINK, 0)  # struct ethtool_value
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
                request = struct.pack("16sP8x", self.interface.encode(), ctypes.addressof(value))
                fcntl.ioctl(any_socket, _ETHTOOL, request)
            return value[1] == 1

        return kernel.in_namespace(self._namespace, ask)

    def close(self):
        self.socket.close()


@contextlib.contextmanager
def ports(lab, *interfaces):
    opened = [Port(lab, interface) for interface in interfaces]
    try:
        yield opened
    finally:
        for port in opened:
            port.close()


def wait_until_joined(one, other):
    """After carrier returns the kernel takes a moment until a port transmits: send until a frame arrives, both ways."""
    for sender, receiver in ((one, other), (other, one)):
        receiver.socket.settimeout(0.02)
        for _ in range(500):
            sender.send(END)
            with contextlib.suppress(TimeoutError):
                receiver.receive_until_end()
                break
        receiver.socket.settimeout(10)
        across(sender, receiver, [b"flush"])
        while receiver.socket in select.select([receiver.socket], [], [], 0)[0]:
            receiver.socket.recv(65536)


def across(sender, receiver, payloads):
    """Send payloads, then the end mark; returns what arrives."""
    for payload in payloads:
        sender.send(payload)
    sender.send(END)
    return receiver.receive_until_end()


def named_namespaces():
    return {path.name for path in kernel.NETNS_DIR.iterdir()} if kernel.NETNS_DIR.exists() else set()


def remains(directory):
    """Remains of a run: its directory, namespaces by prefix, processes with its mark."""
    base = directory.parent
    left = [str(path) for path in (base,) if path.exists()]
    left += [name for name in named_namespaces() if name.startswith(base.name)]
    return left + sorted(processes.of_labs().get(base.resolve(), ()))
