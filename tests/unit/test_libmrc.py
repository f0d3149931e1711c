"""Programs in C on lib_mrc.so, against two hosts joined in memory."""

import ctypes
import errno
import fcntl
import os
import socket
import subprocess
import tempfile
from pathlib import Path

import pytest
from verbs_ground import PROGRAMS, TIMEOUT_S, Ground, build, compiled, needs_compiler

from mrclab.hosts.agent.provider import wire
from mrclab.hosts.agent.provider.rings import QpRings

pytestmark = needs_compiler


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return build(tmp_path_factory.mktemp("libmrc"))


@pytest.fixture
def ground(tmp_path):
    made = Ground(tmp_path)
    for name in "abcde":
        os.mkfifo(tmp_path / name)
    yield made
    made.close()


def program(name: str, library: Path) -> Path:
    return compiled(PROGRAMS / f"{name}.c", library)


def ends(ground: Ground, binary: Path, *roles: str) -> list[str]:
    """Run a program at both ends, each in its role."""
    a, b = ground.folder / "a", ground.folder / "b"
    one = ground.start("h1", binary, roles[0], a, b)
    other = ground.start("h3", binary, roles[1], b, a)
    return ground.run(one, other)


def test_every_kind_of_request_arrives_and_completes_as_verbs_promise(library, ground):
    said = ends(ground, program("writes", library), "send", "receive")
    assert "send done" in said[0]
    assert "receive done" in said[1]
    ground.until(ground.nothing_left)


def test_wrong_versions_sizes_states_masks_and_keys_get_the_published_errors(library, ground):
    binary = program("refusals", library)
    sender = ground.start("h1", binary, "send", ground.folder)
    receiver = ground.start("h3", binary, "receive", ground.folder)
    said = ground.run(sender, receiver)
    assert "send done" in said[0]
    assert "receive done" in said[1]
    ground.until(ground.nothing_left)


def test_profiles_events_probes_and_ports_follow_the_control_headers(library, ground):
    simulation = ground.simulation

    def lose_one_path(transit):
        lost = transit.is_write and (transit.plane, transit.uplink) == (1, 2)
        return [] if lost else [simulation.delay(transit)]

    simulation.network = lose_one_path
    said = ends(ground, program("control", library), "send", "receive")
    assert "send done" in said[0]
    assert "receive done" in said[1]
    ground.until(ground.nothing_left)


def test_threads_post_and_poll_at_once_and_immediates_wait_for_their_turn(library, tmp_path):
    ground = Ground(tmp_path, wimm=3)
    for name in "ab":
        os.mkfifo(tmp_path / name)
    try:
        assert "threads done" in ends(ground, program("life", library), "threads", "32")[0]
        ground.until(ground.nothing_left)
    finally:
        ground.close()


def test_a_program_never_sees_a_counter_half_written(library):
    descriptor = os.memfd_create("rings", os.MFD_ALLOW_SEALING)
    size = wire.QP_SLOTS + wire.SEND.size + wire.RECV.size
    os.ftruncate(descriptor, size)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    rings = QpRings(descriptor, 1, 1)
    rings.set_state(wire.IbvQpState.RTS)
    command = [str(compiled(PROGRAMS / "watch.c", library)), str(descriptor), str(size), "16"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, pass_fds=[descriptor]) as watcher:
        assert watcher.stdout is not None
        assert watcher.stdout.readline() == "watching\n"
        for _ in range(500_000):
            rings.set_state(wire.IbvQpState.RTS)
        rings.set_state(99)
        assert watcher.stdout.read() == "0\n"
    rings.close()
    os.close(descriptor)


def test_a_child_has_none_of_its_parents_queues_and_its_own_copy_of_the_memory(library, ground):
    assert "fork done" in ends(ground, program("life", library), "fork", "1")[0]
    ground.until(ground.nothing_left)


def test_a_completion_of_before_a_reset_takes_back_no_place_of_the_ring(library, ground):
    assert "reset done" in ends(ground, program("life", library), "reset", "1")[0]
    ground.until(ground.nothing_left)


def _hold_connections(process: "subprocess.Popen[str]") -> list[socket.socket]:
    """Copies of a program's sockets, so that its memory ends before its connections do."""
    pidfd_getfd = 438
    pidfd = os.pidfd_open(process.pid)
    try:
        numbers = [int(link.name) for link in Path(f"/proc/{process.pid}/fd").iterdir()
                   if str(link.readlink()).startswith("socket:")]  # fmt: skip
        return [socket.socket(fileno=ctypes.CDLL(None).syscall(pidfd_getfd, pidfd, number, 0)) for number in numbers]
    finally:
        os.close(pidfd)


