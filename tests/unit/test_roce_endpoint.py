"""RoCEv2 RC between two endpoints in a simulated fabric: base RTT 18 ms, one port of 2000 packets/s, so 36 per RTT."""

import random
from itertools import pairwise

import pytest
from mrc_sim import FULL_SIZE, Transfer
from roce_sim import PORT_RATE, RTT, Simulation

from mrclab.hosts.rdma.errors import VerbsError
from mrclab.hosts.rdma.packets import wire
from mrclab.hosts.rdma.states import QpState
from mrclab.hosts.roce import headers as h

KIB = 1 << 10
MIB = 1 << 20


def of_kind(sim, kind, node="h1"):
    return [record for record in sim.records if record["kind"] == kind and record["node"] == node]


def losing(sim, *lost):
    """The n-th transmission of a seq is lost, for each (seq, n) in `lost`; the first PSN must be 0."""
    seen = {}

    def network(transit):
        if transit.is_write:
            seen[transit.psn] = count = seen.get(transit.psn, 0) + 1
            if (transit.psn, count) in lost:
                return []
        return [sim.delay(transit)]

    sim.network = network
    return seen


def transfer(sim, packets, a="h1", b="h3", **attributes):
    made = Transfer(sim, a, b, packets * FULL_SIZE, first_psn=0, **attributes)
    made.write(0, packets * FULL_SIZE)
    return made


# --- a clean network ------------------------------------------------------------------------------


def test_a_clean_transfer_uses_the_whole_line_and_sends_nothing_twice():
    sim = Simulation()
    one = transfer(sim, 1024)
    sim.run(done=one.done)
    assert one.target == one.source
    assert sim.now < 1024 / PORT_RATE + 1.2 * RTT
    assert (one.stats().sent_packets, one.stats().retx_packets, one.stats().timeouts) == (1024, 0, 0)


def test_every_fourth_packet_and_the_last_of_a_message_draw_an_ack():
    sim = Simulation()
    sim.keep_sent = True
    one = transfer(sim, 42)
    sim.run(done=one.done)
    asking = [t.psn for t in sim.sent if t.is_write and t.asks_for_ack]
    assert asking == [*range(0, 42, 4), 41]
    assert one.stats().acks_received == len(asking)


@pytest.mark.sources
def test_a_slow_sender_asks_for_an_ack_once_per_round_trip():
    sim = Simulation()
    sim.keep_sent = True
    one = Transfer(sim, "h1", "h3", 40 * FULL_SIZE, first_psn=0)
    sim.hosts["h1"].verbs.qps[one.qa].cc.rate = lambda _now: (FULL_SIZE + h.HEADER_BYTES) / (2 * RTT)
    one.write(0, 40 * FULL_SIZE)
    sim.run(until=20 * RTT)
    sent = [t for t in sim.sent if t.is_write]
    assert 9 <= len(sent) <= 13
    assert all(t.asks_for_ack for t in sent[4:])


@pytest.mark.parametrize("size", [0, 1, 3, FULL_SIZE - 1, FULL_SIZE, FULL_SIZE + 1, 3 * FULL_SIZE + 2])
@pytest.mark.parametrize("imm", [None, 0xDEADBEEF])
def test_messages_of_every_shape_arrive_inside_their_bounds(size, imm):
    sim = Simulation()
    one = Transfer(sim, "h1", "h3", size, guard=64)
    sim.hosts["h3"].verbs.post_recv(one.qb, 7, sim.now)
    one.write(0, size, imm)
    sim.run(done=one.done)
    assert one.target == one.source
    assert one.guards_intact()
    received = [(done.wr_id, done.imm, done.byte_len) for done in sim.hosts["h3"].verbs.poll_cq()]
    assert received == ([] if imm is None else [(7, imm, size)])


def test_two_qps_share_the_port_fairly():
    sim = Simulation()
    one, two = transfer(sim, 200), transfer(sim, 200)
    sim.run(until=0.1)
    assert abs(one.stats().sent_packets - two.stats().sent_packets) <= 1
    sim.run(until=5)
    assert one.target == one.source
    assert two.target == two.source


def test_no_more_is_in_flight_than_the_window_takes():
    sim = Simulation()
    one = Transfer(sim, "h1", "h3", 400 * FULL_SIZE, mpr=1)
    sim.network = lambda _transit: []
    one.write(0, 400 * FULL_SIZE)
    sim.run(until=0.2)
    assert one.stats().sent_packets == 128


