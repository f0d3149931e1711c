"""The Thrift port: calls by hand, refusals, and bytes that are no calls."""

import contextlib
import random
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from softswitch_fixtures import looping, switch

from mrclab.softswitch.process import connections, thrift_server
from mrclab.softswitch.process.ports import PortError
from mrclab.softswitch.process.thrift_server import (
    EXCEPTION,
    REPLY,
    STOP,
    VERSION,
    ThriftError,
    ThriftReader,
    ThriftServer,
)
from mrclab.softswitch.switch import SoftSwitch

__all__ = ["switch"]

PROGRAM = Path(__file__).parents[1] / "switch" / "programs" / "externs.json"


@pytest.fixture
def server(switch: SoftSwitch) -> Iterator[ThriftServer]:
    made = ThriftServer(switch, 0)
    yield made
    made.close()


def call(name: str, *numbers: int, kind: int = thrift_server.I32) -> bytes:
    raw = name.encode()
    code = "i" if kind == thrift_server.I32 else "q"
    fields = b"".join(struct.pack(f"!bh{code}", kind, at, number) for at, number in enumerate(numbers, 1))
    return struct.pack("!Ii", VERSION | thrift_server.CALL, len(raw)) + raw + b"\0\0\0\7" + fields + bytes([STOP])


def kind_of(answer: bytes) -> int:
    return int.from_bytes(answer[:4], "big") & 0xFF


def test_a_call_sets_the_queue_and_returns_zero_under_its_own_sequence_number(
    switch: SoftSwitch, server: ThriftServer
) -> None:
    request = call("simple_switch:set_egress_priority_queue_depth", 3, 1, 5)
    answer, used = server.answer(request + b"rest")
    name = b"set_egress_priority_queue_depth"
    head = struct.pack("!Ii", VERSION | REPLY, len(name)) + name + b"\0\0\0\7"
    assert (answer, used) == (head + struct.pack("!bhi", thrift_server.I32, 0, 0) + bytes([STOP]), len(request))
    assert [queue.depth for queue in switch.traffic._port(3)] == [64, 5]


@pytest.mark.parametrize(
    ("request_bytes", "text"),
    [
        (call("simple_switch:set_egress_priority_queue_depth", 1, 9, 5), b"priority 9"),
        (call("simple_switch:set_all_egress_queue_rates", -1, kind=thrift_server.I64), b"negative"),
        (call("simple_switch:set_egress_queue_rate", 1), b"argument 2 is missing"),
        (call("standard:bm_mt_add_entry"), b"does not serve standard:bm_mt_add_entry"),
        (call("standard:bm_get_config"), b"no pipeline"),
    ],
)
def test_what_cannot_be_done_is_an_exception_with_its_reason(
    server: ThriftServer, request_bytes: bytes, text: bytes
) -> None:
    answer, _ = server.answer(request_bytes)
    assert kind_of(answer) == EXCEPTION
    assert text in answer


def test_mirroring_is_set_asked_for_and_removed(switch: SoftSwitch, server: ThriftServer) -> None:
    switch.commit(switch.compile(PROGRAM.read_bytes()))

    def result(name: str, *numbers: int) -> int:
        answer, _ = server.answer(call(f"simple_switch:mirroring_mapping_{name}", *numbers))
        assert kind_of(answer) == REPLY
        return int.from_bytes(answer[-5:-1], "big", signed=True)

    assert [result("get_egress_port", 5), result("delete", 5)] == [-1, 0]
    assert [result("add", 5, 2), result("add", 5, 3), result("get_egress_port", 5)] == [0, 0, 3]
    assert [result("delete", 5), result("get_egress_port", 5)] == [1, -1]


def test_random_and_mutated_bytes_end_a_connection_at_most(server: ThriftServer) -> None:
    rng = random.Random(1)
    valid = call("simple_switch:set_egress_queue_depth", 1, 64)
    for _ in range(3000):
        data = bytearray(valid)
        for _ in range(rng.randrange(1, 6)):
            data[rng.randrange(len(data))] = rng.getrandbits(8)
        with contextlib.suppress(ThriftError, thrift_server._ShortError):
            _, used = server.answer(bytes(data[: rng.randrange(len(data) + 1)]) if rng.random() < 0.3 else bytes(data))
            assert 0 < used <= len(data)
    answer, _ = server.answer(valid)
    assert kind_of(answer) == REPLY


def test_values_of_other_types_are_passed_over() -> None:
    nested = struct.pack("!bh", thrift_server.STRUCT, 9) + struct.pack("!bhb", 3, 1, 5) + bytes([STOP])
    listed = struct.pack("!bhbi", thrift_server.LIST, 8, thrift_server.I32, 2) + bytes(8)
    mapped = (
        struct.pack("!bhbbi", thrift_server.MAP, 7, 3, thrift_server.STRING, 1) + b"\1" + struct.pack("!i", 1) + b"x"
    )
    wanted = struct.pack("!bhi", thrift_server.I32, 2, -4)
    assert ThriftReader(nested + listed + mapped + wanted + bytes([STOP])).arguments() == {2: -4}


def test_a_port_that_is_taken_is_refused_by_its_flag(switch: SoftSwitch, server: ThriftServer) -> None:
    with pytest.raises(PortError, match=f"--thrift-port {server.port}: .*choose a free port"):
        ThriftServer(switch, server.port)


def test_a_switch_that_may_not_enlarge_its_sockets_answers_all_the_same(
    switch: SoftSwitch, server: ThriftServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "SO_SNDBUFFORCE", -1)  # refused, as without CAP_NET_ADMIN
    request = call("simple_switch:set_egress_queue_depth", 1, 5)
    with looping(switch), socket.create_connection(("127.0.0.1", server.port)) as client:
        client.settimeout(60.0)
        client.sendall(request)
        assert client.recv(1000) == server.answer(request)[0]
