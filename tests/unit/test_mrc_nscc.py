"""NSCC against traces by hand. BDP 36 packets of 1000 bytes, base RTT 10 ms: a = 1, all constants are round."""

from dataclasses import replace
from typing import get_type_hints

import pytest
from mrc_sim import FULL_SIZE, HOP, PLANES, RATE, Simulation, Transfer

from mrclab.hosts.mrc.cc import PathFacts, controller
from mrclab.hosts.mrc.cc.nscc import Nscc, NsccParameters, parameters
from mrclab.hosts.rdma.errors import VerbsError

FACTS = PathFacts(base_rtt=0.010, bdp=36_000, mtu=1000, trimming=True, drop_threshold=45, plane_bdp_packets=9)
P = parameters(FACTS)


def state(config=None, **changes):
    made = Nscc(FACTS, 0.0, **config or {})
    for name, value in {"cwnd": 20_000.0, **changes}.items():
        setattr(made, name, value)
    return made


def sack(s, newly=1000, marked=False, rtt=0.010, penalty=0, restore=False, now=1.0):
    s.on_sack(newly, marked, rtt, penalty, restore, now)


# --- parameters ---------------------------------------------------------------------------------


def test_defaults_are_the_dimensionless_ones():
    assert P.target_delay == pytest.approx(0.0075)
    assert P.max_cwnd == 54_000
    assert P.fi == 5_000
    assert P.eta == pytest.approx(150)
    assert P.fi_scale == 0.25
    assert P.alpha == pytest.approx(4 * 1000 / 0.010)
    assert P.adjust_bytes_threshold == 8_000
    assert P.adjust_period_threshold == 0.010
    assert P.qa_threshold > 1e6


def test_the_law_per_rtt_is_that_of_the_reference():
    assert P.alpha * P.target_delay / FACTS.bdp == pytest.approx(0.083, abs=0.001)
    assert P.fi / FACTS.bdp == pytest.approx(0.139, abs=0.001)
    assert P.eta / FACTS.bdp == pytest.approx(0.0042, abs=0.0001)


def test_without_trimming_the_target_is_a_whole_rtt_and_deep_queues_ask_for_quick_adapt():
    p = parameters(PathFacts(0.010, 36_000, 1000, False, drop_threshold=45, plane_bdp_packets=9))
    assert p.target_delay == 0.010
    assert p.qa_threshold == pytest.approx(4 * 0.010)


def test_every_field_of_the_config_struct_can_be_set_and_no_other():
    p = parameters(FACTS, gamma=0.5, disable_qa=True, max_cwnd=9_000.0, target_delay=0.002)
    assert (p.gamma, p.disable_qa, p.max_cwnd, p.target_delay) == (0.5, True, 9_000.0, 0.002)
    with pytest.raises(VerbsError, match="no setting 'gama'"):
        controller("nscc", FACTS, 0.0, gama=0.5)


# --- the four quadrants -------------------------------------------------------------------------


def test_no_mark_and_little_delay_grows_with_the_slack():
    s = state(qa_endtime=99.0)
    sack(s, newly=1000, rtt=0.0125, now=0.001)  # delay 2.5 ms, slack 5 ms
    assert s.inc_bytes == pytest.approx(400_000 * 1000 * 0.005)
    assert s.cwnd == 20_000
    sack(s, newly=8000, rtt=0.0125, now=0.002)  # 9,000 bytes since the last adjustment
    assert s.cwnd == pytest.approx(20_000 + 400_000 * 9000 * 0.005 / 20_000)
    assert s.inc_bytes == 0


def test_no_mark_and_much_delay_grows_fairly():
    s = state(qa_endtime=99.0)
    sack(s, newly=9000, rtt=0.020, now=0.001)
    assert s.cwnd == pytest.approx(20_000 + 5_000 * 9000 / 20_000)


def test_a_mark_with_little_delay_changes_nothing_but_the_path():
    s = state(qa_endtime=99.0)
    sack(s, newly=1000, marked=True, rtt=0.012, now=0.001)
    assert (s.cwnd, s.inc_bytes) == (20_000, 0)


def test_a_mark_with_much_delay_shrinks_by_how_far_the_mean_is_above_target():
    s = state(avg_delay=0.015, qa_endtime=99.0)
    sack(s, newly=1000, marked=True, rtt=0.025, now=1.0)
    mean = 0.015  # the sample equals the mean
    eta = 150  # an adjustment period is over as well
    assert s.cwnd == pytest.approx(20_000 * (1 - 0.8 * (mean - 0.0075) / mean) + eta)


def test_a_decrease_happens_once_per_rtt_and_never_below_half():
    s = state(avg_delay=10.0)
    s.decrease(now=1.0)
    assert s.cwnd == 10_000
    s.decrease(now=1.005)
    assert s.cwnd == 10_000
    s.decrease(now=1.011)
    assert s.cwnd == 5_000