# --- go-back-N ------------------------------------------------------------------------------------


def test_a_gap_draws_one_nak_and_everything_from_it_on_is_sent_again():
    sim = Simulation()
    seen = losing(sim, (100, 1))
    one = transfer(sim, 400)
    sim.run(done=one.done)
    assert one.target == one.source
    stats = one.stats()
    assert (stats.nacks_received, stats.lost_nack, stats.timeouts) == (1, 1, 0)
    in_flight = round(RTT * PORT_RATE)
    assert abs(stats.retx_packets - in_flight) <= 3
    twice = [psn for psn, count in seen.items() if count == 2]
    assert twice == list(range(100, 100 + stats.retx_packets))
    responder = sim.hosts["h3"].verbs.qps[one.qb].stats
    assert (responder.nacks_sent, responder.placed_packets, responder.duplicate_packets) == (1, 400, 0)
    assert responder.out_of_order == stats.retx_packets - 1
    (lost,), (resent,) = of_kind(sim, "packet.lost"), of_kind(sim, "packet.retx")
    assert (lost["psn"], lost["reason"], lost["count"]) == (100, "nack", stats.retx_packets)
    assert (resent["psn"], resent["count"]) == (100, stats.retx_packets)


def test_a_packet_lost_twice_waits_for_the_retry_timer():
    sim = Simulation()
    losing(sim, (100, 1), (100, 2))
    one = transfer(sim, 400)
    sim.run(done=one.done)
    assert one.target == one.source
    stats = one.stats()
    assert (stats.lost_nack, stats.lost_timeout, stats.timeouts) == (1, 1, 1)
    timeout = sim.hosts["h1"].verbs.qps[one.qa].settings.ack_timeout
    assert 10 * RTT <= timeout <= 20 * RTT
    assert sim.now > timeout


def test_a_lost_nak_costs_the_retry_timer():
    sim = Simulation()
    naks = []
    losing(sim, (50, 1))
    data = sim.network

    def network(transit):
        if transit.op == h.RoceOpcode.ACK and transit.data[h.BODY_AT] == wire.Syndrome.NAK_SEQUENCE:
            naks.append(transit.serial)
            return []
        return data(transit)

    sim.network = network
    one = transfer(sim, 200)
    sim.run(done=one.done)
    assert one.target == one.source
    assert (len(naks), one.stats().nacks_received, one.stats().timeouts) == (1, 0, 1)


def test_lost_last_packet_is_found_by_the_timer():
    sim = Simulation()
    losing(sim, (199, 1))
    one = transfer(sim, 200)
    sim.run(done=one.done)
    assert one.target == one.source
    assert (one.stats().timeouts, one.stats().retx_packets) == (1, 3)  # 196 asked for the last ACK


def test_lost_last_ack_is_repeated_for_the_duplicate_and_nothing_is_placed_twice():
    sim = Simulation()
    one = transfer(sim, 8)
    lost = []

    def network(transit):
        if transit.op == h.RoceOpcode.ACK and transit.psn == 7 and not lost:
            lost.append(transit)
            one.target[7 * FULL_SIZE :] = b"\x55" * FULL_SIZE  # the application has gone on with its memory
            return []
        return [sim.delay(transit)]

    sim.network = network
    sim.run(done=one.done)
    assert lost
    assert one.target[: 7 * FULL_SIZE] == one.source[: 7 * FULL_SIZE]
    assert one.target[7 * FULL_SIZE :] == b"\x55" * FULL_SIZE
    responder = sim.hosts["h3"].verbs.qps[one.qb].stats
    assert (responder.placed_packets, responder.duplicate_packets > 0) == (8, True)


def test_an_ack_that_overtakes_the_resending_is_believed():
    """After a spurious time-out the ACKs of the first copies come in: the requestor skips what has arrived."""
    sim = Simulation()
    held = []

    def network(transit):
        late = transit.op == h.RoceOpcode.ACK and sim.now < 0.3
        held.extend([transit] * late)
        return [sim.delay(transit) + (0.4 - sim.now if late else 0)]

    sim.network = network
    one = transfer(sim, 2000)
    sim.run(done=one.done)
    assert held
    assert one.target == one.source
    assert one.stats().timeouts == 1
    assert 0 < one.stats().retx_packets < 100


