"""Two namespaces and two cables: generator – switch port 1, switch port 2 – generator. Nothing else speaks on them."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mrclab.bench.switch.frames import IN_PORT, OUT_PORT
from mrclab.lab.errors import RunError
from mrclab.topo.linux import kernel

MTU = 4352
PREFIX = "mrclab-bench"


@dataclass(frozen=True)
class BenchWire:
    """The two namespaces. `outside` and `inside` are descriptors of namespaces, `name` is the inner one's."""

    outside: int
    inside: int
    name: str
    port_mac: bytes
    """MAC address of the switch's first port."""

    @staticmethod
    def port(number: int) -> str:
        """Return the name of a port's interface, inside."""
        return f"p{number}"

    @staticmethod
    def far(number: int) -> str:
        """Return the name of the interface at the far end of a port's cable, outside."""
        return f"f{number}"


@contextlib.contextmanager
def namespace(label: str) -> Iterator[tuple[str, int]]:
    """Make a silent namespace for as long as the block runs; gives its name and a descriptor."""
    name = f"{PREFIX}-{os.getpid()}-{label}"
    descriptor = kernel.create_namespace(name)
    try:
        kernel.silence(descriptor)
        yield name, descriptor
    finally:
        os.close(descriptor)
        kernel.delete_namespace(name)


@contextlib.contextmanager
def wire() -> Iterator[BenchWire]:
    """Lay the cables; they go with their namespaces."""
    with namespace("gen") as (outer, outside), namespace("sw") as (inner, inside):
        for number in (IN_PORT, OUT_PORT):
            near, far = BenchWire.port(number), BenchWire.far(number)
            ip(inner, "link", "add", near, "mtu", MTU, "type", "veth", "peer", "name", far, "mtu", MTU, "netns", outer)
        for space in (inside, outside):
            kernel.bring_up(space, kernel.IFF_UP, kernel.IFF_UP)
        address = Path(f"/sys/class/net/{BenchWire.port(IN_PORT)}/address")
        mac = bytes.fromhex(run("ip", "netns", "exec", inner, "cat", str(address)).strip().replace(":", ""))
        yield BenchWire(outside, inside, inner, mac)


def ip(name: str, *words: object) -> None:
    """Run `ip` in a namespace. Raises RunError with its words."""
    run("ip", "-n", name, *map(str, words))


def run(*argv: str) -> str:
    """Run a command and return its output. Raises RunError with its error output."""
    done = subprocess.run(argv, check=False, capture_output=True, text=True)
    if done.returncode:
        raise RunError(f"{' '.join(argv)}: {(done.stderr or done.stdout).strip()}")
    return done.stdout
