"""Two endpoints and a simulated fabric: failures, recovery, feedback. Base RTT 18 ms, 500 packets/s per port."""

import random

import pytest
from mrc_sim import FULL_SIZE, HOP, RATE, Simulation, Transfer

from mrclab.hosts.mrc.packets import headers as h
from mrclab.hosts.rdma.states import QpState
from mrclab.topo.config.nodeconfig import EvProfileConfig

RTT = 8 * HOP + 1 / RATE
MIB = 1 << 20


def dead_links(sim, *links):
    """Nothing passes these (plane, uplink) pairs, in either direction; uplink None stands for the NIC–T0 link of h1."""
    gone = set(links)

    def network(transit):
        if (transit.plane, transit.uplink) in gone or (transit.plane, None) in gone:
            return []
        return [sim.delay(transit)]

    sim.network = network
    return gone


def of_kind(sim, kind, node="h1"):
    return [record for record in sim.records if record["kind"] == kind and record["node"] == node]


# --- the idle fabric ----------------------------------------------------------------------------


def test_a_clean_transfer_uses_the_whole_line_and_loses_nothing():
    sim = Simulation()
    transfer = Transfer(sim, "h1", "h3", MIB)
    transfer.write(0, MIB)
    sim.run(done=transfer.done)
    assert transfer.target == transfer.source
    ideal = MIB / FULL_SIZE / RATE / 4
    assert sim.now < ideal + 1.2 * RTT
    stats = transfer.stats()
    assert (stats.lost_packets, stats.retx_packets, stats.timeouts) == (0, 0, 0)


def test_hosts_of_one_t0_group_use_one_ev_per_plane():
    sim = Simulation(numbers=(1, 2))
    transfer = Transfer(sim, "h1", "h2", 100 * FULL_SIZE)
    transfer.write(0, 100 * FULL_SIZE)
    sim.run(done=transfer.done)
    assert transfer.target == transfer.source
    paths = sim.hosts["h1"].stats()["paths"]
    assert sorted((p["plane"], p["uplink"], p["sent_packets"]) for p in paths) == [(p, 0, 25) for p in (1, 2, 3, 4)]


def test_a_sack_answers_four_full_packets():
    sim = Simulation()
    transfer = Transfer(sim, "h1", "h3", 400 * FULL_SIZE, cc_profile="none")
    transfer.write(0, 400 * FULL_SIZE)
    sim.run(done=transfer.done)
    assert 98 <= transfer.stats().sacks_received <= 104


def test_two_qps_share_the_ports_fairly():
    sim = Simulation()
    one = Transfer(sim, "h1", "h3", 200 * FULL_SIZE)
    two = Transfer(sim, "h1", "h3", 200 * FULL_SIZE)
    one.write(0, 200 * FULL_SIZE)
    two.write(0, 200 * FULL_SIZE)
    sim.run(until=0.12)
    assert abs(one.stats().sent_packets - two.stats().sent_packets) <= 8
    sim.run(until=5)
    assert one.target == one.source
    assert two.target == two.source


def test_a_reversed_transfer_at_the_same_time_does_not_disturb():
    sim = Simulation()
    there = Transfer(sim, "h1", "h3", 100 * FULL_SIZE)
    back = Transfer(sim, "h3", "h1", 100 * FULL_SIZE, seed=8)
    there.write(0, 100 * FULL_SIZE)
    back.write(0, 100 * FULL_SIZE)
    sim.run(until=5)
    assert there.target == there.source
    assert back.target == back.source


# --- path failure -------------------------------------------------------------------------------


