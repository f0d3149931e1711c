"""Hosts on simulated NICs: the lab's transport over the simulated fabric."""

import gc

import pytest
from sim_pair import Sim, Write, finish

from mrclab.hosts.mrc.packets import headers as h
from mrclab.hosts.mrc.packets.packet import MrcPacket
from mrclab.sim.nic import SimNic
from mrclab.topo.numbers import Dscp

RATE = 500 * 4096  # bytes of payload per second and port


def test_a_transfer_fills_all_planes_and_arrives_whole():
    sim = Sim()
    write = Write(sim, "h1", "h3", 8 << 20)
    took = finish(sim, write)
    assert write.received == write.sent
    assert (8 << 20) / took > 0.93 * 4 * RATE
    assert write.stats.retx_packets == 0


@pytest.mark.parametrize(("destination", "links"), [("h2", 2), ("h3", 4)])
@pytest.mark.parametrize("nic_latency", [0.0, 2e-6])
def test_a_packet_and_its_sack_take_the_base_rtt_what_nics_take_included(destination, links, nic_latency):
    sim = Sim(link={"rate": "100 Gb/s", "delay": "225ns"}, nic_latency=nic_latency)
    write = Write(sim, "h1", destination, 4096)
    while not write.done():
        sim.run(20e-9)
    wanted = 2 * (links * 225e-9 + (links - 1) * 500e-9) + 4 * nic_latency + links * 360e-9
    assert sim.model.spec.base_rtt(links) == pytest.approx(wanted, rel=0.02)
    assert sim.hosts["h1"].transport.config.template_for(
        sim.hosts[destination].transport.config.host.address
    ).base_rtt == (sim.model.spec.base_rtt(links))
    assert sim.clock.seconds == pytest.approx(wanted, rel=0.02)


def test_three_senders_share_a_receivers_port_without_tail_drops():
    sim = Sim()
    writes = [Write(sim, name, "h4", 3 << 20) for name in ("h1", "h2", "h3")]
    took = finish(sim, *writes)
    assert all(write.received == write.sent for write in writes)
    assert (9 << 20) / took > 0.85 * 4 * RATE
    ports = [port for switch in sim.fabric.switches.values() for port in switch.ports]
    assert sum(port.dropped for port in ports) == 0
    assert sum(port.trims for port in ports) > 0


@pytest.mark.parametrize("transport", ["mrc", "roce"])
@pytest.mark.parametrize("trimming", [True, False])
def test_packing_and_parsing_every_frame_gives_the_same_run(transport, trimming):
    digests, stats = [], []
    for wire_format in (False, True):
        sim = Sim(wire_format, transport=transport, trimming=trimming)
        writes = [Write(sim, name, "h4", 1 << 20) for name in ("h1", "h2", "h3")]
        sim.run(0.3)
        sim.fabric.cable("h4-p2").set_carrier(False)
        sim.fabric.cable("t0-p1-1/t1-p1-2").set_carrier(False)
        sim.run(0.4)
        for name in ("h4-p2", "t0-p1-1/t1-p1-2"):
            sim.fabric.cable(name).set_carrier(True)
        sim.run(4)
        assert transport == "roce" or all(write.received == write.sent for write in writes)
        digests.append(sim.digest())
        stats.append([write.source.call("stats") for write in writes])
    assert digests[0] == digests[1]
    assert stats[0] == stats[1]


def test_the_same_seed_gives_the_same_run_and_another_seed_another():
    def run(seed):
        sim = Sim(seed=seed)
        finish(sim, *[Write(sim, name, "h4", 1 << 19) for name in ("h1", "h3")])
        return sim.digest()

    assert run(1) == run(1) != run(2)


def test_a_port_without_carrier_sends_nothing_and_the_others_carry_on():
    sim = Sim()
    write = Write(sim, "h1", "h3", 4 << 20)
    sim.run(0.2)
    sim.fabric.cable("h1-p3").set_carrier(False)
    [port] = [port for port in sim.hosts["h1"].nic.ports if port.number == 3]
    before = port.tx_packets
    finish(sim, write)
    assert write.received == write.sent
    assert port.tx_packets == before
    assert not port.up


@pytest.mark.sources
def test_time_goes_on_when_a_pause_ends_within_the_frame_that_a_nic_sends(monkeypatch):
    pfc = {"xoff": 10_000, "xon": 8_000}
    link, queue = {"rate": "100 Gb/s", "delay": "100ns"}, {"buffer": 400_000, "pfc": pfc}
    sim = Sim(planes=1, t1s=1, transport="roce", trimming=False, link=link, queue=queue)
    times, transmit = [], SimNic._transmit
    monkeypatch.setattr(SimNic, "_transmit", lambda nic: (times.append(sim.clock.now), transmit(nic)))
    Write(sim, "h1", "h3", 1 << 20)
    sim.run(100e-6)
    assert sim.fabric.switches["t0-p1-1"].ports[0].xoffs > 200
    assert times == sorted(times)


