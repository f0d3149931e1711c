"""Probing of retired EVs at literal times, and the timers under it. Base RTT 18 ms; the first interval is 12."""

import dataclasses
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mrc_sim import FULL_SIZE, HOP, RATE, Simulation, Transfer

from mrclab.hosts.mrc.evs.states import EvState
from mrclab.hosts.mrc.packets import headers as h
from mrclab.hosts.rdma.timers import Timers

RTT = 8 * HOP + 1 / RATE
FIRST = 12 * RTT


class Patient:
    """An idle QP one of whose EVs was retired at time 0."""

    def __init__(self, answered=lambda _n: True, mark=False, **policy):
        self.sim = Simulation()
        settings = self.sim.configs["h1"].ev_profiles[0]
        assert settings.probe_interval_rtts == 12
        self.transfer = Transfer(self.sim, "h1", "h3", 16)
        self.qp = self.sim.hosts["h1"].verbs.qp(self.transfer.qa)
        self.prober = self.qp.prober
        if policy:
            self.prober._policy = settings.model_copy(update=policy)
        self.probes = []

        def network(transit):
            if transit.op == h.MrcOpcode.PROBE:
                self.probes.append(self.sim.now)
                if mark:
                    transit.mark()
                if not answered(len(self.probes)):
                    return []
            return [self.sim.delay(transit)]

        self.sim.network = network
        self.ev = self.qp.evs.planes[1].active[0]
        self.retire()

    def retire(self):
        assert self.qp.evs.lost(self.ev, self.sim.now, "time")

    def run(self, until):
        self.sim.run(until)
        return self.ev.state


def test_three_clean_answers_in_a_row_bring_an_ev_back():
    patient = Patient()
    assert patient.run(FIRST + RTT) is EvState.ASSUMED_BAD
    assert patient.run(3 * FIRST + 4 * RTT) is EvState.GOOD
    assert len(patient.probes) == 3
    assert patient.probes[0] == pytest.approx(FIRST, abs=1e-9)


def test_the_interval_doubles_with_each_unanswered_probe_up_to_its_cap():
    patient = Patient(answered=lambda _n: False)
    patient.run(60 * RTT * 12)
    waits = [(b - a) / RTT - 8 for a, b in pairwise(patient.probes)][:4]  # after each probe's timeout
    assert all(least - 0.01 <= wait <= 1.26 * least for wait, least in zip(waits, (24, 48, 48, 48), strict=True))
    assert patient.ev.state is EvState.ASSUMED_BAD


def test_an_unanswered_probe_starts_the_count_again():
    patient = Patient(answered=lambda n: n != 3)
    patient.run(100 * FIRST)
    assert patient.ev.state is EvState.GOOD
    assert len(patient.probes) == 6


def test_a_path_whose_answers_always_come_late_comes_back():
    """A packet may take longer than the base RTT says: links of few packets per second, queues, a slow host."""
    patient = Patient()
    clean = patient.sim.network

    def late(transit):
        return [one + 10 * RTT for one in clean(transit)]

    patient.sim.network = late
    assert patient.run(12 * FIRST) is EvState.GOOD
    assert len(patient.probes) <= 5


def test_a_late_answer_is_no_clean_one():
    patient = Patient()
    clean = patient.sim.network
    patient.sim.network = lambda transit: [one + 10 * RTT for one in clean(transit)]
    assert patient.run(FIRST + 10 * RTT + 4 * RTT) is EvState.ASSUMED_BAD
    assert patient.ev.probing.successes == 0


def test_an_ev_that_fails_again_soon_must_prove_itself_twice_as_long():
    patient = Patient()
    patient.run(4 * FIRST)
    assert patient.ev.state is EvState.GOOD
    patient.retire()
    patient.run(20 * FIRST)
    assert patient.ev.state is EvState.GOOD
    assert len(patient.probes) == 3 + 6


def test_an_ev_that_fails_much_later_starts_with_three_again():
    patient = Patient(refail_window=1.0)
    patient.run(10.0)
    patient.retire()
    patient.run(20.0)
    assert len(patient.probes) == 3 + 3


def test_the_hold_down_delays_the_first_probe():
    patient = Patient(hold_down=2.0)
    patient.run(1.9)
    assert patient.probes == []
    patient.run(2.1)
    assert len(patient.probes) == 1


def test_a_marked_answer_leads_to_skip():
    assert Patient(mark=True).run(4 * FIRST) is EvState.SKIP