def test_a_dead_core_link_costs_what_was_in_flight_and_retires_its_ev_once():
    sim = Simulation()
    gone = dead_links(sim)
    transfer = Transfer(sim, "h1", "h3", 2 * MIB)
    transfer.write(0, 2 * MIB)
    sim.at(0.3, lambda: gone.add((1, 1)))
    sim.run(done=transfer.done)
    assert transfer.target == transfer.source
    stats = transfer.stats()
    per_ev = RATE / 2
    assert 0 < stats.lost_packets <= per_ev * 4 * RTT
    assert stats.spurious_packets == 0
    bad = [r for r in of_kind(sim, "ev.state") if r["new"] == "ASSUMED_BAD"]
    assert [(r["plane"], r["uplink"]) for r in bad] == [(1, 1)]
    assert bad[0]["t"] - 0.3 < 4 * RTT
    lost, again = of_kind(sim, "packet.lost"), of_kind(sim, "packet.retx")
    assert sorted(r["psn"] for r in lost) == sorted(r["psn"] for r in again)
    assert all(r["ev"] != r["old_ev"] for r in again)


def test_inside_a_t0_group_the_floor_of_evs_in_use_is_of_the_few_there_are():
    """Twelve of 48 is a quarter of a cross-T1 pair's EVs, and more than the four that neighbours have."""
    sim = Simulation(
        numbers=(1, 2),
        uplinks=12,
        ev=EvProfileConfig(name="default", active_per_plane=12, backup_per_plane=0, ev_min_active=12),
    )
    gone = dead_links(sim)
    transfer = Transfer(sim, "h1", "h2", MIB)
    transfer.write(0, MIB)
    sim.at(0.2, lambda: gone.add((1, 0)))
    sim.run(done=transfer.done)
    bad = [r for r in of_kind(sim, "ev.state") if r["new"] == "ASSUMED_BAD"]
    assert [(r["plane"], r["uplink"]) for r in bad] == [(1, 0)]
    assert transfer.stats().lost_packets <= RATE * 4 * RTT


def test_a_healed_path_returns_after_enough_probes():
    sim = Simulation()
    gone = dead_links(sim)
    transfer = Transfer(sim, "h1", "h3", 4 * MIB)
    transfer.write(0, 4 * MIB)
    sim.at(0.3, lambda: gone.add((1, 1)))
    sim.at(0.8, gone.clear)
    sim.run(done=transfer.done)
    back = [r for r in of_kind(sim, "ev.state") if r["old"] == "ASSUMED_BAD"]
    assert [(r["plane"], r["uplink"], r["reason"]) for r in back] == [(1, 1, "probe")]
    replies = [r["successes"] for r in of_kind(sim, "probe.reply")]
    assert replies[-3:] == [1, 2, 3]
    assert back[0]["t"] > 0.8


def test_a_dead_plane_leaves_three_quarters_of_the_rate():
    sim = Simulation()
    gone = dead_links(sim, (2, 1), (2, 2))
    transfer = Transfer(sim, "h1", "h3", 2 * MIB, cc_profile="none")
    transfer.write(0, 2 * MIB)
    sim.run(done=transfer.done)
    ideal = 2 * MIB / FULL_SIZE / RATE / 3
    assert sim.now < ideal + 8 * RTT
    assert gone


def test_20_percent_loss_on_one_path_moves_the_traffic_off_it():
    sim = Simulation()
    rng = random.Random(4)
    sim.network = lambda t: [] if (t.plane, t.uplink) == (3, 2) and rng.random() < 0.2 else [sim.delay(t)]
    transfer = Transfer(sim, "h1", "h3", 2 * MIB, cc_profile="none")
    transfer.write(0, 2 * MIB)
    sim.run(done=transfer.done)
    assert transfer.target == transfer.source
    assert sim.now < 2 * MIB / FULL_SIZE / RATE / 4 * 1.02 + 3 * RTT


def test_the_tail_of_a_message_is_sent_again_long_before_the_timeout():
    sim = Simulation()
    lost = []

    def network(transit):
        if transit.is_write and transit.data[h.BTH_AT] == h.MrcOpcode.WRITE_LAST and not lost:
            lost.append(sim.now)
            return []
        return [sim.delay(transit)]

    sim.network = network
    transfer = Transfer(sim, "h1", "h3", 10 * FULL_SIZE)
    transfer.write(0, 10 * FULL_SIZE)
    sim.run(done=transfer.done)
    stats = transfer.stats()
    assert (stats.timeouts, stats.lost_packets) == (0, 1)
    assert sim.now - lost[0] < 4 * RTT


