"""A RoCEv2 queue pair: its two halves, its one path, its rate control."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final, Protocol

from hosts.mrc.completion import Completion, CompletionQueue
from hosts.mrc.memory import MemoryTable
from hosts.mrc.paths import Frame
from hosts.mrc.psn import wrap
from hosts.mrc.states import QpState
from hosts.mrc.timers import Timers
from hosts.roce import headers as h
from hosts.roce.dcqcn import rate_control
from hosts.roce.packet import Packet
from hosts.roce.path import PlainPath
from hosts.roce.requestor import Message, Requestor
from hosts.roce.responder import Responder
from hosts.roce.settings import QpSettings
from hosts.roce.stats import QpStats
from topo import srv6
from topo.nodeconfig import NicPort, NodeConfig

_BECN_AT: Final = h.BTH_AT + 4

ControlItem = Callable[[], Frame]
"""Makes a control packet when a port takes it."""


class Services(Protocol):
    """What a QP asks of the endpoint it lives in."""

    config: NodeConfig
    rng: random.Random
    timers: Timers
    memory: MemoryTable
    now: float  # time of the call being handled

    def log(self, record: dict[str, Any]) -> None:
        """Append a history record."""

    def wake(self, qp: QueuePair) -> None:
        """The QP may have something to send."""

    def send_control(self, port: int, item: ControlItem) -> None:
        """Queue a control packet."""

    def plane_up(self, plane: int) -> bool:
        """Whether the local port of a plane is up."""

    def async_event(self, event: dict[str, Any]) -> None:
        """Tell the application of something that no call asked for."""


class QueuePair:
    """One QP. Made by the verbs, driven by the endpoint."""

    def __init__(
        self,
        host: Services,
        qpn: int,
        peer: str,
        settings: QpSettings,
        pd: int,
        send_cq: CompletionQueue,
        recv_cq: CompletionQueue,
    ) -> None:
        self.host = host
        self.qpn = qpn
        self.peer = peer
        self.peer_bytes = srv6.to_bytes(srv6.from_text(peer))
        self.settings = settings
        self.pd = pd
        self.send_cq = send_cq
        self.recv_cq = recv_cq
        self.memory = host.memory
        self.timers = host.timers
        self.stats = QpStats()
        self.state = QpState.RESET
        self.remote_qpn = 0
        self.first_psn: int | None = None  # drawn when the peer is told
        self.queued = False  # the endpoint knows that it has something to send
        ports = host.config.ports
        port = ports[qpn % len(ports)].number if settings.port is None else settings.port
        drawn = h.FIRST_SPORT | host.rng.getrandbits(14)
        self.sport = drawn if settings.udp_sport is None else settings.udp_sport
        self._paths = {entry.number: self._path(entry) for entry in ports}
        self.port = host.config.port(port)
        self.path = self._paths[port]
        self.ev = self.port.plane << 28 | self.sport  # names the path in records; the uplink is the switches' choice
        self._restart()

    def _path(self, port: NicPort) -> PlainPath:
        macs = bytes.fromhex((port.peer_mac + port.mac).replace(":", ""))
        source = srv6.to_bytes(srv6.from_text(self.host.config.host.address))
        return PlainPath(macs, source, self.peer_bytes, self.sport)

    def _restart(self) -> None:
        s = self.settings
        self.cc = rate_control(s.cc_profile, s.dcqcn, s.line_rate, s.base_rtt)
        self.requestor = Requestor(self)
        self.responder = Responder(self)
        self._ack_waits = False

    # --- life -------------------------------------------------------------------------------------

    def ready_to_receive(self, remote_qpn: int, psn: int) -> None:
        """RTR: the peer's QP number and first PSN."""
        self.remote_qpn = remote_qpn
        self.responder.restart(psn)

    def ready_to_send(self, psn: int) -> None:
        """RTS: one's own first PSN."""
        self.requestor.restart(psn)

    def reset(self) -> None:
        """Back to the start: nothing outstanding."""
        self.close()
        self.first_psn = None
        self._restart()
        self.set_state(QpState.RESET)

    def close(self) -> None:
        """Drop everything outstanding without a completion."""
        self.requestor.drop()

    def set_state(self, state: QpState, reason: str = "") -> None:
        """Change the state and say so."""
        self.state = state
        self.log("qp.state", qpn=self.qpn, peer=self.peer, state=state.value, reason=reason)

    def fail(self, status: str, reason: str, at_fault: bool = True) -> None:
        """To ERROR: outstanding work is flushed, and the application is told."""
        if self.state is QpState.ERROR:
            return
        self.set_state(QpState.ERROR, reason)
        self.host.async_event({"event": "QP_FATAL", "qp": self.qpn, "reason": reason})
        self.requestor.flush(status if at_fault else "WR_FLUSH_ERR", "WR_FLUSH_ERR")
        receives = self.responder.receives
        while receives:
            self.complete_receive(receives.popleft(), 0, 0, "WR_FLUSH_ERR")

    # --- services for the halves ------------------------------------------------------------------

    def log(self, kind: str, **fields: Any) -> None:
        """A history record of this QP."""
        self.host.log({"kind": kind, "qp": self.qpn, **fields})

    def wake(self) -> None:
        """There may be something to send."""
        self.host.wake(self)

    def port_up(self) -> bool:
        """Whether the port that the QP is bound to is up."""
        return self.host.plane_up(self.port.plane)

    def complete(self, message: Message, status: str) -> None:
        """A posted write is over."""
        message.release()
        self.log("wr.done", wr_id=message.wr_id, opcode=message.opcode, status=status, bytes=message.length)
        done = Completion(message.wr_id, status, message.opcode, message.length, self.qpn, None, self.host.now)
        self._push(self.send_cq, done)

    def complete_receive(self, wr_id: int, imm: int, length: int, status: str = "SUCCESS") -> None:
        """A posted receive has got its immediate."""
        self._push(self.recv_cq, Completion(wr_id, status, "RECV_RDMA_WITH_IMM", length, self.qpn, imm, self.host.now))

    def _push(self, cq: CompletionQueue, completion: Completion) -> None:
        if not cq.push(completion):
            self.host.async_event({"event": "CQ_ERR", "cq": cq.number, "qp": self.qpn})
            self.fail("WR_FLUSH_ERR", f"completion queue {cq.number} overflowed")

    def refuse(self, packet: Packet, syndrome: h.Syndrome, reason: str) -> None:
        """The peer asked for what it may not do: tell it, and stop."""
        self.reply(packet.port, syndrome, packet.psn, self.responder.msn)
        self.fail("REM_INV_REQ_ERR", reason, at_fault=False)

    # --- control packets: they leave by the port that their cause came in by ------------------------

    def reply(self, port: int, syndrome: int, psn: int, msn: int) -> None:
        """Queue an ACK or NAK as it is now."""
        body = h.BTH.pack(h.Op.ACK, h.MIGRATED, h.P_KEY, self.remote_qpn, psn)
        body += h.AETH.pack(syndrome << 24 | msn & 0xFFFFFF)
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
        body = h.BTH.pack(h.Op.ACK, h.MIGRATED, h.P_KEY, self.remote_qpn, psn)
        return self._paths[port].frame(
            h.TC_CONTROL, body + h.AETH.pack(h.Syndrome.ACK << 24 | responder.msn & 0xFFFFFF)
        )

    def notify(self, port: int) -> None:
        """Queue a CNP."""
        self.host.send_control(port, lambda: self._cnp(port))

    def _cnp(self, port: int) -> Frame:
        """BECN is in a byte that the ICRC leaves out, so it goes in afterwards."""
        body = h.BTH.pack(h.Op.CNP, h.MIGRATED, h.P_KEY, self.remote_qpn, 0) + h.CNP_PAYLOAD
        frame = self._paths[port].frame(h.TC_CONTROL, body)
        header = frame.header[:_BECN_AT] + bytes([h.BECN]) + frame.header[_BECN_AT + 1 :]
        return frame._replace(header=header)

    # --- packets ----------------------------------------------------------------------------------

    def on_packet(self, packet: Packet, now: float) -> None:
        """Whatever came for this QP."""
        op = packet.op
        if op in h.WRITES:
            if self.state is QpState.RTS or self.state is QpState.RTR:
                self.responder.on_write(packet, now)
            elif self.state is QpState.ERROR:
                self.reply(packet.port, h.Syndrome.NAK_REMOTE_OPERATION, packet.psn, self.responder.msn)
        elif self.state is not QpState.RTS:
            return
        elif op == h.Op.ACK:
            self.requestor.on_ack(packet.psn, h.AETH.unpack_from(packet.view, packet.body_at)[0] >> 24, now)
            self.wake()
        elif op == h.Op.CNP:
            self.stats.cnps_received += 1
            self.cc.on_cnp(now)

    # --- views ------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """Counters and state for a sample."""
        return {
            "qp": self.qpn,
            "qpn": self.qpn,
            "peer": self.peer,
            "state": self.state.value,
            **self.stats.as_dict(),
            "cwnd": 0,
            **self.cc.snapshot(),
            **self.requestor.snapshot(),
            **self.responder.snapshot(),
        }

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