def test_a_quiet_host_has_nothing_in_the_heap_but_its_samples():
    sim = Sim()
    sim.run(5)
    assert sim.clock.pending == len(sim.hosts)


class TrimmedTwin:
    """Every data packet goes on twice, first without its payload."""

    def on_frame(self, frame, half_link):
        twin = frame.copy()
        if frame.payload is not None:
            frame.trim(Dscp.TRIMMED_LASTHOP)
            half_link.leave_detour(frame)
        return twin


def test_of_two_copies_one_may_lose_its_payload():
    sim = Sim()
    for port in (1, 2, 3, 4):
        half_link = sim.fabric.cable(f"h3-p{port}").half_links[1]
        half_link.faults = (TrimmedTwin(),)
    write = Write(sim, "h1", "h3", 200_000)
    finish(sim, write)
    assert sum(qp.stats.trimmed_packets for qp in sim.hosts["h3"].transport.verbs.qps.values()) > 40
    assert write.received == write.sent


def payload(packet):
    return packet.view[packet.body_at : packet.body_at + packet.size]


class BothWays:
    """Reads every frame as it is and as the bytes that it stands for."""

    def __init__(self, parse):
        self.parse = parse
        self.seen = set()

    def on_frame(self, frame, _half_link):
        one, other = self.parse(frame), self.parse(frame.to_bytes())
        self.seen.add(one.op)
        for name in set(MrcPacket.__slots__) - {"body_at", "content", "end", "view"}:
            assert getattr(one, name, None) == getattr(other, name, None), name
        if one.op in h.WRITES:
            assert payload(one) == payload(other)
        else:
            assert one.content.pack() == other.content.pack()
        return frame


@pytest.mark.sources
@pytest.mark.parametrize("timestamps", [True, False])
def test_a_frame_is_read_as_its_bytes_would_be(timestamps):
    sim = Sim()
    readers = []
    for name in ("h1", "h3"):
        for port in sim.hosts[name].transport.ports.by_number.values():
            readers.append(BothWays(port.parser.parse))
            sim.fabric.cable(f"{name}-p{port.number}").half_links[1].faults = (readers[-1],)
    write = Write(sim, "h1", "h3", 100_001, message=30_000, timestamps=timestamps)
    one, other = (sim.hosts[name].transport for name in ("h1", "h3"))
    [far] = other.verbs.qps
    other.verbs.post_recv(far, 1, sim.clock.seconds)
    local, remote = one.verbs.reg_mr(bytearray(9000)), other.verbs.reg_mr(bytearray(9000))
    one.verbs.post_send(
        write.qp, 7, "RDMA_WRITE_WITH_IMM", local.lkey, 0, 9000, remote.va, remote.rkey, imm=5, now=sim.clock.seconds
    )
    write.posted += 1
    finish(sim, write)
    assert write.received == write.sent
    wanted = {"WRITE_FIRST", "WRITE_MIDDLE", "WRITE_LAST", "WRITE_LAST_IMM", "SACK", "ACK"}
    assert {h.MrcOpcode[name] for name in wanted} <= set().union(*(reader.seen for reader in readers))


def test_a_run_makes_no_garbage_that_only_the_collector_would_find():
    sim = Sim()
    writes = [Write(sim, name, "h4", 1 << 18) for name in ("h1", "h2", "h3")]
    gc.collect()
    gc.disable()
    try:
        sim.run(0.1)
        sim.fabric.cable("h4-p2").set_carrier(False)
        finish(sim, *writes)
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_hosts_with_jitter_answer_later_by_what_is_drawn():
    link, times = {"rate": "100 Gb/s", "delay": "225ns"}, []
    for seed in (1, 1, 2):
        sim = Sim(link=link, nic_jitter=10e-6, seed=seed)
        write = Write(sim, "h1", "h3", 4096)
        while not write.done():
            sim.run(20e-9)
        times.append(sim.clock.seconds)
    base_rtt = Sim(link=link).model.spec.base_rtt(4)
    assert sim.model.spec.base_rtt(4) == base_rtt
    assert times[0] == times[1] != times[2]
    assert base_rtt < min(times) < max(times) < base_rtt + 2 * 10e-6 + 40e-9


def test_hosts_with_jitter_take_packets_in_order():
    sim = Sim(transport="roce", link={"rate": "100 Gb/s", "delay": "225ns"}, nic_jitter=10e-6)
    write = Write(sim, "h1", "h3", 1 << 20)
    finish(sim, write)
    assert write.received == write.sent
    assert write.stats.retx_packets == 0, "go-back-N answers a packet out of order with a NAK"