def test_without_any_answer_the_qp_gives_up_after_its_retries():
    sim = Simulation()
    sim.network = lambda _transit: []
    transfer = Transfer(sim, "h1", "h3", FULL_SIZE, timeout_exponent=15, retry_linear=2, retry_exponential=2)
    transfer.write(0, FULL_SIZE)
    transfer.write(0, 1)
    sim.run(until=30, done=transfer.done)
    assert [(c.wr_id, c.status) for c in transfer.completions] == [(0, "RETRY_EXC_ERR"), (1, "WR_FLUSH_ERR")]
    assert sim.hosts["h1"].verbs.qp(transfer.qa).state is QpState.ERROR
    assert transfer.stats().timeouts == 5
    timeout = 1.024e-6 * 2**15
    assert sim.now == pytest.approx(timeout * (1 + 1 + 1 + 2 + 4), rel=0.1)


def test_a_peer_that_is_silent_for_long_is_not_probed_without_end():
    sim = Simulation()
    sim.network = lambda _transit: []
    transfer = Transfer(sim, "h1", "h3", 10 * FULL_SIZE)
    transfer.write(0, 10 * FULL_SIZE)
    sim.run(until=60)
    assert transfer.stats().tail_probes < 60 / (1.024e-6 * 2**18) + 10


# --- ports --------------------------------------------------------------------------------------


def port_failure(sim, gone, down, up):
    def fail():
        gone.add((2, None))
        sim.hosts["h1"].port_event(2, False, sim.now)

    def repair():
        gone.clear()
        sim.hosts["h1"].port_event(2, True, sim.now)

    sim.at(down, fail)
    sim.at(up, repair)


def test_a_port_that_goes_down_stops_nothing_and_its_evs_return_with_it():
    sim = Simulation()
    gone = dead_links(sim)
    transfer = Transfer(sim, "h1", "h3", 4 * MIB, cc_profile="none")
    transfer.write(0, 4 * MIB)
    port_failure(sim, gone, 0.3, 1.0)
    sim.run(done=transfer.done)
    assert transfer.target == transfer.source
    stats = transfer.stats()
    assert stats.timeouts == 0
    assert stats.lost_packets == stats.lost_port
    assert not [r for r in of_kind(sim, "ev.state") if r["new"] == "ASSUMED_BAD"]
    assert [r["t"] for r in of_kind(sim, "ev.state") if r["new"] == "PORT_DOWN"] == [0.3, 0.3]
    assert [r["t"] for r in of_kind(sim, "ev.state") if r["old"] == "PORT_DOWN"] == [1.0, 1.0]
    three, four = 0.7 * 3 * RATE, 4 * RATE
    ideal = 1.0 + (4 * MIB / FULL_SIZE - 0.3 * four - three) / four
    assert sim.now < ideal + 4 * RTT


def test_the_peer_learns_of_a_port_and_stops_sending_there():
    sim = Simulation()
    gone = dead_links(sim)
    transfer = Transfer(sim, "h3", "h1", 4 * MIB)
    transfer.write(0, 4 * MIB)
    port_failure(sim, gone, 0.3, 1.0)
    used = []
    sim.before_send = lambda name, t: used.append((sim.now, t.plane)) if name == "h3" and t.is_write else None
    sim.run(done=transfer.done)
    assert [(r["mask"], round(r["t"], 2)) for r in of_kind(sim, "peer.ports", "h3")] == [(0b1101, 0.31), (0b1111, 1.01)]
    assert not [t for t, plane in used if plane == 2 and 0.315 < t < 1.0]
    assert [t for t, plane in used if plane == 2 and 1.02 < t < 1.05]
    assert transfer.target == transfer.source


