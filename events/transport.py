"""Records of the transport: QPs, EVs, packets and work requests. Hosts write them as plain dictionaries, for speed."""

from typing import ClassVar, Literal

from mrclab.events.event import At, Bytes, Ev, Event, Packets, Plane, Psn, Qp, Seconds, Uplink, event

QpStateName = Literal["RESET", "INIT", "RTR", "RTS", "ERROR"]
EvStateName = Literal["GOOD", "SKIP", "STANDBY", "PORT_DOWN", "ASSUMED_BAD", "DENIED"]


@event
class QpTransition(Event):
    """Change of a QP's state. `qp` and `qpn` are the same."""

    kind: ClassVar[str] = "qp.state"
    qp: Qp
    qpn: Qp
    peer: str
    state: QpStateName
    reason: str


@event
class QpStalled(Event):
    """Absence of progress for 64 base RTTs with work outstanding, since when and why."""

    kind: ClassVar[str] = "qp.stalled"
    qp: Qp
    peer: str
    since: At
    reason: str


@event
class QpResumed(Event):
    """Progress of a QP that had stalled, with the duration."""

    kind: ClassVar[str] = "qp.resumed"
    qp: Qp
    peer: str
    seconds: Seconds


@event
class EvTransition(Event):
    """Change of an EV's state; [why](mrc-protocol.md)."""

    kind: ClassVar[str] = "ev.state"
    qp: Qp
    ev: Ev
    plane: Plane
    uplink: Uplink
    old: EvStateName
    new: EvStateName
    reason: str


@event
class ProbeReply(Event):
    """Answer to a probe of an EV that is ASSUMED_BAD: the number of successes, of as many as are needed."""

    kind: ClassVar[str] = "probe.reply"
    qp: Qp
    ev: Ev
    successes: int
    needed: int
    rtt: Seconds


@event
class ProbeLost(Event):
    """Loss of a probe of an EV that is ASSUMED_BAD; the next one is sent `next_in` later."""

    kind: ClassVar[str] = "probe.lost"
    qp: Qp
    ev: Ev
    next_in: Seconds


@event
class PacketLost(Event):
    """Declaration of a packet as lost: when it was sent, and how often it was retransmitted before.

    RoCE, which goes back to it, has `count`: packets that are retransmitted from there on.
    """

    kind: ClassVar[str] = "packet.lost"
    qp: Qp
    psn: Psn
    ev: Ev
    reason: str
    sent: At
    retx: int | None = None
    count: Packets | None = None


@event
class PacketRetransmitted(Event):
    """Retransmission of a packet, and by which EV; of RoCE the first of `count` packets."""

    kind: ClassVar[str] = "packet.retx"
    qp: Qp
    psn: Psn
    ev: Ev
    old_ev: Ev
    count: Packets | None = None


@event
class PacketLate(Event):
    """Arrival of a packet that had been declared lost and was not retransmitted yet."""

    kind: ClassVar[str] = "packet.late"
    qp: Qp
    psn: Psn
    ev: Ev


@event
class PacketSpurious(Event):
    """Retransmission for nothing: the first copy of the packet had arrived."""

    kind: ClassVar[str] = "packet.spurious"
    qp: Qp
    psn: Psn


@event
class WorkRequestDone(Event):
    """Completion of a work request."""

    kind: ClassVar[str] = "wr.done"
    qp: Qp
    wr_id: int
    opcode: str
    status: str
    bytes: Bytes
