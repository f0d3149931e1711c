"""Bugs that no test noticed once: the path of a retransmission, skips, late and stale feedback."""

from functools import partial

import pytest
from mrc_sim import FULL_SIZE, Simulation, Transfer

from mrclab.hosts.mrc.evs.states import EvState
from mrclab.hosts.mrc.packets import headers as h
from mrclab.hosts.mrc.recovery.sent import PacketState
from mrclab.hosts.mrc.recovery.window import SendWindow
from mrclab.hosts.rdma.packets.psn import PSN_MASK, wrap
from mrclab.topo import srv6
from mrclab.topo.config.nodeconfig import MPR_UNIT


def start(packets: int, **config) -> tuple[Simulation, Transfer]:
    sim = Simulation(cc_profile="none", **config)
    sim.keep_sent = True
    return sim, Transfer(sim, "h1", "h3", packets * FULL_SIZE)


def requestor(sim: Simulation, transfer: Transfer):
    return sim.hosts["h1"].verbs.qps[transfer.qa].requestor


def lose_once(sim: Simulation, wanted) -> list:
    """Lose the first write that fits; returns the list in which it then is."""
    lost = []

    def network(transit):
        if not lost and transit.is_write and wanted(transit):
            lost.append(transit)
            return []
        return [sim.delay(transit)]

    sim.network = network
    return lost


def finish(sim: Simulation, transfer: Transfer) -> None:
    transfer.write(0, len(transfer.source))
    sim.run(until=60.0, done=transfer.done)
    assert transfer.target == transfer.source
    sim.run(sim.now + 1.0)


def test_a_retransmission_takes_another_path_and_says_what_it_is():
    """By the path alone it could be the same one: there are two in each plane, and it goes out where the turn is."""
    for seq in range(8, 40):
        sim, transfer = start(60, planes=1, trimming=True)
        lost = lose_once(sim, lambda transit, seq=seq, transfer=transfer: transit.psn == (
            transfer.sim.hosts["h1"].verbs.qps[transfer.qa].requestor.first_psn + seq & 0xFFFFFF))  # fmt: skip
        finish(sim, transfer)
        again = [one for one in sim.sent if one.is_write and one.psn == lost[0].psn][1:]
        assert [one.uplink != lost[0].uplink for one in again] == [True]
        assert again[0].data[h.BTH_AT + 8] & h.FLAG_RTX
        assert again[0].data[h.INNER_AT] & 0xF == h.Dscp.TRIMMABLE_RETX >> 2
        assert not lost[0].data[h.BTH_AT + 8] & h.FLAG_RTX


@pytest.mark.sources
def test_a_trim_in_the_core_skips_its_ev_and_one_at_the_last_hop_does_not():
    for last_hop in (False, True):
        sim, transfer = start(40, trimming=True)
        trimmed = []

        def network(transit, sim=sim, trimmed=trimmed, last_hop=last_hop):
            if not trimmed and transit.is_write:
                trimmed.append(transit.entropy)
                transit.trim(last_hop=last_hop)
            return [sim.delay(transit)]

        sim.network = network
        states = []
        qp = sim.hosts["h1"].verbs.qps[transfer.qa]
        skip = qp.evs.skip
        qp.evs.skip = lambda ev, *rest, skip=skip, states=states: (states.append((ev.value, rest[-1])), skip(ev, *rest))
        finish(sim, transfer)
        assert states == ([] if last_hop else [(trimmed[0], "trimmed")])


def test_a_nack_about_an_older_copy_changes_nothing():
    sim, transfer = start(40, trimming=True)
    transfer.write(0, 40 * FULL_SIZE)
    sim.run(until=0.001)
    qp = sim.hosts["h1"].verbs.qps[transfer.qa]
    packet = qp.requestor.recovery.window.oldest()
    before = qp.stats.lost_packets
    psn = qp.requestor.first_psn + packet.seq & PSN_MASK
    nack = partial(h.Nack, h.Reason.TRIMMED, packet.ev.value, psn)
    qp.requestor.on_nack(nack(packet.ts + 7 & h.TS_MASK), sim.now)
    assert qp.stats.lost_packets == before
    qp.requestor.on_nack(nack(packet.ts), sim.now)
    assert qp.stats.lost_packets == before + 1


