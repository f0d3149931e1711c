"""Programs that die, or send what no library sends, against the agent's provider; no compiler is needed."""

import ctypes
import errno
import fcntl
import ipaddress
import mmap
import os
import random
import socket
import tempfile

import pytest
from mrc_sim import Simulation
from roce_sim import Simulation as RoceSimulation
from test_rpc_servers import no_descriptor_left
from verbs_ground import Ground

from mrclab.hosts.agent.provider import wire
from mrclab.hosts.agent.provider.qp import NUMBERS
from mrclab.hosts.agent.provider.wire import IbvQpState, M, Op, V
from mrclab.hosts.agent.verbs import VerbOperations
from mrclab.hosts.memory.memory import Memory
from mrclab.hosts.rdma.errors import VerbsError


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

    def make(self, entries: int = 8) -> int:
        """Introduce the program, make a domain, a completion queue and a QP; return the QP's number."""
        assert self.hello()[0] == 0
        _, (self.pd,) = self.call(Op.ALLOC_PD)
        size = wire.CQ_ENTRIES + entries * wire.CQE.size
        _, (self.cq,) = self.call(Op.CREATE_CQ, entries, 0, descriptors=(shared(size),))
        return self.make_qp()

    def make_qp(self) -> int:
        """Make another QP; return its number."""
        descriptor = shared(wire.QP_SLOTS + 4 * (wire.SEND.size + wire.RECV.size))
        self.rings = mmap.mmap(descriptor, 0)
        _, (number,) = self.call(Op.CREATE_QP, self.pd, self.cq, self.cq, 4, 4, 1, descriptors=(descriptor,))
        return number

    def modify(self, number: int, state: IbvQpState, vmask: int = 0, **attributes: int) -> None:
        """Take a step of the state machine, towards h3."""
        numbers = dict.fromkeys(NUMBERS, 0) | {"qp": number, "vmask": V.STATE | vmask, "state": state} | attributes
        peer = ipaddress.IPv6Address(self.ground.simulation.configs["h3"].host.address).packed
        error, _ = self.call(Op.MODIFY_QP, *numbers.values(), data=peer if vmask & V.AV else b"")
        assert error == 0

    def to_rtr(self, number: int, **attributes: int) -> None:
        """From INIT to RTR."""
        self.modify(number, IbvQpState.RTR, V.AV | V.PATH_MTU | V.DEST_QPN | V.RQ_PSN, path_mtu=3, **attributes)


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


class Drawn(random.SystemRandom):
    """Secrets that repeat themselves."""

    def __init__(self, numbers: tuple[int, ...]) -> None:  # hashable: Python 3.10 makes a seed of it
        super().__init__()
        self._numbers = iter(numbers)

    def getrandbits(self, _bits: int) -> int:
        return next(self._numbers)


def test_a_qp_that_was_reset_keeps_its_number_and_a_destroyed_one_gives_it_back(ground):
    verbs = ground.simulation.hosts["h1"].verbs
    verbs._secrets = Drawn((0x500, 0x500, 0x600))
    program = Raw(ground)
    one = program.make()
    program.modify(one, IbvQpState.INIT)
    program.to_rtr(one)
    program.modify(one, IbvQpState.RESET)
    assert (one, program.make_qp()) == (0x500, 0x600)
    for number in (one, 0x600):  # the second one was never connected
        assert program.call(Op.DESTROY_QP, number)[0] == 0
    assert not verbs._drawn_qpns


def test_a_queue_that_overflows_with_flushed_requests_reports_it(ground):
    program = Raw(ground)
    number = program.make(entries=1)
    program.modify(number, IbvQpState.INIT)
    program.rings[4:8] = (2).to_bytes(4, "little")  # two receives
    program.modify(number, IbvQpState.ERR)
    events = [record["event"] for record in ground.simulation.records if record["kind"] == "async"]
    assert events == ["CQ_ERR"]


def test_operations_of_the_agent_use_no_queue_or_domain_of_a_program(ground):
    program = Raw(ground)
    program.make()
    host = ground.simulation.hosts["h1"]
    operations = VerbOperations(host, ground.loops["h1"], Memory(), str)
    (queue,) = (number for number in host.verbs._cqs if number != host.verbs.default_cq)
    peer = ground.simulation.configs["h3"].host.address
    for refused in (
        lambda: operations.create_qp(peer, send_cq=queue),
        lambda: operations.create_qp(peer, recv_cq=queue),
        lambda: operations.create_qp(peer, pd=program.pd),
        lambda: operations.reg_mr("none", pd=program.pd),
        lambda: operations.poll_cq(cq=queue),
        lambda: operations.destroy_cq(queue),
        lambda: operations.dealloc_pd(program.pd),
    ):
        with pytest.raises(VerbsError, match="there is no"):
            refused()
    own = operations.create_cq(4)["cq"]
    assert operations.poll_cq(cq=own) == {"completions": []}
    operations.destroy_cq(own)
    program.connection.close()
    ground.until(ground.nothing_left)


@pytest.mark.parametrize("kind", [Simulation, RoceSimulation])
@pytest.mark.parametrize("mask", [M(0), M.MPR_DEST])
@pytest.mark.parametrize(("access", "status"), [(1, "REM_ACCESS_ERR"), (3, "SUCCESS")])
def test_access_flags_hold_whatever_else_a_qp_is_given(tmp_path, kind, mask, access, status):
    ground = Ground(tmp_path, kind=kind)
    program = Raw(ground)
    number = program.make()
    buffer = mmap.mmap(-1, 4096)
    address = ctypes.addressof(ctypes.c_char.from_buffer(buffer))
    _, (_, rkey) = program.call(Op.REG_MR, program.pd, address, len(buffer), address, 3)
    h3 = ground.simulation.hosts["h3"]
    peer = h3.verbs.create_qp(ground.simulation.configs["h1"].host.address, 0.0)
    program.modify(number, IbvQpState.INIT, V.ACCESS_FLAGS, access=access)
    psn = h3.verbs.local_info(peer)["psn"]
    program.to_rtr(number, dest_qpn=peer, rq_psn=psn, mask=mask, mpr_dest=3)
    h3.verbs.connect(peer, {"qpn": number, "psn": 0, "mpr": 3, "wimm": 4}, 0.0)
    source = h3.verbs.reg_mr(bytearray(b"x" * 100))
    h3.verbs.post_send(peer, 1, "RDMA_WRITE", source.lkey, 0, 100, address, rkey, None, ground.simulation.now)
    completions = []
    ground.until(lambda: completions.extend(h3.verbs.poll_cq()) or completions)
    assert (completions[0].status, buffer[:1]) == (status, b"x" if status == "SUCCESS" else b"\0")
    ground.close()
