"""Properties in any network: random loss, duplication, reordering, trimming and corruption, a simulated clock."""

import os
import random
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mrc_sim import FULL_SIZE, Simulation, Transfer, Transit

from mrclab.hosts.mrc.evs.states import EvState
from mrclab.topo.config.nodeconfig import EvProfileConfig

pytestmark = pytest.mark.once

EXAMPLES = int(os.environ.get("MRCLAB_EXAMPLES", "300"))  # a nightly run sets thousands
GUARD = 64  # bytes around the target region that nothing may touch


@dataclass(frozen=True)
class Weather:
    """Rates of faults of a packet."""

    seed: int
    loss: float = 0.0
    duplicate: float = 0.0
    jitter: float = 0.0  # seconds, within a path
    detour: float = 0.0
    trim: float = 0.0
    mark: float = 0.0
    corrupt: float = 0.0


rates = st.sampled_from([0.0, 0.01, 0.05, 0.2])
weathers = st.builds(
    Weather,
    seed=st.integers(0, 2**32),
    loss=rates,
    duplicate=rates,
    jitter=st.sampled_from([0.0, 0.002, 0.03]),
    detour=rates,
    trim=rates,
    mark=rates,
    corrupt=rates,
)
sizes = st.sampled_from([0, 1, 3, FULL_SIZE - 1, FULL_SIZE, FULL_SIZE + 1, 5 * FULL_SIZE + 7, 40 * FULL_SIZE])
messages = st.lists(st.tuples(sizes, st.booleans()), min_size=1, max_size=12)


def network_in(sim: Simulation, weather: Weather):
    rng = random.Random(weather.seed)

    def network(transit: Transit) -> list[float]:
        if rng.random() < weather.loss:
            return []
        delays = [sim.delay(transit) + rng.random() * weather.jitter]
        if rng.random() < weather.detour:
            delays[0] += rng.random() * 0.1
        if rng.random() < weather.duplicate:
            delays.append(delays[0] + rng.random() * 0.05)
        if transit.is_write and rng.random() < weather.trim:
            transit.trim(rng.choice([118, 128, 256]), last_hop=rng.random() < 0.5)
        elif rng.random() < weather.mark:
            transit.mark()
        if rng.random() < weather.corrupt:
            transit.data[rng.randrange(len(transit.data))] ^= 1 << rng.randrange(8)
        return delays

    return network


class Watch:
    """Checks every data packet at the moment it is sent."""

    def __init__(self, sim: Simulation, transfer: Transfer) -> None:
        self.sim, self.transfer = sim, transfer
        sim.before_send = self.check

    def check(self, name: str, transit: Transit) -> None:
        if not transit.is_write or name != self.transfer.a:
            return
        qp = self.sim.hosts[name].verbs.qps[self.transfer.qa]
        peer = self.sim.hosts[self.transfer.b].verbs.qps[self.transfer.qb]
        assert qp.requestor.recovery.window.next - qp.requestor.recovery.window.una <= qp.settings.mpr_psns - 1
        assert qp.requestor.recovery.window.una <= peer.responder.base
        ev = qp.evs.by_value[transit.entropy]
        assert ev.active
        assert ev.state in {EvState.GOOD, EvState.SKIP}
        if ev.state is EvState.SKIP:
            assert all(other.state is EvState.SKIP for other in qp.evs.planes[ev.plane].active)


