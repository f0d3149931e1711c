"""Processes that a fork server starts are the lab's own in everything: children, names, logs, ends. All are real."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mrclab.topo.linux import processes
from mrclab.topo.linux.forkserver.client import ForkServer

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks as only Linux makes them")

_PROGRAM = """
import os, signal, sys, threading
WORD = None
LOADED_BY = os.getpid()

def prepare(word):
    global WORD
    WORD = word

def main(argv):
    if argv[0] == "tell":
        thread = threading.Thread(target=lambda: print("a thread ran"))
        thread.start()
        thread.join()
        print(WORD, LOADED_BY, os.getcwd(), sys.argv[1:])
        sys.stderr.write("to standard error\\n")
        return int(argv[1])
    if argv[0] == "fail":
        raise RuntimeError("out of luck")
    print("waits", flush=True)
    signal.pause()
"""
_MARK = "MRCT_FORK"


@pytest.fixture
def environment(tmp_path):
    package = tmp_path / "forks_run_this"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text(_PROGRAM)
    return {**os.environ, "PYTHONPATH": str(tmp_path), _MARK: str(tmp_path)}


@pytest.fixture
def server(environment):
    running = ForkServer({"forks_run_this": "prepared"}, environment, 0o022)
    yield running
    running.close()


def command(*words):
    return [sys.executable, "-m", "forks_run_this", *words]


@contextlib.contextmanager
def started(server, log, *words, node=None):
    with log.open("ab") as output:
        process = server.start("t0-p1-1", command(*words), node, output)
    assert process is not None
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def reached(log, text):
    """Wait for what a process writes; only a failing test waits for long."""
    deadline = time.monotonic() + 60
    while text not in log.read_text():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.01)


def read(pid, file):
    return Path(f"/proc/{pid}/{file}").read_bytes()


def test_a_fork_runs_what_was_prepared_once_and_its_output_and_status_arrive(server, tmp_path):
    log = tmp_path / "log"
    for status in (0, 3):
        with started(server, log, "tell", str(status), "x y") as process:
            assert process.wait(60) == status
            assert process.returncode == process.poll() == status
    told = f"a thread ran\nprepared {server.pid} {Path.cwd()} ['tell', '%s', 'x y']\n"
    assert sorted(log.read_text().splitlines()) == sorted(
        (told % 0 + told % 3).splitlines() + ["to standard error"] * 2
    )


def test_a_fork_is_a_child_of_the_lab_in_a_session_of_its_own_with_its_own_name_and_command_line(server, tmp_path):
    log = tmp_path / "log"
    log.touch()
    with started(server, log, "wait", "-i", "1@t0-p1-1-1") as process:
        reached(log, "waits")
        fields = read(process.pid, "stat").decode().rpartition(")")[2].split()
        assert [int(field) for field in fields[1:4]] == [
            os.getpid(),
            process.pid,
            process.pid,
        ]  # parent, group, session
        assert read(process.pid, "comm") == b"t0-p1-1\n"
        listed = subprocess.run(
            ["ps", "-o", "args=", "-p", str(process.pid)], capture_output=True, text=True, check=True
        )
        assert listed.stdout.strip() == " ".join(command("wait", "-i", "1@t0-p1-1-1"))
        assert f"{_MARK}={tmp_path}".encode() in read(process.pid, "environ").split(b"\0")
        assert processes.start_time(process.pid) is not None
        assert str(Path(f"/proc/{process.pid}/fd/0").readlink()) == os.devnull


def test_a_fork_that_is_killed_frozen_or_fails_is_known_as_one_of_subprocess_is(server, tmp_path):
    log = tmp_path / "log"
    log.touch()
    with started(server, log, "wait") as process:
        reached(log, "waits")
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.01)
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        assert process.poll() is None
        process.kill()
        assert process.wait() == process.poll() == -signal.SIGKILL
        process.terminate()  # it has ended: no signal for whoever has its number now
    with started(server, log, "fail") as process:
        assert process.wait(60) == 1
    assert log.read_text().splitlines()[-1] == "RuntimeError: out of luck"


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_killed_or_frozen_fork_server_takes_nothing_with_it_and_another_takes_its_place(
    server, tmp_path, monkeypatch, how
):
    # the clock is not what decides that it is given up
    monkeypatch.setattr("mrclab.topo.linux.forkserver.client._SILENCE", 3600.0)
    first, log = server.pid, tmp_path / "log"
    log.touch()
    with started(server, log, "wait") as process:
        reached(log, "waits")
        os.kill(first, how)
        with started(server, tmp_path / "log2", "tell", "0") as second:
            assert second.wait(60) == 0
            assert server.pid != first
            assert processes.start_time(first) is None  # it does not thaw later and start what was asked of it
            assert server.serves(command("wait"))
        assert process.poll() is None


def test_a_fork_server_that_does_nothing_at_all_is_given_up(tmp_path, monkeypatch):
    package = tmp_path / "never_ready"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text("import signal; signal.pause()")
    monkeypatch.setattr("mrclab.topo.linux.forkserver.client._SILENCE", 0.05)
    server = ForkServer({"never_ready": ""}, {**os.environ, "PYTHONPATH": str(tmp_path)}, 0o022)
    argv = [sys.executable, "-m", "never_ready"]
    try:
        with (tmp_path / "log").open("ab") as output:
            assert server.start("t0-p1-1", argv, None, output) is None
        assert not server.serves(argv)
    finally:
        server.close()


def test_a_fork_server_that_cannot_import_starts_nothing(environment, tmp_path):
    broken = ForkServer({"forks_run_this": "", "there_is_no_such_package": ""}, environment, 0o022)
    try:
        with (tmp_path / "log").open("ab") as output:
            assert broken.start("t0-p1-1", command("wait"), None, output) is None
    finally:
        broken.close()


def test_only_command_lines_of_its_packages_are_served(server):
    assert server.serves(command("wait"))
    assert not server.serves(["python-elsewhere", *command("wait")[1:]])
    assert not server.serves([sys.executable, "-m", "another"])
    assert not server.serves([sys.executable, "-m"])
    assert not server.serves(["simple_switch_grpc"])


_LAB = """
import os, sys
from mrclab.topo.linux.forkserver.client import ForkServer
server = ForkServer({"forks_run_this": ""}, os.environ, 0o022)
with open(os.devnull, "ab") as output:
    fork = server.start("h1", [sys.executable, "-m", "forks_run_this", "wait"], None, output)
    print(server.pid, fork.pid, flush=True)
    os.kill(os.getpid(), 9)
"""


def test_when_the_lab_is_killed_the_fork_server_ends_and_its_forks_are_left_to_be_found(environment):
    lab = subprocess.run(
        [sys.executable, "-c", _LAB],
        env=environment | {"PYTHONPATH": f"{environment['PYTHONPATH']}:{Path.cwd()}"},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert lab.returncode == -signal.SIGKILL
    server, fork = map(int, lab.stdout.split())
    deadline = time.monotonic() + 60
    while processes.start_time(server) is not None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    began = processes.start_time(fork)
    assert began is not None
    assert f"{_MARK}={environment[_MARK]}".encode() in read(fork, "environ").split(b"\0")
    assert processes.end({fork: began}) == {fork}
