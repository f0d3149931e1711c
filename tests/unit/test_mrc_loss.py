"""When a packet counts as lost: the rules at literal times, with a base RTT of 10 ms."""

import dataclasses
import random

import pytest
from mrc_sim import node_config

from mrclab.hosts.mrc.ev import Ev, EvSet
from mrclab.hosts.mrc.loss import LossDetector
from mrclab.hosts.mrc.paths import Path
from mrclab.hosts.mrc.sent import PacketState, SentPacket
from mrclab.hosts.mrc.settings import qp_settings
from mrclab.topo import srv6

RTT = 0.010


def detector(**changes):
    config = node_config(1)
    settings = qp_settings(config, config.templates[1])
    return LossDetector(dataclasses.replace(settings, base_rtt=RTT, reorder_rtts=2.0, **changes))


def evs(count):
    made = [
        Ev(
            Path(
                srv6.ev(1, n, srv6.ev_tag(n)),
                1,
                bytes(12),
                srv6.template_for(1, 2, 1),
                srv6.host_address(1, 1),
                srv6.host_address(2, 1),
            )
        )
        for n in range(1, count + 1)
    ]
    EvSet(made, count, 1, random.Random(1), lambda *_: None)
    return made


class Flight:
    """Packets 0, 1, 2, … sent at given times."""

    def __init__(self, loss):
        self.loss = loss
        self.order = 0
        self.packets = {}

    def send(self, seq, at, ev):
        packet = self.packets.setdefault(seq, SentPacket())
        self.order += 1
        packet.seq, packet.sent_at, packet.ev, packet.order = seq, at, ev, self.order
        packet.sends += 1
        packet.state = PacketState.FLIGHT
        packet.missing_age = -1.0
        self.loss.sent(packet)
        return packet

    def ack(self, seq, now=0.0):
        packet = self.packets[seq]
        packet.state = PacketState.ACKED
        self.loss.arrived(packet, now)

    def oldest(self):
        return next((p for s, p in sorted(self.packets.items()) if p.state is not PacketState.ACKED), None)

    def overdue(self, shown=0):
        oldest = self.oldest()
        return [p.seq for p in self.loss.overdue(oldest, oldest.seq if oldest else 10**6, shown)]

    def overtaken(self, now, shown=0):
        oldest = self.oldest()
        return [p.seq for p in self.loss.overtaken(oldest.seq if oldest else 10**6, shown, now)]


def test_a_packet_is_lost_when_one_sent_two_rtts_later_has_arrived():
    flight = Flight(detector())
    a, b = evs(2)
    flight.send(0, 0.000, a)
    flight.send(1, 0.019, b)
    flight.send(2, 0.020, b)
    flight.ack(1)
    assert flight.overdue() == []
    flight.ack(2)
    assert flight.overdue() == [0]


def test_the_time_rule_looks_at_sending_times_not_at_the_clock():
    flight = Flight(detector())
    a, b = evs(2)
    flight.send(0, 0.000, a)
    flight.send(1, 0.001, b)
    flight.ack(1, now=5.0)
    assert flight.overdue() == []


def test_a_later_packet_on_the_same_ev_makes_an_earlier_one_suspect_and_the_verdict_waits_a_little():
    flight = Flight(detector())
    a, b = evs(2)
    flight.send(0, 0.000, a)
    flight.send(1, 0.001, b)
    flight.send(2, 0.002, a)
    flight.ack(1, now=0.011)
    flight.ack(2, now=0.012)
    assert flight.overtaken(now=0.0121) == []
    assert flight.overtaken(now=0.0146) == [0]


def test_a_nack_or_sack_in_time_clears_a_suspect():
    flight = Flight(detector())
    (a,) = evs(1)
    flight.send(0, 0.000, a)
    flight.send(1, 0.001, a)
    flight.ack(1, now=0.011)
    flight.ack(0, now=0.012)
    assert flight.overtaken(now=0.020) == []


