"""Rate and depth of queues are set at run time as BMv2's are: over Thrift, by the same client on both targets."""

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from bmv2 import TARGETS
from finsy.proto import p4i
from google.protobuf import text_format
from p4runtime_client import Client, Names
from rig import THRIFT_PORT, Rig

from mrclab.topo.errors import EmulationError
from mrclab.topo.linux.switches import thrift

PROGRAM = Path(__file__).parent / "p4runtime"
NAMES = Names(text_format.Parse((PROGRAM / "everything.p4info.txtpb").read_text(), p4i.P4Info()))
RATE_PPS, DEPTH = 10, 3
CLI_TIMEOUT_S = 120

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: the switch runs in a network namespace of its own"),
]

Call = Callable[..., None]


@pytest.fixture(params=TARGETS)
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rig]:
    with Rig(request.param, tmp_path, ports=3) as running, Client(running.address, NAMES) as client:
        client.become_primary().set_pipeline((PROGRAM / "everything.json").read_bytes())
        client.modify(NAMES.default("idle_table", NAMES.action("NoAction")))
        toward = [
            NAMES.entry("exact_table", {"hdr.ethernet.dst": port}, NAMES.action("count_exact", port))
            for port in running.numbers
        ]
        client.insert(*toward)
        yield running


@pytest.fixture
def call(rig: Rig) -> Iterator[Call]:
    """Calls one method of the service simple_switch."""
    inside = os.open(f"/run/netns/{rig.switch_side.name}", os.O_RDONLY)
    try:
        while not thrift.answers(inside, THRIFT_PORT, "simple_switch"):
            assert rig.process.poll() is None
        with thrift.ThriftClient(inside, THRIFT_PORT, "simple_switch") as client:
            yield client.call
    finally:
        os.close(inside)


def frame(port: int, number: int) -> bytes:
    return port.to_bytes(6, "big") + bytes(5) + b"\7\x12\x34" + bytes([number]) * 50


def assert_held(rig: Rig, port: int, depth: int, widen: Callable[[], None]) -> None:
    """Of frames that come together, one leaves at once and `depth` wait; what comes after `widen` finds room."""
    numbers = range(1, depth + 6)
    rig.send(1, frame(port, 0))
    assert rig.receive(port) == frame(port, 0)
    for number in numbers:
        rig.send(1, frame(port, number))
    assert [rig.receive(port)[-1] for _ in range(depth)] == [*numbers[:depth]]
    widen()
    rig.send(1, frame(port, 0xFF))
    assert rig.receive(port)[-1] == 0xFF, "more than the queue's depth came through"


def test_all_queues_those_of_a_port_and_one_priority(rig: Rig, call: Call) -> None:
    i32, i64 = thrift.i32, thrift.i64
    call("set_all_egress_queue_rates", i64(RATE_PPS))
    call("set_all_egress_queue_depths", i32(DEPTH))
    assert_held(rig, 1, DEPTH, lambda: call("set_all_egress_queue_depths", i32(64)))
    call("set_egress_queue_rate", i32(2), i64(2 * RATE_PPS))
    call("set_egress_queue_depth", i32(2), i32(DEPTH + 1))
    assert_held(rig, 2, DEPTH + 1, lambda: call("set_egress_queue_depth", i32(2), i32(64)))
    call("set_egress_priority_queue_rate", i32(3), i32(0), i64(2 * RATE_PPS))
    call("set_egress_priority_queue_depth", i32(3), i32(0), i32(DEPTH - 1))
    call("set_egress_priority_queue_depth", i32(3), i32(1), i32(64))
    assert_held(rig, 3, DEPTH - 1, lambda: call("set_egress_priority_queue_depth", i32(3), i32(0), i32(64)))
    call("set_all_egress_queue_rates", i64(0))
    for number in range(20):
        rig.send(2, frame(1, number))
    assert [rig.receive(1)[-1] for _ in range(20)] == [*range(20)]


def test_mirroring_sessions_are_taken(rig: Rig, call: Call) -> None:
    call("mirroring_mapping_add", thrift.i32(9), thrift.i32(3))
    call("mirroring_mapping_get_egress_port", thrift.i32(9))
    call("mirroring_mapping_delete", thrift.i32(9))
    rig.send(2, frame(1, 1))
    assert rig.receive(1) == frame(1, 1)


def test_a_call_that_is_not_there_is_refused_and_the_next_one_served(rig: Rig, call: Call) -> None:
    with pytest.raises(EmulationError, match="no_such_call"):
        call("no_such_call", thrift.i32(1))
    call("set_egress_queue_depth", thrift.i32(2), thrift.i32(64))


@pytest.mark.skipif(not shutil.which("simple_switch_CLI"), reason="simple_switch_CLI is not on PATH")
@pytest.mark.skipif(importlib.util.find_spec("thrift") is None, reason="simple_switch_CLI needs Thrift's package")
def test_the_unmodified_simple_switch_cli_sets_queues(rig: Rig, call: Call) -> None:
    def cli(*lines: str) -> str:
        argv = [sys.executable, str(shutil.which("simple_switch_CLI")), "--thrift-port", str(THRIFT_PORT)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        running = rig.switch_side.popen(argv, **pipes)
        output, _ = running.communicate("".join(f"{line}\n" for line in lines), timeout=CLI_TIMEOUT_S)
        assert running.returncode == 0, output
        return str(output)

    output = cli(f"set_queue_depth {DEPTH} 2", f"set_queue_rate {RATE_PPS} 2", "set_queue_rate 5 3 1")
    assert "rror" not in output, output
    assert "Exception" not in output, output
    assert_held(rig, 2, DEPTH, lambda: call("set_egress_queue_depth", thrift.i32(2), thrift.i32(64)))
