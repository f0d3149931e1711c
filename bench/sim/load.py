"""One load in virtual time, in this process or (`run`) in one of its own."""

from __future__ import annotations

import gc
import json
import os
import random
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

from mrclab.bench.sim.children import SimCost, measure
from mrclab.bench.sim.common import SimLoad
from mrclab.controller import nodefiles
from mrclab.hosts import transports
from mrclab.hosts.rdma.events import discard_record
from mrclab.lab.errors import RunError
from mrclab.sim.clock import Clock, ticks
from mrclab.sim.codec import OBJECTS
from mrclab.sim.fabric import SimFabric
from mrclab.sim.nic import SimNic

NAME = "MRC Lab"
_LIMIT_S = 10.0  # of virtual time
_LOOK_S = 5e-6  # of virtual time between two checks for completions
_PROGRAM = "from mrclab import starting; starting.quickly(); from mrclab.bench.sim import load; load.main()"


def run(load: SimLoad) -> SimCost:
    """Run `simulate` in a process of its own."""
    output, cost = measure([sys.executable, "-c", _PROGRAM, json.dumps(asdict(load))])
    found = json.loads(output.splitlines()[-1])
    return cost.of(NAME, found["packets"], found["retransmitted"], found["completions"])


def simulate(load: SimLoad) -> dict[str, Any]:
    """Simulate to the end; RunError if that takes more than ten virtual seconds."""
    collects = gc.isenabled()
    gc.disable()  # no reference cycles here: garbage collection takes a third of the time at 1,024 hosts
    try:
        return _simulate(load)
    finally:
        if collects:
            gc.enable()


def _simulate(load: SimLoad) -> dict[str, Any]:
    began = time.perf_counter()
    clock, model = Clock(), load.fabric()
    sim = SimFabric(clock, model, load.seed)
    endpoints: dict[str, Any] = {}
    nics: dict[str, SimNic] = {}
    for name, config in nodefiles.node_configs(model, choice=load.transport()).items():
        rng = random.Random(f"{load.seed}/{name}")
        made = endpoints[name] = transports.endpoint(config, rng, discard_record, codecs=OBJECTS)
        nics[name] = SimNic(clock, sim.nic_cable, False, config, made)
        sim.connect(name, nics[name])
    source, target = bytearray(load.size), bytearray(load.size)
    names = list(endpoints)
    pending: dict[str, int] = {}
    begun = []  # seconds, by request
    for number, one in enumerate(load.matrix().connections):
        sender = names[one.source]
        begun.append((one.start or 0.0) * 1e-6)
        post = _write(endpoints[sender], endpoints[names[one.destination]], number, source, target)
        if one.start:
            clock.call_at(ticks(begun[-1]), partial(_post_later, post, nics[sender]))
        else:
            post(0.0)
        pending[sender] = pending.get(sender, 0) + 1
    setup = time.perf_counter() - began
    for name in pending:
        nics[name].serve()
    completions = _finish(clock, endpoints, pending, begun)
    counted = [qp.stats for endpoint in endpoints.values() for qp in endpoint.verbs.qps.values()]
    return {
        "setup": setup,
        "packets": sum(stats.sent_packets for stats in counted),
        "retransmitted": sum(stats.retx_packets for stats in counted),
        "completions": sorted(completions),
    }


def _write(sender: Any, receiver: Any, number: int, source: bytearray, target: bytearray) -> Callable[[float], None]:
    """Connect, and return a function that posts: all write the same bytes to the same place, so that costs compare."""
    one, other = sender.verbs, receiver.verbs
    qp = one.create_qp(receiver.config.host.address, 0.0)
    far = other.create_qp(sender.config.host.address, 0.0)
    here, there = one.local_info(qp), other.local_info(far)
    one.connect(qp, there, 0.0)
    other.connect(far, here, 0.0)
    local, remote = one.reg_mr(source), other.reg_mr(target)
    words = "RDMA_WRITE", local.lkey, 0, len(source), remote.va, remote.rkey, None
    return partial(one.post_send, qp, number, *words)


def _post_later(post: Callable[[float], None], nic: SimNic, _about: object) -> None:
    """Post a write that begins in the course of the run."""
    post(nic.now)
    nic.serve()


def _finish(clock: Clock, endpoints: dict[str, Any], pending: dict[str, int], begun: list[float]) -> list[float]:
    """Run until every write has completed; return the duration of each."""
    found: list[float] = []
    while pending:
        clock.run(clock.now + ticks(_LOOK_S))
        if clock.seconds > _LIMIT_S:
            raise RunError(f"{sum(pending.values())} writes were not done in {_LIMIT_S:g} virtual seconds")
        for name in list(pending):
            done = [
                completion.t - begun[completion.wr_id]
                for completion in endpoints[name].verbs.poll_cq(most=pending[name])
            ]
            if done:
                found += done
                pending[name] -= len(done)
                if not pending[name]:
                    del pending[name]
    return found


def main() -> None:
    """Print the result of the load in the arguments as JSON, and end the process without freeing its memory."""
    gc.disable()
    sys.stdout.write(json.dumps(simulate(SimLoad(**json.loads(sys.argv[1])))) + "\n")
    sys.stdout.flush()
    os._exit(0)
