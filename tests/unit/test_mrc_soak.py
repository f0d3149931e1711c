"""Random runs in foul weather: nothing lost, nothing doubled, nobody stuck.

Each seed draws a fabric, QPs both ways, messages, what their receivers can take, and faults: loss up to a
half, duplicates, jitter up to 5 round trips, trims and marks, paths that are dead one way, ports that storm, a host
that starts again. A few dozen seeds run here; MRCLAB_SOAK=2000 runs as many, from MRCLAB_SOAK_FROM (0) on.
"""

import os
import random

import pytest
from mrc_sim import FULL_SIZE, HOP, RATE, Simulation, Transfer, Transit

from mrclab.hosts.mrc.endpoint import MrcEndpoint
from mrclab.topo.config.nodeconfig import EvProfileConfig

RUNS = int(os.environ.get("MRCLAB_SOAK", "30"))
FIRST = int(os.environ.get("MRCLAB_SOAK_FROM", "0"))
RTT = 8 * HOP + 1 / RATE
CALM_AT = 3.0  # seconds; paths and ports are whole again, loss and jitter stay
LIMIT = 4000.0  # seconds: at half of all packets lost the ACK timeout reaches its 17 s
SIZES = (0, 1, FULL_SIZE - 1, FULL_SIZE, 5 * FULL_SIZE + 7, 40 * FULL_SIZE, 150 * FULL_SIZE)


