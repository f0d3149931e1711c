"""Stall report of one QP: no progress for 64 base RTTs while something is outstanding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mrclab.hosts.rdma.timers import NEVER

if TYPE_CHECKING:
    from mrclab.hosts.mrc.requestor import MrcRequestor

_STALL_RTTS: Final = 64.0  # base RTTs without progress after which a stall is reported


def check(requestor: MrcRequestor, reported: float, since: float, now: float) -> float:
    """Log the begin or end of a stall; `since` is the last progress, or the first post.

    `reported` is the last progress before the stall that was logged last, NEVER if that has ended; return the new one.
    """
    qp = requestor.qp
    if reported != NEVER:
        if requestor.incomplete and since <= reported:
            return reported
        seconds = (since if requestor.incomplete else now) - reported
        qp.log("qp.resumed", peer=qp.peer_text, seconds=round(seconds, 9))
    if not requestor.incomplete or now - since < _STALL_RTTS * qp.settings.base_rtt:
        return NEVER
    qp.log("qp.stalled", peer=qp.peer_text, since=since, reason=_reason(requestor))
    return since


def _reason(requestor: MrcRequestor) -> str:
    """Return the reason for a QP's stall, as far as known here."""
    qp, ports = requestor.qp, requestor.qp.endpoint.ports
    here = [port.plane for port in ports.by_number.values() if port.up]
    found = (
        (not here, "no NIC port is up"),
        (not any(qp.peer.plane_up(plane) for plane in here), "the peer reported that its ports are down"),
        (not any(plane.usable for plane in qp.evs.planes.values()), "every EV is denied"),
        (requestor.unresponsive, "the peer does not answer"),
        (requestor.rnr is not None and requestor.rnr.active, "the peer has no receive posted"),
        (requestor.in_flight, "what is sent is lost or refused"),
    )
    return next((reason for holds, reason in found if holds), "the window of the destination is full")
