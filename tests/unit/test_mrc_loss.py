"""Loss detection: the rules at literal times, with a base RTT of 10 ms."""

import dataclasses
import random

import pytest
from mrc_sim import node_config

from mrclab.hosts.mrc.evs.ev import Ev
from mrclab.hosts.mrc.evs.evset import EvSet
from mrclab.hosts.mrc.recovery.loss import LossDetector
from mrclab.hosts.mrc.recovery.sent import PacketState, SentPacket
from mrclab.hosts.mrc.settings import qp_settings
from mrclab.topo import srv6

RTT = 0.010


def detector(**changes):
    config = node_config(1)
    settings = qp_settings(config, config.templates[1])
    return LossDetector(dataclasses.replace(settings, base_rtt=RTT, reorder_rtts=2.0, **changes))


def evs(count):
    made = [Ev(None, 1, n, srv6.ev_tag(n)) for n in range(1, count + 1)]
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
        self.loss.sent(packet)
        return packet

    def ack(self, seq, now=0.0):
        packet = self.packets[seq]
        packet.state = PacketState.ACKED
        self.loss.arrived(packet, now)

    def oldest(self):
        return next((p for s, p in sorted(self.packets.items()) if p.state is not PacketState.ACKED), None)

    def judge(self, now=0.0, shown=0, end=10**6):
        """Seqs that are lost once a SACK has come that shows those from `shown` up to `end`, each with the rule."""
        oldest = self.oldest()
        found = []
        for packet, rule in self.loss.judge(oldest, oldest.seq if oldest else 10**6, shown, end, now):
            if packet.state is PacketState.FLIGHT:
                packet.state = PacketState.LOST
                found.append((packet.seq, rule))
        return found


def test_a_packet_is_lost_when_one_sent_two_rtts_later_has_arrived():
    flight = Flight(detector())
    a, b = evs(2)
    flight.send(0, 0.000, a)
    flight.send(1, 0.019, b)
    flight.send(2, 0.020, b)
    flight.ack(1)
    assert flight.judge() == []
    flight.ack(2)
    assert flight.judge() == [(0, "time")]


def test_the_time_rule_looks_at_sending_times_not_at_the_clock():
    flight = Flight(detector())
    a, b = evs(2)
    flight.send(0, 0.000, a)
    flight.send(1, 0.001, b)
    flight.ack(1, now=5.0)
    assert flight.judge() == []


def test_a_later_packet_on_the_same_ev_makes_an_earlier_one_suspect_and_the_verdict_waits_a_little():
    flight = Flight(detector())
    a, b = evs(2)
    flight.send(0, 0.000, a)
    flight.send(1, 0.001, b)
    flight.send(2, 0.002, a)
    flight.ack(1, now=0.011)
    flight.ack(2, now=0.012)
    assert flight.judge(now=0.0121) == []
    assert flight.judge(now=0.0146) == [(0, "same-ev")]


def test_a_nack_or_sack_in_time_clears_a_suspect():
    flight = Flight(detector())
    (a,) = evs(1)
    flight.send(0, 0.000, a)
    flight.send(1, 0.001, a)
    flight.ack(1, now=0.011)
    flight.ack(0, now=0.012)
    assert flight.judge(now=0.020) == []


def test_the_same_ev_rule_can_be_switched_off():
    flight = Flight(detector(same_ev_rule=False))
    (a,) = evs(1)
    flight.send(0, 0.000, a)
    flight.send(1, 0.001, a)
    flight.ack(1, now=0.011)
    assert flight.judge(now=0.020) == []


def three_of_which_the_last_arrived(b_at=0.000):
    """Seqs 0 and 5 are missing; seq 100, sent 3 RTTs after them, has arrived."""
    flight = Flight(detector())
    a, b = evs(2)
    flight.send(0, 0.000, b)
    flight.send(5, b_at, a)
    flight.send(100, 0.030, b)
    flight.ack(100)
    return flight


def test_the_oldest_gap_is_certain_and_what_the_bitmap_does_not_show_waits():
    assert three_of_which_the_last_arrived().judge(shown=37, end=101) == [(0, "time")]


def test_what_had_to_wait_is_lost_with_the_first_bitmap_that_shows_it_missing():
    flight = three_of_which_the_last_arrived()
    flight.judge(shown=37, end=101)
    assert flight.judge(shown=6, end=70) == []
    assert flight.judge(shown=5, end=69) == [(5, "time")]


def test_what_had_to_wait_and_has_arrived_meanwhile_is_not_lost():
    flight = three_of_which_the_last_arrived()
    flight.judge(shown=37, end=101)
    flight.ack(5)
    assert flight.judge(shown=5, end=69) == []