def test_reordering_within_the_path_counts_as_a_gap():
    sim = Simulation()
    sim.network = lambda t: [sim.delay(t) + (3 / PORT_RATE if t.is_write and t.psn == 20 else 0)]
    one = transfer(sim, 100)
    sim.run(done=one.done)
    assert one.target == one.source
    assert one.stats().lost_nack >= 1
    assert sim.hosts["h3"].verbs.qps[one.qb].stats.placed_packets == 100


def test_duplicates_are_acknowledged_and_harmless():
    sim = Simulation()
    sim.network = lambda t: [sim.delay(t), sim.delay(t) + 0.003]
    one = transfer(sim, 100)
    sim.run(done=one.done)
    assert one.target == one.source
    assert one.stats().retx_packets == 0
    sim.run(until=sim.now + 1)
    assert sim.hosts["h3"].verbs.qps[one.qb].stats.duplicate_packets == 100


@pytest.mark.parametrize("first", [0xFFFFFF, 0xFFFFF0, 0xFFFF80])
def test_psns_wrap_without_anybody_noticing(first):
    sim = Simulation()
    rng = random.Random(first)
    sim.network = lambda t: [] if rng.random() < 0.02 else [sim.delay(t)]
    one = Transfer(sim, "h1", "h3", 300 * FULL_SIZE, first_psn=first)
    for n in range(30):
        one.write(10 * n * FULL_SIZE, 10 * FULL_SIZE)
    sim.run(done=one.done)
    assert one.target == one.source
    assert [done.wr_id for done in one.completions] == list(range(30))
    assert one.stats().retx_packets > 0


def test_a_corrupted_packet_counts_as_lost():
    sim = Simulation()
    hit = []

    def network(transit):
        if transit.is_write and transit.psn == 30 and not hit:
            hit.append(transit)
            transit.data[500] ^= 4
        return [sim.delay(transit)]

    sim.network = network
    one = transfer(sim, 100)
    sim.run(done=one.done)
    assert one.target == one.source
    assert sim.hosts["h3"].stats()["ports"][1]["icrc_errors"] == 1
    assert one.stats().lost_nack == 1


# --- errors ---------------------------------------------------------------------------------------


def test_a_dead_path_ends_in_error_after_the_retries_and_flushes_what_waits():
    sim = Simulation()
    sim.network = lambda _transit: []
    one = Transfer(sim, "h1", "h3", 40 * FULL_SIZE, retry_count=3)
    for n in range(4):
        one.write(10 * n * FULL_SIZE, 10 * FULL_SIZE)
    sim.run(done=one.done)
    assert [done.status for done in one.completions] == ["RETRY_EXC_ERR", *["WR_FLUSH_ERR"] * 3]
    qp = sim.hosts["h1"].verbs.qps[one.qa]
    assert qp.state is QpState.ERROR
    assert one.stats().timeouts == 4
    assert of_kind(sim, "qp.state")[-1]["reason"] == "Retry Counter Exceeded"
    assert sim.hosts["h1"].events.poll()[-1]["event"] == "QP_FATAL"


def test_progress_gives_all_retries_back():
    sim = Simulation()
    losing(sim, *[(n * 10 + 5, copy) for n in range(5) for copy in (1, 2)])
    one = Transfer(sim, "h1", "h3", 50 * FULL_SIZE, first_psn=0, retry_count=1)
    for n in range(5):
        one.write(10 * n * FULL_SIZE, 10 * FULL_SIZE)
        sim.run(done=one.done)
    assert [done.status for done in one.completions] == ["SUCCESS"] * 5
    assert one.stats().timeouts == 5


def test_a_write_outside_the_region_puts_both_ends_into_error():
    sim = Simulation()
    one = Transfer(sim, "h1", "h3", 4 * FULL_SIZE, guard=2 * FULL_SIZE)
    sim.hosts["h1"].verbs.post_send(
        one.qa,
        1,
        "RDMA_WRITE",
        one.local.lkey,
        0,
        4 * FULL_SIZE,
        one.remote.va + FULL_SIZE,
        one.remote.rkey,
        None,
        sim.now,
    )
    one.posted = 1
    sim.run(done=one.done)
    assert one.completions[0].status == "REM_ACCESS_ERR"
    assert {sim.hosts["h1"].verbs.qps[one.qa].state, sim.hosts["h3"].verbs.qps[one.qb].state} == {QpState.ERROR}
    assert one.guards_intact()


