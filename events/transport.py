"""Records of the transport: QPs, EVs, packets and work requests. Hosts write them as plain dictionaries, for speed."""

from typing import Literal

from mrclab.events.event import At, Bytes, Ev, Event, Packets, Plane, Psn, Qp, Seconds, Uplink, event

QpStateName = Literal["RESET", "INIT", "RTR", "RTS", "ERROR"]
EvStateName = Literal["GOOD", "SKIP", "STANDBY", "PORT_DOWN", "ASSUMED_BAD", "DENIED"]


@event("qp.state")
class QpTransition(Event):
    """Change of a QP's state. `qp` and `qpn` are the same."""

    qp: Qp
    qpn: Qp
    peer: str
    state: QpStateName
    reason: str


@event("qp.stalled")
class QpStalled(Event):
    """Absence of progress for 64 base RTTs with work outstanding, since when and why."""

    qp: Qp
    peer: str
    since: At
    reason: str


@event("qp.resumed")
class QpResumed(Event):
    """Progress of a QP that had stalled, with the duration."""

    qp: Qp
    peer: str
    seconds: Seconds


@event("ev.state")
class EvTransition(Event):
    """Change of an EV's state; [why](mrc-protocol.md)."""

    qp: Qp
    ev: Ev
    plane: Plane
    uplink: Uplink
    old: EvStateName
    new: EvStateName
    reason: str


@event("probe.reply")
class ProbeReply(Event):
    """Answer to a probe of an EV that is ASSUMED_BAD: the number of successes, of as many as are needed."""

    qp: Qp
    ev: Ev
    successes: int
    needed: int
    rtt: Seconds


@event("probe.lost")
class ProbeLost(Event):
    """Loss of a probe of an EV that is ASSUMED_BAD; the next one is sent `next_in` later."""

    qp: Qp
    ev: Ev
    next_in: Seconds


@event("packet.lost")
class PacketLost(Event):
    """Declaration of a packet as lost: when it was sent, and how often it was retransmitted before.

    RoCE, which goes back to it, has `count`: packets that are retransmitted from there on.
    """

    qp: Qp
    psn: Psn
    ev: Ev
    reason: str
    sent: At
    retx: int | None = None
    count: Packets | None = None


@event("packet.retx")
class PacketRetransmitted(Event):
    """Retransmission of a packet, and by which EV; of RoCE the first of `count` packets."""

    qp: Qp
    psn: Psn
    ev: Ev
    old_ev: Ev
    count: Packets | None = None


@event("packet.late")
class PacketLate(Event):
    """Arrival of a packet that had been declared lost and was not retransmitted yet."""

    qp: Qp
    psn: Psn
    ev: Ev


@event("packet.spurious")
class PacketSpurious(Event):
    """Retransmission for nothing: the first copy of the packet had arrived."""

    qp: Qp
    psn: Psn


@event("wr.done")
class WorkRequestDone(Event):
    """Completion of a work request."""

    qp: Qp
    wr_id: int
    opcode: str
    status: str
    bytes: Bytes
