"""Hosts on a simulated fabric, and one transfer between two of them."""

import functools
import hashlib
import json
import random

from mrclab.controller import nodefiles
from mrclab.hosts.agent.host import RunningHost
from mrclab.hosts.memory.memory import Memory
from mrclab.hosts.transports import WIRE
from mrclab.sim.clock import Clock, ticks
from mrclab.sim.codec import OBJECTS
from mrclab.sim.fabric import SimFabric
from mrclab.sim.nic import SimNic
from mrclab.topo.config.transport import TransportSpec
from mrclab.topo.model import Fabric
from mrclab.topo.spec import FabricSpec


class Sim:
    """All hosts of a fabric; `records` is their history."""

    def __init__(self, wire_format=False, seed=1, transport="mrc", **spec):
        self.model = Fabric(FabricSpec(**{"planes": 4, "t0s": 2, "t1s": 2, "hosts_per_t0": 2, **spec}))
        self.clock = Clock()
        self.fabric = SimFabric(self.clock, self.model, seed)
        self.records = []
        self.hosts = {}
        configs = nodefiles.node_configs(self.model, choice=TransportSpec(kind=transport))
        for name, config in configs.items():
            nic = functools.partial(SimNic, self.clock, self.fabric.nic_cable, wire_format)
            self.hosts[name] = RunningHost(
                config,
                random.Random(f"{seed}/{name}"),
                nic,
                Memory(),
                functools.partial(self._record, name),
                lambda _now, _event: None,
                codecs=WIRE if wire_format else OBJECTS,
            )
            self.fabric.connect(name, self.hosts[name].nic)

    def _record(self, name, now, record):
        self.records.append({"t": now, "node": name, **record})
        return self.records[-1]

    def run(self, seconds):
        self.clock.run(self.clock.now + ticks(seconds))

    def digest(self):
        return hashlib.sha256("\n".join(map(json.dumps, self.records)).encode()).hexdigest()


class Write:
    """`size` random bytes from one host to another, in messages, with the completions that came."""

    def __init__(self, sim, source, destination, size, message=1 << 18, **attributes):
        self.sim, self.source = sim, sim.hosts[source]
        one, other = sim.hosts[source].transport, sim.hosts[destination].transport
        self.qp = one.verbs.create_qp(other.config.host.address, sim.clock.seconds, **attributes)
        far = other.verbs.create_qp(one.config.host.address, sim.clock.seconds, **attributes)
        here, there = one.verbs.local_info(self.qp), other.verbs.local_info(far)
        one.verbs.connect(self.qp, there, sim.clock.seconds)
        other.verbs.connect(far, here, sim.clock.seconds)
        self.sent = random.Random(f"{source}{destination}").randbytes(size)
        self.received = bytearray(size)
        local, remote = one.verbs.reg_mr(bytearray(self.sent)), other.verbs.reg_mr(self.received)
        self.posted = 0
        for at in range(0, size, message):
            length = min(message, size - at)
            one.verbs.post_send(
                self.qp, at, "RDMA_WRITE", local.lkey, at, length, remote.va + at, remote.rkey, None, sim.clock.seconds
            )
            self.posted += 1
        self.completions = []
        self.source.nic.serve()

    @property
    def stats(self):
        return self.source.transport.verbs.qps[self.qp].stats

    def done(self):
        self.completions += self.source.transport.verbs.poll_cq()
        return len(self.completions) == self.posted


def finish(sim, *writes, within=60.0):
    """Run until all are done; returns the seconds it took."""
    began = sim.clock.seconds
    while sum(write.done() for write in writes) < len(writes):
        assert sim.clock.seconds - began < within, "not done in time"
        sim.run(0.02)
    return sim.clock.seconds - began
