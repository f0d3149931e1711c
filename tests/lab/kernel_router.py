"""The Linux kernel as a T1: uSIDs shifted by seg6local End with the NEXT-C-SID flavour (RFC 9800), routes static.

The route is written by rtnetlink directly, since only newer iproute2 knows the flavour. Numbers: linux/rtnetlink.h,
linux/lwtunnel.h, linux/seg6_local.h.
"""

import os
import socket
import struct
from pathlib import Path

from netns import Namespace, join

from mrclab.topo import srv6

_RTM_NEWROUTE, _NLMSG_ERROR = 24, 2
_REQUEST_ACK_CREATE_EXCL = 0x1 | 0x4 | 0x400 | 0x200
_MAIN_TABLE, _STATIC, _UNIVERSE, _UNICAST = 254, 4, 0, 1
_RTA_DST, _RTA_OIF, _RTA_ENCAP_TYPE, _RTA_ENCAP = 1, 4, 21, 22
_LWTUNNEL_SEG6_LOCAL = 7
_SEG6_ACTION, _SEG6_FLAVORS, _ACTION_END = 1, 11, 1
_FLAVOR_OPERATION, _FLAVOR_BLOCK_BITS, _FLAVOR_NODE_BITS, _NEXT_CSID = 1, 2, 3, 1 << 4


class NoNextCsidError(Exception):
    """This kernel cannot shift uSIDs; the text says what it answered."""


class KernelRouter:
    """A namespace that forwards by uSID. `attach` gives it a port, `shift` its own uSID, `route` one of a neighbour."""

    def __init__(self, label: str) -> None:
        self.namespace = Namespace(label)
        with self.namespace.entered():
            for scope in ("default", "all"):
                _sysctl(scope, "disable_ipv6", 0)
                _sysctl(scope, "forwarding", 1)
            _sysctl("default", "addr_gen_mode", 1)  # no link-local addresses: a switch says nothing of itself

    def attach(self, port: str, mac: str, host: Namespace, interface: str, host_mac: str) -> None:
        """Join a host's interface to a port of this router, which knows the host's MAC without asking."""
        join(host, interface, host_mac, self.namespace, port, mac)
        self.namespace.ip("-6", "neigh", "add", "fe80::2", "lladdr", host_mac, "dev", port, "nud", "permanent")

    def route(self, usid: int, port: str) -> None:
        """A /48 for the uSID behind a port."""
        self.namespace.ip("-6", "route", "add", _prefix(usid), "via", "fe80::2", "dev", port, "onlink")

    def shift(self, usid: int, port: str) -> None:
        """This router's own uSID; NoNextCsidError where the kernel lacks the flavour. Any port will do."""
        with self.namespace.entered(), socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as netlink:
            netlink.send(_end_next_csid(usid, socket.if_nametoindex(port)))
            answer = netlink.recv(4096)
        kind, error = struct.unpack_from("=4xH", answer)[0], struct.unpack_from("=i", answer, 16)[0]
        if kind != _NLMSG_ERROR or error:
            raise NoNextCsidError(f"this kernel refuses seg6local End with NEXT-C-SID: {os.strerror(-error)}")

    def forwarded(self) -> int:
        """IPv6 packets that it forwarded."""
        with self.namespace.entered():
            words = Path("/proc/thread-self/net/snmp6").read_text().split()
        return int(words[words.index("Ip6OutForwDatagrams") + 1])

    def remove(self) -> None:
        self.namespace.remove()


def _sysctl(scope: str, name: str, value: int) -> None:
    Path(f"/proc/sys/net/ipv6/conf/{scope}/{name}").write_text(str(value))


def _prefix(usid: int) -> str:
    return f"{srv6.text(srv6.usid_route(usid) << 80)}/48"


def _end_next_csid(usid: int, interface: int) -> bytes:
    """RTM_NEWROUTE for `LOCATOR:usid::/48 encap seg6local action End flavors next-csid lblen 32 nflen 16`."""
    flavors = (
        _attribute(_FLAVOR_OPERATION, struct.pack("=I", _NEXT_CSID))
        + _attribute(_FLAVOR_BLOCK_BITS, bytes([srv6.LOCATOR_BITS]))
        + _attribute(_FLAVOR_NODE_BITS, bytes([srv6.USID_BITS]))
    )
    encap = _attribute(_SEG6_ACTION, struct.pack("=I", _ACTION_END)) + _attribute(_SEG6_FLAVORS, flavors)
    body = struct.pack("=8BI", socket.AF_INET6, 48, 0, 0, _MAIN_TABLE, _STATIC, _UNIVERSE, _UNICAST, 0)
    body += _attribute(_RTA_DST, srv6.to_bytes(srv6.usid_route(usid) << 80))
    body += _attribute(_RTA_OIF, struct.pack("=I", interface))
    body += _attribute(_RTA_ENCAP_TYPE, struct.pack("=H", _LWTUNNEL_SEG6_LOCAL))
    body += _attribute(_RTA_ENCAP, encap)
    return struct.pack("=IHHII", 16 + len(body), _RTM_NEWROUTE, _REQUEST_ACK_CREATE_EXCL, 1, 0) + body


def _attribute(kind: int, payload: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(payload), kind) + payload + bytes(-len(payload) & 3)
