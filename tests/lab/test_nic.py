"""The NIC on real interfaces: namespaces joined by veth pairs, one NIC in this process, raw sockets at the far ends."""

import os
import random
import select
import time
from collections import namedtuple
from collections.abc import Iterator

import pytest
from netns import Namespace, join

from mrclab.hosts.nic import packetsocket
from mrclab.hosts.nic.nic import Nic
from mrclab.hosts.nic.packetsocket import PacketSocket, PacketSocketError
from mrclab.topo import linkcheck
from mrclab.topo.config.nodeconfig import NicPortConfig
from mrclab.topo.numbers import FULL_HEADER_BYTES

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="needs root for network namespaces")]

Frame = namedtuple("Frame", "header payload trailer wire_len")
TIMEOUT_S = 20.0


class Endpoint:
    """A transport of nothing: keeps what it is given, sends what a test puts into its queues."""

    def __init__(self) -> None:
        self.received = []
        self.port_events = []
        self.queues = {}
        self.sent_at = []
        self.deadline = None
        self.timer_calls = []

    def receive(self, port, frame, now):
        self.received.append((port, bytes(frame), now))

    def next_frame(self, port, now):
        if not self.queues.get(port):
            return None
        self.sent_at.append(now)
        return self.queues[port].pop(0)

    def has_work(self, port, _now):
        return bool(self.queues.get(port))

    def next_deadline(self):
        return self.deadline

    def on_timer(self, now):
        self.timer_calls.append(now)
        self.deadline = None

    def port_event(self, port, up, _now):
        self.port_events.append((port, up))


class Config:
    """The part of a node config that a NIC reads."""

    def __init__(self, ports: int, delay: float, rate_pps: float) -> None:
        self.host = namedtuple("Host", "name")("h1")
        self.link = namedtuple("Link", "rate_pps delay")(rate_pps, delay)
        self.path_mtu = 4096
        self.templates = ()
        self.transport = namedtuple("Transport", "kind")("mrc")
        self.ports = tuple(
            NicPortConfig(number=n, name=f"h1-p{n}", plane=n, mac=f"02:0c:0{n}:00:01:01", peer_switch=f"t0-p{n}-1",
                    peer_port=1, peer_mac=f"02:0a:0{n}:01:00:01")
            for n in range(1, ports + 1)
        )  # fmt: skip


class Bench:
    """One NIC with two ports and, for each, a raw socket at the far end of its cable."""

    def __init__(self, delay: float = 0.0, rate_pps: float = 1e6) -> None:
        self.near, self.far = Namespace("n"), Namespace("f")
        self.endpoint = Endpoint()
        self.config = Config(2, delay, rate_pps)
        for port in self.config.ports:
            join(self.far, f"s-p{port.number}", port.peer_mac, self.near, port.name, port.mac)
        with self.far.entered():
            self.peers = [PacketSocket(f"s-p{port.number}", 4352) for port in self.config.ports]
        with self.near.entered():
            self.nic = Nic(self.config, self.endpoint)

    def run_until(self, condition) -> None:
        """Run the NIC's loop until a condition holds; fail after a time that no machine needs."""
        deadline = time.monotonic() + TIMEOUT_S

        def check(now):
            if condition() or now > deadline:
                self.nic.stop()

        self.nic._periodic = []
        self.nic.every(0.001, check)
        self.nic.run()
        assert condition()

    def close(self) -> None:
        self.nic.close()
        for peer in self.peers:
            peer.close()
        self.near.remove()
        self.far.remove()


@pytest.fixture
def make_bench() -> Iterator:
    benches = []

    def make(**options):
        benches.append(Bench(**options))
        bench = benches[-1]
        bench.run_until(lambda: bench.endpoint.port_events == [(1, True), (2, True)])
        return bench

    yield make
    for bench in benches:
        bench.close()


def ipv6_frame(payload: bytes, hop_limit: int = 64) -> bytes:
    return bytes(12) + b"\x86\xdd" + bytes(7) + bytes([hop_limit]) + bytes(32) + payload


def arrived(peer: PacketSocket) -> list[bytes]:
    return [bytes(frame) for _, frame in peer.frames(10_000)]


def wait_for(peer: PacketSocket, count: int) -> list[bytes]:
    frames = []
    while len(frames) < count:
        assert select.select([peer], [], [], TIMEOUT_S)[0], f"{len(frames)} of {count} frames arrived"
        frames += arrived(peer)
    return frames


