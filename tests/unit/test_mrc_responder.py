"""The receiving half: when SACKs go out, what they show, and what the receiver counts."""

import random

import pytest
from mrc_sim import FULL_SIZE, Simulation, Transfer

from mrclab.hosts.mrc.packets import headers as h
from mrclab.hosts.rdma.packets.psn import unwrap

pytestmark = pytest.mark.once

FIRST_PSN = 0xFFFFF0  # wraps after 16 packets


class Bench:
    """h1's packets are caught; the test hands them to h3 in any order and looks at what h3 says."""

    def __init__(self, packets: int, **config):
        self.sim = Simulation(cc_profile="none", tail_probe_rtts=1000.0, **config)  # h1 never notices the silence
        self.caught = []
        self.said = []

        def network(transit):
            (self.caught if transit.source == "h1" else self.said).append(transit)
            return []

        self.sim.network = network
        self.transfer = Transfer(self.sim, "h1", "h3", packets * FULL_SIZE, first_psn=FIRST_PSN)
        self.transfer.write(0, packets * FULL_SIZE)
        self.sim.run(until=packets / 2000 + 0.01)
        self.caught = [t for t in self.caught if t.is_write and not t.data[h.BTH_AT + 8] & h.FLAG_RTX][:packets]
        assert len(self.caught) == packets
        self.host = self.sim.hosts["h3"]
        self.said.clear()

    def deliver(self, *indices, at=1.0):
        for index in indices:
            transit = self.caught[index]
            self.host.receive(transit.plane, bytes(transit.data), at)

    def sacks(self, at=1.0):
        """Send all that waits; the SACKs, with seqs for PSNs."""
        for port in (1, 2, 3, 4):
            while (frame := self.host.next_frame(port, at)) is not None:
                view = memoryview(frame.header + frame.trailer)
                if view[h.BTH_AT] == h.MrcOpcode.SACK:
                    yield h.Sack.unpack(view, h.BODY_AT)

    def seq(self, psn):
        return unwrap(psn - FIRST_PSN, 0)


def test_four_full_packets_make_a_sack_that_names_the_last_of_them():
    bench = Bench(20)
    bench.deliver(0, 1, 2)
    assert list(bench.sacks()) == []
    bench.deliver(3)
    (sack,) = bench.sacks()
    assert bench.seq(sack.cack) == 3
    assert sack.offset == 0
    assert sack.entropy == bench.caught[3].entropy
    assert sack.bitmap == 0


def test_the_bitmap_shows_what_is_missing_below_the_highest():
    bench = Bench(20)
    bench.deliver(0, 1, 3, 6)
    (sack,) = bench.sacks()
    assert bench.seq(sack.cack) == 1
    assert sack.bitmap_offset == 1
    assert sack.bitmap == 0b10010
    assert sack.offset == 5
    assert sack.ooo_count == 2


def test_the_bitmap_shows_the_newest_64_only():
    bench = Bench(100)
    bench.deliver(*range(1), *range(2, 90))
    *_, sack = bench.sacks()
    assert bench.seq(sack.cack) == 0
    assert sack.bitmap_offset == 89 - 63
    assert sack.bitmap == (1 << 64) - 1


def test_a_burst_before_any_port_is_free_still_shows_every_arrival():
    bench = Bench(300)
    rng = random.Random(2)
    missing = {7, 8, 100, 170, 250}
    order = [n for n in range(300) if n not in missing]
    for at in range(0, len(order) - 4, 3):
        order[at], order[at + 4] = order[at + 4], order[at]
    head = order[:120]
    rng.shuffle(head)
    order[:120] = head
    bench.deliver(*order)
    shown = set()
    count = 0
    for sack in bench.sacks():
        count += 1
        cack = bench.seq(sack.cack)
        shown |= set(range(cack + 1)) | {cack + sack.offset}
        shown |= {cack + sack.bitmap_offset + bit for bit in range(64) if sack.bitmap >> bit & 1}
    assert shown == set(order)
    assert count < 80  # four packets a SACK, and one for each arrival below the bitmap