def test_without_timestamps_a_nack_is_about_the_copy_that_took_its_path():
    sim, transfer = start(40, trimming=True, timestamps=False)
    transfer.write(0, 40 * FULL_SIZE)
    sim.run(until=0.001)
    qp = sim.hosts["h1"].verbs.qps[transfer.qa]
    packet = qp.requestor.recovery.window.oldest()
    first = packet.ev.value
    qp.requestor.declare_lost(packet, "time", sim.now)
    sim.run(until=0.006)
    assert packet.sends == 2
    assert packet.ev.value != first
    before = qp.stats.lost_packets
    psn = qp.requestor.first_psn + packet.seq & PSN_MASK
    qp.requestor.on_nack(h.Nack(h.Reason.TRIMMED, first, psn), sim.now)
    assert qp.stats.lost_packets == before
    qp.requestor.on_nack(h.Nack(h.Reason.TRIMMED, packet.ev.value, psn), sim.now)
    assert qp.stats.lost_packets == before + 1


def test_a_late_packet_is_in_flight_again_until_the_receivers_count_takes_it_off():
    sim, transfer = start(30)
    transfer.write(0, 30 * FULL_SIZE)
    sim.run(until=0.001)
    qp = sim.hosts["h1"].verbs.qps[transfer.qa]
    packet, account = qp.requestor.recovery.window.oldest(), qp.requestor.in_flight_bytes
    bytes_before, counted = account.bytes, qp.cc.inflight
    qp.cc.on_loss(qp.requestor.declare_lost(packet, "time", sim.now), sim.now)
    assert (account.bytes, qp.cc.inflight) == (bytes_before - packet.nominal, counted - packet.nominal)
    account.late(packet)
    assert (account.bytes, qp.cc.inflight) == (bytes_before, counted)


def test_news_of_ports_that_is_older_than_what_is_known_changes_nothing():
    sim, transfer = start(1)
    host = sim.hosts["h1"]
    peer = host.verbs.qps[transfer.qa].peer
    host.peer_ports(peer, 0b1101, 2.0)
    host.peer_ports(peer, 0b1111, 3.0, sent_at=1.0)  # an answer to what was asked before
    assert peer.port_mask == 0b1101
    host.peer_ports(peer, 0b1111, 4.0, sent_at=2.5)
    assert peer.port_mask == 0b1111


def test_a_trimmed_copy_of_what_arrived_draws_a_sack_and_no_nack():
    sim, transfer = start(12, trimming=True)
    copied = []

    def network(transit):
        if transit.is_write and not copied and transit.psn != requestor(sim, transfer).first_psn:
            copied.append(transit.psn)
            whole = bytes(transit.data)
            transit.trim()
            cut = bytes(transit.data)
            sim.at(sim.now + 3 * sim.delay(transit), lambda: sim.hosts["h3"].receive(transit.plane, cut, sim.now))
            transit.data[:] = whole
        return [sim.delay(transit)]

    sim.network = network
    finish(sim, transfer)
    assert copied
    assert sim.hosts["h3"].verbs.qps[transfer.qb].stats.trimmed_packets == 1
    assert sim.hosts["h3"].verbs.qps[transfer.qb].stats.nacks_sent == 0


def test_the_answer_to_a_question_about_the_tail_shows_what_arrived():
    sim, transfer = start(4, sack_gen_threshold=64 * FULL_SIZE)
    replies = []
    first = requestor(sim, transfer).first_psn

    def network(transit):
        if transit.is_write and transit.psn == first and not replies:
            return []  # the oldest is missing, so that only the bitmap can tell of the others
        if transit.op == h.MrcOpcode.SACK:
            sack = h.Sack.unpack(memoryview(bytes(transit.data)), h.BODY_AT)
            if not sack.probe_reply:
                return [] if not replies else [sim.delay(transit)]
            replies.append(sack)
        return [sim.delay(transit)]

    sim.network = network
    finish(sim, transfer)
    assert replies[0].bitmap_offset == 1
    assert replies[0].bitmap == 0b1110


def test_the_end_of_the_queue_asks_for_an_answer():
    sim, transfer = start(5, sack_gen_threshold=64 * FULL_SIZE)
    finish(sim, transfer)
    writes = [one for one in sim.sent if one.is_write]
    assert [one.data[h.BTH_AT + 8] >> 7 for one in sorted(writes, key=lambda one: one.serial)] == [0, 0, 0, 0, 1]


