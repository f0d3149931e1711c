"""Workloads on simulated hosts: what they send arrives bit for bit, and one message follows from the other."""

import itertools

import pytest
from mrc_sim import Simulation

from mrclab.hosts.memory.memory import Memory
from mrclab.hosts.workloads import payload
from mrclab.hosts.workloads.api import WorkloadOperations
from mrclab.hosts.workloads.channel import content, pieces
from mrclab.lab.traffic.kinds.pairs import Write


class Hosts:
    """A simulation whose hosts serve workloads."""

    def __init__(self, numbers, **config):
        self.sim = Simulation(numbers, **config)
        self.names = [f"h{n}" for n in numbers]
        self.waiting = []
        self.api = {name: self.serve(name) for name in self.names}
        kick = self.sim.kick
        self.sim.kick = lambda: (self.work(), kick())

    def serve(self, name):
        directory = {other: cfg.host.address for other, cfg in self.sim.configs.items()}
        record = self.sim._logger(name)
        return WorkloadOperations(self.sim.hosts[name], self, Memory(), lambda: directory, record, record)

    @property
    def now(self):
        return self.sim.now

    def call_soon(self, work):
        self.waiting.append(work)

    def until_done(self, interval, step):
        """Nobody looks at progress."""

    def work(self):
        while self.waiting:
            self.waiting.pop(0)(self.sim.now)

    def prepare(self, name, spec, flows, per_host=None):
        """Make and join both ends of every flow (source, destination); returns the flows' names."""
        made = {}
        names = [f"{name}/{a}>{b}" for a, b in flows]
        for host in self.names:
            ends = [
                {"name": flow, "role": "send" if host == a else "recv", "peer": b if host == a else a, "qps": self.qps}
                for flow, (a, b) in zip(names, flows, strict=True)
                if host in {a, b}
            ]
            own = {**spec, **(per_host or {}).get(host, {}), "seed": f"{name}/{host}"}
            made[host] = self.api[host].prepare_workload(name, own, ends)["flows"]
        for flow, (a, b) in zip(names, flows, strict=True):
            self.api[a].connect_workload(name, {flow: made[b][flow]})
            self.api[b].connect_workload(name, {flow: made[a][flow]})
        return names

    qps = 1

    def run(self, name, until=60.0):
        for host in self.names:
            if not self.api[host]._workloads[name].running:
                self.api[host].start_workload(name, 0.0)
        wanted = sum(len(self.api[host]._workloads[name].senders) for host in self.names)
        self.sim.run(until, lambda: len(self.of("flow.done")) == wanted)
        assert len(self.of("flow.done")) == wanted, f"only {len(self.of('flow.done'))} of {wanted} flows ended"

    def run_until_all_rest(self, name, until=60.0):
        """As the lab does it: hosts are stopped once all of them rest after the same iteration."""

        def resting():
            rested = [r["iteration"] for r in self.of("iteration") if r.get("rests")]
            return any(rested.count(number) == len(self.names) for number in set(rested))

        for host in self.names:
            self.api[host].start_workload(name, 0.0)
        self.sim.run(until, resting)
        assert resting(), "they never all rested"
        self.sim.run(self.sim.now + 0.5)  # nothing may come of it any more
        for host in self.names:
            self.api[host].stop_workload(name)

    def iterations(self, host):
        return [record for record in self.of("iteration") if record["node"] == host]

    def of(self, kind):
        return [record for record in self.sim.records if record["kind"] == kind]

    def digests(self, name, flow, a, b):
        ends = [self.api[host].workload_status(name)["flows"][flow] for host in (a, b)]
        assert ends[0]["bytes"] == ends[1]["bytes"] > 0
        return ends[0]["sha256"], ends[1]["sha256"]


def test_a_split_message_has_one_piece_per_qp_and_no_empty_ones():
    assert pieces(10, 4) == [(0, 2), (2, 3), (5, 2), (7, 3)]
    assert pieces(2, 4) == [(0, 1), (1, 1)]
    assert pieces(0, 4) == [(0, 0)]


