"""One seed: execution of the plan, and invariants meanwhile and afterwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from mrclab.experiments import invariants
from mrclab.experiments.soak import judge
from mrclab.experiments.soak.harness import SoakHarness
from mrclab.experiments.soak.plan import NEVER, SoakPlan
from mrclab.experiments.soak.transfers import SoakConnection
from mrclab.sim.clock import ticks

LIMIT_S = 3600.0
"""Virtual seconds until unfinished work counts as stuck: ACK timeouts double up to half a minute."""

QUIET_S = 600.0
"""Virtual seconds in which EVs must be back and timers gone once all is done."""

_CHECKS: Final = 24  # of the invariants while faults occur
_LAST_BDPS: Final = 6.0
_MIN_LAST, _MAX_LAST = 48, 1500  # packets of the last writes
_MAX_TRIES: Final = {"mrc": 6, "roce": 24}  # DCQCN recovers its rate with time alone
# Times as many where cables are longer than configured: NSCC's window opens by what they leave of its target delay
# (seed 1000559: 2.45 of 2.57 µs are gone, and it needs 13).
_MORE_TRIES: Final = 3
_TARGET_DELAY: Final = 0.75  # base RTTs: NSCC's, and least of all (hosts/mrc/cc/nscc.py)
_SLOWER: Final = 1.2  # factor on the time of the last write in a world without faults
_RTTS_LONGER: Final = 2.0  # base RTTs that it may take longer besides


def run_plan(plan: SoakPlan) -> list[str]:
    """Carry out a plan; returns a sentence for each invariant that was violated."""
    harness = SoakHarness(plan)
    all_begun = _all_begun(plan)
    for check in range(1, _CHECKS + 1):
        harness.clock.run(ticks((all_begun + plan.rtt) * check / _CHECKS))
        if problems := list(judge.at_any_time(harness)):
            return problems
    if problems := _until(harness, lambda: all(one.done for one in harness.connections), LIMIT_S):
        return problems
    problems = [text for one in harness.connections for writes in one.writes for text in judge.over(harness, writes)]
    problems += [text for one in harness.ended for text in judge.ended(one)]
    problems = problems or list(judge.effort(harness)) or _quiet(harness)
    return problems or _last(harness)


def _all_begun(plan: SoakPlan) -> float:
    """Return the seconds until all faults are over and no more QPs are made."""
    restarted = max([at for at, _ in plan.restarts], default=0.0)
    remade = [max(flow.ends, restarted) + flow.notice_delay for flow in (*plan.flows, *plan.after) if flow.ends < NEVER]
    return max([plan.calm_at, *remade])


def _until(harness: SoakHarness, done: Callable[[], bool], limit: float) -> list[str]:
    """Let time pass until `done`, for `limit` seconds at most; return violations."""
    step = max(harness.plan.rtt, 1e-3)
    end = harness.clock.seconds + limit
    while not done() and harness.clock.seconds < end:
        harness.clock.run(min(harness.clock.now + ticks(step), ticks(end)))
        if problems := list(judge.at_any_time(harness)):
            return problems
        step = min(step * 1.2, 5.0)
    return []


def _quiet(harness: SoakHarness) -> list[str]:
    """Let time pass until no timer is left."""
    until = harness.clock.now + ticks(QUIET_S)
    while (due := harness.clock.next_due()) is not None and due <= until:
        harness.clock.run(due)
    return list(judge.quiet(harness))


# --- the last writes: as fast as ever? --------------------------------------------------------------------------------


def _last(harness: SoakHarness) -> list[str]:
    """After some idle time, write once more on a QP of each pair: as fast as in a world without faults."""
    plan = harness.plan
    harness.clock.run(harness.clock.now + ticks(plan.idle))
    pairs: dict[tuple[str, str], SoakConnection] = {}
    for connection in harness.connections:
        if all(qp.state.value == "RTS" for qp in connection.qp_objects()):
            pairs.setdefault(connection.hosts, connection)
    problems: list[str] = []
    for connection in list(pairs.values())[:2]:
        size = _last_size(plan)
        other = SoakHarness(replace(plan, flows=(), faults=(), restarts=(), after=()))
        flow = replace(connection.flow, start=0.0, messages=(), back=(), receives=(), ends=NEVER)
        expected, _ = _timed(other, SoakConnection(other, flow), size)
        expected = max(expected, _beyond_target(plan, size))
        problems += _as_fast(harness, connection, size, expected)
    return problems


def _beyond_target(plan: SoakPlan, size: int) -> float:
    """Seconds for a packet per round trip: all that NSCC sends for long where cables take its target delay; else 0."""
    longer = [0.0] * (plan.fabric.spec.planes + 1)  # there and back, by plane
    for name, seconds in plan.slow:
        longer[plan.fabric.link(name).plane] += 2 * seconds
    most = max(longer)
    if plan.transport != "mrc" or most < _TARGET_DELAY * plan.rtt:
        return 0.0
    return size / plan.fabric.spec.path_mtu * (plan.rtt + most)


def _as_fast(harness: SoakHarness, connection: SoakConnection, size: int, expected: float) -> list[str]:
    """Write again and again until one is fast enough: only data opens a window that faults have closed."""
    seconds = []
    most = _MAX_TRIES[harness.plan.transport] * (_MORE_TRIES if harness.plan.slow else 1)
    for _ in range(most):
        needed, found = _timed(harness, connection, size)
        if found or needed <= _SLOWER * expected + _RTTS_LONGER * harness.plan.rtt:
            return found or _ports_known(harness, connection)
        seconds.append(needed)
    took = ", ".join(f"{one:.6g}" for one in seconds)
    return [f"{connection.hosts}: {size} bytes take {took} s in the end, and {expected:.6g} s without faults"]


def _ports_known(harness: SoakHarness, connection: SoakConnection) -> list[str]:
    """Judge the sender's state of the receiver's ports, after it has written."""
    if harness.plan.transport != "mrc":
        return []
    source, destination = connection.hosts
    address = harness.transports[destination].config.host.address
    return [f"{source}: {text}" for text in invariants.peer_ports(harness.transports[source], {address})]


def _last_size(plan: SoakPlan) -> int:
    spec = plan.fabric.spec
    packets = _LAST_BDPS * spec.bdp_packets * spec.planes
    return round(min(max(packets, _MIN_LAST), _MAX_LAST)) * spec.path_mtu


def _timed(harness: SoakHarness, connection: SoakConnection, size: int) -> tuple[float, list[str]]:
    """Duration of a write, and violated invariants."""
    began = harness.clock.seconds
    made = []
    harness.after(0.0, lambda: made.append(connection.write(((size, False),))))
    harness.clock.run(harness.clock.now)
    writes = made[0]
    step = max(ticks(harness.plan.rtt) // 4, 1)
    while not writes.done and harness.clock.seconds < began + LIMIT_S:
        harness.clock.run(harness.clock.now + step)
    return harness.clock.seconds - began, list(judge.over(harness, writes))