def test_frames_reach_the_transport_with_their_port_and_whole(make_bench):
    bench = make_bench()
    rng = random.Random(1)
    sent = [(rng.randrange(2), ipv6_frame(rng.randbytes(rng.choice([0, 1, 100, 4190])))) for _ in range(300)]
    for index, frame in sent:
        bench.peers[index].send(frame)
    bench.run_until(lambda: len(bench.endpoint.received) == len(sent))
    for number in (1, 2):
        got = [frame for port, frame, _ in bench.endpoint.received if port == number]
        assert got == [frame for index, frame in sent if index == number - 1]
    counters = bench.nic.ports[0].counters()
    assert counters.rx_packets == sum(1 for index, _ in sent if index == 0)
    assert counters.rx_bytes == sum(len(frame) for index, frame in sent if index == 0)
    assert counters.socket_drops == 0


def test_frames_leave_by_the_port_that_was_asked_in_parts_put_together(make_bench):
    bench = make_bench()
    memory = memoryview(bytearray(os.urandom(100_000)))
    bench.endpoint.queues = {
        1: [Frame(ipv6_frame(b"1"), memory[n : n + 4096], b"crc", 4160) for n in range(20)],
        2: [Frame(ipv6_frame(b"2"), None, b"crc", 60) for n in range(20)],
    }
    bench.run_until(lambda: not any(bench.endpoint.queues.values()))
    assert wait_for(bench.peers[0], 20) == [ipv6_frame(b"1") + bytes(memory[n : n + 4096]) + b"crc" for n in range(20)]
    assert wait_for(bench.peers[1], 20) == [ipv6_frame(b"2") + b"crc"] * 20
    assert bench.nic.ports[0].counters().tx_bytes == 20 * 4160


def test_the_nic_does_not_hear_itself(make_bench):
    bench = make_bench()
    bench.endpoint.queues = {1: [Frame(ipv6_frame(b"out"), None, b"", 60)]}
    bench.run_until(lambda: not bench.endpoint.queues[1])
    wait_for(bench.peers[0], 1)
    bench.peers[0].send(ipv6_frame(b"in"))
    bench.run_until(lambda: bench.endpoint.received)
    assert [frame for _, frame, _ in bench.endpoint.received] == [ipv6_frame(b"in")]


def test_frames_wait_for_the_delay_of_the_links_they_crossed(make_bench):
    bench = make_bench(delay=0.01)
    before = time.monotonic()
    for hop_limit in (61, 63, 64):
        bench.peers[0].send(ipv6_frame(b"", hop_limit))
    after = time.monotonic()
    bench.run_until(lambda: len(bench.endpoint.received) == 3)
    for (_, frame, now), (hop_limit, links) in zip(bench.endpoint.received, [(64, 1), (63, 2), (61, 4)], strict=True):
        assert frame[21] == hop_limit
        assert before + links * 0.01 - 1e-4 <= now <= after + links * 0.01 + 1e-4


def test_frames_that_wait_are_delivered_although_links_lose_their_delay(make_bench):
    bench = make_bench(delay=0.01)
    bench.nic.delay_line.put(1, ipv6_frame(b""), 64, bench.nic.now)
    bench.config.link = bench.config.link._replace(delay=0.0)
    bench.nic.configure(bench.config)
    bench.run_until(lambda: bench.endpoint.received)
    assert bench.nic.load()["delayed_frames"] == 0


def test_a_late_loop_does_not_add_to_the_delay(make_bench):
    bench = make_bench(delay=0.01)
    bench.peers[0].send(ipv6_frame(b"", 64))
    after = time.monotonic()
    while time.monotonic() < after + 0.1:
        os.sched_yield()
    bench.run_until(lambda: bench.endpoint.received)
    assert bench.endpoint.received[0][2] <= after + 0.0101


def test_pacing_spreads_frames_over_the_link_time(make_bench):
    bench = make_bench(rate_pps=1000)
    size = 4096 + FULL_HEADER_BYTES
    bench.endpoint.queues = {1: [Frame(ipv6_frame(b""), None, b"", size)] * 102}
    bench.run_until(lambda: not bench.endpoint.queues[1])
    times = bench.endpoint.sent_at
    assert times[-1] - times[0] >= 0.1 - 1e-3
    assert all(times[n + 25] - times[n] >= 0.003 for n in range(len(times) - 25))