def test_the_window_never_falls_below_one_packet():
    s = state(cwnd=1_200.0, avg_delay=10.0)
    s.decrease(now=1.0)
    assert s.cwnd == 1000


def test_a_whole_window_without_delay_starts_fast_increase():
    s = state(cwnd=4_000.0, qa_endtime=99.0)
    for _ in range(4):
        sack(s, newly=1000, rtt=0.0105, now=0.001)  # 0.5 ms counts as no delay
    assert not s.increase
    sack(s, newly=1000, rtt=0.0105, now=0.001)
    assert s.increase
    assert s.cwnd >= 4_000 + 250


def test_delay_ends_fast_increase():
    s = state(increase=True, fi_count=50_000.0, qa_endtime=99.0)
    sack(s, rtt=0.012, now=0.001)
    assert not s.increase
    assert s.fi_count == 0


def test_the_window_grows_by_eta_each_period_and_is_capped():
    s = state(cwnd=53_950.0, last_adjust_time=0.9, qa_endtime=99.0)
    sack(s, newly=100, rtt=0.0175, now=1.0)
    assert s.cwnd == 54_000


def test_an_ambiguous_rtt_only_counts_bytes():
    s = state(inflight=5000.0)
    sack(s, newly=2000, rtt=None)
    assert (s.inflight, s.received_bytes, s.achieved_bytes, s.cwnd) == (3000, 2000, 2000, 20_000)


# --- trims, losses, quick adapt -----------------------------------------------------------------


def test_each_trim_costs_one_packet_while_quick_adapt_is_not_due():
    s = state(inflight=10_000.0, qa_endtime=99.0)
    s.on_nack(1000, rtt=None, trimmed=True, now=1.0)
    assert (s.cwnd, s.inflight, s.trigger_qa) == (19_000, 9_000, True)
    assert s.avg_delay == pytest.approx(0.0125 * 0.010)


def test_other_nacks_leave_the_window_alone():
    s = state(inflight=10_000.0)
    s.on_nack(1000, rtt=None, trimmed=False, now=1.0)
    assert (s.cwnd, s.inflight) == (20_000, 9_000)


def test_an_inferred_loss_costs_one_packet():
    s = state(inflight=10_000.0)
    s.on_loss(1000, 1.0)
    assert (s.cwnd, s.inflight, s.bytes_ignored) == (19_000, 9_000, 1000)


def test_quick_adapt_sets_the_window_to_what_one_period_delivered():
    s = state(inflight=18_000.0, achieved_bytes=6_000.0, qa_endtime=0.99)
    assert s.quick_adapt(loss=True, marked=True, delay=0.0, now=1.0)
    assert s.cwnd == 6_000
    assert s.bytes_to_ignore == 18_000
    assert s.qa_endtime == pytest.approx(1.0 + 0.010 + 0.0075)


@pytest.mark.parametrize(("gate", "fires"), [(3.0, True), (4.0, False)])
def test_the_gate_of_quick_adapt_is_a_setting_and_settings_are_floats(gate, fires):
    s = state({"qa_gate": gate, "adjust_bytes_threshold": 8000.0}, qa_endtime=0.5, achieved_bytes=5_000.0)
    assert s.quick_adapt(loss=True, marked=True, delay=0.0, now=1.0) is fires


def test_settings_are_floats_where_parameters_are():
    given = dict.fromkeys(Nscc.settings, 1.0) | {"disable_qa": True}
    kinds = get_type_hints(NsccParameters)
    assert {name: kinds[name] for name in given} == {name: type(value) for name, value in given.items()}


def test_quick_adapt_does_not_fire_in_the_first_period_nor_above_its_gate():
    s = state(achieved_bytes=1.0)
    assert not s.quick_adapt(loss=True, marked=True, delay=0.0, now=1.0)
    s = state(achieved_bytes=54_000 / 8, qa_endtime=0.5)
    assert not s.quick_adapt(loss=True, marked=True, delay=0.0, now=1.0)
    assert s.cwnd == 20_000


def test_after_a_quick_adapt_marks_of_old_packets_are_ignored():
    s = state(bytes_to_ignore=5_000.0, bytes_ignored=0.0, avg_delay=1.0, qa_endtime=0.5)
    sack(s, newly=1000, marked=True, rtt=0.5, now=1.0)
    assert s.cwnd == 20_000
    s.bytes_ignored = 5_000.0
    sack(s, newly=1000, marked=True, rtt=0.5, now=1.0)
    assert s.cwnd < 20_000


def test_quick_adapt_can_be_disabled():
    s = state({"disable_qa": True}, achieved_bytes=1.0, qa_endtime=0.5)
    assert not s.quick_adapt(loss=True, marked=True, delay=0.0, now=1.0)


# --- receiver penalty ---------------------------------------------------------------------------


def test_a_full_penalty_takes_back_what_was_delivered():
    s = state(inflight=15_000.0, qa_endtime=99.0)
    sack(s, newly=1000, penalty=127, rtt=None)
    assert s.cwnd == pytest.approx(14_000 - (127 * 1000 >> 7))
    assert s.saved_cwnd == 20_000


