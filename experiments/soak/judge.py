"""Judgement of a run: a sentence per violated invariant, while it runs, when all writes are over, and in the end."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Any, Final

from mrclab.experiments.soak.harness import SoakHarness
from mrclab.experiments.soak.transfers import SoakConnection, Writes
from mrclab.hosts.mrc.recovery.sent import PacketState
from mrclab.sim.clock import SECOND

_GOOD: Final = frozenset({"GOOD", "SKIP", "STANDBY"})
_FLIGHT: Final = PacketState.FLIGHT
_ACKED: Final = PacketState.ACKED
_ROUNDING: Final = 256  # bytes: the receiver counts in such units, rounded up
_MAX_CONTROL: Final = 512  # control packets that wait at one port
_CONTROL_PER_DATA: Final = 4


# --- at any time ------------------------------------------------------------------------------------------------------


def at_any_time(harness: SoakHarness) -> Iterator[str]:
    """Check the bytes counted in flight, and that no control packets pile up."""
    if harness.plan.transport != "mrc":
        return
    for name, transport in harness.transports.items():
        in_flight: dict[int, list[Any]] = {}
        for number, qp in transport.verbs.qps.items():
            yield from _accounts(f"{name} QP {number}", qp)
            # a peer that does not know of a restart goes on with QPs whose numbers others have now
            if qp.stats.out_of_window and not harness.plan.restarts:
                yield f"{name} QP {number}: {qp.stats.out_of_window} packets came outside its window"
            in_flight.setdefault(id(qp.cc), []).append(qp)
        for qps in in_flight.values():
            counted = qps[0].cc.snapshot()["cc_inflight"]
            own = sum(qp.requestor.in_flight_bytes.bytes for qp in qps if not qp.requestor.in_flight_bytes.detached)
            if counted != own:
                yield f"{name}: {counted} bytes are counted in flight to {qps[0].peer_text}, its QPs have {own}"
        for port, waiting in transport.control.waiting().items():
            if waiting > _MAX_CONTROL:
                yield f"{name}: {waiting} control packets wait at port {port}"


def _accounts(name: str, qp: Any) -> Iterator[str]:
    requestor = qp.requestor
    account = requestor.in_flight_bytes
    packets = requestor.recovery.window.open_packets()
    flying = sum(packet.state is _FLIGHT for packet in packets)
    if account.packets != flying:
        yield f"{name}: {account.packets} packets are counted in flight, {flying} are"
    # what was declared lost and arrived all the same leaves with the receiver's count before it is known by name
    doubtful = sum(packet.nominal for packet in packets if packet.lost_ev is not None and packet.state is not _ACKED)
    if account.bytes < -_ROUNDING - doubtful:
        yield f"{name}: {account.bytes} bytes are counted in flight"


# --- when all writes are over -----------------------------------------------------------------------------------------


def name_of(writes: Writes) -> str:
    """Ends and start of a flow."""
    flow = writes.connection.flow
    way = f"{flow.destination} to {flow.source}" if writes.back else f"{flow.source} to {flow.destination}"
    return f"{way}, begun at {flow.start:g} s"


def over(harness: SoakHarness, writes: Writes) -> Iterator[str]:
    """Judge writes: each completed once, in order, each byte in its place and none elsewhere."""
    name = name_of(writes)
    writes.poll()
    got = [(c.wr_id, c.status) for c in writes.completions]
    expected = [(number, "SUCCESS") for number in range(writes.first, writes.first + len(writes.messages))]
    may_fail = harness.plan.transport == "roce" or writes.connection.flow.fails
    failed = may_fail and any(status != "SUCCESS" for _, status in got)
    if [number for number, _ in got] != [number for number, _ in expected]:
        yield f"{name}: completions {got} of {len(expected)} writes"
    elif got != expected and not failed:
        yield f"{name}: completions {got}"
    if not writes.guards_intact:
        yield f"{name}: bytes outside the region were written"
    if failed:  # it gave up after its retries: completed work must be done
        yield from _prefix(writes)
        return
    if writes.target != writes.bytes:
        yield f"{name}: the bytes that arrived are not those sent"
    received = [(c.wr_id, c.imm, c.byte_len) for c in writes.received]
    if received != writes.immediates:
        yield f"{name}: immediates {received}, not {writes.immediates}"


def _prefix(writes: Writes) -> Iterator[str]:
    """Judge that all writes that completed with success arrived."""
    size = 0
    for completion, (length, _) in zip(writes.completions, writes.messages, strict=False):
        if completion.status != "SUCCESS":
            break
        size += length
    if writes.target[:size] != writes.bytes[:size]:
        yield f"{name_of(writes)}: a write that completed is not in its place"


def ended(connection: SoakConnection) -> Iterator[str]:
    """Judge a connection that was ended: completed data is there, once and in order, and nothing elsewhere."""
    for writes in connection.writes:
        got = [c.wr_id for c in writes.completions]
        if got != list(range(len(got))):
            yield f"{name_of(writes)}: completions {got} before its end"
        if not writes.guards_intact:
            yield f"{name_of(writes)}: bytes outside the region were written"
        yield from _prefix(writes)


def effort(harness: SoakHarness) -> Iterator[str]:
    """Judge its cost: one retransmission per loss, and no more control packets than data explains."""
    if harness.plan.transport != "mrc":
        return
    for name, transport in harness.transports.items():
        for number, qp in transport.verbs.qps.items():
            s = qp.stats
            if s.retx_packets > s.lost_packets - s.late_packets:
                yield (
                    f"{name} QP {number}: {s.retx_packets} retransmissions for {s.lost_packets} losses,"
                    f" {s.late_packets} of which arrived late"
                )
            answers = s.sacks_sent + s.acks_sent + s.nacks_sent
            if answers > _CONTROL_PER_DATA * (s.received_packets + s.probes_answered) + _MAX_CONTROL:
                yield (
                    f"{name} QP {number}: {answers} control packets for {s.received_packets} packets"
                    f" and {s.probes_answered} probes"
                )


# --- in the end -------------------------------------------------------------------------------------------------------


def quiet(harness: SoakHarness) -> Iterator[str]:
    """Nothing is left: EVs are back, nothing is in flight or waits, no QP is in ERROR that need not be."""
    given_up = _given_up(harness)
    # the last update of an agent that is gone may be believed until something is posted, and then the peer is asked
    restarted = {harness.transports[host].config.host.address for _, host in harness.plan.restarts}
    for name, transport in harness.transports.items():
        deadline = transport.next_deadline()
        if deadline is not None and not given_up:
            yield f"{name}: a timer is left, due at {deadline:.6f} s; it is {harness.clock.now / SECOND:.6f} s"
        if harness.plan.transport == "mrc":
            for number, qp in transport.verbs.qps.items():
                if id(qp) not in given_up:
                    stale_ports = qp.peer.text in restarted
                    yield from _evs(f"{name} QP {number}", qp, harness.clock.seconds, stale_ports)
            yield from ports(name, transport, {peer.text for peer in transport.peers.with_qps.values()} - restarted)
            yield from _control(name, transport)
    for connection in harness.connections:
        yield from _qps(harness, connection)
    if harness.clock.next_due() is not None and not given_up:
        yield "the heap does not run empty"


def _given_up(harness: SoakHarness) -> set[int]:
    """The ids of QPs that are in ERROR, as they must be, and of those that they leave alone."""
    found: set[int] = set()
    for connection in harness.connections:
        pair = connection.qp_objects()
        if connection.flow.fails and any(qp.state.value == "ERROR" for qp in pair):
            found.update(map(id, pair))
    return found


def _evs(name: str, qp: Any, now: float, stale_ports: bool) -> Iterator[str]:
    for path in qp.path_snapshots():
        if path["state"] not in _GOOD and not (stale_ports and path["state"] == "PORT_DOWN"):
            yield f"{name}: EV {path['ev']:08x} is still {path['state']} at {now:.1f} s"
    for plane in qp.evs.planes.values():
        if len(plane.active) + plane.unmade < plane.target:
            count = f"{len(plane.active)} of {plane.target} EVs"
            yield f"{name}: {count} are in rotation in plane {plane.number} at {now:.1f} s"


def ports(name: str, transport: Any, peers: Container[str]) -> Iterator[str]:
    """Judge a host's port state of its peers with these addresses."""
    every = transport.peers.own.planes
    for peer in transport.peers.with_qps.values():
        if peer.port_mask != every and peer.text in peers:
            yield f"{name}: all ports are up, and it counts some of {peer.text} as down: mask {peer.port_mask:b}"