@pytest.mark.parametrize("flag", ["ce", "duplicate"])
def test_marked_and_duplicate_packets_are_answered_at_once(flag):
    bench = Bench(20)
    if flag == "ce":
        bench.caught[0].mark()
        bench.deliver(0)
    else:
        bench.deliver(0, 0)
    (sack,) = bench.sacks()
    assert sack.mark == (h.Mark.SKIP_ONCE if flag == "ce" else h.Mark.NONE)
    assert bench.seq(sack.cack) == 0


def test_each_mark_gets_a_sack_of_its_own():
    bench = Bench(20)
    for index in (0, 1, 2):
        bench.caught[index].mark()
    bench.deliver(0, 1, 2)
    marked = {sack.entropy for sack in bench.sacks() if sack.mark}
    assert marked == {bench.caught[n].entropy for n in (0, 1, 2)}
    stats = bench.host.verbs.qp(bench.transfer.qb).stats
    assert stats.ecn_packets == 3
    assert stats.sacks_sent == 3


def test_a_sack_follows_when_the_packets_stop_coming():
    bench = Bench(20)
    bench.deliver(0, at=1.0)
    assert list(bench.sacks()) == []
    bench.host.on_timer(1.0 + 0.25 * 0.018 + 1e-6)
    (sack,) = bench.sacks()
    assert bench.seq(sack.cack) == 0


def test_a_request_that_came_before_the_message_was_whole_is_answered_when_it_is():
    bench = Bench(6)
    bench.deliver(0, 1, 2, 3, 5)
    assert [bench.seq(sack.cack) for sack in bench.sacks()] == [3]
    bench.deliver(4)
    assert [bench.seq(sack.cack) for sack in bench.sacks()] == [5]


