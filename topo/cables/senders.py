"""Puts a sender of other traffic into a running fabric and takes it out again; what it does is in `sender`."""

import json
import struct
import subprocess
import sys
from dataclasses import dataclass

from mrclab.topo import srv6
from mrclab.topo.errors import EmulationError
from mrclab.topo.linux import processes
from mrclab.topo.linux.emulation import Emulation
from mrclab.topo.model import Fabric, mac_bytes
from mrclab.topo.numbers import HOP_LIMIT, Dscp

DISCARD_PORT = 9  # UDP, RFC 863: no transport of the lab listens there
_ECT0 = 2
_IPV6, _UDP = 41, 17
_UDP_BYTES, _IPV6_BYTES, _ETHERNET_BYTES = 8, 40, 14
_TRANSPORT_BYTES = 40  # BTH, METH, TSETH, RETH, ICRC of a full data packet: so that both take a link as long


@dataclass(frozen=True)
class Sent:
    """Frames that a sender handed to its NIC port, and those that it refused for lack of carrier."""

    sent: int = 0
    refused: int = 0


class Sender:
    """Traffic that goes on until `heal`. Made by `send`."""

    def __init__(self, lab: Emulation, name: str, process: "subprocess.Popen[bytes]") -> None:
        self.name = name  # of its process in the lab
        self._lab, self._process = lab, process

    def heal(self) -> Sent:
        """End it; returns what it did. One that was ended already did nothing."""
        if self._process.stdout is None or self._process.stdout.closed:
            return Sent()
        self._process.terminate()
        output = self._process.stdout.read()
        self._process.stdout.close()
        if self._process.wait():
            raise EmulationError(f"{self.name} failed; see {self._lab.run_dir / 'log' / self.name}.log")
        return Sent(**json.loads(output))


def send(
    lab: Emulation,
    source: str,
    destination: str,
    path: tuple[int, int],
    rate_pps: float,
    size: int | None = None,
    label: str = "",
) -> Sender:
    """Send packets of `size` bytes (None: full-size ones) by one path, (plane, uplink), from now on.

    `label` tells its process from others.
    """
    fabric = lab.fabric
    port = fabric.host(source).port(path[0])
    frame = packet(fabric, source, destination, path, size or fabric.spec.path_mtu)
    wanted = {
        "interface": port.interface,
        "frame": frame.hex(),
        "rate_pps": rate_pps,
        "number_at": _ETHERNET_BYTES + 2 * _IPV6_BYTES + _UDP_BYTES,
    }
    name = f"background-{label or f'{source}-{destination}-{path[0]}-{path[1]}'}"
    argv = [sys.executable, "-m", "mrclab.topo.cables.sender", json.dumps(wanted)]
    with (lab.run_dir / "log" / f"{name}.log").open("ab") as log:
        process = lab.popen(source, argv, log=name, stdout=subprocess.PIPE, stderr=log)
    assert process.stdout is not None
    if process.stdout.readline() != b"ready\n":
        process.wait()
        raise EmulationError(f"{name} did not start; see {lab.run_dir / 'log' / name}.log")
    processes.to_real_time(process.pid)
    return Sender(lab, name, process)


def packet(fabric: Fabric, source: str, destination: str, path: tuple[int, int], size: int) -> bytes:
    """A frame as the NIC sends it: SRv6 along the path, ECN-capable data that is not to be trimmed, port discard."""
    sender, receiver = fabric.host(source), fabric.host(destination)
    port = sender.port(path[0])
    entropy = srv6.ev(*path, srv6.TAG_FLAG)
    udp_port, label = srv6.ev_to_wire(entropy)
    own, peer = (srv6.to_bytes(srv6.from_text(host.address)) for host in (sender, receiver))
    payload = bytes(size + _TRANSPORT_BYTES)
    udp = struct.pack("!HHHH", udp_port, DISCARD_PORT, _UDP_BYTES + len(payload), 0) + payload
    inner = _ipv6(label, len(udp), _UDP) + own + peer + udp
    outer = srv6.to_bytes(fabric.outer_address(source, destination, entropy))
    ethernet = mac_bytes(port.peer.mac) + mac_bytes(port.mac) + b"\x86\xdd"
    return ethernet + _ipv6(label, len(inner), _IPV6) + own + outer + inner


def _ipv6(label: int, length: int, next_header: int) -> bytes:
    """The first eight bytes of a header."""
    traffic_class = Dscp.NO_TRIM << 2 | _ECT0
    return struct.pack("!IHBB", 6 << 28 | traffic_class << 20 | label, length, next_header, HOP_LIMIT)
