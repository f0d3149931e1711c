"""A RoCEv2 queue pair: its two halves, its one path, its rate control."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from typing_extensions import override

from mrclab.hosts.rdma import qp as rc
from mrclab.hosts.rdma.packets import wire
from mrclab.hosts.rdma.packets.path import Frame, WireFrame
from mrclab.hosts.rdma.packets.psn import wrap
from mrclab.hosts.rdma.states import QpState
from mrclab.hosts.rdma.stats import QpStats, reader
from mrclab.hosts.roce import headers as h
from mrclab.hosts.roce.cc import RateFacts, rate_control
from mrclab.hosts.roce.packets import PlainPath, RocePacket
from mrclab.hosts.roce.requestor import NOTHING_SENT, RoceRequestor
from mrclab.hosts.roce.responder import RoceResponder
from mrclab.hosts.roce.settings import RoceQpSettings
from mrclab.hosts.roce.telemetry import Hop
from mrclab.topo import srv6

if TYPE_CHECKING:
    from mrclab.hosts.roce.endpoint import RoceEndpoint

_BECN_AT: Final = h.BTH_AT + 4

ControlItem = Callable[[], Frame]
"""Makes a control packet when a port takes it."""


class RoceQpStats(QpStats):
    """Counters of one QP since it was created. `lost_packets` of go-back-N are those that it went back to."""

    cnps_received: int = 0
    out_of_order: int = 0  # dropped because an earlier one is missing
    cnps_sent: int = 0


_read_stats: Final = reader(RoceQpStats)
_NO_PATHS: Final[dict[int, PlainPath]] = {}  # stays empty: a host with one port has no others


@functools.lru_cache(4096)
def _forms(address: int) -> tuple[str, bytes]:
    """Return an address as text and as bytes, the same objects for all QPs that lead there."""
    return srv6.text(address), srv6.to_bytes(address)


class RoceQueuePair(rc.QueuePair[RoceRequestor, RoceResponder]):
    """One QP: its path and its rate."""

    __slots__ = (
        "_ack_waits", "_others", "_path", "cc", "echo", "endpoint", "memory", "peer_bytes", "port", "queued",
        "settings", "sport", "stats",
    )  # fmt: skip

    requestor_class = RoceRequestor
    responder_class = RoceResponder

    def __init__(
        self, endpoint: RoceEndpoint, init: rc.QpInit, peer: int, settings: RoceQpSettings, now: float
    ) -> None:
        text, self.peer_bytes = _forms(peer)
        super().__init__(endpoint.events, init, text)
        self.endpoint = endpoint
        self.memory = endpoint.memory
        self.settings = settings
        self.stats = RoceQpStats()
        self.queued = False  # at its port, to send
        ports = endpoint.config.ports
        port = ports[endpoint.verbs.ordinal(init.qpn) % len(ports)].number if settings.port is None else settings.port
        drawn = h.FIRST_SPORT | endpoint.rng.getrandbits(14)
        self.sport = drawn if settings.udp_sport is None else settings.udp_sport
        self.port = endpoint.config.port(port)
        self._path: PlainPath | None = None
        self._others = _NO_PATHS  # of control packets that leave by other ports
        self._begin(now)

    @property
    def ev(self) -> int:
        """Name of the path in records; the switches choose the uplink."""
        return self.port.plane << 28 | self.sport

    @property
    def path(self) -> PlainPath:
        """Path of its data, made with the first frame."""
        found = self._path
        if found is None:
            found = self._path = self.endpoint.path(self.port.number, self.peer_bytes, self.sport)
        return found

    def _path_by(self, port: int) -> PlainPath:
        """Return the path out of one port."""
        if port == self.port.number:
            return self.path
        found = self._others.get(port)
        if found is None:
            if self._others is _NO_PATHS:
                self._others = {}
            found = self._others[port] = self.endpoint.path(port, self.peer_bytes, self.sport)
        return found

    @override
    def _begin(self, now: float) -> None:
        super()._begin(now)
        s = self.settings
        line = s.line_rate * self.endpoint.config.weight(self.port)
        facts = RateFacts(line, s.base_rtt, s.path_mtu, s.dcqcn)
        self.cc = rate_control(s.cc_profile, facts, now, s.cc_config)
        self._ack_waits = False
        self.echo: list[Hop] | None = None  # telemetry for the next ACK

    # --- services for the halves ------------------------------------------------------------------

    @override
    def wake(self) -> None:
        self.endpoint.wake(self)

    def port_up(self) -> bool:
        """Return True if the port that the QP is bound to is up."""
        return self.endpoint.ports.by_number[self.port.number].up

    def refuse(self, packet: RocePacket, syndrome: wire.Syndrome, reason: str, now: float) -> None:
        """Fail: the peer requested something that it may not do; notify it."""
        self.reply(packet.port, syndrome, packet.psn, self.responder.msn)
        self.fail("REM_INV_REQ_ERR", reason, now, at_fault=False)

    # --- control packets: they leave by the port that their cause came in by ------------------------

    def reply(self, port: int, syndrome: int, psn: int, msn: int, arrived: int | None = None) -> None:
        """Queue an ACK or NAK with the current state; `arrived` is the PSN that triggered it, if it names one."""
        body = wire.BTH.pack(h.RoceOpcode.ACK, wire.MIGRATED, wire.P_KEY, self.remote_qpn, psn)
        body += wire.AETH.pack(syndrome << 24 | msn & 0xFFFFFF)
        if arrived is not None:
            body += wire.AETH.pack(arrived)
        self.endpoint.send_control(port, lambda: self._path_by(port).frame(h.TC_CONTROL, body))

    def acknowledge(self, port: int) -> None:
        """Queue an ACK with the state at the time of sending; one that already waits covers this as well."""
        if self._ack_waits:
            return
        self._ack_waits = True
        responder, remote_qpn = self.responder, self.remote_qpn  # a reset replaces them
        self.endpoint.send_control(port, lambda: self._ack(port, responder, remote_qpn))

    def _ack(self, port: int, responder: RoceResponder, remote_qpn: int) -> Frame:
        self._ack_waits = False
        self.stats.acks_sent += 1
        psn = wrap(responder.expected - 1 + responder.first_psn)
        body = wire.BTH.pack(h.RoceOpcode.ACK, wire.MIGRATED, wire.P_KEY, remote_qpn, psn)
        path = self._path_by(port)
        frame = path.frame(h.TC_CONTROL, body + wire.AETH.pack(wire.Syndrome.ACK << 24 | responder.msn & 0xFFFFFF))
        echo, self.echo = self.echo, None
        return frame if echo is None else path.with_telemetry(frame, echo)

    def notify(self, port: int) -> None:
        """Queue a CNP."""
        self.endpoint.send_control(port, lambda: self._cnp(port))

    def _cnp(self, port: int) -> Frame:
        """Set BECN after the ICRC was computed, which does not cover its byte."""
        body = wire.BTH.pack(h.RoceOpcode.CNP, wire.MIGRATED, wire.P_KEY, self.remote_qpn, 0) + h.CNP_PAYLOAD
        frame = self._path_by(port).frame(h.TC_CONTROL, body)
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
            arrived = wire.AETH.unpack_from(packet.view, more)[0] if packet.end >= more + wire.AETH.size else None
            self.requestor.on_ack(packet.psn, syndrome, now, arrived)
            if packet.telemetry is not None:
                self.requestor.on_telemetry(packet.telemetry, now)
            self.wake()
        elif op == h.RoceOpcode.CNP:
            self.stats.cnps_received += 1
            self.cc.on_cnp(now)

    # --- views ------------------------------------------------------------------------------------

    @override
    def receive_limits(self) -> dict[str, int]:
        return {"mpr": self.settings.mpr, "wimm": self.settings.wimm}

    @override
    def counters(self) -> tuple[Any, ...]:
        return (_read_stats(self.stats), self.cc.snapshot())

    @override
    def rows(self) -> dict[str, Any]:
        return {**self.stats.as_dict(), **self.cc.snapshot()}

    @override
    def _nothing_sent(self) -> dict[str, Any]:
        return NOTHING_SENT

    @override
    def snapshot(self) -> dict[str, Any]:
        return {"cwnd": 0, **super().snapshot()}

    @override
    def query(self) -> dict[str, Any]:
        chosen = {"cc_profile": self.settings.cc_profile, "port": self.port.number, "udp_sport": self.sport}
        return {**super().query(), **chosen}

    @override
    def path_snapshots(self) -> list[dict[str, Any]]:
        """Return the one path in the fields of MRC's; the switches choose the uplink."""
        stats = self.stats
        row = {
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
            "state": "GOOD" if self.port_up() else "PORT_DOWN",
        }
        return [row]
