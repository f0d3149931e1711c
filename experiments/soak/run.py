"""One seed: the plan carried out, and what must hold afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mrclab.experiments.soak.plan import SoakPlan, draw
from mrclab.experiments.soak.rig import Rig, SoakTransfer
from mrclab.sim.clock import SECOND, ticks

LIMIT_S = 3600.0
"""Virtual seconds until what is not done counts as stuck: ACK timeouts double up to half a minute."""

QUIET_S = 600.0
"""Virtual seconds in which EVs must be back and timers gone once all is done."""

_GOOD = frozenset({"GOOD", "SKIP", "STANDBY"})
_STEPS = 40


def run(seed: int) -> list[str]:
    """Carry out the plan of a seed; returns a sentence for each thing that does not hold."""
    return run_plan(draw(seed))


def run_plan(plan: SoakPlan) -> list[str]:
    """Carry out a plan."""
    rig = Rig(plan)
    rig.clock.run(ticks(plan.calm_at + plan.rtt))
    step = max(plan.rtt, 1e-3)
    while not all(_over(rig, one) for one in rig.transfers) and rig.clock.seconds < LIMIT_S:
        rig.clock.run(min(rig.clock.now + ticks(step), ticks(LIMIT_S)))
        step = min(step * 1.2, 5.0)
    trouble = [text for one in rig.transfers for text in _judge(rig, one)]
    trouble += [text for one in rig.doomed for text in _judge_doomed(one)]
    if not trouble:
        trouble = list(_judge_quiet(rig))
    return trouble


def _over(rig: Rig, transfer: SoakTransfer) -> bool:
    """Return True if nothing more is to come of a transfer."""
    if not transfer.done:
        return False
    return rig.plan.transport == "roce" or len(transfer.received) >= len(transfer.immediates)


def _name(transfer: SoakTransfer) -> str:
    flow = transfer.flow
    return f"{flow.source} to {flow.destination}, begun at {flow.start:g} s"


def _judge(rig: Rig, transfer: SoakTransfer) -> Iterator[str]:
    """Judge a transfer: each write completed once, in order, each byte in its place and none elsewhere."""
    name = _name(transfer)
    transfer.poll()
    got = [(c.wr_id, c.status) for c in transfer.completions]
    wanted = [(number, "SUCCESS") for number in range(len(transfer.flow.messages))]
    failed = rig.plan.transport == "roce" and any(status != "SUCCESS" for _, status in got)
    if [number for number, _ in got] != [number for number, _ in wanted]:
        yield f"{name}: completions {got} of {len(wanted)} writes"
    elif got != wanted and not failed:
        yield f"{name}: completions {got}"
    if not transfer.guards_whole:
        yield f"{name}: bytes outside the region were written"
    if failed:  # RoCE gives up after its retries: what it said was done must be so
        yield from _judge_prefix(transfer)
        return
    if transfer.target != transfer.bytes:
        yield f"{name}: the bytes that arrived are not those sent"
    told = [(c.wr_id, c.imm, c.byte_len) for c in transfer.received]
    if told != transfer.immediates:
        yield f"{name}: immediates {told}, not {transfer.immediates}"


def _judge_prefix(transfer: SoakTransfer) -> Iterator[str]:
    """Judge that all writes that completed with success arrived."""
    size = 0
    for completion, (length, _) in zip(transfer.completions, transfer.flow.messages, strict=False):
        if completion.status != "SUCCESS":
            break
        size += length
    if transfer.target[:size] != transfer.bytes[:size]:
        yield f"{_name(transfer)}: a write that completed is not in its place"


def _judge_doomed(transfer: SoakTransfer) -> Iterator[str]:
    """A transfer that a restart ended: what completed is there, once and in order, and nothing elsewhere."""
    got = [c.wr_id for c in transfer.completions]
    if got != list(range(len(got))):
        yield f"{_name(transfer)}: completions {got} before the restart"
    if not transfer.guards_whole:
        yield f"{_name(transfer)}: bytes outside the region were written"
    yield from _judge_prefix(transfer)


def _judge_quiet(rig: Rig) -> Iterator[str]:
    """Nothing is left: EVs are back, nothing waits in the heap, no QP is in ERROR."""
    until = rig.clock.now + ticks(QUIET_S)
    while (due := rig.clock.next_due()) is not None and due <= until:
        rig.clock.run(due)
    for name, transport in rig.transports.items():
        deadline = transport.next_deadline()
        if deadline is not None:
            yield f"{name}: a timer is left, due at {deadline:.6f} s; it is {rig.clock.now / SECOND:.6f} s"
        if rig.plan.transport == "mrc":
            yield from _judge_evs(rig, name, transport)
    if rig.clock.next_due() is not None:
        yield "the heap does not run empty"


def _judge_evs(rig: Rig, name: str, transport: Any) -> Iterator[str]:
    for path in transport.stats()["paths"]:
        if path["state"] not in _GOOD:
            yield f"{name} QP {path['qp']}: EV {path['ev']:08x} is still {path['state']} at {rig.clock.seconds:.1f} s"
    for number, qp in transport.qps.items():
        if qp.state.value == "ERROR":
            yield f"{name} QP {number} is in ERROR"