def _control(name: str, transport: Any) -> Iterator[str]:
    for port, waiting in transport.control.waiting().items():
        if waiting:
            yield f"{name}: {waiting} control packets wait at port {port} forever"


def _qps(harness: SoakHarness, connection: SoakConnection) -> Iterator[str]:
    if connection.flow.fails:
        return
    pair = connection.qp_objects()
    for (transport, number, *_), qp in zip(connection.ends, pair, strict=True):
        name = f"{transport.config.host.name} QP {number}"
        if qp.state.value == "ERROR":
            if harness.plan.transport == "mrc":
                yield f"{name} is in ERROR"
            return
        if harness.plan.transport == "mrc":
            yield from _empty(name, qp)
    if harness.plan.transport == "mrc":
        for one, other in (pair, pair[::-1]):
            sent, base = one.requestor.recovery.window.next, other.responder.base
            if sent != base or other.responder.bits:
                yield f"{connection.hosts}: {sent} packets were sent, and the receiver has the first {base}"


def _empty(name: str, qp: Any) -> Iterator[str]:
    requestor = qp.requestor
    if requestor.in_flight_bytes.packets or requestor.in_flight_bytes.bytes or requestor.in_flight:
        left = requestor.in_flight_bytes
        yield f"{name}: {left.packets} packets and {left.bytes} bytes are in flight forever"
    if requestor.wimm_in_flight:
        yield f"{name}: {requestor.wimm_in_flight} immediates count as outstanding forever"
    if requestor.unresponsive:
        yield f"{name}: it counts its peer as unresponsive"