def test_immediates_without_a_posted_receive_wait_for_one():
    sim = Simulation()
    one = Transfer(sim, "h1", "h3", 30 * FULL_SIZE)
    for n in range(3):
        one.write(10 * n * FULL_SIZE, 10 * FULL_SIZE, imm=n)
    sim.run(until=0.2)
    assert not one.done()
    assert sim.hosts["h3"].verbs.qps[one.qb].stats.no_resource >= 1
    for n in range(3):
        sim.hosts["h3"].verbs.post_recv(one.qb, 10 + n, sim.now)
    sim.run(done=one.done)
    assert [(done.wr_id, done.imm) for done in sim.hosts["h3"].verbs.poll_cq()] == [(10, 0), (11, 1), (12, 2)]
    assert one.target == one.source
    assert one.stats().lost_packets == 0


def test_packets_of_strangers_and_for_others_are_counted_and_dropped():
    sim = Simulation(numbers=(1, 3, 4))
    one = transfer(sim, 4)
    frames = []
    sim.network = lambda t: frames.append(bytes(t.data)) or [sim.delay(t)]
    sim.run(done=one.done)
    data = frames[0]
    h4, h3 = sim.hosts["h4"], sim.hosts["h3"]
    h4.receive(1, data, sim.now)
    assert h4.stats()["ports"][1]["misdelivered"] == 1
    h3.verbs.destroy_qp(one.qb, sim.now)
    h3.receive(1, data, sim.now)
    h3.receive(1, data[:70], sim.now)
    h3.receive(1, data[:80], sim.now)
    h3.receive(1, data[:20] + b"\0" + data[21:70], sim.now)  # a short packet of somebody else, hop-by-hop options first
    assert [h3.stats()["ports"][1][kind] for kind in ("no_qp", "malformed", "foreign")] == [1, 2, 1]


# --- ports, paths, resources ----------------------------------------------------------------------


def test_a_qp_is_bound_to_one_port_and_stays_on_it():
    sim = Simulation(planes=4, rate=500.0)
    flows = [transfer(sim, 50) for _ in range(8)]
    sim.keep_sent = True
    sim.run(done=lambda: min([flow.done() for flow in flows]))
    ports = {flow.qa: sim.hosts["h1"].verbs.qps[flow.qa].port.number for flow in flows}
    assert sorted(ports.values()) == [1, 1, 2, 2, 3, 3, 4, 4]
    assert all(flow.target == flow.source for flow in flows)
    per_port = [port["placed_bytes"] for port in sim.hosts["h3"].stats()["ports"].values()]
    assert per_port == [100 * FULL_SIZE] * 4


def test_a_dead_port_stops_its_qps_and_no_other():
    sim = Simulation(planes=2, rate=500.0)
    dead, alive = transfer(sim, 200, port=1), transfer(sim, 200, port=2)
    sim.at(0.1, lambda: sim.hosts["h1"].port_event(1, False, sim.now))
    sim.run(until=30)
    assert alive.done()
    assert alive.target == alive.source
    assert dead.stats().timeouts == 8
    assert [qp.qpn for qp in sim.hosts["h1"].verbs.qps.values() if qp.state is QpState.ERROR] == [dead.qa]


def test_a_port_that_returns_in_time_goes_on_where_it_stopped():
    sim = Simulation()
    one = transfer(sim, 400)
    for at, up in ((0.05, False), (0.5, True)):
        sim.at(at, lambda up=up: sim.hosts["h1"].port_event(1, up, sim.now))
    sim.network = lambda t: [] if 0.03 < sim.now < 0.5 else [sim.delay(t)]
    sim.run(done=one.done)
    assert one.target == one.source
    assert one.completions[0].status == "SUCCESS"


def test_an_ack_that_a_dead_port_lost_keeps_none_back_once_the_port_returns():
    sim = Simulation()
    one = transfer(sim, 400)
    for at, up in ((0.05, False), (0.08, True)):  # packets that were on their way still arrive
        sim.at(at, lambda up=up: sim.hosts["h3"].port_event(1, up, sim.now))
    sim.run(until=30, done=one.done)
    assert one.completions[0].status == "SUCCESS"
    assert one.target == one.source