def test_a_lost_port_status_update_is_repeated():
    sim = Simulation()
    gone = dead_links(sim)
    inner = sim.network
    dropped = []

    def network(transit):
        if transit.op == h.MrcOpcode.ENDPOINT_REQUEST and transit.data[h.BODY_AT] == 0 and len(dropped) < 3:
            dropped.append(sim.now)
            return []
        return inner(transit)

    sim.network = network
    transfer = Transfer(sim, "h1", "h3", MIB)
    transfer.write(0, MIB)
    port_failure(sim, gone, 0.1, 9.0)
    sim.run(until=1.0)
    assert len(dropped) == 3
    assert [r["mask"] for r in of_kind(sim, "peer.ports", "h3")] == [0b1101]


def test_a_remap_delay_keeps_the_qp_waiting_for_the_dead_port():
    sim = Simulation(remap_delay=0.1)
    gone = dead_links(sim)
    transfer = Transfer(sim, "h1", "h3", 2 * MIB, cc_profile="none")
    transfer.write(0, 2 * MIB)
    port_failure(sim, gone, 0.3, 9.0)
    sent = []
    sim.before_send = lambda name, t: sent.append(sim.now) if name == "h1" and t.is_write else None
    sim.run(done=transfer.done)
    assert transfer.target == transfer.source
    quiet = [t for t in sent if 0.31 < t < 0.4]
    assert len(quiet) < 0.09 * 4 * RATE / 4
    assert [t for t in sent if 0.4 < t < 0.42]


def test_all_ports_down_and_up_again_only_costs_time():
    sim = Simulation()
    gone = dead_links(sim)
    transfer = Transfer(sim, "h1", "h3", MIB)
    transfer.write(0, MIB)

    def everything(up):
        for port in (1, 2, 3, 4):
            (gone.discard if up else gone.add)((port, None))
            sim.hosts["h1"].port_event(port, up, sim.now)

    sim.at(0.1, lambda: everything(False))
    sim.at(0.4, lambda: everything(True))
    sim.run(done=transfer.done)
    assert transfer.target == transfer.source
    assert sim.now < 0.3 + MIB / FULL_SIZE / RATE / 4 + 6 * RTT


# --- marks and trims ----------------------------------------------------------------------------


def test_an_ecn_mark_on_one_path_sends_less_there_and_retires_nothing():
    sim = Simulation()

    def network(transit):
        if transit.is_write and (transit.plane, transit.uplink) == (1, 1):
            transit.mark()
        return [sim.delay(transit)]

    sim.network = network
    transfer = Transfer(sim, "h1", "h3", MIB)
    transfer.write(0, MIB)
    sim.run(done=transfer.done)
    paths = {(p["plane"], p["uplink"]): p for p in sim.hosts["h1"].stats()["paths"]}
    assert paths[1, 1]["sent_packets"] < 0.85 * paths[1, 2]["sent_packets"]
    assert transfer.stats().lost_packets == 0
    assert {p["state"] for p in paths.values()} <= {"GOOD", "SKIP"}
    planes = [sum(p["sent_packets"] for k, p in paths.items() if k[0] == plane) for plane in (1, 2, 3, 4)]
    assert max(planes) - min(planes) <= 1


def trimming(sim, last_hop, every=20):
    count = []

    def network(transit):
        if transit.is_write:
            count.append(1)
            if len(count) % every == 0:
                transit.trim(last_hop=last_hop)
        return [sim.delay(transit)]

    sim.network = network


