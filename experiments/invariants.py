"""Invariants of MRC's QPs that both soak and exploration check: a phrase for each that is violated."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Any, Final

from mrclab.hosts.mrc.recovery.sent import PacketState

_GOOD: Final = frozenset({"GOOD", "SKIP", "STANDBY"})
_FLIGHT: Final = PacketState.FLIGHT
_ACKED: Final = PacketState.ACKED
_ROUNDING: Final = 256  # bytes: the receiver counts in such units, rounded up


def in_flight(qp: Any) -> Iterator[str]:
    """Check the packets and bytes that a QP counts in flight."""
    account = qp.requestor.in_flight_bytes
    packets = qp.requestor.recovery.window.open_packets()
    flying = sum(packet.state is _FLIGHT for packet in packets)
    if account.packets != flying:
        yield f"{account.packets} packets are counted in flight, {flying} are"
    # what was declared lost and arrived all the same leaves with the receiver's count before it is known by name
    doubtful = sum(packet.nominal for packet in packets if packet.lost_ev is not None and packet.state is not _ACKED)
    if account.bytes < -_ROUNDING - doubtful:
        yield f"{account.bytes} bytes are counted in flight"


def windows(endpoint: Any) -> Iterator[str]:
    """Check that the window of each destination counts the bytes in flight of its QPs."""
    by_window: dict[int, list[Any]] = {}
    for qp in endpoint.verbs.qps.values():
        by_window.setdefault(id(qp.cc), []).append(qp)
    for qps in by_window.values():
        counted = qps[0].cc.snapshot()["cc_inflight"]
        own = sum(qp.requestor.in_flight_bytes.bytes for qp in qps if not qp.requestor.in_flight_bytes.detached)
        if counted != own:
            yield f"{counted} bytes are counted in flight to {qps[0].peer_text}, its QPs have {own}"


# --- when all work is done --------------------------------------------------------------------------------------------


def paths(qp: Any, ports_down: bool = False) -> Iterator[str]:
    """Check that all EVs are good and the rotation is full. `ports_down`: some ports may be."""
    for path in qp.path_snapshots():
        if path["state"] not in _GOOD and not (ports_down and path["state"] == "PORT_DOWN"):
            yield f"EV {path['ev']:08x} is still {path['state']}"
    for plane in qp.evs.planes.values():
        if len(plane.active) + plane.unmade < plane.target:
            yield f"{len(plane.active)} of {plane.target} EVs are in rotation in plane {plane.number}"


def peer_ports(endpoint: Any, peers: Container[str]) -> Iterator[str]:
    """Check that a host counts all ports of its peers with these addresses as up."""
    every = endpoint.peers.own.planes
    for peer in endpoint.peers.with_qps.values():
        if peer.port_mask != every and peer.text in peers:
            yield f"all ports are up, and it counts some of {peer.text} as down: mask {peer.port_mask:b}"


def at_rest(qp: Any) -> Iterator[str]:
    """Check that a QP has nothing in flight, and knows that its peer responds."""
    requestor = qp.requestor
    left = requestor.in_flight_bytes
    if left.packets or left.bytes or requestor.in_flight:
        yield f"{left.packets} packets and {left.bytes} bytes are in flight forever"
    if requestor.wimm_in_flight:
        yield f"{requestor.wimm_in_flight} immediates count as outstanding forever"
    if requestor.unresponsive:
        yield "it counts its peer as unresponsive"


def all_received(sender: Any, receiver: Any) -> Iterator[str]:
    """Check that the receiver has every packet that was sent."""
    sent, base = sender.requestor.recovery.window.next, receiver.responder.base
    if sent != base or receiver.responder.bits:
        yield f"{sent} packets were sent, and the receiver has the first {base}"