@pytest.mark.parametrize("qps", [1, 3])
def test_a_write_of_no_bytes_is_done_at_both_ends(qps):
    hosts = Hosts((1, 3))
    hosts.qps = qps
    hosts.prepare("w", {"kind": "write", "size": Write(**{"name": "w", "from": "h1", "to": "h3", "size": 0}).size},
                  [("h1", "h3")])  # fmt: skip
    hosts.run("w")
    (done,) = hosts.of("flow.done")
    assert done["bytes"] == 0
    assert not done.get("error")


@pytest.mark.parametrize("qps", [1, 3])
@pytest.mark.parametrize("lossy", [False, True])
def test_a_stream_arrives_message_by_message_in_a_region_of_few_slots(qps, lossy):
    hosts = Hosts((1, 3))
    hosts.qps = qps
    if lossy:
        hosts.sim.network = lambda transit: [] if transit.serial % 50 == 7 else [hosts.sim.delay(transit)]
    (flow,) = hosts.prepare("s", {"kind": "stream", "size": 300_001, "message": 5000, "depth": 6}, [("h1", "h3")])
    hosts.run("s")
    sent, received = hosts.digests("s", flow, "h1", "h3")
    assert sent == received
    messages = [m for record in hosts.of("messages") for m in record["done"]]
    assert [length for _, _, length in messages].count(5000) == 60
    assert sum(length for _, _, length in messages) == 300_001
    assert all(done - posted >= 0.0159 for posted, done, _ in messages)


def test_a_damaged_byte_shows_in_the_digests():
    hosts = Hosts((1, 3))
    (flow,) = hosts.prepare("s", {"kind": "stream", "size": 50_000, "message": 5000, "depth": 4}, [("h1", "h3")])
    memory = hosts.api["h3"]._workloads["s"].receivers[flow].memory
    hosts.api["h1"]._workloads["s"].senders[flow].post(0, 5000, 0, 0.0)
    hosts.sim.run(0.008, lambda: hosts.sim.hosts["h3"].verbs.qps[0x100].stats.placed_packets > 2)
    memory.view[100] ^= 1
    hosts.sim.run(1.0)
    status = [hosts.api[h].workload_status("s")["flows"][flow] for h in ("h1", "h3")]
    assert status[0]["bytes"] == status[1]["bytes"] == 5000
    assert status[0]["sha256"] != status[1]["sha256"]


def test_a_rate_spaces_messages_and_a_duration_ends_them():
    hosts = Hosts((1, 3))
    spec = {"kind": "stream", "duration": 1.0, "message": 1024, "depth": 8, "rate": 10_240.0}
    hosts.prepare("s", spec, [("h1", "h3")])
    hosts.run("s")
    posted = [m[0] for record in hosts.of("messages") for m in record["done"]]
    assert posted == pytest.approx([0.1 * n for n in range(10)], abs=1e-6)
    (done,) = hosts.of("flow.done")
    assert done["ended"] - done["began"] < 1.05


def test_ping_pong_has_one_message_outstanding_and_one_latency_each():
    hosts = Hosts((1, 3))
    hosts.prepare("p", {"kind": "pingpong", "size": 40, "message": 2, "depth": 1}, [("h1", "h3")])
    hosts.run("p")
    (record,) = hosts.of("pingpong")
    assert len(record["rtt"]) == 20
    assert all(0.016 <= rtt < 0.03 for rtt in record["rtt"])


@pytest.mark.parametrize(("count", "qps", "size"), [(2, 1, 40_000), (4, 1, 30_001), (4, 3, 10_000), (3, 2, 2)])
def test_a_ring_reduces_to_the_xor_of_all_inputs_in_every_iteration(count, qps, size):
    numbers = tuple(range(1, count + 1))
    hosts = Hosts(numbers)
    hosts.qps = qps
    hosts.sim.network = lambda transit: [] if transit.serial % 40 == 7 else [hosts.sim.delay(transit)]
    flows = [(f"h{n}", f"h{n % count + 1}") for n in numbers]
    ranks = {f"h{n}": {"rank": n - 1} for n in numbers}
    names = hosts.prepare("r", {"kind": "ring", "size": size, "ranks": count, "iterations": 3}, flows, ranks)
    hosts.run("r")
    inputs = payload.reduced(content(f"r/h{n}", size) for n in numbers)
    iterations = hosts.of("iteration")
    assert len(iterations) == 3 * count
    for record in iterations:
        assert record["sha256"] == payload.expected(inputs, size, record["iteration"])
    for flow, (a, b) in zip(names, flows, strict=True):
        sent, received = hosts.digests("r", flow, a, b)
        assert sent == received