@pytest.mark.parametrize("recovery", ["go_back_n", "selective_repeat"])
@pytest.mark.parametrize("returns", [None, 0.5])
def test_what_is_posted_on_a_dead_port_runs_into_the_retry_timer(recovery, returns):
    sim = Simulation(recovery=recovery)
    one = Transfer(sim, "h1", "h3", 4 * FULL_SIZE, first_psn=0)
    sim.hosts["h1"].port_event(1, False, 0.0)
    one.write(0, 4 * FULL_SIZE)
    if returns is not None:
        sim.at(returns, lambda: sim.hosts["h1"].port_event(1, True, sim.now))
    sim.run(until=30, done=one.done)
    assert one.completions[0].status == ("RETRY_EXC_ERR" if returns is None else "SUCCESS")
    assert one.stats().timeouts == (8 if returns is None else 1)
    assert (one.stats().lost_packets, one.stats().retx_packets) == (0, 0)  # none had been sent


@pytest.mark.sources
def test_a_port_that_dies_while_the_rate_limiter_holds_a_packet_back_starts_the_retry_timer():
    sim = Simulation()
    one = Transfer(sim, "h1", "h3", 4 * FULL_SIZE, first_psn=0)
    sim.network = lambda t: [] if t.is_write else [sim.delay(t)]
    sim.hosts["h1"].verbs.qps[one.qa].cc.rate = lambda _now: 10.0  # a packet in minutes
    one.write(0, 4 * FULL_SIZE)
    sim.at(20.0, lambda: sim.hosts["h1"].port_event(1, False, sim.now))
    sim.run(until=60, done=one.done)
    assert one.completions[0].status == "RETRY_EXC_ERR"


def test_source_ports_differ_between_qps_and_follow_the_seed():
    def sports(seed):
        host = Simulation(seed=seed).hosts["h1"]
        return [host.verbs.qps[host.verbs.create_qp("fdcb:bb00:0:2::1", 0.0)].sport for _ in range(16)]

    assert sports(1) == sports(1) != sports(2)
    assert len(set(sports(1))) == 16
    assert all(0xC000 <= sport <= 0xFFFF for sport in sports(1))


def test_a_qp_whose_memory_is_gone_stops_no_other():
    sim = Simulation()
    gone, one = transfer(sim, 4), transfer(sim, 4)
    gone.local.lose("data.bin")
    one.posted = 2  # the completions of both are in one queue
    sim.run(until=10, done=one.done)
    by_qp = {done.qp: done.status for done in one.completions}
    assert by_qp == {gone.qa: "LOC_PROT_ERR", one.qa: "SUCCESS"}


def test_nothing_is_left_of_a_destroyed_qp():
    sim = Simulation()
    one = transfer(sim, 400)
    sim.run(until=0.05)
    sim.hosts["h1"].verbs.destroy_qp(one.qa, sim.now)
    sim.hosts["h3"].verbs.destroy_qp(one.qb, sim.now)
    sim.run(until=3)
    for host in (sim.hosts["h1"], sim.hosts["h3"]):
        assert not host.verbs.qps
        assert host.next_deadline() is None
        assert not host.has_work(1, sim.now)
        host.verbs.dereg_mr(one.local.lkey if host is sim.hosts["h1"] else one.remote.lkey)


def test_a_reset_qp_can_be_connected_again():
    sim = Simulation()
    one = transfer(sim, 100)
    sim.run(until=0.02)
    h1, h3 = sim.hosts["h1"], sim.hosts["h3"]
    before = one.stats().acked_bytes
    h1.verbs.modify_qp(one.qa, "RESET", sim.now)
    h3.verbs.modify_qp(one.qb, "RESET", sim.now)
    sim.run(until=0.1)
    ends = h1.verbs.local_info(one.qa), h3.verbs.local_info(one.qb)
    h1.verbs.connect(one.qa, ends[1], sim.now)
    h3.verbs.connect(one.qb, ends[0], sim.now)
    one.write(0, 100 * FULL_SIZE)
    one.posted, one.completions = 1, []
    sim.run(done=one.done)
    assert one.target == one.source
    assert one.stats().acked_bytes == before + 100 * FULL_SIZE  # what the reset dropped was never acknowledged


@pytest.mark.sources
def test_an_ack_that_waits_while_its_qp_is_reset_acknowledges_no_more_than_arrived():
    sim = Simulation()
    one = Transfer(sim, "h1", "h3", 10 * FULL_SIZE, first_psn=0xFFFFF8)
    h3 = sim.hosts["h3"]
    receive = h3.receive

    def receive_and_reset(*arguments):
        receive(*arguments)
        h3.verbs.modify_qp(one.qb, "RESET", sim.now)

    h3.receive = receive_and_reset
    for _ in range(10):
        one.write(one.posted * FULL_SIZE, FULL_SIZE)
    sim.run(until=30, done=one.done)
    assert [done.status for done in one.completions] == ["SUCCESS", "RETRY_EXC_ERR", *["WR_FLUSH_ERR"] * 8]


