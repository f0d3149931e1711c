"""Subjects of the benchmark: softswitch, BMv2 in two settings, and the kernel's seg6local; processes or routes.

The switch has a CPU of its own, the generator the other one. softswitch runs with real-time priority, as in the lab.
BMv2 runs before everything else that is not real-time: its threads hand packets to each other, and on one CPU real-time
priority would let none of them yield to the next.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mrclab.bench.switch import frames
from mrclab.bench.switch.client import DEVICE_ID, P4RuntimeClient
from mrclab.bench.switch.wire import BenchWire, ip, run
from mrclab.controller.provisioning.program import PipelineConfig
from mrclab.lab.command.p4build import P4_INFO, P4_JSON
from mrclab.lab.errors import RunError
from mrclab.topo.linux.switches import thrift
from mrclab.topo.linux.switches.targets import BMV2_PROGRAM
from mrclab.topo.numbers import CPU_PORT, DROP_PORT, PRIORITIES

START_SECONDS = 30.0
QUEUE_DEPTH = 1024
"""Packets per egress queue: none should be lost in a short queue."""
_POLL_SECONDS = 0.0005
_THRIFT_PORT = 9090


@dataclass(frozen=True)
class BenchTarget:
    """A P4 switch that runs as a process."""

    key: str
    title: str
    program: Sequence[str]
    flags: Sequence[str]
    target_flags: Sequence[str]
    """Arguments after the common ones; BMv2 needs them behind `--`."""

    def argv(self, path: Path, ports: Sequence[int]) -> list[str]:
        """Return the command line of one switch that serves P4Runtime on the socket `path`."""
        wires = [word for port in ports for word in ("-i", f"{port}@{BenchWire.port(port)}")]
        grpc = ["--grpc-server-addr", f"unix:{path}", "--cpu-port", str(CPU_PORT), "--drop-port", str(DROP_PORT)]
        common = ["--no-p4", "--device-id", str(DEVICE_ID), *wires, *self.flags]
        return [*self.program, *common, *self.target_flags, *grpc, "--priority-queues", str(PRIORITIES)]


SOFT = BenchTarget(
    "soft",
    "softswitch",
    (sys.executable, "-m", "mrclab.softswitch"),
    ("--log-level", "warn", "--log-console", "--realtime"),
    ("--queue-depth", str(QUEUE_DEPTH)),
)
NICE = ("nice", "-n", "-15")
"""BMv2's substitute for real-time priority."""
BMV2 = BenchTarget("bmv2", "BMv2", (*NICE, BMV2_PROGRAM), (), ("--",))
BMV2_OFF = BenchTarget("bmv2-off", "BMv2 -L off", (*NICE, BMV2_PROGRAM), ("--log-level", "off"), ("--",))
TARGETS = {target.key: target for target in (SOFT, BMV2, BMV2_OFF)}


def missing(key: str) -> str | None:
    """Return why a target cannot be measured here, None if it can."""
    if key.startswith("bmv2") and shutil.which(BMV2_PROGRAM) is None:
        return f"{BMV2_PROGRAM} is not on PATH"
    return None


