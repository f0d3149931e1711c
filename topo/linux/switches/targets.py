"""Kinds of P4 switch that the lab can start: `bmv2` (simple_switch_grpc) and `soft` (softswitch).

One process per switch. Both speak P4Runtime on a Unix socket and have the same ports and queues; nothing above `topo`
knows which one runs. Rates and depths: priority 0 (data) is limited to the link rate, priority 7 (control and trimmed
packets) is not.
"""

import shutil
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from mrclab import HOME
from mrclab.topo.errors import TopoError
from mrclab.topo.linux.switches import thrift
from mrclab.topo.linux.switches.depths import REGISTER, DepthQuery, DepthReply
from mrclab.topo.model import Switch
from mrclab.topo.numbers import CONTROL_PRIORITY, CPU_PORT, DATA_PRIORITY, DROP_PORT, PRIORITIES
from mrclab.topo.spec import FabricSpec

BMV2_PROGRAM = "simple_switch_grpc"
P4_PROGRAM = HOME / "p4src" / "build" / "mrc.json"  # that the controller loads
_THRIFT_SERVICE = "simple_switch"
_THRIFT_STANDARD = "standard"  # the service for what every target of BMv2 has, registers for one
_THRIFT_PORT = 9090  # inside the switch's own namespace only
_DEPTH_TIMEOUT = 0.1  # seconds for a connection; the kernel accepts it for a process that is frozen


class UnknownTarget(TopoError):  # noqa: N818
    """No such target, or it is not installed."""


@dataclass(frozen=True)
class Launch:
    """Parameters of a target to start one switch."""

    switch: Switch
    spec: FabricSpec
    run_dir: Path

    @property
    def socket(self) -> Path:
        """P4Runtime."""
        return self.run_dir / f"{self.switch.name}.p4rt.sock"

    @property
    def control_socket(self) -> Path:
        """Queues and registers at run time, softswitch only."""
        return self.run_dir / f"{self.switch.name}.ctl.sock"

    @property
    def log(self) -> Path:
        """Standard output and error of the process."""
        return self.run_dir / "log" / f"{self.switch.name}.log"


class Target(Protocol):
    """Kind of switch, and how to start it.

    `schedules_itself`: the process requests real-time scheduling if it helps; else the lab does so for all its threads.
    `forks`: Python packages whose `__main__` the command lines run, and their preparations (`linux.forkserver.server`).
    """

    name: str
    schedules_itself: bool
    forks: Mapping[str, str]

    def argv(self, launch: Launch) -> list[str]:
        """Command line of the process."""

    def answers(self, launch: Launch, namespace: int) -> bool:
        """Return True if the process accepts connections. `namespace`: descriptor of the switch's network namespace."""

    def set_queues(self, launch: Launch, namespace: int) -> None:
        """Set rates and depths once the process responds."""

    def depth_query(self, launch: Launch, namespace: int) -> DepthQuery:
        """Return the request for the depths of its data queues."""


class Softswitch:
    """The embedded target."""

    name = "soft"
    schedules_itself = True
    forks: Mapping[str, str] = {"mrclab.softswitch": str(P4_PROGRAM)}

    def argv(self, launch: Launch) -> list[str]:
        """Command line of the process; rates and depths are part of it."""
        queue = launch.spec.queue
        return [
            *(sys.executable, "-m", "mrclab.softswitch"),
            *_common(launch),
            *("--queue-rate-pps", f"{launch.spec.link.rate_pps}:{DATA_PRIORITY}"),
            *("--queue-depth", f"{queue.depth}:{DATA_PRIORITY}"),
            *("--queue-depth", f"{queue.control_depth}:{CONTROL_PRIORITY}"),
            *("--control-socket", str(launch.control_socket)),
            *("--log-level", "warn", "--log-console", "--realtime"),
            *_grpc(launch),
        ]

    def answers(self, launch: Launch, namespace: int) -> bool:
        """Return True if P4Runtime's socket accepts."""
        return _accepts(launch.socket)

    def set_queues(self, launch: Launch, namespace: int) -> None:
        """Nothing: done by flags."""

    def depth_query(self, launch: Launch, namespace: int) -> DepthQuery:
        """Over the control socket, one line for all ports, and one for the switch's lateness."""
        numbers = [port.number for port in launch.switch.ports]

        def read(answer: bytes) -> DepthReply | None:
            if answer.count(b"\n") < 2:
                return None
            (word, *values), (other, late, _cpu) = (line.split() for line in answer.splitlines())
            if (word, other) != (b"ok", b"ok"):
                raise ValueError(answer.decode(errors="replace").strip())
            return DepthReply(dict(zip(numbers, map(int, values), strict=True)), float(late))

        question = f"register_read {REGISTER} {' '.join(map(str, numbers))}\nlateness\n"
        return DepthQuery(lambda: _connected(launch.control_socket), question.encode(), read)