def test_restore_gives_the_saved_window_back():
    s = state(inflight=15_000.0, qa_endtime=99.0)
    sack(s, newly=1000, penalty=64, rtt=None)
    sack(s, newly=1000, penalty=0, restore=True, rtt=None)
    assert (s.cwnd, s.saved_cwnd) == (20_000, 0)


def test_under_penalty_nothing_grows():
    s = state(inflight=15_000.0, qa_endtime=99.0)
    sack(s, newly=1000, penalty=1, rtt=0.010, now=0.001)
    assert s.inc_bytes == 0


# --- behind the registry ------------------------------------------------------------------------


def test_a_controller_starts_with_a_full_window_and_always_lets_one_packet_go():
    cc = Nscc(FACTS, now=0.0)
    assert cc.snapshot()["cwnd"] == 54_000
    cc.cwnd = 1000
    assert cc.allows(1000)
    cc.on_send(1000, 0.0)
    assert not cc.allows(1000)


def test_it_asks_for_an_answer_when_the_window_is_about_to_close():
    cc = Nscc(FACTS, now=0.0)
    assert not cc.wants_ack()
    cc.on_send(53_500, 0.0)
    assert cc.wants_ack()


def test_the_base_rtt_only_falls_and_the_window_cap_follows_it():
    cc = Nscc(FACTS, now=0.0)
    cc.on_sack(0, False, 0.0175, 0, False, 0.02)  # the first sample stood in a queue
    assert cc.base_rtt == 0.010
    assert cc.snapshot()["cwnd"] == 1.5 * 36_000
    cc.on_sack(0, False, 0.008, 0, False, 0.03)
    assert cc.base_rtt == 0.008
    assert cc.snapshot()["cwnd"] == int(1.5 * 36_000 * 0.8)
    cc.on_sack(0, False, 0.009, 0, False, 0.04)
    assert cc.base_rtt == 0.008


def test_a_path_shorter_than_a_microsecond_keeps_its_window():
    short = replace(FACTS, base_rtt=2e-7)
    cc = Nscc(short, now=0.0)
    cap = cc.max_cwnd
    cc.on_sack(0, False, 1.99e-7, 0, False, 1.0)
    assert (cc.base_rtt, cc.max_cwnd) == (2e-7, cap)


def test_a_configured_base_rtt_is_an_upper_bound_as_well():
    cc = Nscc(FACTS, now=0.0, base_rtt=0.009)
    cc.on_sack(0, False, 0.014, 0, False, 0.02)
    assert cc.base_rtt == 0.009


@pytest.mark.parametrize("message", [1, 4, 100])
def test_a_small_window_grows_back_as_fast_whatever_the_size_of_messages(message):
    """Each SACK gives an RTT, though a Transport ACK may have acknowledged its packet first."""
    sim = Simulation()
    transfer = Transfer(sim, "h1", "h3", 100 * FULL_SIZE)
    qp = sim.hosts["h1"].verbs.qps[transfer.qa]

    def feed():
        while len(qp.requestor.incomplete) < 150:
            transfer.write(0, message * FULL_SIZE)
        sim.hosts["h1"].verbs.poll_cq(most=1000)
        sim.at(sim.now + 0.005, feed)

    sim.at(0.0, feed)
    sim.run(until=0.2)
    qp.cc.cwnd, qp.cc.increase, qp.cc.fi_count = 5.0 * qp.cc.parameters.mtu, False, 0.0
    rtt = 8 * HOP
    sim.run(until=0.2 + 8 * rtt, done=lambda: qp.cc.cwnd >= PLANES * RATE * rtt * qp.cc.parameters.mtu)
    assert sim.now < 0.2 + 8 * rtt


def test_unknown_profiles_are_refused_by_name():
    with pytest.raises(VerbsError, match="dctcp, none, nscc, rccc and swift"):
        controller("dcqcn", FACTS, 0.0)


def test_the_time_that_a_receiver_held_a_sack_is_not_in_the_round_trip():
    sim = Simulation()
    transfer = Transfer(sim, "h1", "h3", 4 * FULL_SIZE)
    writes = []

    def network(transit):
        writes.extend([transit] if transit.is_write else [])
        return [] if transit.is_write and len(writes) == 2 else sim.clean(transit)

    sim.network = network
    sim.at(0.1, lambda: [transfer.write(0, 64) for _ in range(2)])  # the second, which asks for a SACK, is lost
    sim.run(until=0.1 + 8 * HOP + 0.25 * sim.configs["h1"].templates[1].base_rtt + 0.001)
    qp = sim.hosts["h1"].verbs.qps[transfer.qa]
    assert qp.stats.sacks_received == 1
    assert qp.requestor.recovery.rtt.srtt == pytest.approx(8 * HOP, abs=1e-4)
