"""One host's RoCEv2 transport, sans I/O: frames and the time go in, frames, records and the next deadline come out.

The same NIC carries it as MRC. Order on a port: ACKs and CNPs, then data; QPs that may send at their rate take turns.
"""

from __future__ import annotations

import random
import struct
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, ClassVar

from typing_extensions import override

from mrclab.hosts.rdma import endpoint as rc
from mrclab.hosts.rdma.errors import DiscardError, VerbsError
from mrclab.hosts.rdma.packets.icrc import Verifier
from mrclab.hosts.rdma.packets.path import Frame, cable_macs
from mrclab.hosts.rdma.qp import QpInit
from mrclab.hosts.roce.cc import CONTROLS
from mrclab.hosts.roce.packets import WIRE, PlainPath, RoceCodec
from mrclab.hosts.roce.qp import ControlItem, RoceQueuePair
from mrclab.hosts.roce.settings import qp_settings
from mrclab.topo import srv6
from mrclab.topo.config.nodeconfig import NodeConfig
from mrclab.topo.economy import Secrets


class RocePort(rc.TransportPort):
    """One NIC port, with the control packets and the QPs that wait for it."""

    __slots__ = ("control", "paced", "ready")

    def __init__(self, number: int, plane: int) -> None:
        super().__init__(number, plane)
        self.control: deque[ControlItem] = deque()
        self.ready: deque[RoceQueuePair] = deque()  # have something to send
        self.paced: list[tuple[float, int, RoceQueuePair]] = []  # heap of QPs that their rate limiters hold back


class RoceEndpoint(rc.Endpoint[RocePort, RoceQueuePair]):
    """The transport of one host."""

    transport_name: ClassVar[str] = "the lab's RoCE"

    def __init__(
        self,
        config: NodeConfig,
        rng: random.Random,
        log: Callable[[dict[str, Any]], object],
        secrets: Secrets | None = None,
        codec: RoceCodec = WIRE,
    ) -> None:
        super().__init__(config, rng, log, secrets, [RocePort(port.number, port.plane) for port in config.ports])
        self.codec = codec
        self._address = srv6.to_bytes(srv6.from_text(config.host.address))
        self._macs = {port.number: cable_macs(port) for port in config.ports}
        self._icrc = Verifier(self._address)
        self._ports: dict[int, RocePort] = self.ports.by_number
        self._pacing = self.timers.timer(self._on_pacing)

    # --- QPs --------------------------------------------------------------------------------------

    @override
    def query_device(self) -> dict[str, Any]:
        return {"transport": "roce", "capabilities": [], "cc_profiles": list(CONTROLS.profiles), "ev_profiles": []}

    @override
    def make_qp(self, init: QpInit, peer: str, attributes: dict[str, Any], now: float) -> RoceQueuePair:
        """`attributes` are those of QpSettings; `port` and `udp_sport` choose the QP's path."""
        try:
            template = self.config.template_for(peer)
        except (KeyError, ValueError):
            raise VerbsError(
                "EINVAL", f"{peer} is not the address of a host with a template in the node config"
            ) from None
        address = srv6.from_text(peer)
        self.verbs.check_remote(peer, address)
        settings = qp_settings(self.config, template, **attributes)
        return RoceQueuePair(self, init, address, settings, now)

    # --- paths ------------------------------------------------------------------------------------

    def path(self, port: int, peer: bytes, sport: int) -> PlainPath:
        """Return a new path out of a port."""
        return self.codec.path(self._macs[port], self._address, peer, sport)

    # --- packets in -------------------------------------------------------------------------------

    @override
    def receive(self, port: int, frame: Any, now: float) -> None:
        entry = self._ports[port]
        try:
            packet = self.codec.parse(frame, port, self._address, self._icrc)
            qp = self._qps.get(packet.dqpn)
            if qp is None or packet.source != qp.peer_bytes:
                entry.counters["no_qp"] += 1
                return
            before = qp.stats.placed_bytes
            qp.on_packet(packet, now)
            entry.placed_bytes += qp.stats.placed_bytes - before
        except DiscardError as discard:
            entry.counters[str(discard)] += 1
        except struct.error:
            entry.counters["malformed"] += 1

    # --- packets out ------------------------------------------------------------------------------

    @override
    def has_work(self, port: int, now: float) -> bool:
        entry = self._ports[port]
        if not entry.up:
            return False
        return bool(entry.control or entry.ready or (entry.paced and entry.paced[0][0] <= now))

    @override
    def next_frame(self, port: int, now: float) -> Frame | None:
        entry = self._ports[port]
        if not entry.up:
            return None
        if entry.control:
            return entry.control.popleft()()
        if entry.paced:
            self._release(entry, now)
        ready = entry.ready
        while ready:
            qp = ready[0]
            requestor = qp.requestor
            if not requestor.sendable():
                ready.popleft()
                qp.queued = False
            elif requestor.next_at > now:
                ready.popleft()
                self._hold(entry, qp)
            else:
                if len(ready) > 1:
                    ready.rotate(-1)
                frame = requestor.frame(now)
                if frame is not None:  # else its memory is gone, and the QP in error
                    return frame
        return None

    def _hold(self, entry: RocePort, qp: RoceQueuePair) -> None:
        """Hold a QP back until its rate limiter lets it send."""
        due = qp.requestor.next_at
        heappush(entry.paced, (due, qp.qpn, qp))
        if due < self._pacing.deadline:
            self._pacing.arm(due)

    @staticmethod
    def _release(entry: RocePort, now: float) -> None:
        """Release the QPs whose time has come."""
        paced = entry.paced
        while paced and paced[0][0] <= now:
            entry.ready.append(heappop(paced)[2])

    def _on_pacing(self, now: float) -> None:
        """Set the next deadline only: NICs call `next_frame` after every timer."""
        for entry in self._ports.values():
            self._release(entry, now)
        upcoming = [entry.paced[0][0] for entry in self._ports.values() if entry.paced]
        if upcoming:
            self._pacing.arm(min(upcoming))

    def wake(self, qp: RoceQueuePair) -> None:
        """The QP may have data to send."""
        requestor = qp.known_requestor
        if not qp.queued and requestor is not None and requestor.sendable():
            qp.queued = True
            self._ports[qp.port.number].ready.append(qp)
            self.on_work()

    def send_control(self, port: int, item: ControlItem) -> None:
        """Queue a control packet; a port that is down loses it."""
        entry = self._ports[port]
        if not entry.up:
            item()  # an ACK is made, and lost: the next one is queued again
            return
        entry.control.append(item)
        self.on_work()

    # --- ports ------------------------------------------------------------------------------------

    @override
    def _port_changed(self, port: RocePort, now: float) -> None:
        """QPs stay bound to their port: packets of a port that is down run into the retry timer."""
        if not port.up:
            for item in port.control:
                item()  # as in `send_control`
            port.control.clear()
            for qp in self._qps.values():
                if qp.known_requestor is not None and qp.port.number == port.number:
                    qp.known_requestor.on_port_down(now)
        self.on_work()