def test_marks_draw_one_cnp_per_interval():
    sim = Simulation()

    def network(transit):
        if transit.is_write:
            transit.mark()
        return [sim.delay(transit)]

    sim.network = network
    one = transfer(sim, 2000)
    sim.run(done=one.done)
    settings = sim.hosts["h3"].verbs.qps[one.qb].settings
    interval = settings.dcqcn.cnp_interval_rtts * settings.base_rtt
    assert one.stats().cnps_received == pytest.approx(2000 / PORT_RATE / interval, abs=1)
    assert sim.hosts["h3"].verbs.qps[one.qb].stats.ecn_packets == 2000


@pytest.mark.sources
def test_a_limited_qp_is_paced_and_leaves_the_port_to_others():
    sim = Simulation()
    slow, fast = transfer(sim, 400), transfer(sim, 400)
    rate = PORT_RATE / 10
    sim.hosts["h1"].verbs.qps[slow.qa].cc.rate = lambda _now: rate * (FULL_SIZE + h.HEADER_BYTES)
    sim.keep_sent = True
    sim.run(until=0.2)
    times = [t.sent_at for t in sim.sent if t.is_write and int.from_bytes(t.data[67:70], "big") == slow.qb]
    gaps = [b - a for a, b in pairwise(times[3:])]
    assert min(gaps) > 0.8 / rate
    assert max(gaps) < 1.2 / rate
    assert fast.stats().sent_packets == pytest.approx(0.9 * 0.2 * PORT_RATE, rel=0.05)


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("attributes", "code", "words"), [
    ({"ev_profile": "default"}, "EOPNOTSUPP", "no EVs"),
    ({"cc_profile": "uet-1.0-nscc"}, "EINVAL", "dcqcn, hpcc and none"),
    ({"port": 9}, "EINVAL", "no port 9"),
    ({"udp_sport": 80}, "EINVAL", "outside"),
    ({"retry_count": 8}, "EINVAL", "retry_count 8: this must be at most 7"),
    ({"retry_count": "many"}, "EINVAL", "retry_count 'many': a whole number is expected here"),
    ({"retry_count": [1]}, "EINVAL", r"retry_count \[1\]: a whole number is expected here"),
    ({"sack_gen_threshold": 1}, "EINVAL", "no attribute 'sack_gen_threshold'"),
])  # fmt: skip
def test_attributes_that_make_no_sense_are_refused(attributes, code, words):
    with pytest.raises(VerbsError, match=words) as refusal:
        Simulation().hosts["h1"].verbs.create_qp("fdcb:bb00:0:2::1", 0.0, **attributes)
    assert refusal.value.code == code


def test_a_port_can_be_disabled():
    host = Simulation().hosts["h1"]
    host.ports.set_admin(1, False, 0.0)
    assert not host.ports.plane_up(1)


@pytest.mark.parametrize(("call", "arguments", "code"), [
    ("create_qp", ("fdcb:bb00:0:1::1", 0.0), "EINVAL"),
    ("create_qp", ("2001:db8::1", 0.0), "EINVAL"),
    ("modify_qp", (0x100, "RTS", 0.0), "EINVAL"),
    ("post_send", (0x100, 1, "RDMA_READ", 0, 0, 0, 0, 0, None, 0.0), "EOPNOTSUPP"),
    ("post_send", (0x100, 1, "RDMA_WRITE", 0, 0, 0, 0, 0, 5, 0.0), "EINVAL"),
    ("post_recv", (0x100, 1, 0.0), "EINVAL"),
    ("connect", (0x100, {"qpn": 1}, 0.0), "EINVAL"),
    ("qp", (5,), "EINVAL"),
])  # fmt: skip
def test_calls_are_refused_as_mrc_refuses_them(call, arguments, code):
    host = Simulation().hosts["h1"]
    host.verbs.create_qp("fdcb:bb00:0:2::1", 0.0)
    with pytest.raises(VerbsError) as refusal:
        getattr(host.verbs, call)(*arguments)
    assert refusal.value.code == code
