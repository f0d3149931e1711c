"""Programs that die, or send what no library sends, against the agent's provider; no compiler is needed."""

import errno
import fcntl
import os
import socket
import tempfile

import pytest
from test_rpc_servers import no_descriptor_left
from verbs_ground import Ground

from mrclab.hosts.agent.provider import wire
from mrclab.hosts.agent.provider.wire import Op


@pytest.fixture
def ground(tmp_path):
    made = Ground(tmp_path)
    yield made
    made.close()


class Raw:
    """A program without a library: its connection, and what it shares."""

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self.connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.connection.connect(str(ground.folder / "h1.verbs"))
        self.connection.settimeout(60)

    def send(self, op: Op, *numbers: int, descriptors: tuple[int, ...] = (), data: bytes = b"") -> None:
        """Send a call; its descriptors are closed here."""
        packet = wire.HEAD.pack(op, len(numbers)) + b"".join(map(wire.U64.pack, numbers)) + data
        socket.send_fds(self.connection, [packet], descriptors)
        for descriptor in descriptors:
            os.close(descriptor)

    def call(self, op: Op, *numbers: int, **more: object) -> tuple[int, list[int]]:
        """Send a call; return error and numbers of the response."""
        self.send(op, *numbers, **more)
        self.ground.turn()
        self.ground.turn()
        response = self.connection.recv(4096)
        error, count = wire.ANSWER.unpack_from(response)
        found = response[wire.ANSWER.size : wire.ANSWER.size + 8 * count]
        return error, [number for (number,) in wire.U64.iter_unpack(found)]

    def hello(self, doorbell: int | None = None) -> tuple[int, list[int]]:
        """Introduce the program."""
        return self.call(Op.HELLO, wire.VERSION, descriptors=hello_descriptors(doorbell))


def hello_descriptors(doorbell: int | None = None) -> tuple[int, ...]:
    """Memory, doorbell, events and page of a program that never looks at its events."""
    reader, writer = os.pipe()
    os.close(reader)
    bell = os.eventfd(0, os.EFD_NONBLOCK) if doorbell is None else doorbell
    return os.open("/proc/self/mem", os.O_RDWR), bell, writer, shared(wire.PAGE_BYTES)


def shared(size: int) -> int:
    """Sealed memory of this size."""
    descriptor = os.memfd_create("shared", os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, size)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    return descriptor


def test_a_program_that_dies_before_it_has_read_the_first_response_costs_nobody_else(ground):
    gone = Raw(ground)
    gone.send(Op.HELLO, wire.VERSION, descriptors=hello_descriptors())
    gone.connection.close()
    ground.turn()
    ground.turn()
    assert not ground.providers["h1"]._programs
    assert Raw(ground).hello()[0] == 0


@pytest.mark.parametrize("doorbell", ["file", "path"])
def test_a_doorbell_that_nobody_can_wait_for_is_refused(ground, doorbell):
    with tempfile.TemporaryFile() as plain:
        descriptor = os.dup(plain.fileno()) if doorbell == "file" else os.open("/", os.O_PATH)
        assert Raw(ground).hello(descriptor)[0] == errno.EINVAL
    assert Raw(ground).hello()[0] == 0


def test_a_program_for_which_no_descriptor_is_left_is_disconnected(ground):
    one = Raw(ground)
    with no_descriptor_left(one.connection):
        ground.providers["h1"].service()
    assert one.connection.recv(1) == b""
    assert Raw(ground).hello()[0] == 0
