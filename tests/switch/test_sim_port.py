"""The simulated switch against the compiled P4 program: equal frames at equal times have equal outcomes.

Draws for trims and marks are made equal where single frames are compared, and real where shares are.
"""

import random

import pytest
from mrc_inside import Drop, MrcInside, dropped, lost_in_queue, marked, trimmed
from scapy.layers.inet import TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from mrclab.sim.clock import Clock
from mrclab.sim.fabric import SimFabric
from mrclab.sim.frame import SimFrame, of_bytes
from mrclab.sim.links.cable import CableEnd, HalfLink
from mrclab.topo import srv6
from mrclab.topo.model import Fabric, mac_bytes
from mrclab.topo.numbers import Dscp
from mrclab.topo.spec import FabricSpec, LinkSpec, QueueSpec

RATE_PPS = 3000
QUEUE = QueueSpec(depth=14, ecn_min=2, ecn_max=5, trim_threshold=6, last_hop_trim_threshold=9)
NS = 1000  # ticks


def fabric(**more):
    link = LinkSpec(rate_pps=RATE_PPS, delay=0)
    spec = {"planes": 1, "t0s": 3, "t1s": 4, "hosts_per_t0": 2, "queue": QUEUE, "switch_latency": 0}
    return Fabric(FabricSpec(link=link, **spec, **more))


class Middle(random.Random):
    """Draws the middle of every range."""

    def random(self):
        return 0.5

    def randint(self, low, high):
        return low + (high - low + 1) // 2


class Listener(CableEnd):
    """The far end of a port's cable."""

    def __init__(self, take):
        self.take = take

    def receive(self, frame, half_link):
        self.take(frame, half_link.far_port)


class Sim:
    """One simulated switch between ports that are numbers; what comes out is kept."""

    def __init__(self, model, name, seed=1, rng=None):
        self.clock = Clock()
        self.model = model.switch(name)
        made = SimFabric(self.clock, model, seed)
        self.switch = made.switches[name]
        self.out = {}
        self.inputs = {}
        for port in self.switch.ports:
            port.half_link.attach(Listener(self._take), port.number)
            half_link = self.inputs[port.number] = HalfLink(self.clock, 0)
            half_link.attach(self.switch, port.number)
            if rng is not None:
                port._random = rng

    def _take(self, frame, port):
        self.out[id(frame)] = (self.clock.now, port, frame)

    def run(self, arrivals):
        """(ns, port, bytes) in the order of time → frames."""
        frames = []
        for at, port, data in arrivals:
            frame = of_bytes(data)
            frames.append(frame)
            self.clock.call_at(at * NS, lambda about: self.switch.receive(*about), (frame, self.inputs[port]))
        self.clock.run(10**18)
        return frames

    def bytes_of(self, frame: SimFrame):
        _, port, _ = self.out[id(frame)]
        place = self.model.port(port)
        return mac_bytes(place.peer.mac) + mac_bytes(place.mac) + frame.to_bytes()[12:]


def random_frame(draw, model, switch, hot, port):
    """A frame of any kind, mostly one that the switch forwards, often by the port `hot`; from a host mostly its own."""
    dscp = draw.choice([*Dscp, *[Dscp.TRIMMABLE] * 5, 1, 63])
    ecn = draw.choice((0, 1, 2, 2, 2, 3))
    inner_class = draw.choice((dscp << 2 | ecn, dscp << 2 | ecn, draw.randrange(256)))
    host = model.hosts[draw.randrange(len(model.hosts))]
    inside = outside = draw.choice(model.hosts).address
    if switch.port(port).to_host and draw.random() < 0.9:
        inside = outside = srv6.text(srv6.host_address(switch.number, port))
        if draw.random() < 0.1:
            inside = draw.choice(model.hosts).address
    hop = draw.choice((64, 64, 64, 64, 2, 1, 0))
    words = [
        switch.usid,
        draw.choice((hot, hot, hot, draw.choice(switch.ports))).usid,
        *(draw.randrange(65536) for _ in range(2)),
    ]
    kind = draw.random()
    if kind < 0.06:
        words[0] = draw.randrange(65536)
    elif kind < 0.12:
        words[1] = draw.randrange(65536)
    udp = UDP(sport=draw.randrange(1, 65536), dport=draw.choice((4791, 4791, 4791, 9)), chksum=0)
    load = Raw(draw.randbytes(draw.choice((0, 4, 12, 30, 90, 400))))
    if kind < 0.7:
        address = srv6.text(srv6._pack(*words))
    elif kind < 0.75:
        address = f"fd00::{draw.randrange(65536):x}"
    else:
        address = host.address
    label = draw.randrange(1 << 20)
    outer = IPv6(src=outside, dst=address, tc=dscp << 2 | ecn, hlim=hop, fl=label)
    inner = IPv6(src=inside, dst=host.address, tc=inner_class, fl=label)
    body = draw.choice([udp / load] * 6 + [TCP() / load, load])
    ether = Ether(src="02:0c:01:00:01:01", dst="02:0a:01:01:00:01")
    if address == host.address and draw.random() < 0.8:
        return bytes(ether / outer / body)
    data = bytes(ether / outer / inner / body)
    odd = draw.random()
    if odd < 0.03:
        return data[: draw.randrange(10, len(data))]
    if odd < 0.05:
        return data[:12] + draw.randbytes(2) + data[14:]
    if odd < 0.07:
        return data[:14] + bytes([draw.randrange(256)]) + data[15:]
    return data


