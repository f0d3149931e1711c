"""DCQCN against traces by hand, and in a simulated incast. Line rate 1000 B/s, base RTT 1 s: constants are round."""

from operator import attrgetter

import pytest
from mrc_sim import FULL_SIZE, Transfer
from roce_sim import PORT_RATE, Bottleneck, Simulation

from mrclab.hosts.roce.cc import RateFacts, rate_control
from mrclab.hosts.roce.cc.dcqcn import Dcqcn, parameters
from mrclab.hosts.roce.cc.none import NoRateControl
from mrclab.topo.config.nodeconfig import DcqcnSection

pytestmark = pytest.mark.once

CONFIG = DcqcnSection(
    g=0.25, alpha_period_rtts=4, increase_period_rtts=10, byte_counter_bdps=20, fast_recovery_steps=2,
    additive_share=0.01, hyper_share=0.05, least_share=0.001,
)  # fmt: skip
P = parameters(CONFIG, 1000.0, 1.0)
FACTS = RateFacts(1000.0, 1.0, 1024, CONFIG)


def cut(now=0.0, **changes):
    """A limiter right after its first CNP: 500 of 1000 B/s."""
    s = Dcqcn(FACTS, 0.0)
    s.on_cnp(now)
    for name, value in changes.items():
        setattr(s, name, value)
    return s


def test_constants_scale_with_rate_and_round_trip():
    assert (P.least_rate, P.additive, P.hyper) == (1.0, 10.0, 50.0)
    assert (P.alpha_period, P.increase_period, P.byte_counter) == (4.0, 10.0, 20_000.0)
    slower = parameters(CONFIG, 100.0, 3.0)
    assert (slower.additive, slower.alpha_period, slower.byte_counter) == (1.0, 12.0, 6_000.0)


def test_a_new_flow_is_not_limited():
    control = Dcqcn(FACTS, 0.0)
    assert control.rate(0.0) is None
    control.on_sent(1 << 30, 0.0)
    assert control.rate(1e6) is None


def test_a_cnp_cuts_by_half_of_alpha_and_remembers_the_rate_before():
    s = cut()
    assert (s.current, s.target, s.alpha) == (500.0, 1000.0, 1.0)
    s.on_cnp(1.0)
    assert (s.current, s.target) == (250.0, 500.0)


def test_alpha_decays_while_no_cnp_comes_and_rises_with_each():
    s = cut()
    s.advance(8.5)  # two periods of 4 s
    assert s.alpha == pytest.approx(0.75**2)
    s.on_cnp(8.5)
    assert s.current == pytest.approx(500 * (1 - 0.5625 / 2))
    assert s.alpha == pytest.approx(0.75 * 0.5625 + 0.25)


def test_the_timer_recovers_fast_then_adds_then_leaps_with_the_byte_counter():
    s = cut()
    rates = []
    for tick in range(1, 5):  # at 10, 20, 30 and 40 s
        s.advance(10.0 * tick)
        rates.append((s.target, s.current))
    # two steps of fast recovery; then additive increase of a target that is at the line already
    assert rates == [(1000, 750), (1000, 875), (1000, 937.5), (1000, 968.75)]


def test_additive_increase_moves_the_target():
    s = cut(target=400.0, current=200.0)
    s.advance(20.0)
    assert (s.target, s.current) == (400, 350)
    s.advance(30.0)
    assert (s.target, s.current) == (410, 380)
    s.advance(40.0)
    assert (s.target, s.current) == (420, 400)


def test_the_byte_counter_ticks_as_the_timer_does():
    s = cut(target=400.0, current=200.0)
    s.on_sent(19_999, 0.0)
    assert s.current == 200
    s.on_sent(1, 0.0)
    assert s.current == 300
    s.on_sent(40_000, 0.0)
    assert (s.byte_stage, s.target, s.current) == (3, 410, 380)


def test_hyper_increase_begins_when_both_are_past_fast_recovery():
    s = cut(target=400.0, current=400.0, timer_stage=2, byte_stage=3)
    s.advance(10.0)
    assert (s.timer_stage, s.target, s.current) == (3, 450, 425)  # (3 − 2) × hyper
    s.on_sent(20_000, 0.0)
    s.advance(20.0)
    # byte counter: min(3, 4) − 2 = 1 step; timer: min(4, 4) − 2 = 2 steps
    assert (s.target, s.current) == (600, 531.25)


def test_a_cnp_begins_the_recovery_anew():
    s = cut()
    s.advance(25.0)
    assert (s.timer_stage, s.current) == (2, 875)
    s.on_cnp(25.0)
    assert (s.timer_stage, s.byte_stage, s.target) == (0, 0, 875)
    assert s.current == pytest.approx(875 * (1 - 0.75**6 / 2))
    s.advance(34.9)
    assert s.timer_stage == 0
    s.advance(35.0)
    assert s.timer_stage == 1


def test_the_limiter_is_released_at_line_rate_and_never_exceeds_it():
    control = Dcqcn(FACTS, 0.0)
    control.on_cnp(0.0)
    assert control.rate(1.0) == 500
    assert all((control.rate(now) or 1000) <= 1000 for now in range(1, 200))
    assert control.rate(200.0) is None
    assert control.snapshot()["rate"] == 1000


def test_a_limiter_that_time_alone_releases_lets_the_next_packet_go_as_fast_as_the_port():
    control = Dcqcn(FACTS, 0.0)
    control.on_cnp(0.0)
    assert control.rate(0.0) == pytest.approx(P.line_rate / 2)
    assert control.rate(1e6) is None


def test_the_rate_has_a_floor():
    s = Dcqcn(FACTS, 0.0)
    for _ in range(40):
        s.on_cnp(0.0)
    assert s.current == P.least_rate


def test_time_in_one_leap_or_in_small_steps_is_the_same():
    leap, steps = cut(), cut()
    leap.advance(37.3)
    for tenth in range(374):
        steps.advance(tenth / 10)
    state = attrgetter("current", "target", "alpha", "timer_stage", "byte_stage")
    assert state(leap) == state(steps)


def test_none_ignores_cnps():
    control = rate_control("none", FACTS, 0.0, {})
    assert isinstance(control, NoRateControl)
    control.on_cnp(0.0)
    assert control.rate(0.0) is None


@pytest.mark.parametrize(("senders", "qps"), [(7, 1), (7, 8)])
def test_an_incast_is_shared_evenly_without_loss_once_it_has_settled(senders, qps):
    numbers = range(3, 3 + senders)
    sim = Simulation(numbers=(1, *numbers), t0s=5, cc_profile="dcqcn")
    sim.network = queue = Bottleneck(sim, "h1", depth=3200)
    packets = int(8 * PORT_RATE / qps)
    flows = {n: [Transfer(sim, f"h{n}", "h1", packets * FULL_SIZE) for _ in range(qps)] for n in numbers}
    for transfers in flows.values():
        for transfer in transfers:
            transfer.write(0, packets * FULL_SIZE)
    sim.run(until=4)
    before = {n: sum(t.stats().acked_packets for t in transfers) for n, transfers in flows.items()}
    queue.worst = 0
    sim.run(until=8)
    shares = [(sum(t.stats().acked_packets for t in flows[n]) - before[n]) / 4 / PORT_RATE for n in flows]
    assert sum(shares) > (0.9 if qps == 1 else 0.7)
    assert sum(shares) ** 2 / len(shares) / sum(share**2 for share in shares) > 0.97
    assert queue.dropped == 0
    assert queue.worst < 10 * 36
    assert sum(t.stats().timeouts for transfers in flows.values() for t in transfers) == 0