def test_one_wake_up_serves_all_that_is_due_within_the_slack(make_bench):
    bench = make_bench(delay=0.01, rate_pps=400)
    nic, start = bench.nic, bench.nic.now
    nic._periodic = []
    nic._last_moved = start - 1
    bench.endpoint.deadline = start + 0.0100
    assert nic._wake_at() == bench.endpoint.deadline
    for due in (0.0104, 0.0111, 0.0120):
        nic.delay_line.put(1, ipv6_frame(b""), 64, start + due - 0.01)
    assert nic._wake_at() == pytest.approx(start + 0.0111)  # half a packet time later at most


def test_a_port_that_sent_and_has_no_more_wakes_nobody(make_bench):
    bench = make_bench(delay=0.01, rate_pps=400)
    nic = bench.nic
    nic._periodic = []
    bench.endpoint.queues = {1: [Frame(ipv6_frame(b""), None, b"", 4096)] * 4}
    assert nic._transmit() == 2
    nic._last_moved = nic.now - 1
    assert nic._wake_at() == pytest.approx(nic.ports[0].pacer.free_at)
    bench.endpoint.queues[1].clear()
    assert nic._wake_at() == float("inf")


def test_work_for_soon_is_done_once_before_anything_is_sent(make_bench):
    bench = make_bench()
    order = []
    bench.nic.call_soon(lambda _now: order.append("soon"))
    bench.endpoint.next_frame = lambda *_: order.append("sent")
    bench.run_until(lambda: len(order) > 4)
    assert order.count("soon") == 1
    assert order[0] == "soon"


def test_link_checks_are_answered_with_host_and_port(make_bench):
    bench = make_bench()
    bench.peers[1].send(linkcheck.probe("t0-p2-1", 7, nonce=99, source_mac=b"\2\x0a\2\1\0\7"))
    bench.run_until(lambda: select.select([bench.peers[1]], [], [], 0)[0])
    check = linkcheck.parse(wait_for(bench.peers[1], 1)[0])
    assert (check.kind, check.nonce, check.origin, check.origin_port) == (linkcheck.Kind.ANSWER, 99, "t0-p2-1", 7)
    assert (check.answer_name, check.answer_port) == ("h1", 2)
    assert check.source_mac == bytes.fromhex("020c02000101")
    assert bench.endpoint.received == []


@pytest.mark.parametrize(
    "frame",
    [
        bytes(12) + b"\x08\x00" + bytes(50),
        bytes(12) + b"\x88\xb5" + bytes(5),
        linkcheck.answer(linkcheck.probe("t0-p1-1", 1, 1, bytes(6)), "h9", 1, bytes(6)),
        bytes(12) + b"\x86\xdd",
    ],
    ids=["IPv4", "short link check", "answer", "IPv6 without header"],
)
def test_foreign_frames_are_counted_and_go_nowhere(make_bench, frame):
    bench = make_bench()
    bench.peers[0].send(frame)
    bench.run_until(lambda: bench.nic.ports[0].foreign == 1)
    assert bench.endpoint.received == []
    assert arrived(bench.peers[0]) == []


def test_frames_larger_than_the_mtu_allows_are_counted_as_lost(make_bench):
    bench = make_bench()
    bench.far.ip("link", "set", "s-p1", "mtu", "9000")
    bench.near.ip("link", "set", "h1-p1", "mtu", "9000")
    bench.peers[0].send(ipv6_frame(bytes(8000)))
    bench.peers[0].send(ipv6_frame(b"after"))
    bench.run_until(lambda: bench.endpoint.received)
    assert [frame for _, frame, _ in bench.endpoint.received] == [ipv6_frame(b"after")]
    assert bench.nic.ports[0].counters().socket_drops == 1


def test_a_ring_that_is_full_counts_what_it_loses_and_goes_on(make_bench):
    bench = make_bench()
    slots = bench.nic.ports[0].socket.slots
    for number in range(slots + 100):
        bench.peers[0].send(ipv6_frame(number.to_bytes(2, "big")))
    bench.run_until(lambda: len(bench.endpoint.received) == slots)
    assert bench.nic.ports[0].counters().socket_drops == 100
    bench.peers[0].send(ipv6_frame(b"after"))
    bench.run_until(lambda: len(bench.endpoint.received) == slots + 1)
    assert [frame[54:] for _, frame, _ in bench.endpoint.received] == [
        *(number.to_bytes(2, "big") for number in range(slots)),
        b"after",
    ]


