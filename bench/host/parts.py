"""Loads of the host benchmark, one function each: bare sockets, and the transport without sockets.

CPU times are the process's own (user and system). The transport alone is two endpoints joined in memory by calls, so
that its cost is seen without a socket, a loop or a scheduler.
"""

import random
import select
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mrclab.hosts.mrc.endpoint import MrcEndpoint
from mrclab.hosts.mrc.evs.paths import Ends, EvRoute
from mrclab.hosts.mrc.packets import headers as h
from mrclab.hosts.mrc.packets.packet import MrcParser
from mrclab.hosts.nic.packetsocket import PacketSocket
from mrclab.hosts.rdma.events import discard_record
from mrclab.hosts.rdma.memory import Access
from mrclab.hosts.rdma.packets import wire
from mrclab.hosts.rdma.packets.icrc import Verifier
from mrclab.hosts.rdma.packets.path import Frame, cable_macs
from mrclab.topo import srv6
from mrclab.topo.config.nodeconfig import NodeConfig

BARE_BATCH = 200
"""Frames sent between two reads of the clock."""

_STEP_S = 20e-6  # time that passes between two frames of the transport in memory
_BURST = 16  # frames of a port between two reads of the clock there


@dataclass(frozen=True)
class Cost:
    """Packets in a time, and the CPU seconds that they took."""

    packets: int
    elapsed: float
    cpu: float

    @property
    def rate(self) -> float:
        """Packets per second."""
        return self.packets / self.elapsed

    @property
    def cpu_us(self) -> float:
        """CPU time of one packet, microseconds."""
        return self.cpu / max(1, self.packets) * 1e6


def bare_send(interface: str, size: int, seconds: float) -> Cost:
    """Send frames of `size` bytes as fast as Python can."""
    wire = PacketSocket(interface, size)
    frame = bytes(12) + b"\x86\xdd" + bytes(size - 14)
    send = wire.send
    count, cpu, start = 0, time.process_time(), time.monotonic()
    while time.monotonic() - start < seconds:
        for _ in range(BARE_BATCH):
            try:
                send(frame)
            except BlockingIOError:
                continue
            count += 1
    cost = Cost(count, time.monotonic() - start, time.process_time() - cpu)
    wire.close()
    return cost


def bare_receive(interface: str, size: int, quiet: float, ready: Callable[[], None]) -> tuple[Cost, int]:
    """Receive until idle for `quiet` seconds; return the cost and the number of lost frames."""
    wire = PacketSocket(interface, size)
    ready()
    count, first, last, cpu = 0, 0.0, 0.0, 0.0
    while True:
        waiting, _, _ = select.select([wire], [], [], quiet if count else None)
        if not waiting:
            break
        if not count:
            first, cpu = time.monotonic(), time.process_time()
        for _ in wire.frames(wire.slots):
            count += 1
        last = time.monotonic()
    cost = Cost(count, last - first, time.process_time() - cpu)
    lost = wire.count_drops()
    wire.close()
    return cost, lost


def in_memory(configs: tuple[NodeConfig, NodeConfig], packets: int, attributes: dict[str, Any]) -> tuple[Cost, Cost]:
    """Move `packets` full packets from one endpoint to the other; return the costs of sender and receiver."""
    near, far = (MrcEndpoint(config, random.Random(1), discard_record) for config in configs)
    ports = [port.number for port in configs[0].ports]
    now = 1.0
    for endpoint in (near, far):
        for port in ports:
            endpoint.port_event(port, True, now)
    _connect(near, far, configs, packets, attributes)
    near_spent = far_spent = 0.0
    clock = time.perf_counter
    cpu, start = time.process_time(), clock()
    while not near.verbs.poll_cq():
        now += _STEP_S * len(ports) * _BURST
        for here, there in ((near, far), (far, near)):
            began = clock()
            frames = _burst(here, ports, now)
            sent = clock() - began
            arriving = [(port, memoryview(_joined(frame))) for port, frame in frames]
            began = clock()
            for port, whole in arriving:
                there.receive(port, whole, now)
            received = clock() - began
            near_spent += sent if here is near else received
            far_spent += received if here is near else sent
        for endpoint in (near, far):
            deadline = endpoint.next_deadline()
            if deadline is not None and deadline <= now:
                endpoint.on_timer(now)
    # shares by the clock, their sum by CPU time: time taken by other processes counts for none
    busy = (time.process_time() - cpu) / (clock() - start)
    return Cost(packets, near_spent, near_spent * busy), Cost(packets, far_spent, far_spent * busy)


def _burst(endpoint: MrcEndpoint, ports: list[int], now: float) -> list[tuple[int, Frame]]:
    """Return the frames of an endpoint when every port sends some in turn."""
    frames = []
    for _ in range(_BURST):
        for port in ports:
            frame = endpoint.next_frame(port, now)
            if frame is not None:
                frames.append((port, frame))
    return frames


def codec(config: NodeConfig, packets: int) -> tuple[Cost, Cost]:
    """Build and parse full packets, ICRC included; return the cost of each."""
    own = srv6.from_text(config.host.address)
    port = config.ports[0]
    macs = cable_macs(port)
    template = srv6.template_local(config.host.group, config.host.downlink)
    path = EvRoute(srv6.ev(port.plane, 0, srv6.ev_tag(0)), port.number, macs, Ends(template, own, own))
    payload = memoryview(bytearray(config.path_mtu))
    began = time.process_time()
    for psn in range(packets):
        body = h.WRITE_TS.pack(
            h.MrcOpcode.WRITE_MIDDLE, wire.MIGRATED, wire.P_KEY, 256, h.FLAG_TS << 24 | psn,
            0, 0, 0, h.TSETH_WORD, 0, 1, len(payload),
        )  # fmt: skip
        frame = path.frame(h.Dscp.TRIMMABLE << 2, body, payload)
    built = time.process_time() - began
    whole = memoryview(_joined(frame))
    route, address = bytes(whole[38:44]), srv6.to_bytes(own)
    parse = MrcParser(port.number, route, address, Verifier(address)).parse
    began = time.process_time()
    for _ in range(packets):
        parse(whole)
    parsed = time.process_time() - began
    return Cost(packets, built, built), Cost(packets, parsed, parsed)


def _connect(
    near: MrcEndpoint,
    far: MrcEndpoint,
    configs: tuple[NodeConfig, NodeConfig],
    packets: int,
    attributes: dict[str, Any],
) -> None:
    """Make a QP on both sides and post the write."""
    size = packets * configs[0].path_mtu
    here = near.verbs.create_qp(configs[1].host.address, 0.0, **attributes)
    there = far.verbs.create_qp(configs[0].host.address, 0.0, **attributes)
    near.verbs.connect(here, far.verbs.local_info(there), 0.0)
    far.verbs.connect(there, near.verbs.local_info(here), 0.0)
    source = near.verbs.reg_mr(bytes(size), Access(0))
    target = far.verbs.reg_mr(bytearray(size))
    near.verbs.post_send(here, 1, "RDMA_WRITE", source.lkey, 0, size, target.va, target.rkey, None, 0.0)


def _joined(frame: Frame) -> bytes:
    return frame.header + (frame.payload if frame.payload is not None else b"") + frame.trailer