class Weather:
    """Faults of packets in flight."""

    def __init__(self, sim: Simulation, rng: random.Random, planes: int, uplinks: int) -> None:
        self.sim, self.rng = sim, rng
        self.loss = rng.choice((0.0, 0.01, 0.1, 0.3, 0.5))
        self.duplicate = rng.choice((0.0, 0.0, 0.05, 0.3))
        self.jitter = rng.choice((0.0, 0.0, 0.5, 1.0, 5.0)) * RTT
        self.trim = rng.choice((0.0, 0.0, 0.05)) if sim.configs["h1"].transport.trimming else 0.0
        self.mark = rng.choice((0.0, 0.0, 0.1))
        self.dead = {
            (rng.choice(("h1", "h3")), rng.randint(1, planes), rng.randint(1, uplinks)): rng.random()
            for _ in range(rng.choice((0, 0, 1, planes * uplinks // 2)))
        }

    def network(self, transit: Transit) -> list[float]:
        rng = self.rng
        dies_at = self.dead.get((transit.source, transit.plane, transit.uplink), CALM_AT)
        if dies_at <= self.sim.now < CALM_AT or rng.random() < self.loss:
            return []
        if transit.is_write and rng.random() < self.trim:
            transit.trim(last_hop=rng.random() < 0.5)
        elif rng.random() < self.mark:
            transit.mark()
        copies = 2 if rng.random() < self.duplicate else 1
        return [self.sim.delay(transit) + rng.random() * self.jitter for _ in range(copies)]


def storm(sim: Simulation, rng: random.Random, planes: int) -> None:
    """Ports of both hosts go down and come up; all are up in the end."""
    for _ in range(rng.choice((0, 0, 1, 4, 30))):
        name, port, up = rng.choice(("h1", "h3")), rng.randint(1, planes), rng.random() < 0.5
        sim.at(rng.random() * CALM_AT, lambda n=name, p=port, u=up: sim.hosts[n].port_event(p, u, sim.now))
    for name in ("h1", "h3"):
        for port in range(1, planes + 1):
            sim.at(CALM_AT, lambda n=name, p=port: sim.hosts[n].port_event(p, True, sim.now))


class Work:
    """The messages of one QP, and what must have come of them."""

    def __init__(self, sim: Simulation, rng: random.Random, a: str, b: str) -> None:
        plan = [(rng.choice(SIZES), rng.random() < 0.3) for _ in range(rng.randint(1, 8))]
        self.transfer = Transfer(sim, a, b, sum(size for size, _ in plan), seed=rng.randrange(1 << 30), guard=64)
        self.immediates = []
        offset = 0
        for index, (size, with_imm) in enumerate(plan):
            if with_imm:
                self.immediates.append((index, index, size))
            self.transfer.write(offset, size, index if with_imm else None)
            offset += size
        self.total = offset
        self.post_receives(sim.hosts[b], one_by_one=rng.random() < 0.5)

    def post_receives(self, host, one_by_one: bool) -> None:
        """All at once, or each some time after the one before was taken."""
        waiting = [wr_id for wr_id, _, _ in self.immediates]
        qp, sim = host.verbs.qp(self.transfer.qb), self.transfer.sim
        push = qp.recv_cq.push

        def post():
            if waiting and host.verbs.qps.get(qp.qpn) is qp:
                host.verbs.post_recv(qp.qpn, waiting.pop(0), sim.now)

        def pushed(completion):
            if completion.qp == qp.qpn and completion.opcode.startswith("RECV"):
                sim.at(sim.now + RTT, post)
            return push(completion)

        if one_by_one:
            qp.recv_cq.push = pushed
        for _ in waiting[: 1 if one_by_one else None]:
            post()

    def done(self) -> bool:
        """Return True if the sender knows that all has arrived."""
        return not self.transfer.sim.hosts[self.transfer.a].verbs.qps[self.transfer.qa].requestor.incomplete


def check(sim: Simulation, work: list[Work]) -> None:
    """All is in place, told once and in order."""
    sent = {name: host.verbs.poll_cq(most=100_000) for name, host in sim.hosts.items()}
    for item in work:
        transfer = item.transfer
        assert transfer.target == transfer.source
        assert transfer.guards_intact()
        done = [(c.wr_id, c.status) for c in sent[transfer.a] if c.qp == transfer.qa and c.imm is None]
        assert done == [(index, "SUCCESS") for index in range(transfer.posted)]
        told = [(c.wr_id, c.imm, c.byte_len) for c in sent[transfer.b] if c.qp == transfer.qb and c.imm is not None]
        assert told == item.immediates
        assert sim.hosts[transfer.b].verbs.qps[transfer.qb].stats.placed_bytes == item.total
        assert transfer.stats().acked_bytes == item.total
        window = sim.hosts[transfer.a].verbs.qps[transfer.qa].requestor
        assert (window.in_flight_bytes.packets, window.in_flight_bytes.bytes) == (0, 0)


@pytest.mark.sources
@pytest.mark.parametrize("seed", range(FIRST, FIRST + RUNS))
def test_nothing_is_lost_doubled_or_stuck(seed):
    rng = random.Random(seed)
    planes, uplinks = rng.choice(((1, 1), (1, 4), (2, 2), (4, 2), (8, 2)))
    per_plane = rng.randint(1, uplinks)
    profile = EvProfileConfig(
        name="default",
        active_per_plane=per_plane,
        backup_per_plane=uplinks - per_plane,
        ev_min_active=rng.randint(1, planes * per_plane),
        probe_interval_rtts=rng.choice((4, 12)),
        probe_backoff_cap=4,
    )
    sim = Simulation(
        seed=seed % 1000,
        planes=planes,
        uplinks=uplinks,
        ev=profile,
        cc_profile=rng.choice(("none", "uet-1.0-nscc")),
        mpr=rng.choice((1, 4, 16)),
        trimming=rng.random() < 0.5,
        timestamps=rng.random() < 0.8,
        dynamic_mpr=rng.random() < 0.5,
        bitmap_units=rng.choice((0, 3)),
        memory_rate=rng.choice((0.0, 0.0, RATE)),
        packet_buffer=rng.choice((4, 64)),
        always_skip_after=rng.choice((0, 3)),
        timeout_exponent=rng.choice((16, 18)),
    )
    sim.network = Weather(sim, rng, planes, uplinks).network
    storm(sim, rng, planes)
    work = [Work(sim, rng, *ends) for ends in rng.choices((("h1", "h3"), ("h3", "h1")), k=rng.randint(1, 4))]
    if rng.random() < 0.2:
        sim.run(until=rng.random() * CALM_AT / 2, done=lambda: all(item.done() for item in work))
        sim.hosts["h3"] = MrcEndpoint(sim.configs["h3"], random.Random(seed), [].append)
        for port in range(1, planes + 1):
            sim.hosts["h3"].port_event(port, True, sim.now)
        sim.hosts["h1"].verbs.poll_cq(most=100_000)  # QPs of the former life go on asking, beside those of the new one
        work = [Work(sim, rng, "h1", "h3") for _ in range(2)]
    sim.run(until=LIMIT, done=lambda: all(item.done() for item in work))
    check(sim, work)