@pytest.mark.parametrize("last_hop", [False, True])
def test_a_trimmed_packet_is_sent_again_at_once_and_its_path_is_not_blamed(last_hop):
    sim = Simulation(trimming=True)
    trimming(sim, last_hop)
    transfer = Transfer(sim, "h1", "h3", MIB // 2)
    transfer.write(0, MIB // 2)
    sim.run(done=transfer.done)
    stats = transfer.stats()
    assert transfer.target == transfer.source
    assert stats.lost_packets == stats.lost_nack > 20
    assert stats.retx_packets == stats.lost_nack
    skipped = sum(p["marked_packets"] for p in sim.hosts["h1"].stats()["paths"])
    assert skipped == 0
    assert not [r for r in of_kind(sim, "ev.state") if r["new"] == "ASSUMED_BAD"]
    nacked = of_kind(sim, "packet.lost")
    again = {r["psn"]: r["t"] for r in of_kind(sim, "packet.retx")}
    assert all(again[r["psn"]] - r["t"] < 4 / RATE for r in nacked)


# --- reverse paths ------------------------------------------------------------------------------


def test_control_packets_leave_a_dead_path_after_some_probes():
    sim = Simulation()
    gone = dead_links(sim)
    transfer = Transfer(sim, "h1", "h3", 4 * MIB)
    transfer.write(0, 4 * MIB)
    h3 = sim.hosts["h3"]
    peer = next(iter(h3.peers.with_qps.values()))
    sim.at(0.2, lambda: gone.update((plane, peer.reverse[plane]) for plane in (1, 2)))
    sim.run(until=1.2)
    assert all((plane, peer.reverse[plane]) not in gone for plane in (1, 2))


def test_control_packets_keep_off_denied_paths():
    sim = Simulation()
    transfer = Transfer(sim, "h1", "h3", 4 * MIB)
    transfer.write(0, 4 * MIB)
    h3 = sim.hosts["h3"]
    rule = {"plane": 1, "uplink": 1, "element": "t0-p1-2/t1-p1-1", "reason": "test"}
    config = type(h3.config).model_validate({**h3.config.model_dump(), "denylist": [rule]})
    sim.at(0.2, lambda: h3.update_config(config, sim.now))
    used = []
    sim.before_send = lambda name, t: used.append((t.plane, t.uplink)) if name == "h3" and sim.now > 0.2 else None
    sim.run(until=1.0)
    assert used
    assert (1, 1) not in used


def test_denied_paths_carry_no_data_until_they_are_allowed_again():
    sim = Simulation()
    transfer = Transfer(sim, "h1", "h3", 4 * MIB)
    transfer.write(0, 4 * MIB)
    h1 = sim.hosts["h1"]
    free = h1.config
    rule = {"plane": 1, "uplink": 1, "element": "t0-p1-1/t1-p1-1"}
    denied = type(free).model_validate({**free.model_dump(), "denylist": [rule]})
    sim.at(0.2, lambda: h1.update_config(denied, sim.now))
    sim.at(0.6, lambda: h1.update_config(free, sim.now))
    used = []
    sim.before_send = lambda name, t: used.append(sim.now) if name == "h1" and (t.plane, t.uplink) == (1, 1) else None
    sim.run(until=1.0)
    assert not [t for t in used if 0.2 < t < 0.6]
    assert [t for t in used if t > 0.6]
    assert transfer.stats().lost_packets == 0


# --- semantics ----------------------------------------------------------------------------------


def test_a_write_outside_the_region_is_refused_and_touches_nothing():
    sim = Simulation()
    transfer = Transfer(sim, "h1", "h3", 8 * FULL_SIZE, guard=64)
    sim.hosts["h1"].verbs.post_send(
        transfer.qa,
        5,
        "RDMA_WRITE",
        transfer.local.lkey,
        0,
        2 * FULL_SIZE,
        transfer.remote.va + 7 * FULL_SIZE,
        transfer.remote.rkey,
        None,
        sim.now,
    )
    transfer.posted = 1
    sim.run(until=2.0, done=transfer.done)
    assert [(c.wr_id, c.status) for c in transfer.completions] == [(5, "REM_ACCESS_ERR")]
    assert transfer.guards_intact()
    assert [e["event"] for e in sim.hosts["h3"].events.poll()] == ["QP_FATAL"]


def test_an_immediate_without_a_posted_receive_waits_for_one():
    sim = Simulation()
    transfer = Transfer(sim, "h1", "h3", 10)
    transfer.write(0, 10, imm=42)
    sim.run(until=0.3, done=transfer.done)
    assert not transfer.completions
    assert sim.hosts["h3"].verbs.qp(transfer.qb).stats.no_resource > 0
    sim.hosts["h3"].verbs.post_recv(transfer.qb, 9, sim.now)
    sim.run(until=2.0, done=transfer.done)
    assert [c.status for c in transfer.completions] == ["SUCCESS"]
    assert [(c.wr_id, c.imm, c.byte_len) for c in sim.hosts["h3"].verbs.poll_cq()] == [(9, 42, 10)]


def test_packets_of_a_destroyed_qp_are_counted_and_dropped():
    sim = Simulation()
    transfer = Transfer(sim, "h1", "h3", 100 * FULL_SIZE)
    transfer.write(0, 100 * FULL_SIZE)
    sim.at(0.02, lambda: sim.hosts["h3"].verbs.destroy_qp(transfer.qb, sim.now))
    sim.run(until=0.2)
    ports = sim.hosts["h3"].stats()["ports"].values()
    assert sum(port["no_qp"] for port in ports) > 10


def test_the_same_seed_gives_the_same_run():
    def history():
        sim = Simulation(seed=5, trimming=True)
        rng = random.Random(9)
        sim.network = lambda t: [] if rng.random() < 0.03 else [sim.delay(t) + rng.random() * 0.005]
        transfer = Transfer(sim, "h1", "h3", 200 * FULL_SIZE)
        transfer.write(0, 200 * FULL_SIZE)
        sim.run(done=transfer.done)
        return sim.now, sim.records

    assert history() == history()


def test_packets_that_were_on_their_way_together_cost_one_retry():
    sim = Simulation()
    sim.network = lambda _transit: []
    transfer = Transfer(sim, "h1", "h3", 40 * FULL_SIZE, timeout_exponent=16, retry_linear=2, retry_exponential=1)
    transfer.write(0, 40 * FULL_SIZE)
    sim.run(until=30, done=transfer.done)
    assert [c.status for c in transfer.completions] == ["RETRY_EXC_ERR"]
    timeout = 1.024e-6 * 2**16
    assert sim.now == pytest.approx(timeout * (1 + 1 + 1 + 2), rel=0.15)


@pytest.mark.parametrize("posted", ["before", "after"])
def test_a_sender_without_any_port_gives_up_after_its_retries(posted):
    sim = Simulation()
    transfer = Transfer(sim, "h1", "h3", 400 * FULL_SIZE, timeout_exponent=16, retry_linear=2, retry_exponential=1)

    def fail():
        for port in range(1, 5):
            sim.hosts["h1"].port_event(port, False, sim.now)

    if posted == "before":
        transfer.write(0, 400 * FULL_SIZE)
        sim.at(0.1, fail)
    else:
        fail()
        transfer.write(0, 400 * FULL_SIZE)
    sim.run(until=30, done=transfer.done)
    assert [c.status for c in transfer.completions] == ["RETRY_EXC_ERR"]
    began = 0.1 if posted == "before" else 0.0
    assert sim.now - began == pytest.approx(1.024e-6 * 2**16 * (1 + 1 + 1 + 2), rel=0.05)


def test_a_sender_whose_ports_return_in_time_goes_on():
    sim = Simulation()
    transfer = Transfer(sim, "h1", "h3", 400 * FULL_SIZE, timeout_exponent=16, retry_linear=2, retry_exponential=1)
    transfer.write(0, 400 * FULL_SIZE)

    def ports(up):
        for port in range(1, 5):
            sim.hosts["h1"].port_event(port, up, sim.now)

    sim.at(0.1, lambda: ports(False))
    sim.at(0.2, lambda: ports(True))
    sim.run(until=30, done=transfer.done)
    assert [c.status for c in transfer.completions] == ["SUCCESS"]
    assert transfer.target.tobytes() == bytes(transfer.source)
