"""A port's ring hands over what the kernel received: every frame, whole, in order; what is lost is counted."""

import os
import socket
import struct
import time

import pytest
from netns import Namespace

from mrclab.softswitch.process.ports import SoftSwitchPort
from mrclab.softswitch.process.ring import ALL_RINGS_BYTES, BATCH, HEADROOM, MIN_RING_BYTES, RING_BYTES, ring_bytes

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="needs root for network namespaces")]

MTU = 4352
ETH_P_ALL = 3
PATIENCE = 1000


@pytest.fixture
def cable():
    """A port, the far end of its cable, and the namespace they are in."""
    space = Namespace("ring")
    space.ip("link", "add", "p1", "mtu", str(MTU), "type", "veth", "peer", "name", "f1", "mtu", str(MTU))
    for name in ("p1", "f1"):
        space.ip("link", "set", name, "up")
    with space.entered():
        port = SoftSwitchPort(1, "p1")
        end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    end.bind(("f1", ETH_P_ALL))
    yield port, end, space
    end.close()
    port.close()
    space.remove()


def frame(number, size=100):
    head = b"\2" * 6 + b"\4" * 6 + struct.pack(">HI", 0x88B5, number)
    return (head + bytes(range(256)) * 40)[:size]


def take(port):
    """All frames that wait, with port and length as the program gets them."""
    got = []
    receive = port.receiver(lambda data, number, length: got.append((bytes(data), number, length)), lambda *_: None)
    while receive():
        pass
    return [data for data, number, length in got if number == 1 and length == len(data) and data[12:14] != b"\x86\xdd"]


def test_frames_arrive_whole_and_in_order_many_times_round_the_ring(cable):
    port, end, _ = cable
    sent = [frame(number, 60 + number * 7 % (MTU - 60)) for number in range(1500)]
    got = []
    for start in range(0, len(sent), 100):
        for one in sent[start : start + 100]:
            end.send(one)
        got += take(port)
    assert got == sent
    assert port.received >= len(sent)
    assert port.drops() == 0


def test_one_call_takes_a_batch_at_most(cable):
    port, end, _ = cable
    receive = port.receiver(lambda *_: None, lambda *_: None)
    while receive():
        pass
    for number in range(BATCH + 5):
        end.send(frame(number))
    assert receive() == BATCH
    assert receive() >= 5
    assert receive() == 0


def test_the_oldest_frame_of_a_batch_says_when_the_kernel_received_it(cable):
    port, end, _ = cable
    take(port)
    stamps = []
    begun = time.time()
    for number in range(3):
        end.send(frame(number))
    between = time.time()
    port.receiver(lambda *_: None, lambda *stamp: stamps.append(stamp))()
    [(seconds, nanoseconds)] = stamps
    assert begun - 0.01 <= seconds + nanoseconds * 1e-9 <= between + 0.01  # the kernel's clock ticks more coarsely


def test_an_error_in_the_program_loses_one_frame_only(cable):
    port, end, _ = cable
    take(port)
    seen = []

    def ingress(data, _port, _length):
        seen.append(data)
        if len(seen) == 2:
            raise ValueError("a program's mistake")

    receive = port.receiver(ingress, lambda *_: None)
    for number in range(4):
        end.send(frame(number))
    with pytest.raises(ValueError, match="mistake"):
        receive()
    assert receive() == 2
    assert [bytes(data) for data in seen] == [frame(number) for number in range(4)]


def test_a_full_ring_loses_frames_and_counts_them(cable):
    port, end, _ = cable
    take(port)
    before, count = port.drops(), 600
    for number in range(count):
        end.send(frame(number, MTU))
    got = take(port)
    assert got == [frame(number, MTU) for number in range(len(got))]
    assert 0 < len(got) < count
    assert len(got) + port.drops() - before == count


def test_a_frame_longer_than_a_slot_arrives_too(cable):
    port, end, space = cable
    for name in ("p1", "f1"):
        space.ip("link", "set", name, "mtu", "9000")
    sent = [frame(1), frame(2, 9000), frame(3), frame(4, 8000), frame(5)]
    for one in sent:
        end.send(one)
    assert take(port) == sent


def test_a_vlan_tag_that_the_kernel_took_out_is_put_back(cable):
    port, end, _ = cable
    plain = frame(7, 200)
    tagged = [plain[:12] + struct.pack(">HH", kind, 0x6123) + plain[12:] for kind in (0x8100, 0x88A8)]
    for one in tagged:
        end.send(one)
    assert take(port) == tagged


def test_a_port_goes_on_after_its_interface_was_down(cable):
    port, end, space = cable
    space.ip("link", "set", "p1", "down")
    space.ip("link", "set", "p1", "up")
    port.clear_error()
    take(port)
    for number in range(PATIENCE):  # the kernel drops what the far end sends until it has seen the carrier again
        end.send(frame(number))
        if got := take(port):
            break
        time.sleep(0.01)
    assert got == [frame(number)]
    end.send(frame(PATIENCE))
    assert take(port) == [frame(PATIENCE)]


def test_rings_of_many_ports_share_the_memory_and_each_still_holds_a_burst():
    assert ring_bytes(1) == ring_bytes(4) == RING_BYTES
    assert 64 * ring_bytes(64) == 64 * MIN_RING_BYTES
    for ports in range(5, 17):
        assert ports * ring_bytes(ports) <= ALL_RINGS_BYTES
        assert ring_bytes(ports) >= MIN_RING_BYTES >= BATCH * (MTU + HEADROOM)
