"""One seed: the plan carried out, and what must hold meanwhile and afterwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from mrclab.experiments.soak import judge
from mrclab.experiments.soak.flows import NEVER
from mrclab.experiments.soak.plan import SoakPlan, draw
from mrclab.experiments.soak.rig import Rig
from mrclab.experiments.soak.transfers import SoakConnection
from mrclab.sim.clock import ticks

LIMIT_S = 3600.0
"""Virtual seconds until what is not done counts as stuck: ACK timeouts double up to half a minute."""

QUIET_S = 600.0
"""Virtual seconds in which EVs must be back and timers gone once all is done."""

_LOOKS: Final = 24  # at the accounts while things break
_LAST_BDPS: Final = 6.0
_MIN_LAST, _MAX_LAST = 48, 1500  # packets of the last writes
_MAX_TRIES: Final = {"mrc": 6, "roce": 24}  # what slowed DCQCN down is made up for by time
# Times as many where cables are longer than configured: NSCC's window opens by what they leave of its target delay
# (seed 1000559: 2.45 of 2.57 µs are gone, and it needs 13).
_MORE_TRIES: Final = 3
_SLOWER: Final = 1.2
_RTTS_LONGER: Final = 2.0


def run(seed: int) -> list[str]:
    """Carry out the plan of a seed; returns a sentence for each thing that does not hold."""
    return run_plan(draw(seed))


def run_plan(plan: SoakPlan) -> list[str]:
    """Carry out a plan."""
    rig = Rig(plan)
    all_begun = _all_begun(plan)
    for look in range(1, _LOOKS + 1):
        rig.clock.run(ticks((all_begun + plan.rtt) * look / _LOOKS))
        if trouble := list(judge.at_any_time(rig)):
            return trouble
    if trouble := _until(rig, lambda: all(one.done for one in rig.connections), LIMIT_S):
        return trouble
    trouble = [text for one in rig.connections for writes in one.writes for text in judge.over(rig, writes)]
    trouble += [text for one in rig.ended for text in judge.ended(one)]
    trouble = trouble or list(judge.effort(rig)) or _quiet(rig)
    return trouble or _last(rig)


def _all_begun(plan: SoakPlan) -> float:
    """Seconds until everything is whole and no more QPs are made."""
    restarted = max([at for at, _ in plan.restarts], default=0.0)
    remade = [max(flow.ends, restarted) + flow.tells for flow in (*plan.flows, *plan.after) if flow.ends < NEVER]
    return max([plan.calm_at, *remade])


def _until(rig: Rig, done: Callable[[], bool], limit: float) -> list[str]:
    """Let time pass until it is done, or for so many seconds."""
    step = max(rig.plan.rtt, 1e-3)
    end = rig.clock.seconds + limit
    while not done() and rig.clock.seconds < end:
        rig.clock.run(min(rig.clock.now + ticks(step), ticks(end)))
        if trouble := list(judge.at_any_time(rig)):
            return trouble
        step = min(step * 1.2, 5.0)
    return []


def _quiet(rig: Rig) -> list[str]:
    """Let everything come to rest."""
    until = rig.clock.now + ticks(QUIET_S)
    while (due := rig.clock.next_due()) is not None and due <= until:
        rig.clock.run(due)
    return list(judge.quiet(rig))


# --- the last writes: as fast as ever? --------------------------------------------------------------------------------


def _last(rig: Rig) -> list[str]:
    """After some idle time, write once more on a QP of each pair: as fast as QPs of a world in which nothing was."""
    plan = rig.plan
    rig.clock.run(rig.clock.now + ticks(plan.idle))
    pairs: dict[tuple[str, str], SoakConnection] = {}
    for connection in rig.connections:
        if all(qp.state.value == "RTS" for qp in connection.qp_objects()):
            pairs.setdefault(connection.hosts, connection)
    trouble: list[str] = []
    for connection in list(pairs.values())[:2]:
        size = _last_size(plan)
        other = Rig(replace(plan, flows=(), blows=(), restarts=(), after=()))
        flow = replace(connection.flow, start=0.0, messages=(), back=(), receives=(), ends=NEVER)
        expected, _ = _timed(other, SoakConnection(other, flow), size)
        trouble += _as_fast(rig, connection, size, expected)
    return trouble


def _as_fast(rig: Rig, connection: SoakConnection, size: int, expected: float) -> list[str]:
    """Write again and again until one write is fast enough: a window that faults have closed opens by data alone."""
    seconds = []
    most = _MAX_TRIES[rig.plan.transport] * (_MORE_TRIES if rig.plan.slow else 1)
    for _ in range(most):
        needed, found = _timed(rig, connection, size)
        if found or needed <= _SLOWER * expected + _RTTS_LONGER * rig.plan.rtt:
            return found or _ports_known(rig, connection)
        seconds.append(needed)
    took = ", ".join(f"{one:.6g}" for one in seconds)
    return [f"{connection.hosts}: {size} bytes take {took} s in the end, where nothing was {expected:.6g} s"]


def _ports_known(rig: Rig, connection: SoakConnection) -> list[str]:
    """Judge what the sender believes of the receiver's ports, now that it has written."""
    if rig.plan.transport != "mrc":
        return []
    source, destination = connection.hosts
    address = rig.transports[destination].config.host.address
    return list(judge.ports(source, rig.transports[source], {address}))


def _last_size(plan: SoakPlan) -> int:
    spec = plan.fabric.spec
    packets = _LAST_BDPS * spec.bdp_packets * spec.planes
    return round(min(max(packets, _MIN_LAST), _MAX_LAST)) * spec.path_mtu


def _timed(rig: Rig, connection: SoakConnection, size: int) -> tuple[float, list[str]]:
    """Seconds that a write takes, and what does not hold then."""
    began = rig.clock.seconds
    made = []
    rig.after(0.0, lambda: made.append(connection.write(((size, False),))))
    rig.clock.run(rig.clock.now)
    writes = made[0]
    step = max(ticks(rig.plan.rtt) // 4, 1)
    while not writes.done and rig.clock.seconds < began + LIMIT_S:
        rig.clock.run(rig.clock.now + step)
    return rig.clock.seconds - began, list(judge.over(rig, writes))