def test_a_loss_leaves_nothing_in_the_account_of_the_destination():
    sim, transfer = start(100)
    lose_once(sim, lambda transit: transit.plane == 2)
    finish(sim, transfer)
    qp = sim.hosts["h1"].verbs.qps[transfer.qa]
    assert (qp.requestor.in_flight_bytes.bytes, qp.requestor.in_flight_bytes.packets, qp.cc.inflight) == (0, 0, 0)
    assert all(ev.state in {EvState.GOOD, EvState.ASSUMED_BAD} for ev in qp.evs.by_value.values())


def test_a_trimmed_packet_goes_again_by_another_path_although_its_own_is_in_turn():
    sim, transfer = start(40, planes=1, trimming=True, ecn_skip=False)
    plane = sim.hosts["h1"].verbs.qps[transfer.qa].evs.planes[1]
    trimmed = []

    def network(transit):
        if not trimmed and transit.is_write and transit.psn == requestor(sim, transfer).first_psn + 9 & PSN_MASK:
            trimmed.append(transit)
            transit.trim()
        return [sim.delay(transit)]

    turns = []

    def put_first(_name, record):
        if record["kind"] == "packet.lost":
            plane.active.sort(key=lambda ev: ev.uplink != trimmed[0].uplink)
            plane.at = 0
            turns.append(plane.active[0].uplink)

    sim.network = network
    sim.hear = put_first
    finish(sim, transfer)
    assert turns == [trimmed[0].uplink]
    assert len(plane.active) == 2
    again = [one for one in sim.sent if one.is_write and one.psn == trimmed[0].psn][1:]
    assert [one.uplink != trimmed[0].uplink for one in again] == [True]


def test_an_immediate_that_is_over_makes_room_for_another():
    sim, transfer = start(6, wimm=2)
    for number in range(6):
        sim.hosts["h3"].verbs.post_recv(transfer.qb, number, sim.now)
        transfer.write(number * FULL_SIZE, FULL_SIZE, number)
        sim.run(until=sim.now + 5.0, done=transfer.done)
    assert requestor(sim, transfer).wimm_in_flight == 0
    assert [done.status for done in transfer.completions] == ["SUCCESS"] * 6


def test_a_sack_for_what_was_never_sent_is_counted_and_changes_nothing():
    sim, transfer = start(40)
    transfer.write(0, 20 * FULL_SIZE)
    sim.run(until=0.001)
    r = requestor(sim, transfer)
    stats, una = transfer.stats(), r.recovery.window.una
    cack = r.first_psn + r.recovery.window.next + 5 & PSN_MASK
    r.on_sack(h.Sack(0, False, 0, 0, cack, 0, 1, 0), sim.now, None)
    assert (stats.bogus_control, stats.acked_packets, r.recovery.window.una) == (1, 0, una)


def test_what_an_ack_settled_is_not_taken_off_again_by_a_sack_that_comes_later():
    """The two take different ports: the ACK says that all has arrived, the SACK how many bytes that was."""
    sim, transfer = start(40)
    host = sim.hosts["h1"]
    qp = host.verbs.qps[transfer.qa]
    account = qp.requestor.in_flight_bytes
    posted, missing = [10], []

    def network(transit):
        return [sim.delay(transit) * (3 if transit.op == h.MrcOpcode.SACK else 1)]

    sim.network = network
    transfer.write(0, 10 * FULL_SIZE)
    for _ in range(200):
        sim.run(sim.now + 0.001)
        if transfer.done() and posted[0] < 40:  # an application that writes on as soon as it may
            transfer.write(posted[0] * FULL_SIZE, 10 * FULL_SIZE)
            posted[0] += 10
        missing.append(account.packets * FULL_SIZE - account.bytes)
    assert posted[0] == 40
    assert transfer.done()
    assert account.bytes == account.packets == 0
    assert max(missing) <= h.RCVD_UNIT


def test_what_is_on_its_way_by_a_port_that_goes_down_is_lost_at_once():
    sim, transfer = start(200)
    transfer.write(0, len(transfer.source))
    sim.run(0.02)
    sender = requestor(sim, transfer)
    flying = [
        one for one in sender.recovery.window.open_packets() if one.state is PacketState.FLIGHT and one.ev.plane == 2
    ]
    before = sender.in_flight_bytes.packets
    sim.hosts["h1"].port_event(2, False, sim.now)
    assert len(flying) > 3
    assert {(one.state, one.lost_by) for one in flying} == {(PacketState.LOST, "port")}
    assert transfer.stats().lost_port == before - sender.in_flight_bytes.packets == len(flying)