def test_ring_steps_wait_for_the_neighbour_s_chunk():
    hosts = Hosts((1, 2, 3, 4))
    flows = [("h1", "h2"), ("h2", "h3"), ("h3", "h4"), ("h4", "h1")]
    ranks = {f"h{n}": {"rank": n - 1} for n in range(1, 5)}
    hosts.prepare("r", {"kind": "ring", "size": 4000, "ranks": 4}, flows, ranks)
    hosts.run("r")
    sent = {record["node"]: record["done"] for record in hosts.of("messages")}
    for _, (left, right) in zip(range(4), flows, strict=True):
        for step in range(5):
            arrived_at_least = sent[left][step][0] + 2 * 0.002
            assert sent[right][step + 1][0] >= arrived_at_least
    assert all(len(steps) == 6 for steps in sent.values())


def test_a_ring_that_may_not_be_ahead_waits_for_the_ack_of_every_step():
    hosts = Hosts((1, 2))
    ranks = {"h1": {"rank": 0}, "h2": {"rank": 1}}
    spec = {"kind": "ring", "size": 4000, "ranks": 2, "iterations": 3, "ahead": 1}
    hosts.prepare("r", spec, [("h1", "h2"), ("h2", "h1")], ranks)
    hosts.run("r")
    for record in hosts.of("messages"):
        steps = record["done"]
        assert all(later[0] >= earlier[1] for earlier, later in itertools.pairwise(steps))


def test_all_to_all_rounds_begin_when_everything_came_and_was_acknowledged():
    hosts = Hosts((1, 2, 3))
    flows = [(a, b) for a in hosts.names for b in hosts.names if a != b]
    names = hosts.prepare("a", {"kind": "rounds", "size": 20_000, "iterations": 3}, flows)
    hosts.run("a")
    for flow, (a, b) in zip(names, flows, strict=True):
        sent, received = hosts.digests("a", flow, a, b)
        assert sent == received
        assert hosts.api[a].workload_status("a")["flows"][flow]["bytes"] == 60_000
    for host in hosts.names:
        rounds = [r for r in hosts.of("iteration") if r["node"] == host]
        assert [r["iteration"] for r in rounds] == [0, 1, 2]
        assert all(early["ended"] == late["began"] for early, late in itertools.pairwise(rounds))


COLLECTIVES = [
    ("ring", {"kind": "ring", "size": 30_001, "ranks": 3}, [("h1", "h2"), ("h2", "h3"), ("h3", "h1")]),
    ("rounds", {"kind": "rounds", "size": 20_000}, [("h1", "h2"), ("h2", "h3"), ("h3", "h1")]),
    ("all", {"kind": "rounds", "size": 9_000}, list(itertools.permutations(("h1", "h2", "h3"), 2))),
]


def collective(spec, flows, **bounds):
    """Three hosts prepared for a collective, with losses that have them end iterations at different times."""
    hosts = Hosts((1, 2, 3))
    hosts.sim.network = lambda transit: [] if transit.serial % 31 == 7 else [hosts.sim.delay(transit)]
    names = hosts.prepare("c", {**spec, **bounds}, flows, {f"h{n}": {"rank": n - 1} for n in (1, 2, 3)})
    return hosts, names