def run_through(weather: Weather, plan: list[tuple[int, bool]], cc: str, mpr: int, psn: int) -> None:
    profile = EvProfileConfig(
        name="default",
        active_per_plane=1,
        backup_per_plane=1,
        ev_min_active=2,
        probe_interval_rtts=4,
        probe_backoff_cap=4,
    )
    sim = Simulation(seed=weather.seed % 1000, trimming=True, cc_profile=cc, ev=profile)
    total = sum(size for size, _ in plan)
    transfer = Transfer(sim, "h1", "h3", total, mpr=mpr, first_psn=psn, guard=GUARD)
    Watch(sim, transfer)
    sim.network = network_in(sim, weather)
    offset = 0
    immediates = []
    for index, (size, with_imm) in enumerate(plan):
        if with_imm:
            sim.hosts["h3"].verbs.post_recv(transfer.qb, 1000 + index, sim.now)
            immediates.append((1000 + index, index * 3, size))
        transfer.write(offset, size, index * 3 if with_imm else None)
        offset += size
    sim.run(until=2000.0, done=transfer.done)

    assert [(c.wr_id, c.status) for c in transfer.completions] == [(i, "SUCCESS") for i in range(len(plan))]
    assert transfer.target == transfer.source
    assert transfer.guards_intact()
    received = sim.hosts["h3"].verbs.poll_cq(most=1000)
    assert [(c.wr_id, c.imm, c.byte_len) for c in received] == immediates
    stats = sim.hosts["h3"].verbs.qps[transfer.qb].stats
    assert stats.placed_bytes == total
    assert stats.out_of_window == 0
    sender = transfer.stats()
    assert sender.acked_bytes == total
    assert sender.retx_packets <= sender.lost_packets
    assert_nothing_left(sim, transfer)


def assert_nothing_left(sim: Simulation, transfer: Transfer) -> None:
    for name, qp in ((transfer.a, transfer.qa), (transfer.b, transfer.qb)):
        host = sim.hosts[name]
        host.verbs.destroy_qp(qp, sim.now)
        assert not host.verbs.qps
        assert not host.peers.with_qps
        assert host.next_deadline() is None
        assert not any(host.has_work(port, sim.now) for port in range(1, 5))
    sim.hosts[transfer.a].verbs.dereg_mr(transfer.local.lkey)
    sim.hosts[transfer.b].verbs.dereg_mr(transfer.remote.lkey)
    assert not len(sim.hosts[transfer.a].memory)
    sim.run(sim.now + 1.0)  # what is still under way finds nobody


@settings(max_examples=EXAMPLES)
@given(
    weather=weathers,
    plan=messages,
    cc=st.sampled_from(["none", "uet-1.0-nscc"]),
    mpr=st.sampled_from([1, 4]),
    psn=st.sampled_from([0, 1, 0xFFFFF0, 0xFFFFFF, 0x800000]),
)
def test_every_write_is_placed_once_and_completed_in_order_in_any_weather(weather, plan, cc, mpr, psn):
    run_through(weather, plan, cc, mpr, psn)


@settings(max_examples=EXAMPLES)
@given(seed=st.integers(0, 2**32), corrupt=st.sampled_from([0.1, 0.5]))
def test_corrupted_frames_never_reach_memory(seed, corrupt):
    run_through(Weather(seed, corrupt=corrupt, trim=0.05), [(10 * FULL_SIZE + 5, True), (3, False)], "none", 1, 5)


@settings(max_examples=EXAMPLES // 2)
@given(seed=st.integers(0, 2**32), uplinks=st.integers(1, 5), planes=st.integers(1, 8))
def test_planes_stay_within_one_packet_of_each_other_while_all_are_up(seed, uplinks, planes):
    sim = Simulation(seed=seed % 997, uplinks=uplinks, planes=planes)
    rng = random.Random(seed)
    sim.network = lambda transit: [sim.delay(transit) + rng.random() * 0.002]  # no path loses its order
    transfer = Transfer(sim, "h1", "h3", 150 * FULL_SIZE, cc_profile="none")
    sent = dict.fromkeys(range(1, planes + 1), 0)

    def count(name: str, transit: Transit) -> None:
        if transit.is_write:
            sent[transit.plane] += 1
            assert max(sent.values()) - min(sent.values()) <= 1

    sim.before_send = count
    transfer.write(0, 150 * FULL_SIZE)
    sim.run(done=transfer.done)
    assert transfer.target == transfer.source
    assert transfer.stats().lost_packets == 0
    evs = sim.hosts["h1"].verbs.qps[transfer.qa].evs.by_value.values()
    assert max(ev.sent for ev in evs) - min(ev.sent for ev in evs) <= 2
