"""Judgement of a run: a sentence per violated invariant, while it runs, when all writes are over, and in the end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mrclab.experiments import invariants
from mrclab.experiments.soak.harness import SoakHarness
from mrclab.experiments.soak.transfers import SoakConnection, Writes
from mrclab.sim.clock import SECOND

_MAX_CONTROL: Final = 512  # control packets that wait at one port
_CONTROL_PER_DATA: Final = 4


# --- at any time ------------------------------------------------------------------------------------------------------


def at_any_time(harness: SoakHarness) -> Iterator[str]:
    """Check the bytes counted in flight, and that no control packets pile up."""
    if harness.plan.transport != "mrc":
        return
    for name, transport in harness.transports.items():
        for number, qp in transport.verbs.qps.items():
            yield from _named(f"{name} QP {number}", invariants.in_flight(qp))
            # a peer that does not know of a restart goes on with QPs whose numbers others have now
            if qp.stats.out_of_window and not harness.plan.restarts:
                yield f"{name} QP {number}: {qp.stats.out_of_window} packets came outside its window"
        yield from _named(name, invariants.windows(transport))
        for port, waiting in transport.control.waiting().items():
            if waiting > _MAX_CONTROL:
                yield f"{name}: {waiting} control packets wait at port {port}"


def _named(name: str, phrases: Iterator[str]) -> Iterator[str]:
    return (f"{name}: {phrase}" for phrase in phrases)


# --- when all writes are over -----------------------------------------------------------------------------------------


def name_of(writes: Writes) -> str:
    """Ends and start of a flow."""
    flow = writes.connection.flow
    direction = f"{flow.destination} to {flow.source}" if writes.back else f"{flow.source} to {flow.destination}"
    return f"{direction}, begun at {flow.start:g} s"


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
                    found = invariants.paths(qp, ports_down=qp.peer.text in restarted)
                    yield from _named(f"{name} QP {number} at {harness.clock.seconds:.1f} s", found)
            known = {peer.text for peer in transport.peers.with_qps.values()} - restarted
            yield from _named(name, invariants.peer_ports(transport, known))
            for port, waiting in transport.control.waiting().items():
                if waiting:
                    yield f"{name}: {waiting} control packets wait at port {port} forever"
    for connection in harness.connections:
        yield from _qps(harness, connection)
    if harness.clock.next_due() is not None and not given_up:
        yield "events are still scheduled"


def _given_up(harness: SoakHarness) -> set[int]:
    """The ids of QPs that are in ERROR, as they must be, and of those that they leave alone."""
    found: set[int] = set()
    for connection in harness.connections:
        pair = connection.qp_objects()
        if connection.flow.fails and any(qp.state.value == "ERROR" for qp in pair):
            found.update(map(id, pair))
    return found


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
            yield from _named(name, invariants.at_rest(qp))
    if harness.plan.transport == "mrc":
        for one, other in (pair, pair[::-1]):
            yield from _named(" to ".join(connection.hosts), invariants.all_received(one, other))