def test_a_suspect_of_the_same_ev_rule_waits_for_its_bitmap_as_well():
    flight = Flight(detector())
    (a,) = evs(1)
    flight.send(0, 0.000, a)
    flight.send(5, 0.000, a)
    flight.send(200, 0.001, a)
    flight.ack(0)
    flight.packets[3] = SentPacket()  # a gap below, so that seq 5 is not the oldest
    flight.packets[3].seq = 3
    flight.ack(200, now=0.011)
    assert flight.judge(now=0.020, shown=137, end=201) == []
    assert flight.judge(now=0.021, shown=3, end=67) == [(5, "same-ev")]


def test_of_a_peer_that_shows_the_newest_64_only_all_is_believed_after_two_more_round_trips():
    flight = three_of_which_the_last_arrived()
    flight.judge(shown=37, end=101)
    (a,) = evs(1)
    for seq, at, lost in ((1000, 0.0399, []), (1001, 0.040, [(5, "time")])):
        flight.send(seq, at, a)
        flight.ack(seq)
        assert flight.judge(shown=seq - 63, end=seq + 1) == lost


def test_an_unjudged_packet_is_judged_when_it_becomes_the_oldest_gap():
    flight = three_of_which_the_last_arrived()
    flight.judge(shown=37, end=101)
    flight.ack(0)
    assert flight.judge(shown=37, end=101) == [(5, "time")]


def test_an_unjudged_packet_still_has_its_timeout():
    flight = three_of_which_the_last_arrived(b_at=0.001)
    flight.judge(shown=37, end=101)
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
    assert flight.judge() == []
    timeout = 1.024e-6 * 2**18
    assert flight.loss.next_timeout() == pytest.approx(0.050 + timeout)


def test_a_probe_counts_as_something_sent_later_that_arrived():
    flight = Flight(detector())
    (a,) = evs(1)
    flight.send(0, 0.000, a)
    flight.loss.probe_answered(0.020)
    assert flight.judge() == [(0, "time")]


def test_spurious_retransmissions_widen_the_time_rule_up_to_its_cap():
    loss = detector()
    for _ in range(3):
        loss.spurious("time")
    assert (loss.reorder_rtts, loss.grace_rtts) == (3.5, 0.25)
    for _ in range(100):
        loss.spurious("time")
    assert loss.reorder_rtts == 6.0


def test_the_same_ev_rule_waits_longer_with_each_error_and_gives_itself_up():
    loss = detector()
    (a,) = evs(1)
    flight = Flight(loss)
    seen = []
    for n in range(5):
        now = 0.1 * n
        flight.send(2 * n, now, a)
        flight.send(2 * n + 1, now, a)
        flight.ack(2 * n + 1, now)
        seen += [round(g, 2) for g in (0.25, 0.5, 1.0, 2.0) if flight.judge(now + g * RTT)]
        flight.packets[2 * n].state = PacketState.ACKED
        loss.spurious("same-ev")
    assert seen == [0.25, 0.5, 1.0, 2.0]


def test_sixteen_round_trips_with_true_losses_bring_the_rules_back():
    loss = detector()
    for _ in range(5):
        loss.spurious("time")
        loss.spurious("same-ev")
    for n in range(100):
        loss.true_loss(0.010 + 0.00005 * n)  # one round trip, however many are lost in it
    assert loss.reorder_rtts == 4.5
    for n in range(2, 17):
        loss.true_loss(0.011 * n)
    assert (loss.reorder_rtts, loss.grace_rtts) == (2.0, 0.25)


def test_timeouts_are_linear_first_and_double_then():
    loss = detector(timeout_exponent=8, retry_linear=2, retry_exponential=3)
    first = 1.024e-6 * 256
    seen = []
    while loss.retry():
        seen.append(round(loss.timeout / first))
    assert seen == [1, 1, 2, 4, 8]


def test_timeouts_never_exceed_the_largest_that_can_be_encoded():
    loss = detector(timeout_exponent=20, retry_linear=0)
    for _ in range(60):
        loss.retry()
    assert loss.timeout == pytest.approx(1.024e-6 * 2**24)


def test_25_exponential_retries_mean_without_end():
    loss = detector(retry_linear=0, retry_exponential=25)
    assert all(loss.retry() for _ in range(1000))


def test_progress_gives_all_retries_back_and_the_first_timeout():
    loss = detector(timeout_exponent=8, retry_linear=0, retry_exponential=3)
    first = loss.timeout
    for _ in range(5):
        assert [loss.retry() for _ in range(3)] == [True] * 3
        assert loss.timeout == 8 * first
        loss.progress()
        assert loss.timeout == first
