"""Hosts on a simulated leaf-spine fabric, and who sends to whom: permutation, incast, all-to-all."""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from mrclab.controller import nodefiles
from mrclab.hosts import transports
from mrclab.sim.clock import Clock, ticks
from mrclab.sim.codec import OBJECTS
from mrclab.sim.fabric import SimFabric
from mrclab.sim.nic import SimNic
from mrclab.topo.model import Fabric
from mrclab.topo.spec import FabricSpec, LinkSpec

HOSTS_PER_T0 = 8
_LIMIT_S = 10.0  # of virtual time
_LOOK_S = 1e-6  # of virtual time between two looks at who is done

Pairs = Iterator[tuple[str, str]]


def permutation(hosts: list[str], rng: random.Random) -> Pairs:
    """Every host sends to one other, and receives from one."""
    order = hosts[:]
    rng.shuffle(order)
    return zip(order, [*order[1:], order[0]], strict=True)


def incast(hosts: list[str], rng: random.Random) -> Pairs:
    """Sixteen hosts send to one."""
    target, *senders = rng.sample(hosts, min(17, len(hosts)))
    return ((sender, target) for sender in senders)


def all_to_all(hosts: list[str], rng: random.Random) -> Pairs:
    """Every host sends to every other."""
    del rng
    return ((one, other) for one in hosts for other in hosts if one != other)


TRAFFIC: dict[str, Callable[[list[str], random.Random], Pairs]] = {
    "permutation": permutation,
    "incast": incast,
    "all-to-all": all_to_all,
}


@dataclass(frozen=True)
class SimResult:
    """Data packets sent (again, too), seconds of wall and CPU that they took, completion times in virtual seconds."""

    hosts: int
    packets: int
    wall: float
    cpu: float
    setup: float
    completions: tuple[float, ...]

    def completed(self, share: float) -> float:
        """The completion time that this share of all transfers did not exceed."""
        return self.completions[min(len(self.completions) - 1, int(share * len(self.completions)))]


def fabric(hosts: int) -> Fabric:
    """One plane, eight hosts per T0, as many T1s: nothing is oversubscribed."""
    link = LinkSpec.model_validate({"rate": "100 Gb/s", "delay": "1us"})
    t0s = max(1, hosts // HOSTS_PER_T0)
    return Fabric(FabricSpec(planes=1, t0s=t0s, t1s=HOSTS_PER_T0, hosts_per_t0=HOSTS_PER_T0, link=link))


def run(hosts: int, traffic: str, size: int, seed: int = 1) -> SimResult:
    """Let all of them send `size` bytes at time 0; RuntimeError where that is not done in ten virtual seconds."""
    began = time.perf_counter()
    clock, model = Clock(), fabric(hosts)
    sim = SimFabric(clock, model, seed)
    endpoints: dict[str, Any] = {}
    nics: dict[str, SimNic] = {}
    for name, config in nodefiles.node_configs(model).items():
        rng = random.Random(f"{seed}/{name}")
        made = endpoints[name] = transports.endpoint(config, rng, lambda _record: None, codecs=OBJECTS)
        nics[name] = SimNic(clock, sim.nic_cable, False, config, made)
        sim.plug_in(name, nics[name])
    source, target = bytearray(size), bytearray(size)
    pending: dict[str, int] = {}
    for one, other in TRAFFIC[traffic](list(endpoints), random.Random(seed)):
        _write(endpoints[one], endpoints[other], source, target)
        pending[one] = pending.get(one, 0) + 1
    setup = time.perf_counter() - began
    gc.freeze()
    wall, cpu = time.perf_counter(), time.process_time()
    for name in pending:
        nics[name].serve()
    completions = _finish(clock, endpoints, pending)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    packets = sum(qp.stats.sent_packets for endpoint in endpoints.values() for qp in endpoint.qps.values())
    return SimResult(len(endpoints), packets, wall, cpu, setup, tuple(sorted(completions)))


def _write(sender: Any, receiver: Any, source: bytearray, target: bytearray) -> None:
    """All write the same bytes to the same place: what is measured is what it takes."""
    qp = sender.create_qp(receiver.config.host.address)
    far = receiver.create_qp(sender.config.host.address)
    here, there = sender.local_info(qp), receiver.local_info(far)
    sender.connect(qp, there)
    receiver.connect(far, here)
    local, remote = sender.reg_mr(source), receiver.reg_mr(target)
    sender.post_send(qp, 0, "RDMA_WRITE", local.lkey, 0, len(source), remote.va, remote.rkey)


def _finish(clock: Clock, endpoints: dict[str, Any], pending: dict[str, int]) -> list[float]:
    """Run until every write has completed; returns when each did, to a microsecond."""
    found: list[float] = []
    while pending:
        clock.run(clock.now + ticks(_LOOK_S))
        if clock.seconds > _LIMIT_S:
            raise RuntimeError(f"{sum(pending.values())} writes were not done in {_LIMIT_S:g} virtual seconds")
        for name in list(pending):
            done = len(endpoints[name].poll_cq(most=pending[name]))
            if done:
                found += [clock.seconds] * done
                pending[name] -= done
                if not pending[name]:
                    del pending[name]
    return found
