"""One switch process of either target in a namespace of its own; the test holds the far end of each port's cable."""

import contextlib
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from netns import Namespace

from mrclab.topo.linux.switches import thrift

SOL_PACKET, PACKET_OUTGOING, PACKET_AUXDATA = 263, 4, 8
VLAN_VALID, VLAN_TPID_VALID = 1 << 4, 1 << 6  # TP_STATUS_*, if_packet.h
AUXDATA = struct.Struct("@IIIHHHH")  # tpacket_auxdata
ETH_P_ALL = 3
MTU = 4352
THRIFT_PORT = 9090
FRAME_TIMEOUT_S = 5.0
START_TIMEOUT_S = 120.0


def leave_nothing_on_sigterm() -> None:
    """For tools: SIGTERM ends `with` blocks in order."""
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))


@contextlib.contextmanager
def sigterm_held() -> Iterator[None]:
    """Let SIGTERM come at the end of the block: in the middle of Popen it would leave a process that nobody knows."""
    came: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _frame: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        if came:
            signal.raise_signal(signal.SIGTERM)


class Rig:
    """Context manager: `ports[n]` is a raw socket at the far end of switch port n."""

    def __init__(self, target: str, run_dir: Path, ports: int, queue_rate_pps: int = 0, cpu_port: int = 510) -> None:
        self.target, self.run_dir, self.cpu_port, self.queue_rate_pps = target, run_dir, cpu_port, queue_rate_pps
        self.numbers = range(1, ports + 1)
        self.socket_path = run_dir / "p4rt.sock"
        self.ports: dict[int, socket.socket] = {}

    @property
    def address(self) -> str:
        """gRPC address of P4Runtime."""
        return f"unix:{self.socket_path}"

    def __enter__(self) -> "Rig":
        with contextlib.ExitStack() as made:
            with sigterm_held():
                self._make(made)
            self._made = made.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._made.close()

    def _make(self, made: contextlib.ExitStack) -> None:
        """Make everything; `made` learns how each part is undone."""
        self.far_side, self.switch_side = Namespace("f"), Namespace("s")
        made.callback(self.far_side.remove)
        made.callback(self.switch_side.remove)
        self.switch_side.ip("link", "set", "lo", "up")
        for number in self.numbers:
            self.switch_side.ip("link", "add", f"p{number}", "mtu", str(MTU), "type", "veth",
                                "peer", "name", f"f{number}", "mtu", str(MTU), "netns", self.far_side.name)  # fmt: skip
            self.switch_side.ip("link", "set", f"p{number}", "up")
            self.far_side.ip("link", "set", f"f{number}", "up")
            with self.far_side.entered():
                end = made.enter_context(socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL)))
            end.bind((f"f{number}", ETH_P_ALL))
            end.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
            end.settimeout(FRAME_TIMEOUT_S)
            self.ports[number] = end
        self.log = made.enter_context((self.run_dir / "switch.log").open("w+"))
        self.process = self.switch_side.popen(self._argv(), stdout=self.log, stderr=self.log, start_new_session=True)
        made.callback(self.process.wait, timeout=START_TIMEOUT_S)
        made.callback(self.process.terminate)
        self._wait_until_it_listens()
        if self.target == "bmv2" and self.queue_rate_pps:
            self._limit_bmv2_queues()

    def _argv(self) -> list[str]:
        ports = [word for number in self.numbers for word in ("-i", f"{number}@p{number}")]
        grpc = ["--grpc-server-addr", self.address, "--cpu-port", str(self.cpu_port), "--drop-port", "511"]
        common = ["--no-p4", "--device-id", "1", "--log-level", "warn", "--log-console", *ports]
        if self.target == "soft":
            rate = ["--queue-rate-pps", f"{self.queue_rate_pps}:0"] if self.queue_rate_pps else []
            thrift_port = ["--thrift-port", str(THRIFT_PORT)]
            return [
                sys.executable,
                "-m",
                "mrclab.softswitch",
                *common,
                *rate,
                *grpc,
                *thrift_port,
                "--priority-queues",
                "8",
            ]
        notifications = f"ipc://{self.run_dir}/ipc"
        return ["simple_switch_grpc", *common, "--notifications-addr", notifications, "--thrift-port", str(THRIFT_PORT),
                "--", *grpc, "--priority-queues", "8"]  # fmt: skip

    def _limit_bmv2_queues(self) -> None:
        inside = os.open(f"/run/netns/{self.switch_side.name}", os.O_RDONLY)
        deadline = time.monotonic() + START_TIMEOUT_S
        while not thrift.answers(inside, THRIFT_PORT, "simple_switch"):
            assert time.monotonic() < deadline, "BMv2's Thrift service does not answer"
        with thrift.ThriftClient(inside, THRIFT_PORT, "simple_switch") as switch:
            for number in self.numbers:
                rate = thrift.i64(self.queue_rate_pps)
                switch.call("set_egress_priority_queue_rate", thrift.i32(number), thrift.i32(0), rate)
        os.close(inside)

    def _wait_until_it_listens(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            with socket.socket(socket.AF_UNIX) as probe:
                if probe.connect_ex(os.fspath(self.socket_path)) == 0:
                    return
            try:
                self.process.wait(timeout=0.02)
            except subprocess.TimeoutExpired:
                continue
            break
        self.log.seek(0)
        raise RuntimeError(f"{self.target} did not start: {self.log.read()[-2000:]}")

    def send(self, port: int, frame: bytes) -> None:
        """Let `frame` arrive at switch port `port`."""
        self.ports[port].send(frame)

    def receive(self, port: int, timeout: float = FRAME_TIMEOUT_S) -> bytes:
        """Next frame that left the switch by `port`; TimeoutError when there is none."""
        end = self.ports[port]
        end.settimeout(timeout)
        while True:
            frame, ancillary, _, (_, _, packet_type, *_) = end.recvmsg(65536, 128)
            if packet_type != PACKET_OUTGOING:
                return _with_tag(frame, ancillary)


def _with_tag(frame: bytes, ancillary: list[tuple[int, int, bytes]]) -> bytes:
    """The frame as it was on the wire: the kernel takes a VLAN tag out and tells it beside."""
    for level, kind, data in ancillary:
        if (level, kind) == (SOL_PACKET, PACKET_AUXDATA):
            status, *_, tci, tpid = AUXDATA.unpack_from(data)
            if status & VLAN_VALID:
                tag = struct.pack(">HH", tpid if status & VLAN_TPID_VALID else 0x8100, tci)
                return frame[:12] + tag + frame[12:]
    return frame