def test_a_packet_that_a_sack_reflects_beside_its_bitmap_counts_once():
    sim, transfer = start(20)
    transfer.write(0, len(transfer.source))
    sim.run(0.012)
    sender = requestor(sim, transfer)
    assert sender.recovery.window.next > 8
    assert not transfer.stats().acked_packets
    packet = sender.recovery.window.get(5)
    for bitmap in (0, 1 << 5):
        sack = h.Sack(
            mark=h.Mark.NONE, probe_reply=False, offset=6, entropy=packet.ev.value, cack=wrap(sender.first_psn - 1),
            mpr=0, bitmap_offset=1, bitmap=bitmap, timestamp=packet.ts, ooo_count=1, rcvd_units=5,
        )  # fmt: skip
        sender.on_sack(sack, sim.now, None)
        assert transfer.stats().acked_packets == 1
        assert packet.state is PacketState.ACKED


def test_a_trimmed_packet_shrinks_the_window():
    least = {}
    for dscp in (h.Dscp.TRIMMED, None):
        sim = Simulation(trimming=True)
        transfer = Transfer(sim, "h1", "h3", 60 * FULL_SIZE)
        state = sim.hosts["h1"].verbs.qps[transfer.qa].cc
        most = state.cwnd
        trimmed = []

        def network(transit, sim=sim, dscp=dscp, trimmed=trimmed):
            if dscp is not None and transit.is_write and not trimmed:
                trimmed.append(transit)
                transit.trim()
            return [sim.delay(transit)]

        sim.network = network
        transfer.write(0, len(transfer.source))
        seen = []
        while not transfer.done():
            sim.run(sim.now + 0.001)
            seen.append(state.cwnd)
        least[dscp] = most - min(seen)
    assert least[h.Dscp.TRIMMED] >= least[None] + FULL_SIZE


def test_no_new_packet_goes_beyond_the_receivers_window_whoever_asks_for_one():
    sim, transfer = start(400, mpr=1)
    sim.network = lambda _transit: []
    transfer.write(0, 400 * FULL_SIZE)
    r = requestor(sim, transfer)
    full = MPR_UNIT - 1
    sim.run(done=lambda: r.recovery.window.next - r.recovery.window.una >= full)
    assert r.recovery.window.next - r.recovery.window.una == full
    for plane in r.qp.evs.planes:  # a port asks where a lost packet of another plane keeps the QP active
        assert r.new_frame(plane, sim.now) is None


def test_a_count_of_the_receiver_that_comes_late_takes_nothing_back():
    sim, transfer = start(1)
    account = requestor(sim, transfer).in_flight_bytes
    account.sent(10 * h.RCVD_UNIT, 0.0)
    assert account.received(8) == 8 * h.RCVD_UNIT
    assert account.received(3) == 0
    assert account.bytes == 2 * h.RCVD_UNIT
    assert account.received(10) == 2 * h.RCVD_UNIT


@pytest.mark.sources
def test_a_record_that_is_used_again_knows_no_path_that_its_packet_before_was_lost_on():
    window = SendWindow(4)
    for _ in range(64):
        packet = window.take()
        assert packet.lost_ev is None
        packet.lost_ev = object()
        window.cumulative(packet.seq)


def test_control_packets_leave_a_reverse_path_that_is_doubted_again():
    """The peer's packets come by the uplink that answers take, and say that these do not arrive."""
    sim, transfer = start(1)
    peer = sim.hosts["h1"].verbs.qps[transfer.qa].peer
    used = set()
    for _ in peer.uplinks(1):
        now = peer.reverse[1]
        used.add(now)
        peer.rotate_reverse(srv6.ev(1, now, 0))
        assert peer.reverse[1] != now
    assert used == set(peer.uplinks(1))
    assert len(used) > 1


def test_what_waits_at_a_port_that_goes_down_leaves_by_another():
    sim, transfer = start(8)
    host = sim.hosts["h1"]
    peer = host.verbs.qps[transfer.qa].peer
    host.ops.announce_ports(peer, 0.0)
    (waiting,) = [port for port, count in host.control.waiting().items() if count]
    host.port_event(waiting, False, 0.0)
    left = host.control.waiting()
    assert left[waiting] == 0
    assert sum(left.values()) == 1