class SwitchProcess:
    """One running switch."""

    def __init__(
        self, target: BenchTarget, directory: Path, name: str, number: int, cpu: int | None, ports: Sequence[int]
    ) -> None:
        self.target = target
        self.socket = directory / f"{target.key}-{number}.sock"
        self.log = directory / f"{target.key}-{number}.log"
        self.socket.unlink(missing_ok=True)
        argv = target.argv(self.socket, ports)
        if target.key.startswith("bmv2"):
            addresses = [
                "--thrift-port",
                str(_THRIFT_PORT + number),
                "--notifications-addr",
                f"ipc://{directory}/n{number}",
            ]
            argv[len(target.program) : len(target.program)] = addresses
        pinned = [] if cpu is None else ["taskset", "-c", str(cpu)]
        self.client = P4RuntimeClient(self.socket)
        self.begun = time.monotonic()
        with self.log.open("wb") as log:
            environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
            self.process = subprocess.Popen(
                [*pinned, "ip", "netns", "exec", name, *argv],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env=environment,
                start_new_session=True,
            )

    def wait(self) -> float:
        """Return the seconds from the start to the first RPC answered. Raises RunError."""
        deadline = self.begun + START_SECONDS
        while not self.socket.exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                words = self.log.read_text(errors="replace").strip().splitlines()
                raise RunError(f"{self.target.title} did not start: {words[-1] if words else 'its log is empty'}")
            time.sleep(_POLL_SECONDS)
        self.client.wait(deadline)
        return time.monotonic() - self.begun

    def stop(self) -> None:
        """End it."""
        self.client.__exit__()
        self.process.terminate()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def cpu_seconds(self) -> float:
        """Return the CPU time of all threads so far (schedstat: nanoseconds, not ticks)."""
        total = 0
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            with contextlib.suppress(OSError):
                total += int((task / "schedstat").read_text(encoding="ascii").split()[0])
        return total / 1e9

    def memory(self) -> tuple[int, int]:
        """Return resident and private memory in bytes."""
        rollup = Path(f"/proc/{self.process.pid}/smaps_rollup").read_text(encoding="ascii").splitlines()[1:]
        sizes = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in rollup}
        return sizes["Rss"], sizes["Private_Clean"] + sizes["Private_Dirty"]

    def set_queue_depth(self, inside: int) -> None:
        """Give BMv2's queues the depth that the others have; it has no flag for that."""
        if self.target.key.startswith("bmv2"):
            with thrift.ThriftClient(inside, _THRIFT_PORT, "simple_switch") as switch:
                for priority in range(PRIORITIES):
                    arguments = (frames.OUT_PORT, priority, QUEUE_DEPTH)
                    switch.call("set_egress_priority_queue_depth", *map(thrift.i32, arguments))


@contextlib.contextmanager
def process(
    target: BenchTarget,
    directory: Path,
    name: str,
    number: int = 0,
    cpu: int | None = None,
    ports: Sequence[int] = (frames.IN_PORT, frames.OUT_PORT),
) -> Iterator[SwitchProcess]:
    """Run one switch in the namespace `name` for as long as the block runs, on one CPU or (None) on all."""
    one = SwitchProcess(target, directory, name, number, cpu, ports)
    try:
        yield one
    finally:
        one.stop()


def provision(client: P4RuntimeClient) -> None:
    """Load the lab's program and the entries that the benchmark's frames need."""
    client.become_primary()
    program = PipelineConfig(P4_INFO, P4_JSON)
    client.load(program.pipeline_config())
    client.write([program.encode(entry) for entry in frames.ENTRIES])


@contextlib.contextmanager
def kernel_forwarding(wire: BenchWire) -> Iterator[None]:
    """Have the kernel do it: End with the NEXT-C-SID flavour, then plain routing. RunError where it cannot."""
    near, out = BenchWire.port(frames.IN_PORT), BenchWire.port(frames.OUT_PORT)
    block = f"{frames.BLOCK >> 16:x}:{frames.BLOCK & 0xFFFF:x}"
    gateway, mac = "fe80::1", ":".join(f"{byte:02x}" for byte in frames.OUT_DESTINATION.to_bytes(6, "big"))
    source = ":".join(f"{byte:02x}" for byte in frames.OUT_SOURCE.to_bytes(6, "big"))
    settings = [
        f"net.ipv6.conf.{name}.{key}" for name in ("all", near, out) for key in ("disable_ipv6=0", "forwarding=1")
    ]
    run("ip", "netns", "exec", wire.name, "sysctl", "-qw", *settings)
    ip(wire.name, "link", "set", out, "address", source)
    ip(wire.name, "-6", "neigh", "replace", gateway, "lladdr", mac, "dev", out, "nud", "permanent")
    ip(wire.name, "-6", "route", "replace", f"{block}:{frames.NEXT_USID:x}::/48", "via", gateway, "dev", out)
    flavour = ("flavors", "next-csid", "lblen", 32, "nflen", 16)
    local = f"{block}:{frames.MY_USID:x}::/48"
    ip(wire.name, "-6", "route", "replace", local, "encap", "seg6local", "action", "End", *flavour, "dev", out)
    try:
        yield
    finally:
        ip(wire.name, "-6", "route", "flush", "root", f"{block}::/32")
        run("ip", "netns", "exec", wire.name, "sysctl", "-qw", *(s.replace("ipv6=0", "ipv6=1") for s in settings))
