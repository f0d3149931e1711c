"""Kinds of P4 switch that the lab can start: `bmv2` (simple_switch_grpc) and `soft` (softswitch).

One process per switch. Both speak P4Runtime on a Unix socket and have the same ports and queues; nothing above `topo`
knows which one runs. Rates and depths: priority 0 (data) is limited to the link rate, priority 7 (control and trimmed
packets) is not.
"""

import shutil
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from topo import thrift
from topo.errors import TopoError
from topo.model import Switch
from topo.numbers import CONTROL_PRIORITY, CPU_PORT, DATA_PRIORITY, DROP_PORT, PRIORITIES
from topo.spec import FabricSpec

BMV2_PROGRAM = "simple_switch_grpc"
_THRIFT_SERVICE = "simple_switch"
_THRIFT_PORT = 9090  # inside the switch's own namespace only


class UnknownTarget(TopoError):  # noqa: N818
    """No such target, or it is not installed."""


@dataclass(frozen=True)
class Launch:
    """What a target needs to start one switch."""

    switch: Switch
    spec: FabricSpec
    run_dir: Path

    @property
    def socket(self) -> Path:
        """P4Runtime."""
        return self.run_dir / f"{self.switch.name}.p4rt.sock"

    @property
    def control_socket(self) -> Path:
        """Queue settings at run time, softswitch only."""
        return self.run_dir / f"{self.switch.name}.ctl.sock"

    @property
    def log(self) -> Path:
        """Standard output and error of the process."""
        return self.run_dir / "log" / f"{self.switch.name}.log"


class Target(Protocol):
    """How to start one kind of switch.

    `schedules_itself`: the process asks for real-time scheduling where it helps; else the lab asks for all its threads.
    """

    name: str
    schedules_itself: bool

    def argv(self, launch: Launch) -> list[str]:
        """Command line of the process."""

    def answers(self, launch: Launch, namespace: int) -> bool:
        """Whether the process accepts connections now. `namespace`: descriptor of the switch's network namespace."""

    def set_queues(self, launch: Launch, namespace: int) -> None:
        """Set rates and depths once the process answers."""


class Softswitch:
    """The embedded target."""

    name = "soft"
    schedules_itself = True

    def argv(self, launch: Launch) -> list[str]:
        """Command line of the process; rates and depths are part of it."""
        queue = launch.spec.queue
        return [
            *(sys.executable, "-m", "softswitch"),
            *_common(launch),
            *("--queue-rate-pps", f"{launch.spec.link.rate_pps}:{DATA_PRIORITY}"),
            *("--queue-depth", f"{queue.depth}:{DATA_PRIORITY}"),
            *("--queue-depth", f"{queue.control_depth}:{CONTROL_PRIORITY}"),
            *("--control-socket", str(launch.control_socket)),
            *("--log-level", "warn", "--log-console", "--realtime"),
            *_grpc(launch),
        ]

    def answers(self, launch: Launch, namespace: int) -> bool:  # noqa: ARG002
        """Whether P4Runtime's socket accepts."""
        return _accepts(launch.socket)

    def set_queues(self, launch: Launch, namespace: int) -> None:
        """Nothing: done by flags."""


class Bmv2:
    """p4lang's behavioral model."""

    name = "bmv2"
    schedules_itself = False

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
        """Whether P4Runtime's socket accepts and Thrift's port, which comes a little later, does."""
        return _accepts(launch.socket) and thrift.answers(namespace, _THRIFT_PORT, _THRIFT_SERVICE)

    def set_queues(self, launch: Launch, namespace: int) -> None:
        """Over Thrift, inside the namespace. Priorities are numbered as in P4: 0 is served last."""
        queue, rate = launch.spec.queue, launch.spec.link.rate_pps
        with thrift.Client(namespace, _THRIFT_PORT, _THRIFT_SERVICE) as switch:
            for port in launch.switch.ports:
                data, control = (port.number, DATA_PRIORITY), (port.number, CONTROL_PRIORITY)
                switch.call("set_egress_priority_queue_rate", *map(thrift.i32, data), thrift.i64(rate))
                switch.call("set_egress_priority_queue_depth", *map(thrift.i32, data), thrift.i32(queue.depth))
                switch.call(
                    "set_egress_priority_queue_depth", *map(thrift.i32, control), thrift.i32(queue.control_depth)
                )


def choose(name: str | None = None) -> Target:
    """The target with this name; without one `bmv2` where it is on PATH, else `soft`. UnknownTarget otherwise."""
    installed = shutil.which(BMV2_PROGRAM) is not None
    if name is None:
        name = "bmv2" if installed else "soft"
    if name == "soft":
        return Softswitch()
    if name != "bmv2":
        raise UnknownTarget(f"there is no target {name!r}; choose soft or bmv2")
    if not installed:
        raise UnknownTarget(f"target bmv2 needs {BMV2_PROGRAM} on PATH; install BMv2 or choose target soft")
    return Bmv2()


def _accepts(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as attempt:
        return attempt.connect_ex(str(path)) == 0


def _common(launch: Launch) -> list[str]:
    ports = [word for port in launch.switch.ports for word in ("-i", f"{port.number}@{port.interface}")]
    return ["--no-p4", "--device-id", str(launch.switch.device_id), *ports]


def _grpc(launch: Launch) -> list[str]:
    flags = {"--cpu-port": CPU_PORT, "--drop-port": DROP_PORT, "--priority-queues": PRIORITIES}
    return ["--grpc-server-addr", f"unix:{launch.socket}", *(w for k, v in flags.items() for w in (k, str(v)))]