def test_only_new_untrimmed_packets_count_as_received_bytes():
    bench = Bench(20)
    bench.deliver(0, 1, 2, 3, 3, 2)
    *_, sack = bench.sacks()
    nominal = FULL_SIZE + 88
    assert sack.rcvd_units == -(-4 * nominal // 256)


def test_packets_beyond_the_window_are_refused():
    bench = Bench(400, mpr=4)
    bench.host.verbs.qp(bench.transfer.qb).responder.window = 127
    bench.deliver(126, 127)
    stats = bench.host.verbs.qp(bench.transfer.qb).stats
    assert (stats.placed_packets, stats.out_of_window) == (1, 1)


def test_trimmed_packets_are_refused_with_their_reason_and_place_nothing():
    bench = Bench(20)
    bench.caught[0].trim()
    bench.caught[1].trim(last_hop=True)
    bench.deliver(0, 1)
    reasons = []
    for port in (1, 2, 3, 4):
        while (frame := bench.host.next_frame(port, 1.0)) is not None:
            view = memoryview(frame.header + frame.trailer)
            if view[h.BTH_AT] == h.MrcOpcode.NACK:
                nack = h.Nack.unpack(view, h.BODY_AT)
                reasons.append((bench.seq(nack.psn), nack.reason))
    assert sorted(reasons) == [(0, h.Reason.TRIMMED), (1, h.Reason.TRIMMED_LASTHOP)]
    assert bench.host.verbs.qp(bench.transfer.qb).stats.placed_packets == 0
    assert not any(bench.transfer.target)


def test_with_dynamic_mpr_the_qps_that_receive_share_the_bitmaps_of_their_host():
    sim = Simulation(cc_profile="none", dynamic_mpr=True, mpr=4, bitmap_units=4)
    transfers = [Transfer(sim, "h1", "h3", 600 * FULL_SIZE) for _ in range(4)]
    windows = [sim.hosts["h1"].verbs.qp(transfer.qa).requestor for transfer in transfers]
    transfers[0].write(0, 600 * FULL_SIZE)
    sim.run(done=transfers[0].done)
    assert windows[0].psn_window == 4 * 128 - 1
    for transfer in transfers:
        transfer.write(0, 600 * FULL_SIZE)
    sim.run(done=lambda: [t.done() for t in transfers] == [True] * 4)
    sim.run(until=sim.now + 0.05)
    assert all(t.target == t.source for t in transfers)
    assert [window.psn_window for window in windows] == [2 * 128 - 1] * 4
    sim.run(until=sim.now + 17 * 0.018)  # all have been quiet for long
    transfers[0].write(0, 8 * FULL_SIZE)
    sim.run(until=sim.now + 0.05)
    assert windows[0].psn_window == 4 * 128 - 1


def test_bitmaps_that_no_packet_needs_any_more_are_given_back():
    bench = Bench(200, bitmap_units=1)
    limits = bench.host.limits
    bench.deliver(128)
    assert not limits.take_bitmaps(1)
    bench.deliver(0)  # packet 128 is in the first unit now, which every QP has
    assert limits.take_bitmaps(1)


def test_dynamic_mpr_reports_no_more_than_the_responder_takes():
    sim = Simulation(cc_profile="none", dynamic_mpr=True, mpr=4)
    transfer = Transfer(sim, "h1", "h3", 600 * FULL_SIZE)
    requestor = sim.hosts["h1"].verbs.qp(transfer.qa).requestor
    receiving = sim.hosts["h3"].verbs.qp(transfer.qb)
    requestor.limit_window(1)
    receiving.responder.window = 128 - 1  # as a program's mpr_dest sets it, whose mpr as a requestor is larger
    sim.network = lambda transit: [sim.delay(transit) + (0.2 if transit.is_write and transit.plane == 1 else 0)]
    transfer.write(0, 600 * FULL_SIZE)
    sim.run(done=transfer.done)
    assert receiving.stats.out_of_window == 0
    assert requestor.psn_window == 128 - 1


def test_with_more_than_64_above_the_oldest_gap_every_second_bitmap_shows_older_gaps_in_turn():
    bench = Bench(400)
    missing = {0, 90, 95, 230}
    bench.deliver(*(n for n in range(300) if n not in missing))
    list(bench.sacks())
    shown = []
    for index in range(300, 348):
        bench.deliver(index)
        shown += [bench.seq(s.cack) + s.bitmap_offset for s in bench.sacks()]
    assert len(shown) == 12
    newest = [300 + 4 * n + 3 - 63 for n in range(12)]
    older = [at for at, top in zip(shown, newest, strict=True) if at != top]
    assert len(older) == 6
    gaps = [at for at in older if at in {0, 90, 230}]
    assert len(gaps) in {4, 5}
    assert set(gaps) == {0, 90, 230}


@pytest.mark.parametrize("came", [399, 400])  # the very last one requests a SACK, and so draws one at once
def test_when_the_packets_stop_all_gaps_are_shown_at_once(came):
    bench = Bench(400)
    missing = {0, 90, 95, 230}
    bench.deliver(*(n for n in range(came) if n not in missing))
    list(bench.sacks())
    bench.host.on_timer(1.0 + 0.25 * 0.018 + 1e-6)
    seen = set()
    for sack in bench.sacks():
        first = bench.seq(sack.cack) + sack.bitmap_offset
        seen |= {first + bit for bit in range(64) if not sack.bitmap >> bit & 1 and first + bit < 399}
    assert seen == missing


def test_the_timestamp_of_a_held_sack_moves_on_by_the_time_it_was_held():
    bench = Bench(20)
    bench.deliver(8, at=1.0)  # not the first, which was sent at time 0
    bench.host.on_timer(1.0046)
    (sack,) = bench.sacks()
    sent = int(bench.caught[8].sent_at * 1e6)
    assert sack.timestamp - sent & 0xFFFF == pytest.approx(4600, abs=2)


@pytest.mark.parametrize("echo", [True, False])
@pytest.mark.parametrize("trimmed", [True, False])
def test_every_marked_data_packet_is_counted_once(echo, trimmed):
    bench = Bench(20, ecn_echo=echo, trimming=True)
    for transit in bench.caught[:10]:
        transit.mark()
        if trimmed:
            transit.trim()
    bench.deliver(*range(20))
    assert bench.host.verbs.qp(bench.transfer.qb).stats.ecn_packets == 10


def test_a_qp_that_is_reset_has_nothing_more_to_say():
    bench = Bench(20)
    bench.deliver(0, 1, 2, 3, 7)
    bench.host.verbs.modify_qp(bench.transfer.qb, "RESET", 0.0)
    assert list(bench.sacks()) == []
