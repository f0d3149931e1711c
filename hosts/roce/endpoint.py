"""One host's RoCEv2 transport, sans I/O: frames and the time go in, frames, records and the next deadline come out.

Shaped as hosts.mrc.endpoint, so that the same NIC carries it. Order on a port: ACKs and CNPs, then data; QPs that their
rate limiters let go take turns.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from mrclab.hosts.rdma.errors import DiscardError
from mrclab.hosts.rdma.keys import Secrets
from mrclab.hosts.rdma.packets.icrc import Verifier
from mrclab.hosts.rdma.packets.path import Frame
from mrclab.hosts.roce.codec import WIRE, RoceCodec
from mrclab.hosts.roce.port import RocePort
from mrclab.hosts.roce.qp import ControlItem, RoceQueuePair
from mrclab.hosts.roce.verbs import RoceVerbs
from mrclab.topo import srv6
from mrclab.topo.nodeconfig import NodeConfig


class RoceEndpoint(RoceVerbs):
    """The transport of one host."""

    def __init__(
        self,
        config: NodeConfig,
        rng: random.Random,
        log: Callable[[dict[str, Any]], None],
        secrets: Secrets | None = None,
        codec: RoceCodec = WIRE,
    ) -> None:
        self.codec = codec
        self._address = srv6.to_bytes(srv6.from_text(config.host.address))
        self._icrc = Verifier(self._address)
        self._ports = {port.number: RocePort(port.number, port.plane) for port in config.ports}
        super().__init__(config, rng, log, secrets)
        self._pacing = self.timers.timer(self._let_go)

    # --- packets in -------------------------------------------------------------------------------

    def receive(self, port: int, frame: Any, now: float) -> None:
        """Take a whole Ethernet frame. No reference to it is kept."""
        self.now = now
        entry = self._ports[port]
        try:
            packet = self.codec.parse(frame, port, self._address, self._icrc)
            qp = self.qps.get(packet.dqpn)
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

    def has_work(self, port: int, now: float) -> bool:
        """Return True if next_frame for this port would find something; True where it has to look."""
        entry = self._ports[port]
        if not entry.up:
            return False
        return bool(entry.control or entry.ready or (entry.paced and entry.paced[0][0] <= now))

    def next_frame(self, port: int, now: float) -> Frame | None:
        """The frame that this port should send now, or None."""
        self.now = now
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
                return requestor.frame(now)
        return None

    def _hold(self, entry: RocePort, qp: RoceQueuePair) -> None:
        """Keep a QP until its rate limiter lets it go."""
        due = qp.requestor.next_at
        heappush(entry.paced, (due, qp.qpn, qp))
        if due < self._pacing.deadline:
            self._pacing.arm(due)

    @staticmethod
    def _release(entry: RocePort, now: float) -> None:
        """The QPs whose time has come are ready again."""
        paced = entry.paced
        while paced and paced[0][0] <= now:
            entry.ready.append(heappop(paced)[2])

    def _let_go(self, now: float) -> None:
        """The pacing timer: NICs ask for frames after every timer; what is left is when to wake them next."""
        for entry in self._ports.values():
            self._release(entry, now)
        upcoming = [entry.paced[0][0] for entry in self._ports.values() if entry.paced]
        if upcoming:
            self._pacing.arm(min(upcoming))

    def wake(self, qp: RoceQueuePair) -> None:
        """The QP may have something to send."""
        if not qp.queued and qp.requestor.sendable():
            qp.queued = True
            self._ports[qp.port.number].ready.append(qp)
            self.on_work()

    def send_control(self, port: int, item: ControlItem) -> None:
        """Queue a control packet; a port that is down loses it."""
        entry = self._ports[port]
        if entry.up:
            entry.control.append(item)
            self.on_work()

    # --- ports ------------------------------------------------------------------------------------

    def plane_up(self, plane: int) -> bool:
        """Return True if the local port of a plane is up."""
        return any(port.up for port in self._ports.values() if port.plane == plane)

    def _port_changed(self, entry: RocePort, now: float) -> None:
        """QPs stay bound to their port: what a dead one should have sent runs into the retry timer."""
        if not entry.up:
            for item in entry.control:
                item()  # an ACK that waits is made, and lost: the next one is queued anew
            entry.control.clear()

    def update_config(self, config: NodeConfig, now: float) -> None:
        """A new node config: it counts for QPs made from now on; there are no EVs that it could deny."""
        self.now = now
        self.config = config

    def _paths_of(self, qp: RoceQueuePair) -> list[dict[str, Any]]:
        return [qp.path_snapshot(self._ports[qp.port.number].up)]