def test_lost_and_found_carrier_is_told_and_a_dead_port_is_not_asked(make_bench):
    bench = make_bench()
    bench.far.ip("link", "set", "s-p1", "down")
    bench.run_until(lambda: bench.endpoint.port_events[2:] == [(1, False)])
    bench.endpoint.queues = {1: [Frame(ipv6_frame(b"1"), None, b"", 60)], 2: [Frame(ipv6_frame(b"2"), None, b"", 60)]}
    bench.run_until(lambda: not bench.endpoint.queues[2])
    assert len(bench.endpoint.queues[1]) == 1
    bench.far.ip("link", "set", "s-p1", "up")
    bench.run_until(lambda: bench.endpoint.port_events[3:] == [(1, True)])
    bench.run_until(lambda: not bench.endpoint.queues[1])
    assert ipv6_frame(b"1") in wait_for(bench.peers[0], 1)


def test_an_interface_that_is_taken_down_and_up_here_comes_back_and_costs_no_idle_time(make_bench):
    bench = make_bench()
    bench.near.ip("link", "set", "h1-p1", "down")
    bench.run_until(lambda: bench.endpoint.port_events[2:] == [(1, False)])
    assert select.select([bench.nic.ports[0].socket], [], [], 0)[0] == []
    bench.near.ip("link", "set", "h1-p1", "up")
    bench.run_until(lambda: bench.endpoint.port_events[3:] == [(1, True)])

    def received():
        bench.peers[0].send(ipv6_frame(b"again"))  # more than once: the far end may see the carrier later than the NIC
        return bench.endpoint.received

    bench.run_until(received)
    assert bench.endpoint.received[0][1] == ipv6_frame(b"again")


def test_carrier_changes_are_told_at_once_also_when_they_follow_each_other(make_bench):
    bench = make_bench()
    for round_number in range(5):
        for word, up in (("down", False), ("up", True)):
            told = len(bench.endpoint.port_events)
            bench.far.ip("link", "set", "s-p2", word)
            changed = time.monotonic()
            bench.run_until(lambda count=told: len(bench.endpoint.port_events) > count)
            assert bench.endpoint.port_events[-1] == (2, up)
            assert bench.nic.now - changed < 0.5, f"round {round_number}: held back as for an ordinary card"


def test_timers_are_called_when_they_are_due_and_not_before(make_bench):
    bench = make_bench()
    due = bench.endpoint.deadline = time.monotonic() + 0.0237
    bench.run_until(lambda: bench.endpoint.timer_calls)
    assert len(bench.endpoint.timer_calls) == 1
    assert bench.endpoint.timer_calls[0] >= due


def test_what_arrived_before_a_deadline_is_delivered_before_the_timer(make_bench):
    bench = make_bench()
    bench.endpoint.deadline = time.monotonic()
    bench.peers[0].send(ipv6_frame(b""))
    order = []
    bench.endpoint.receive = lambda *_: order.append("receive")
    bench.endpoint.on_timer = lambda _: (order.append("timer"), setattr(bench.endpoint, "deadline", None))
    bench.run_until(lambda: len(order) == 2)
    assert order == ["receive", "timer"]


def test_an_interface_that_is_not_there_is_named():
    with pytest.raises(PacketSocketError, match="no interface h9-p1 in this network namespace"):
        PacketSocket("h9-p1", 4352)


class _SlowClock:
    """The clocks of `time`; before the wall clock is read for the first time, something takes its while."""

    def __init__(self, interruption) -> None:
        self._interruption = interruption

    def __getattr__(self, name: str):
        if name in ("time", "time_ns") and self._interruption is not None:
            interruption, self._interruption = self._interruption, None
            interruption()
        return getattr(time, name)


@pytest.mark.parametrize("meanwhile", [False, True], ids=["comes-before", "comes-meanwhile"])
def test_a_frame_has_not_arrived_before_it_was_sent_where_reading_the_clocks_was_interrupted(
    make_bench, monkeypatch, meanwhile
):
    bench = make_bench()
    near, far = bench.nic.ports[0].socket, bench.peers[0]
    list(near.frames(1))
    time.sleep(0.005)
    sent = []

    def send() -> None:
        sent.append(time.monotonic())
        far.send(ipv6_frame(b""))

    def interruption() -> None:
        time.sleep(0.005)
        if meanwhile:
            send()

    if not meanwhile:
        send()
    monkeypatch.setattr(packetsocket, "time", _SlowClock(interruption))
    [(arrival, _)] = list(near.frames(1))
    assert arrival >= sent[0]
