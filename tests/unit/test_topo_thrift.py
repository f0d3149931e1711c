"""Answers of Thrift as bytes: a list of numbers that comes in pieces, and a call that is refused."""

import struct

import pytest

from mrclab.softswitch.process.thrift_server import ThriftServer
from mrclab.softswitch.switch import SoftSwitch
from mrclab.topo.linux.switches import thrift


def answer(*values: int) -> bytes:
    name = b"bm_register_read_all"
    head = struct.pack("!Ii", 0x8001_0002, len(name)) + name + bytes(4)
    return head + struct.pack(f"!bhbi{len(values)}qb", 15, 0, 10, len(values), *values, 0)


def test_numbers_are_read_when_the_last_byte_has_come():
    whole = answer(3, 0, 1 << 40)
    assert [thrift.numbers(whole[:length]) for length in range(len(whole))] == [None] * len(whole)
    assert thrift.numbers(whole) == (3, 0, 1 << 40)
    assert thrift.numbers(answer()) == ()


def test_a_server_that_has_no_such_call_refuses_and_a_string_in_it_is_understood():
    switch = SoftSwitch(None, 511, 2)
    server = ThriftServer(switch, 0)
    call = thrift.question("standard", "bm_register_read_all", thrift.i32(0), thrift.text("queue_depths"))
    refusal, used = server.answer(call)
    server.close()
    switch.close()
    assert used == len(call)
    with pytest.raises(ValueError, match="the switch refused the Thrift call"):
        thrift.numbers(refusal)


def test_an_answer_of_another_type_is_refused():
    with pytest.raises(ValueError, match="type 8 instead of numbers"):
        thrift.numbers(struct.pack("!Ii", 0x8001_0002, 1) + b"x" + bytes(4) + struct.pack("!bhib", 8, 0, 7, 0))