def test_the_same_ev_rule_can_be_switched_off():
    flight = Flight(detector(same_ev_rule=False))
    (a,) = evs(1)
    flight.send(0, 0.000, a)
    flight.send(1, 0.001, a)
    flight.ack(1, now=0.011)
    assert flight.overtaken(now=0.020) == []


def test_what_no_sack_could_show_is_not_judged():
    flight = Flight(detector())
    a, b = evs(2)
    flight.send(0, 0.000, b)
    flight.send(5, 0.000, a)
    flight.send(100, 0.030, b)
    flight.ack(100)
    assert flight.overdue(shown=37) == [0]  # the oldest gap is certain, seq 5 may have arrived unseen


def test_what_was_missing_for_long_when_the_bitmap_left_it_behind_is_judged():
    flight = Flight(detector())
    a, b = evs(2)
    flight.send(0, 0.000, b)
    late = flight.send(5, 0.000, a)
    flight.send(50, 0.006, b)
    flight.ack(50)
    flight.loss.left_behind(late)
    flight.send(100, 0.030, b)
    flight.ack(100)
    assert flight.overdue(shown=37) == [0, 5]


def test_an_unjudged_packet_is_judged_when_it_becomes_the_oldest_gap():
    flight = Flight(detector())
    a, b = evs(2)
    flight.send(0, 0.000, b)
    flight.send(5, 0.000, a)
    flight.send(100, 0.030, b)
    flight.ack(100)
    flight.overdue(shown=37)
    flight.ack(0)
    assert flight.overdue(shown=37) == [5]


def test_an_unjudged_packet_still_has_its_timeout():
    flight = Flight(detector())
    a, b = evs(2)
    flight.send(0, 0.000, b)
    flight.send(5, 0.001, a)
    flight.send(100, 0.030, b)
    flight.ack(100)
    flight.overdue(shown=37)
    flight.ack(0)
    timeout = 1.024e-6 * 2**18
    assert flight.loss.next_timeout() == pytest.approx(0.001 + timeout)
    assert [p.seq for p in flight.loss.timed_out(0.001 + timeout)] == [5]


def test_the_first_copy_does_not_count_once_a_packet_was_sent_again():
    flight = Flight(detector())
    a, b = evs(2)
    packet = flight.send(0, 0.000, a)
    packet.state = PacketState.LOST
    flight.send(0, 0.050, b)
    flight.send(1, 0.051, b)
    flight.ack(1)
    assert flight.overdue() == []
    timeout = 1.024e-6 * 2**18
    assert flight.loss.next_timeout() == pytest.approx(0.050 + timeout)


def test_a_probe_counts_as_something_sent_later_that_arrived():
    flight = Flight(detector())
    (a,) = evs(1)
    flight.send(0, 0.000, a)
    flight.loss.probe_answered(0.020)
    assert flight.overdue() == [0]


def test_spurious_retransmissions_widen_the_rule_and_true_losses_narrow_it_again():
    loss = detector()
    for _ in range(3):
        loss.spurious()
    assert loss.reorder_rtts == 3.5
    assert loss.grace_rtts == 2.0
    for _ in range(100):
        loss.spurious()
    assert loss.reorder_rtts == 6.0
    for _ in range(16):
        loss.true_loss()
    assert (loss.reorder_rtts, loss.grace_rtts) == (2.0, 0.25)


def test_timeouts_are_linear_first_and_double_then():
    loss = detector(timeout_exponent=8, retry_linear=2, retry_exponential=3)
    first = 1.024e-6 * 256
    seen = []
    while loss.retry():
        seen.append(round(loss.timeout() / first))
    assert seen == [1, 1, 2, 4, 8]


def test_timeouts_never_exceed_the_largest_that_can_be_encoded():
    loss = detector(timeout_exponent=20, retry_linear=0)
    loss.retries = 60
    assert loss.timeout() == pytest.approx(1.024e-6 * 2**24)


def test_25_exponential_retries_mean_without_end():
    loss = detector(retry_linear=0, retry_exponential=25)
    assert all(loss.retry() for _ in range(1000))
