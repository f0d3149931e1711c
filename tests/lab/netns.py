"""Network namespaces of tests: made, entered, and always removed."""

import contextlib
import ctypes
import itertools
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)
_serial = itertools.count(1)


def ip(*words: str) -> None:
    """Run ip(8); an error is an exception with ip's own words."""
    done = subprocess.run(["ip", *words], check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"ip {' '.join(words)}: {done.stderr.strip()}")


class Namespace:
    """One network namespace without an IPv6 stack of its own."""

    def __init__(self, label: str) -> None:
        self.name = f"mrct-{os.getpid()}-{next(_serial)}{label}"
        ip("netns", "add", self.name)
        with self.entered():
            for scope in ("default", "all"):
                Path(f"/proc/sys/net/ipv6/conf/{scope}/disable_ipv6").write_text("1")

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Sockets that this thread opens inside the block belong to the namespace, for good."""
        home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        inside = os.open(f"/run/netns/{self.name}", os.O_RDONLY)
        try:
            _setns(inside)
            yield
        finally:
            _setns(home)
            os.close(home)
            os.close(inside)

    def ip(self, *words: str) -> None:
        """Run ip(8) inside."""
        ip("-n", self.name, *words)

    def popen(self, argv: list[str], **options: object) -> subprocess.Popen[str]:
        """Start a process inside."""
        return subprocess.Popen(["ip", "netns", "exec", self.name, *argv], text=True, **options)

    def remove(self) -> None:
        """Remove the namespace and with it its interfaces."""
        ip("netns", "del", self.name)


def join(a: Namespace, a_name: str, a_mac: str, b: Namespace, b_name: str, b_mac: str, mtu: int = 4352) -> None:
    """Join two namespaces by a veth pair whose ends are up.

    Their indices differ: of a pair with equal ones the kernel may hold carrier events back for up to a second.
    """
    end = ["mtu", str(mtu), "address"]
    ip("link", "add", a_name, "netns", a.name, "index", str(1000 + next(_serial)), *end, a_mac, "type", "veth",
       "peer", "name", b_name, "netns", b.name, *end, b_mac)  # fmt: skip
    a.ip("link", "set", a_name, "up")
    b.ip("link", "set", b_name, "up")


def _setns(descriptor: int) -> None:
    if _libc.setns(descriptor, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")