@pytest.mark.parametrize("first_gone", ["connection", "memory"])
def test_a_program_that_dies_leaves_nothing_and_its_peer_fails_as_on_hardware(library, tmp_path, first_gone):
    ground = Ground(tmp_path, retry_linear=1, retry_exponential=1, timeout_exponent=14)
    held: list[socket.socket] = []
    for name in "ab":
        os.mkfifo(tmp_path / name)
    try:
        binary = program("life", library)
        peer = ground.start("h3", binary, "writer", tmp_path / "b", tmp_path / "a")
        writer = ground.start("h1", binary, "writer", tmp_path / "a", tmp_path / "b")
        h1, h3 = ground.simulation.hosts.values()
        ground.until(lambda: any(qp.stats.acked_bytes > 100_000 for qp in h1.verbs.qps.values()))
        if first_gone == "memory":
            held = _hold_connections(writer)
        writer.kill()
        writer.wait()
        ground.until(lambda: not h1.verbs.qps and not len(h1.memory))
        assert [qp.state.value for qp in h3.verbs.qps.values()] == ["RTS"]
        ground.until(lambda: [qp.state.value for qp in h3.verbs.qps.values()] == ["ERROR"])
        ended = [record for record in ground.simulation.records if record["kind"] == "wr.done"]
        failed = [record["status"] for record in ended if record["node"] == "h3" and record["status"] != "SUCCESS"]
        assert failed[0] == "RETRY_EXC_ERR"
        peer.kill()
        ground.until(ground.nothing_left)
    finally:
        for connection in held:
            connection.close()
        ground.close()


def test_an_agent_that_dies_leaves_calls_that_fail_and_nothing_that_hangs(library, ground):
    binary = program("life", library)
    a, b = ground.folder / "a", ground.folder / "b"
    both = [ground.start("h1", binary, "orphan", a, b), ground.start("h3", binary, "orphan", b, a)]
    ground.until(lambda: all(
        [qp.state.value for qp in host.verbs.qps.values()] == ["RTS"] for host in ground.simulation.hosts.values()
    ))  # fmt: skip
    for provider in ground.providers.values():
        provider.close()
    for process in both:
        said, _ = process.communicate(timeout=TIMEOUT_S)
        assert process.returncode == 0, said
        assert "orphan done" in said


def test_rogue_calls_are_refused_and_the_agent_lives(library, ground):
    """Packets and rings that no library makes."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as rogue:
        rogue.connect(str(ground.folder / "h1.verbs"))
        rogue.settimeout(TIMEOUT_S)

        def answer(packet: bytes, descriptors: tuple[int, ...] = ()) -> int:
            socket.send_fds(rogue, [packet], descriptors)
            ground.turn()
            ground.turn()
            return wire.ANSWER.unpack_from(rogue.recv(4096))[0]

        hello = wire.HEAD.pack(wire.Op.HELLO, 1) + wire.U64.pack(wire.VERSION)
        with tempfile.TemporaryFile() as plain:
            assert answer(b"x") == errno.E2BIG
            assert answer(wire.HEAD.pack(wire.Op.ALLOC_PD, 0)) == errno.EPROTO
            assert answer(wire.HEAD.pack(wire.Op.HELLO, 1) + wire.U64.pack(99)) == errno.EPROTO
            assert answer(hello) == errno.EINVAL
            assert answer(hello, (plain.fileno(),) * 4) == errno.EINVAL  # not sealed: it could shrink under the agent
            assert answer(wire.HEAD.pack(77, 5)) == errno.EINVAL
    ground.turn()
    assert "receive done" in ends(ground, program("writes", library), "send", "receive")[1]


def test_a_qp_that_somebody_else_destroys_costs_its_program_and_not_the_agent(library, ground):
    binary = program("life", library)
    a, b = ground.folder / "a", ground.folder / "b"
    both = [ground.start("h1", binary, "writer", a, b), ground.start("h3", binary, "writer", b, a)]
    h1, _ = ground.simulation.hosts.values()
    ground.until(lambda: any(qp.stats.acked_bytes > 100_000 for qp in h1.verbs.qps.values()))
    h1.verbs.destroy_qp(next(iter(h1.verbs.qps)), 0.0)
    for _ in range(50):
        ground.turn()
    for context in list(ground.providers["h1"]._programs.values()):
        context._on_exit()  # as where the program's memory ends before its connection
    for process in both:
        process.kill()
    ground.until(ground.nothing_left)


def test_what_the_published_documents_show_works_with_their_numbers(library, ground):
    said = ends(ground, program("examples", library), "send", "receive")
    assert "send done" in said[0]
    assert "receive done" in said[1]