def test_probes_count_in_no_loss_statistics_and_use_no_psn():
    patient = Patient(answered=lambda n: n % 2 == 0)
    patient.run(20 * FIRST)
    stats = patient.qp.stats
    assert (stats.lost_packets, stats.sent_packets) == (0, 0)
    assert patient.qp.requestor.recovery.window.next == 0
    assert stats.path_probes == len(patient.probes) > 3


def test_a_denied_ev_is_not_probed():
    patient = Patient()
    patient.qp.evs.deny(patient.ev, patient.sim.now)
    patient.run(10 * FIRST)
    assert patient.probes == []


def test_no_probe_leaves_by_a_port_that_is_down():
    patient = Patient()
    patient.sim.hosts["h1"].port_event(1, False, 0.0)
    patient.run(10 * FIRST)
    assert patient.probes == []


def test_probing_ends_with_the_qp():
    patient = Patient(answered=lambda _n: False)
    patient.run(FIRST + RTT)
    patient.sim.hosts["h1"].verbs.destroy_qp(patient.transfer.qa, patient.sim.now)
    assert patient.sim.hosts["h1"].next_deadline() is None


# --- timers -------------------------------------------------------------------------------------


@dataclasses.dataclass
class Model:
    deadline: float | None = None


actions = st.lists(
    st.one_of(
        st.tuples(st.just("arm"), st.integers(0, 3), st.integers(1, 20)),
        st.tuples(st.just("cancel"), st.integers(0, 3), st.just(0)),
        st.tuples(st.just("pass"), st.just(0), st.integers(1, 10)),
    ),
    max_size=60,
)


@given(actions)
def test_timers_do_what_a_table_of_deadlines_would(plan):
    wheel = Timers()
    fired: list[int] = []
    timers = [wheel.timer(lambda _now, n=n: fired.append(n)) for n in range(4)]
    model = [Model() for _ in range(4)]
    now = 0.0
    for action, which, amount in plan:
        if action == "arm":
            timers[which].arm(now + amount)
            model[which].deadline = now + amount
        elif action == "cancel":
            timers[which].cancel()
            model[which].deadline = None
        else:
            now += amount
            fired.clear()
            wheel.run(now)
            due = sorted(n for n in range(4) if model[n].deadline is not None and model[n].deadline <= now)
            assert sorted(fired) == due
            for n in due:
                model[n].deadline = None
        assert wheel.next_deadline() == min((m.deadline for m in model if m.deadline is not None), default=None)


def test_a_timer_that_moves_a_thousand_times_leaves_little_behind():
    wheel = Timers()
    timer = wheel.timer(lambda _now: None)
    for n in range(1000):
        timer.arm(1.0 + n)
    assert len(wheel._heap) == 1
    assert wheel.next_deadline() == 1000.0


@pytest.mark.parametrize("retired", [1, 2])
@pytest.mark.parametrize("both_ways", [True, False])
def test_answers_do_not_all_go_back_by_the_plane_that_is_dead(retired, both_ways):
    sim = Simulation(planes=2, uplinks=2)
    transfer = Transfer(sim, "h1", "h3", 400 * FULL_SIZE)
    transfer.write(0, 400 * FULL_SIZE)
    sim.run(until=5 * RTT)
    qp = sim.hosts["h1"].verbs.qps[transfer.qa]
    sim.network = lambda t: [] if t.plane == 1 and (both_ways or t.source == "h3") else sim.clean(t)
    for ev in list(qp.evs.planes[retired].evs):
        qp.evs.lost(ev, sim.now, "time")
    sim.run(done=transfer.done, until=1000 * RTT)
    assert transfer.done()
    if not both_ways:  # data arrives by either plane
        sim.run(until=2000 * RTT)
        assert [ev for ev in qp.evs.planes[retired].evs if ev.state is EvState.ASSUMED_BAD] == []


@pytest.mark.parametrize("answered", [True, False])
def test_probes_of_many_paths_take_a_tenth_of_a_link_at_most(answered):
    sim = Simulation(planes=1, uplinks=2)
    transfers = [Transfer(sim, "h1", "h3", 16) for _ in range(40)]
    times = []

    def network(transit):
        probes = transit.op == h.MrcOpcode.PROBE
        times.extend([sim.now] * probes)
        return [sim.delay(transit)] if answered or not probes else []

    sim.network = network
    for transfer in transfers:
        qp = sim.hosts["h1"].verbs.qp(transfer.qa)
        assert qp.evs.lost(qp.evs.planes[1].active[0], sim.now, "time")
    sim.run(FIRST + 10 * 200 / RATE)
    assert 40 <= len(times) <= 201
    assert min(later - earlier for earlier, later in pairwise(times)) > 9 / RATE
