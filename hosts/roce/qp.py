"""A RoCEv2 queue pair: its two halves, its one path, its rate control."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

from mrclab.hosts.rdma import qp as rc
from mrclab.hosts.rdma.completion import CompletionQueue
from mrclab.hosts.rdma.packets import wire
from mrclab.hosts.rdma.packets.path import Frame, WireFrame, cable_macs
from mrclab.hosts.rdma.packets.psn import wrap
from mrclab.hosts.rdma.states import QpState
from mrclab.hosts.rdma.stats import reader
from mrclab.hosts.roce import headers as h
from mrclab.hosts.roce.cc import RateControl, RateFacts, rate_control
from mrclab.hosts.roce.codec import RoceCodec
from mrclab.hosts.roce.packet import RocePacket
from mrclab.hosts.roce.path import PlainPath
from mrclab.hosts.roce.requestor import RoceRequestor
from mrclab.hosts.roce.responder import RoceResponder
from mrclab.hosts.roce.settings import RoceQpSettings
from mrclab.hosts.roce.stats import RoceQpStats
from mrclab.hosts.roce.telemetry import Hop
from mrclab.topo import srv6
from mrclab.topo.nodeconfig import NicPortConfig

_BECN_AT: Final = h.BTH_AT + 4

ControlItem = Callable[[], Frame]
"""Makes a control packet when a port takes it."""


class RoceServices(rc.QpServices, Protocol):
    """Services of the endpoint to a RoCEv2 QP."""

    codec: RoceCodec

    def wake(self, qp: RoceQueuePair) -> None:
        """The QP may have something to send."""

    def send_control(self, port: int, item: ControlItem) -> None:
        """Queue a control packet."""

    def turn(self, qpn: int) -> int:
        """Return the number that a QP would have if numbers were counted."""


class RoceQueuePair(rc.QueuePair[RoceServices, RoceQpSettings, RoceQpStats, RateControl, RoceRequestor, RoceResponder]):
    """One QP: its path and its rate."""

    read_stats = reader(RoceQpStats)

    def __init__(
        self,
        host: RoceServices,
        qpn: int,
        peer: str,
        settings: RoceQpSettings,
        pd: int,
        send_cq: CompletionQueue,
        recv_cq: CompletionQueue,
    ) -> None:
        super().__init__(host, qpn, peer, pd, send_cq, recv_cq)
        self.peer_bytes = srv6.to_bytes(srv6.from_text(peer))
        self.settings = settings
        self.stats = RoceQpStats()
        self.queued = False  # the endpoint knows that it has something to send
        ports = host.config.ports
        port = ports[host.turn(qpn) % len(ports)].number if settings.port is None else settings.port
        drawn = h.FIRST_SPORT | host.rng.getrandbits(14)
        self.sport = drawn if settings.udp_sport is None else settings.udp_sport
        self._paths = {entry.number: self._path(entry) for entry in ports}
        self.port = host.config.port(port)
        self.path = self._paths[port]
        self.ev = self.port.plane << 28 | self.sport  # names the path in records; the uplink is the switches' choice
        self._begin()

    def _path(self, port: NicPortConfig) -> PlainPath:
        source = srv6.to_bytes(srv6.from_text(self.host.config.host.address))
        return self.host.codec.path(cable_macs(port), source, self.peer_bytes, self.sport)

    def _begin(self) -> None:
        s = self.settings
        line = s.line_rate * self.host.config.weight(self.port)
        facts = RateFacts(line, s.base_rtt, s.path_mtu, s.dcqcn)
        self.cc = rate_control(s.cc_profile, facts, self.host.now, s.cc_config)
        self.requestor = RoceRequestor(self)
        self.responder = RoceResponder(self)
        self._ack_waits = False
        self.echo: list[Hop] | None = None  # telemetry that the next ACK brings back

    # --- services for the halves ------------------------------------------------------------------

    def wake(self) -> None:
        """There may be something to send."""
        self.host.wake(self)

    def port_up(self) -> bool:
        """Return True if the port that the QP is bound to is up."""
        return self.host.plane_up(self.port.plane)

    def refuse(self, packet: RocePacket, syndrome: wire.Syndrome, reason: str) -> None:
        """The peer asked for what it may not do: tell it, and stop."""
        self.reply(packet.port, syndrome, packet.psn, self.responder.msn)
        self.fail("REM_INV_REQ_ERR", reason, at_fault=False)

    # --- control packets: they leave by the port that their cause came in by ------------------------

    def reply(self, port: int, syndrome: int, psn: int, msn: int, came: int | None = None) -> None:
        """Queue an ACK or NAK as it is now; `came` is the PSN that drew it, where it names one."""
        body = wire.BTH.pack(h.RoceOpcode.ACK, wire.MIGRATED, wire.P_KEY, self.remote_qpn, psn)
        body += wire.AETH.pack(syndrome << 24 | msn & 0xFFFFFF)
        if came is not None:
            body += wire.AETH.pack(came)
        self.host.send_control(port, lambda: self._paths[port].frame(h.TC_CONTROL, body))

    def acknowledge(self, port: int) -> None:
        """Queue an ACK that says what holds when it leaves; one that waits already will say it, too."""
        if self._ack_waits:
            return
        self._ack_waits = True
        self.host.send_control(port, lambda: self._ack(port))

    def _ack(self, port: int) -> Frame:
        self._ack_waits = False
        self.stats.acks_sent += 1
        responder = self.responder
        psn = wrap(responder.expected - 1 + responder.first_psn)
        body = wire.BTH.pack(h.RoceOpcode.ACK, wire.MIGRATED, wire.P_KEY, self.remote_qpn, psn)
        path = self._paths[port]
        frame = path.frame(h.TC_CONTROL, body + wire.AETH.pack(wire.Syndrome.ACK << 24 | responder.msn & 0xFFFFFF))
        echo, self.echo = self.echo, None
        return frame if echo is None else path.telling(frame, echo)

    def notify(self, port: int) -> None:
        """Queue a CNP."""
        self.host.send_control(port, lambda: self._cnp(port))

    def _cnp(self, port: int) -> Frame:
        """BECN is in a byte that the ICRC leaves out, so it goes in afterwards."""
        body = wire.BTH.pack(h.RoceOpcode.CNP, wire.MIGRATED, wire.P_KEY, self.remote_qpn, 0) + h.CNP_PAYLOAD
        frame = self._paths[port].frame(h.TC_CONTROL, body)
        header = frame.header[:_BECN_AT] + bytes([h.BECN]) + frame.header[_BECN_AT + 1 :]
        return WireFrame(header, frame.payload, frame.trailer, frame.wire_len)

    # --- packets ----------------------------------------------------------------------------------

    def on_packet(self, packet: RocePacket, now: float) -> None:
        """Handle a packet for this QP."""
        op = packet.op
        if op in h.WRITES:
            if self.state is QpState.RTS or self.state is QpState.RTR:
                self.responder.on_write(packet, now)
            elif self.state is QpState.ERROR:
                self.reply(packet.port, wire.Syndrome.NAK_REMOTE_OPERATION, packet.psn, self.responder.msn)
        elif self.state is not QpState.RTS:
            return
        elif op == h.RoceOpcode.ACK:
            syndrome = wire.AETH.unpack_from(packet.view, packet.body_at)[0] >> 24
            more = packet.body_at + wire.AETH.size
            came = wire.AETH.unpack_from(packet.view, more)[0] if packet.end >= more + wire.AETH.size else None
            self.requestor.on_ack(packet.psn, syndrome, now, came)
            if packet.telemetry is not None:
                self.requestor.on_telemetry(packet.telemetry, now)
            self.wake()
        elif op == h.RoceOpcode.CNP:
            self.stats.cnps_received += 1
            self.cc.on_cnp(now)

    # --- views ------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """Counters and state for a sample."""
        return {"cwnd": 0, **super().snapshot()}

    def path_snapshot(self, up: bool) -> dict[str, Any]:
        """The one path, in the words of MRC's; which uplink it takes is the switches' choice."""
        stats = self.stats
        return {
            "qp": self.qpn,
            "ev": self.ev,
            "plane": self.port.plane,
            "uplink": 0,
            "sport": self.sport,
            "sent_packets": stats.sent_packets,
            "acked_packets": stats.acked_packets,
            "lost_packets": stats.lost_packets,
            "nacked_packets": stats.nacks_received,
            "marked_packets": stats.cnps_received,
            "retx_packets": stats.retx_packets,
            "state": "GOOD" if up else "PORT_DOWN",
        }