def bursts(draw, model, switch, count):
    """Arrivals in bursts at several times the link rate, with pauses."""
    at, found = 0, []
    while len(found) < count:
        step = draw.choice((20_000, 60_000, 100_000))
        hot = draw.choice(switch.ports)
        for _ in range(draw.randrange(5, 200)):
            at += draw.randrange(1, 2 * step)
            port = draw.randrange(1, len(switch.ports) + 1)
            found.append((at, port, random_frame(draw, model, switch, hot, port)))
        at += draw.choice((0, 0, 10_000_000))
    return found


@pytest.mark.parametrize("name", ["t0-p1-2", "t1-p1-3"])
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("last_hop_ecn", [False, True])
def test_every_frame_meets_the_same_fate_as_in_the_program(name, seed, last_hop_ecn):
    model = fabric(last_hop_ecn=last_hop_ecn)
    program = MrcInside(model, name)
    names = program.runtime.program().ingress.__globals__
    names["random"], names["randint"] = Middle().random, Middle().randint
    arrivals = bursts(random.Random(seed), model, model.switch(name), 1500)
    outcomes = [program.arrive(*arrival) for arrival in arrivals]
    program.run()
    program.close()
    sim = Sim(model, name, rng=Middle())
    frames = sim.run(arrivals)
    drops = [0] * 16
    kinds = set()
    for number, (outcome, frame) in enumerate(zip(outcomes, frames, strict=True)):
        reason = dropped(outcome)
        if reason is not None:
            drops[reason] += 1
            kinds.add(reason)
        if reason is not None or lost_in_queue(outcome):
            assert id(frame) not in sim.out, (number, reason)
            continue
        [copy] = outcome.copies
        if copy.port == 510:
            assert frame.fault == -1
            continue
        at, port, _ = sim.out[id(frame)]
        assert port == copy.port, number
        assert abs(at / NS - copy.left_ns) <= 2, number
        assert sim.bytes_of(frame) == copy.data, number
    assert sim.switch.drops == drops
    assert sum(port.trims for port in sim.switch.ports) == sum(map(trimmed, outcomes)) > 5
    assert sum(port.marks for port in sim.switch.ports) == sum(map(marked, outcomes)) >= (5 if "t1" in name else 0)
    assert sum(port.dropped for port in sim.switch.ports) == sum(map(lost_in_queue, outcomes)) > 0
    assert kinds == set(Drop) - (set() if "t0" in name else {Drop.WRONG_SOURCE})


def test_shares_of_marks_and_trims_are_the_programs():
    """Twice the rate for a while: 4,000 draws of each kind, equal within four standard deviations."""
    model = fabric()
    switch = model.switch("t0-p1-2")
    words = switch.usid, switch.ports[3].usid
    outer = IPv6(src="fdcb:bb00:0:2::1", dst=srv6.text(srv6._pack(*words)), tc=Dscp.TRIMMABLE << 2 | 2)
    inner = IPv6(src="fdcb:bb00:0:2::1", dst="fdcb:bb00:0:2::1", tc=Dscp.TRIMMABLE << 2 | 2)
    data = bytes(Ether() / outer / inner / UDP(sport=0x8001, dport=4791, chksum=0) / Raw(bytes(400)))
    count, gap = 6000, round(1e9 / RATE_PPS / 2)
    arrivals = [(number * gap, 1, data) for number in range(count)]
    program = MrcInside(model, switch.name, seed=3)
    outcomes = [program.arrive(*arrival) for arrival in arrivals]
    program.run()
    program.close()
    sim = Sim(model, switch.name, seed=5)
    sim.run(arrivals)
    out = sim.switch.ports[3]
    for here, there in ((out.trims, sum(map(trimmed, outcomes))), (out.marks, sum(map(marked, outcomes)))):
        assert there > 1000
        assert abs(here - there) < 4 * (2 * count * 0.25) ** 0.5