class Bmv2:
    """p4lang's behavioral model."""

    name = "bmv2"
    schedules_itself = False
    forks: Mapping[str, str] = {}

    def argv(self, launch: Launch) -> list[str]:
        """Command line of the process."""
        return [
            BMV2_PROGRAM,
            *_common(launch),
            *("--thrift-port", str(_THRIFT_PORT)),
            *("--log-level", "warn", "--log-console"),
            "--",
            *_grpc(launch),
        ]

    def answers(self, launch: Launch, namespace: int) -> bool:
        """Return True if P4Runtime's socket accepts and Thrift's port, which comes a little later, does."""
        return _accepts(launch.socket) and thrift.answers(namespace, _THRIFT_PORT, _THRIFT_SERVICE)

    def set_queues(self, launch: Launch, namespace: int) -> None:
        """Over Thrift, inside the namespace. Priorities are numbered as in P4: 0 is served last."""
        queue, rate = launch.spec.queue, launch.spec.link.rate_pps
        with thrift.ThriftClient(namespace, _THRIFT_PORT, _THRIFT_SERVICE) as switch:
            for port in launch.switch.ports:
                data, control = (port.number, DATA_PRIORITY), (port.number, CONTROL_PRIORITY)
                switch.call("set_egress_priority_queue_rate", *map(thrift.i32, data), thrift.i64(rate))
                switch.call("set_egress_priority_queue_depth", *map(thrift.i32, data), thrift.i32(queue.depth))
                switch.call(
                    "set_egress_priority_queue_depth", *map(thrift.i32, control), thrift.i32(queue.control_depth)
                )

    def depth_query(self, launch: Launch, namespace: int) -> DepthQuery:
        """Over Thrift, inside the namespace: the whole register, which costs one call for any number of ports."""
        numbers = [port.number for port in launch.switch.ports]

        def read(answer: bytes) -> DepthReply | None:
            values = thrift.numbers(answer)
            if values is None:
                return None
            if len(values) <= max(numbers):
                raise ValueError(f"the register {REGISTER} has {len(values)} cells")
            return DepthReply({number: values[number] for number in numbers})

        question = thrift.question(_THRIFT_STANDARD, "bm_register_read_all", thrift.i32(0), thrift.text(REGISTER))
        return DepthQuery(lambda: thrift.connect(namespace, _THRIFT_PORT, _DEPTH_TIMEOUT), question, read)


def choose(name: str | None = None) -> Target:
    """The target with this name; without one `bmv2` where it is on PATH, else `soft`. UnknownTarget otherwise."""
    installed = shutil.which(BMV2_PROGRAM) is not None
    if name is None:
        name = "bmv2" if installed else "soft"
    if name == "soft":
        return Softswitch()
    if name != "bmv2":
        raise UnknownTarget(f"unknown target {name!r}; choose soft or bmv2")
    if not installed:
        raise UnknownTarget(f"target bmv2 needs {BMV2_PROGRAM} on PATH; install BMv2 or choose target soft")
    return Bmv2()


def _accepts(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as attempt:
        return attempt.connect_ex(str(path)) == 0


def _connected(path: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.setblocking(False)  # a frozen listener whose backlog is full is an error then, not a wait
    try:
        connection.connect(str(path))
    except OSError:
        connection.close()
        raise
    return connection


def _common(launch: Launch) -> list[str]:
    ports = [word for port in launch.switch.ports for word in ("-i", f"{port.number}@{port.interface}")]
    return ["--no-p4", "--device-id", str(launch.switch.device_id), *ports]


def _grpc(launch: Launch) -> list[str]:
    flags = {"--cpu-port": CPU_PORT, "--drop-port": DROP_PORT, "--priority-queues": PRIORITIES}
    return ["--grpc-server-addr", f"unix:{launch.socket}", *(w for k, v in flags.items() for w in (k, str(v)))]
