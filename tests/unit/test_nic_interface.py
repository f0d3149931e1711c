"""A host without process, socket, file or clock: the NIC it is given brings the time."""

import random
import subprocess
import sys

import pytest
from mrc_sim import node_config

from mrclab.hosts.agent import api, sampling
from mrclab.hosts.agent.host import RunningHost
from mrclab.hosts.memory.memory import Memory
from mrclab.hosts.nic.interface import PortCounters
from mrclab.hosts.transports import draws
from mrclab.rpc.dispatch import Operations
from mrclab.rpc.errors import RpcError

LINUX = ("fcntl", "resource", "termios", "pwd", "grp", "psutil", "mininet", "grpc", "finsy")


class StillPort:
    """A port on which nothing moves."""

    def __init__(self, config):
        self.number, self.config, self.up = config.number, config, True

    def counters(self):
        return PortCounters(self.number, self.up, 0, 0, 0, 0, 0, 0, 0)


class HandNic:
    """A NIC whose clock a test sets."""

    def __init__(self, config, transport):
        self.now = 0.0
        self.ports = [StillPort(port) for port in config.ports]
        self.transport = transport
        self.periodic, self.pending, self.configured = [], [], []

    def every(self, interval, work):
        self.periodic.append((interval, work))

    def call_soon(self, work):
        self.pending.append(work)

    def until_done(self, _interval, step):
        self.pending.append(step)

    def inject(self, _port, _frame):
        raise AssertionError("nobody probes here")

    def divert(self, _opcode, _taker):
        raise AssertionError("nobody probes here")

    def configure(self, config):
        self.configured.append(config)

    def load(self):
        return {"cpu": 0.0, "delayed_frames": 0, "delay_line_drops": 0}

    def lateness(self):
        return {"late": 0.0, "receive_late": 0.0}


@pytest.fixture
def written():
    return []


@pytest.fixture
def host(written):
    def record(now, entry):
        written.append({"t": now, **entry})
        return written[-1]

    return RunningHost(node_config(1), random.Random(1), HandNic, Memory(), record, lambda _now, _event: None)


def test_records_and_operations_happen_at_the_nics_time(host, written):
    host.nic.now = 12.5
    for port in host.nic.ports:
        host.transport.port_event(port.number, True, 12.5)
    made = host.call("create_qp", peer="h3")
    host.nic.now = 13.0
    host.call("modify_qp", qp=made["qp"], state="INIT")
    assert {record["t"] for record in written} == {12.5, 13.0}


def test_a_sample_is_taken_every_tenth_of_a_second(host, written):
    ((interval, take),) = host.nic.periodic
    host.nic.now = 0.1
    take(0.1)
    assert interval == 0.1
    assert written[-1]["kind"] == "sample"
    assert {"late", "receive_late", "cpu", "ports"} <= set(written[-1])
    assert host.call("samples", since=0.0) == {"samples": [written[-1]]}


def test_samples_are_kept_in_a_bounded_room_the_newest_of_them(host, monkeypatch):
    monkeypatch.setattr(sampling, "KEPT_ROWS", 200)
    ((_, take),) = host.nic.periodic
    for number in range(1000):
        host.nic.now = number / 10
        take(host.nic.now)
    kept = host.call("samples", since=0.0)["samples"]
    assert 190 < sum(len(sample["ports"]) for sample in kept) <= 200
    assert [round(10 * sample["t"]) for sample in kept] == list(range(1000 - len(kept), 1000))
    assert host.call("samples", since=99.8)["samples"] == kept[-1:]


def test_the_first_sample_is_of_the_hosts_start(host, written):
    for work in host.nic.pending:
        work(0.0)
    assert [(record["t"], record["kind"]) for record in written] == [(0.0, "sample")]


@pytest.mark.parametrize("kind", ["mrc", "roce"])
def test_a_seed_draws_the_same_paths_whether_or_not_keys_are_secret(kind):
    """The wire keeps keys secret and virtual time cannot: for the same seed their QPs go the same ways all the same."""

    def paths(repeatable):
        rng, secrets = draws(1, "h1", repeatable)
        seen = lambda _now, entry: entry  # noqa: E731
        made = RunningHost(node_config(1), rng, HandNic, Memory(), seen, lambda *_: None, kind, secrets=secrets)
        for port in made.nic.ports:
            made.transport.port_event(port.number, True, 0.0)
        for _ in range(3):
            qp = made.call("create_qp", peer="h3")["qp"]
            made.call("modify_qp", qp=qp, state="INIT")
        fields = ("qp", "ev", "sport")
        told = made.call("stats")
        return [[row.get(name) for name in fields] for row in (*told["qps"], *told["paths"])]

    def drawn(rows):  # a QPN is a secret of its own
        return [row[1:] for row in rows]

    assert len(paths(True)) >= 3
    assert paths(True) == paths(True)
    assert drawn(paths(True)) == drawn(paths(False))


def test_a_newer_node_config_reaches_nic_and_transport_and_an_older_one_neither(host):
    newer = node_config(1).model_copy(update={"version": 7})
    assert host.call("update_config", config=newer.model_dump(mode="json")) == {"version": 7}
    assert host.call("update_config", config=node_config(1).model_dump(mode="json")) == {"version": 7}
    assert [config.version for config in host.nic.configured] == [7]
    assert host.transport.config.version == 7


@pytest.mark.parametrize(
    ("operation", "arguments", "sentence"),
    [
        ("shut", {}, "h1 has no operation 'shut'"),
        ("create_qp", {"peer": 3}, "operation create_qp: peer"),
        ("destroy_qp", {"qp": 99}, "there is no QP 99"),
    ],
)
def test_what_a_host_refuses_is_said_as_over_its_socket(host, operation, arguments, sentence):
    with pytest.raises(RpcError, match=sentence):
        host.call(operation, **arguments)


def test_the_transport_tells_the_nic_of_work(host):
    asked = []
    host.transport.on_work = lambda: asked.append(host.nic.now)
    host.nic.now = 2.0
    host.transport.port_event(1, True, 2.0)
    assert asked == [2.0]


def test_a_host_needs_nothing_of_linux():
    blocked = f"import sys; sys.modules.update(dict.fromkeys({LINUX!r})); import mrclab.hosts.agent.host"
    done = subprocess.run([sys.executable, "-c", blocked], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_hosts_of_one_process_share_what_checks_their_arguments(host, monkeypatch):
    def refuse(*_arguments, **_options):
        raise AssertionError("made again")

    assert host.call("hello")["host"] == "h1"
    monkeypatch.setattr(api, "validate_call", refuse)
    another = RunningHost(
        node_config(3), random.Random(1), HandNic, Memory(), lambda _now, entry: entry, lambda *_: None
    )
    assert another.call("hello")["host"] == "h3"
    assert host.call("hello")["host"] == "h1"


def test_a_server_finds_its_operations_callable_by_name_alone(host):
    """An rpc server looks at an operation's signature before it calls it."""
    served = Operations(host.operations)
    assert served.invoke({"op": "hello"})["host"] == "h1"
    with pytest.raises(RpcError, match="operation poll_cq"):
        served.invoke({"op": "poll_cq", "nonsense": 1})