@pytest.mark.parametrize(("spec", "flows"), [case[1:] for case in COLLECTIVES], ids=[case[0] for case in COLLECTIVES])
def test_a_collective_that_time_ends_does_as_many_iterations_on_every_host(spec, flows):
    hosts, _ = collective(spec, flows, iterations=6)
    hosts.run("c")
    ends = [sorted(hosts.iterations(host)[number]["ended"] for host in hosts.names) for number in range(6)]
    assert any(late - early > 0.001 for early, _, late in ends), "the hosts should not all end at once"
    for number in range(4):
        early, _, late = ends[number]
        for share, more in (
            (-0.2, 0),
            (0.5, 1),
        ):  # before any of them ended; while one had
            wanted = number + 1 + more
            timed, names = collective(spec, flows, iterations=None, duration=early + share * max(late - early, 1e-4))
            timed.run_until_all_rest("c")
            assert [len(timed.iterations(host)) for host in timed.names] == [wanted] * 3
            for flow, (a, b) in zip(names, flows, strict=True):
                sent, received = timed.digests("c", flow, a, b)
                assert sent == received
            done = timed.of("flow.done")
            assert len(done) == len(flows)
            assert {record["ended"] for record in done} == {timed.iterations(h)[-1]["ended"] for h in timed.names}
            assert not any(record["error"] for record in done)


def test_a_ring_that_time_ends_still_gives_the_xor_of_all_inputs():
    _, spec, flows = COLLECTIVES[0]
    hosts, _ = collective(spec, flows, iterations=None, duration=1.0)
    hosts.run_until_all_rest("c")
    inputs = payload.reduced(content(f"c/h{n}", 30_001) for n in (1, 2, 3))
    iterations = hosts.of("iteration")
    assert len(iterations) >= 9
    assert min(record["began"] for record in iterations[-3:]) < 1.0
    for record in iterations:
        assert record["sha256"] == payload.expected(inputs, 30_001, record["iteration"])


@pytest.mark.parametrize(("spec", "flows"), [case[1:] for case in COLLECTIVES], ids=[case[0] for case in COLLECTIVES])
def test_what_arrives_before_a_host_is_told_to_start_counts(spec, flows):
    hosts = Hosts((1, 2, 3))
    names = hosts.prepare("c", {**spec, "iterations": 2}, flows, {f"h{n}": {"rank": n - 1} for n in (1, 2, 3)})
    for host in ("h1", "h3"):
        hosts.api[host].start_workload("c", 0.0)
    hosts.sim.run(1.0)
    assert hosts.api["h2"].workload_status("c")["flows"][names[0]]["bytes"] > 0
    assert not hosts.iterations("h2")
    hosts.run("c")
    assert all([r["iteration"] for r in hosts.iterations(host)] == [0, 1] for host in hosts.names)
    if spec["kind"] == "ring":
        inputs = payload.reduced(content(f"c/h{n}", spec["size"]) for n in (1, 2, 3))
        assert {r["sha256"] for r in hosts.iterations("h2")} == {
            payload.expected(inputs, spec["size"], k) for k in (0, 1)
        }


def test_a_qp_that_gives_up_ends_its_flow_with_the_reason():
    hosts = Hosts((1, 3), retry_linear=1, retry_exponential=1, timeout_exponent=15)
    hosts.prepare("s", {"kind": "stream", "size": 100_000, "message": 5000, "depth": 4}, [("h1", "h3")])
    hosts.sim.network = lambda _: []
    hosts.run("s")
    (done,) = hosts.of("flow.done")
    assert done["error"].endswith("Retry Counter Exceeded")
    assert [r["error"] for r in hosts.of("flow.failed")] == [done["error"]]


def test_everything_is_given_back():
    hosts = Hosts((1, 3))
    hosts.prepare("s", {"kind": "stream", "size": 50_000, "message": 5000, "depth": 4}, [("h1", "h3")])
    hosts.run("s")
    for host in hosts.names:
        hosts.api[host].release_workload("s")
        assert not hosts.sim.hosts[host].verbs.qps
        assert not len(hosts.sim.hosts[host].memory)
    hosts.prepare("s", {"kind": "stream", "size": 5000, "message": 5000, "depth": 4}, [("h3", "h1")])
